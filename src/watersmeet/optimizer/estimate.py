"""How many rows each store will hold: rate times retention, or the count of a ROWS window."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.model.catalog import Stream, Table
from watersmeet.model.time import FOREVER_US, UNITS_US
from watersmeet.model.windows import Rows
from watersmeet.plan.nodes import Input, Join
from watersmeet.plan.strategy import JoinStrategy


def estimate_rows(strategy: JoinStrategy) -> JoinStrategy:
    join = strategy.join
    return replace(strategy, rows_kept={one.alias: _rows_kept(join, one) for one in join.inputs})


def _rows_kept(join: Join, one: Input) -> float | None:
    """None where neither a rate nor a count is known."""
    relation = one.relation
    if isinstance(relation, Table):
        return relation.statistics.rows
    if isinstance(one.window, Rows) and not one.window.partition_by:
        return one.window.count
    if not isinstance(relation, Stream) or relation.statistics.rows_per_second is None:
        return None
    retention_us = join.retention_us(one.alias)
    if retention_us >= FOREVER_US:
        return relation.statistics.rows
    seconds = (max(retention_us, 0) + relation.lateness_us) / UNITS_US["second"]
    expected = relation.statistics.rows_per_second * seconds
    return expected if relation.statistics.rows is None else min(expected, relation.statistics.rows)
