"""Whether one of the papers' joins is quicker than the engine's own, where a run has an end and all rows are at hand.

Streams are then read in turns, in pieces, and the engine's own join passes over the rows of a piece that are too new.
Where windows hold a handful of rows and keys repeat, that is most of its work. H02's W-join takes rows one by one in
the order of time and scans windows; it needs no order of its own and lets nobody wait. Figures are nanoseconds for one
new row, fitted to `benchmarks/join_choice.py`.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pyarrow as pa

from watersmeet.model.catalog import Stream
from watersmeet.model.windows import Range
from watersmeet.optimizer.cost.loops import Loops
from watersmeet.optimizer.describe import Description
from watersmeet.optimizer.stages import optimize
from watersmeet.physical.strategy import Code, InputStatistics, JoinStrategy
from watersmeet.plan.expressions import Column
from watersmeet.plan.method import Method
from watersmeet.plan.nodes import Join
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import streams_below

QUICKER = "w_join"
# It is taken only if it is so many times quicker, as all of this is an estimate.
SURE = 1.5
LEAST_ROWS = 50_000  # of all streams; a run of fewer is over before it matters
MOST_IN_WINDOW = 300.0  # with more rows in a window a scan is never quicker
SAMPLED = 512
# The engine's own join: for each other stream, then what a walk passes over if all keys are alike, for each result.
OWN_STREAM_NS, OWN_AHEAD_NS, OWN_RESULT_NS = 100.0, 800.0, 12.0
# W-join: for each row, for each row that it is compared with, for each scan begun and each combination found.
ROW_NS, COMPARED_NS, SCAN_NS, FOUND_NS = 120.0, 1.1, 35.0, 18.0


def ends_by_itself(plan: Plan) -> bool:
    """Whether all that is read lies there from the start, in this process."""
    sources = [one.source for one in streams_below(plan.root)]
    return all(getattr(source, "bounded", False) and getattr(source, "at_hand", False) for source in sources)


def quicker_join(join: Join, plan: Plan) -> Method | None:
    """A method to take instead of the engine's own join; None if that one is as good, or too little is known."""
    if not _may_choose(join, plan):
        return None
    strategy = optimize(join, Method())
    description = described(strategy)
    if description is None or max(description.rows.values()) > MOST_IN_WINDOW:
        return None
    own, other = _own_ns(description), _w_join_ns(description)
    if own < SURE * other:
        return None
    method = Method.of(plan.options.but(join=QUICKER), [one.alias for one in join.streams])
    return replace(method, instead_of_own=(other, own))


def _may_choose(join: Join, plan: Plan) -> bool:
    asked = plan.options.has("join") or plan.method != Method()
    bounded = plan.shedding is not None or plan.spilling is not None
    in_time = all(isinstance(one.window, Range) for one in join.streams)
    several = len(join.streams) > 1 and len(join.streams) == len(join.inputs)
    return several and in_time and not asked and not bounded and rows_at_hand(join) >= LEAST_ROWS


def rows_at_hand(join: Join) -> int:
    """Of all streams; 0 if that is not known."""
    known = [one.relation.statistics.rows for one in join.streams if isinstance(one.relation, Stream)]
    return 0 if any(rows is None for rows in known) else sum(rows for rows in known if rows is not None)


def described(strategy: JoinStrategy) -> Description | None:
    """With the values of every key counted in a sample; None if some rate or key cannot be known beforehand."""
    description = Description(strategy)
    if not strategy.equalities or "assumed" in description.known.values():
        return None
    keys = dict.fromkeys(code for e in strategy.equalities for code in (e.left, e.right))
    counted = {code: _values(strategy.join, code) for code in keys}
    if any(values is None for values in counted.values()):
        return None
    measured = {
        alias: InputStatistics(
            description.rates[alias],
            description.rows[alias],
            {code: values for code, values in counted.items() if code.stream == alias and values is not None},
        )
        for alias in description.rates
    }
    return Description(replace(strategy, measured=measured))


def _values(join: Join, code: Code) -> float | None:
    """How many values a key has, if all came as often: one over the share of pairs of rows that are alike."""
    relation, expression = join.input(code.stream).relation, code.expression
    table = getattr(relation.source, "table", None) if isinstance(relation, Stream) else None
    if not isinstance(table, pa.Table) or not isinstance(expression, Column):
        return None
    count = min(table.num_rows, SAMPLED)
    drawn = table[expression.name].take(np.linspace(0, table.num_rows - 1, count).astype(np.int64))
    often = drawn.value_counts().field("counts").to_numpy(zero_copy_only=False)
    alike = float((often * (often - 1)).sum()) / (count * (count - 1))
    return 1 / alike if alike else float(table.num_rows)


def _own_ns(description: Description) -> float:
    """By the key that comes most often, as the pieces do that are read."""
    others = len(description.aliases) - 1
    alike = max(1 / values for key in description.graph.keys for values in key.distinct.values())
    return others * (OWN_STREAM_NS + OWN_AHEAD_NS * sqrt(alike)) + OWN_RESULT_NS * _per_row(description)[2]


def _w_join_ns(description: Description) -> float:
    compared, begun, found = _per_row(description)
    return ROW_NS + compared * COMPARED_NS + begun * SCAN_NS + found * FOUND_NS


def found_per_row(description: Description) -> float:
    """How many combinations a new row makes."""
    return _per_row(description)[2]


def _per_row(description: Description) -> tuple[float, float, float]:
    """Rows compared, scans begun and combinations found by a new row of any stream, in the order that was written."""
    graph, rates = description.with_buckets({}), description.rates
    sums, total = np.zeros(3), sum(rates.values()) or 1.0
    for origin, rate in rates.items():
        loops = Loops(graph, origin)
        bound = 1 << graph.position(origin)
        for name in (name for name in graph.names if name != origin):
            stream = graph.position(name)
            begun, compared = loops.rows(bound), loops.step(bound, stream)
            bound |= 1 << stream
            sums += np.array([compared, begun, loops.rows(bound)]) * rate / total
    return float(sums[0]), float(sums[1]), float(sums[2])
