"""The answer at the end of bounded input, from the log of its changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import UnsupportedError
from watersmeet.operators.continuous.row_ids import RowIds
from watersmeet.operators.continuous.value_order import answer_order
from watersmeet.operators.contract import Operator
from watersmeet.plan.expressions import Column
from watersmeet.plan.nodes import AT, OP, GroupBy, SortKey
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import nodes_below


def check_final(plan: Plan) -> None:
    """Whether a query has an answer at an instant: a stream of changes has none."""
    if plan.kind not in ("rows", "changes"):
        raise UnsupportedError(
            "a query with ISTREAM, DSTREAM or RSTREAM gives changes, and they have no final state",
            hint="leave the word out",
        )


def final_answer(log: pa.Table, plan: Plan, last_event_us: int) -> pa.Table:
    """What the changes up to the last event add up to."""
    # After the last event rows only leave their windows; the answer is that of before.
    until = pa.scalar(last_event_us, pa.timestamp("us"))
    log = log.combine_chunks()  # first, as a filter of many small chunks takes long
    log = log.filter(pc.less_equal(log[AT], until)).combine_chunks()
    rows = log.select(plan.schema.names)
    columns = [column.combine_chunks() for column in rows.columns]
    ids = RowIds().of(columns, rows.num_rows)
    enters = pc.equal(log[OP], "+").to_numpy(zero_copy_only=False)
    different = int(ids.max(initial=-1)) + 1
    copies = 2 * np.bincount(ids[enters], minlength=different) - np.bincount(ids, minlength=different)
    first = np.empty(different, np.int64)
    first[ids[::-1]] = np.arange(ids.size - 1, -1, -1)  # of equal numbers the one that is assigned last stays
    first = np.sort(first[copies > 0])  # by where a row first came
    answer = rows.take(pa.array(np.repeat(first, copies[ids[first]])))
    return in_order(answer, plan)


def answer_over_nothing(plan: Plan, fresh: Callable[[], Operator]) -> pa.Table:
    """The answer where no row has come at all: aggregates without GROUP BY are a row. fresh: makes the operator, with
    its static tables."""
    groups = (node for node in nodes_below(plan.root) if isinstance(node, GroupBy))
    if plan.kind != "changes" or all(node.keys for node in groups):
        return plan.schema.empty_table()
    answer = pa.Table.from_batches(fresh().over_nothing(), schema=plan.output_schema)
    return in_order(answer.select(plan.schema.names), plan)


def in_order(answer: pa.Table, plan: Plan) -> pa.Table:
    """A whole answer in the order that the query asks for; as it is if it asks for none."""
    return _sorted(answer, plan.order) if plan.order else answer


def given_whole(answer: pa.Table, plan: Plan) -> pa.Table:
    """All that a query gives of input that ends: rows that only come are in the order it asks for, changes in that of
    their instants."""
    return in_order(answer, plan) if plan.kind == "rows" else answer


def by_instant(answers: pa.Table, plan: Plan) -> pa.Table:
    """Whole answers one after another, each in the order that the query asks for."""
    if not plan.order:
        return answers.sort_by(AT)
    return _sorted(answers, (SortKey(Column("", AT, answers.schema.field(AT).type)), *plan.order))


def _sorted(rows: pa.Table, keys: Sequence[SortKey]) -> pa.Table:
    if rows.num_rows == 0:
        return rows
    (whole,) = rows.combine_chunks().to_batches()
    return rows.take(pa.array(answer_order(whole, keys)))
