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
    span_us = kept_us(join, one)
    if span_us >= FOREVER_US:
        return relation.statistics.rows
    expected = relation.statistics.rows_per_second * span_us / UNITS_US["second"]
    return expected if relation.statistics.rows is None else min(expected, relation.statistics.rows)


def kept_us(join: Join, one: Input) -> int:
    """Until the watermark of every other stream, which trails by that stream's lateness, is out of reach."""
    windows = join.windows
    reach = zip(windows.streams, windows.limits[windows.streams.index(one.alias)], strict=True)
    kept = [limit + _lateness_us(join.input(other)) for other, limit in reach if other != one.alias]
    return max(0, *kept) if kept else 0


def _lateness_us(one: Input) -> int:
    return one.relation.lateness_us if isinstance(one.relation, Stream) else 0
