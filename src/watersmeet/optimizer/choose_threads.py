"""Whether one thread is faster than the several that were asked for, where a run has an end and all rows are at hand.

A row that is sent to a thread is placed and copied beside what a join takes for it, and one thread reads for all. Where
windows are short and few rows match, that is more than the others save. Figures are nanoseconds of one new row, fitted
to `benchmarks/threads.py`.
"""

from __future__ import annotations

from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import Range
from watersmeet.optimizer.choose_join import described, found_per_row, rows_at_hand
from watersmeet.optimizer.describe import Description
from watersmeet.optimizer.estimate_join import busy_ns
from watersmeet.optimizer.stages import optimize
from watersmeet.plan.method import Method
from watersmeet.plan.nodes import Join, Project
from watersmeet.plan.query import Plan

LEAST_ROWS = 50_000  # of all streams; a run of fewer is over before it matters
# With more rows in its windows a join waits for memory, and for that several threads wait at once. A sample tells of so
# few rows, too, that hardly any of them match.
MOST_IN_WINDOW = 32_768.0
ENTER_NS, RESULT_NS = 8.0, 15.0  # to enter a window and leave it, and for each result
WAY_NS = 28.0  # to a thread and back
READ_NS = 10.0  # in the thread that reads, before others have a row
SHARE = 0.85  # of its time in which a thread has something to do


def faster_alone(plan: Plan) -> str | None:
    """Why one thread is faster, in a sentence; None if it is not, or too little is known."""
    threads, root = plan.options.threads, plan.root
    if threads == 1 or not (isinstance(root, Project) and isinstance(root.child, Join)):
        return None
    description = _described(root.child, plan)
    if description is None or sum(description.rows.values()) > MOST_IN_WINDOW:
        return None
    own_ns = _own_ns(description)
    shared_ns = max((own_ns + WAY_NS) / (SHARE * threads), READ_NS)
    if own_ns > shared_ns:
        return None
    return (
        f"a row takes about {own_ns:.0f} ns, and in {threads} threads, with its way to one of them, it would take "
        f"{shared_ns:.0f} ns"
    )


def _described(join: Join, plan: Plan) -> Description | None:
    plain = join.kind == "inner" and all(isinstance(one.relation, Stream | Table) for one in join.inputs)
    bounded = plan.shedding is not None or plan.spilling is not None
    in_time = all(one.window is None or isinstance(one.window, Range) for one in join.streams)
    several = len(join.streams) > 1 and len(join.streams) == len(join.inputs)
    if not (plain and in_time and several) or bounded or plan.method != Method() or rows_at_hand(join) < LEAST_ROWS:
        return None
    return described(optimize(join, Method()))


def _own_ns(description: Description) -> float:
    rates = sum(description.rates.values()) or 1.0
    return ENTER_NS + busy_ns(description.strategy, description) / rates + RESULT_NS * found_per_row(description)
