"""Runs of a query that are followed: who met whom, what is in the answer and when, and which rows came too late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.io.rows import python_rows
from watersmeet.model.time import FOREVER_US, Times, times_of
from watersmeet.plan.expressions import Column, EventTime
from watersmeet.plan.nodes import AT, OP, Changes, Input, Join, Node, Over, Project, SetOperation, schema_of
from watersmeet.plan.options import Options
from watersmeet.plan.query import Plan
from watersmeet.timeline.inputs import NUMBER, Inputs
from watersmeet.timeline.story import Answer
from watersmeet.timeline.words import values_text

MEMBER = "#member"
WHEN = "#when"
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Meetings:
    """All combinations of a join: of each input the numbers of their rows, 0 where there is none, and when they met."""

    aliases: tuple[str, ...]
    members: Numbers  # a row for each input, a column for each combination
    at_us: Times
    values: pa.Table
    late: Mapping[str, Numbers]
    shed_rows: int

    def without(self, others: Meetings) -> Meetings:
        """Those that are not among others."""
        there = set(map(tuple, others.members.T.tolist()))
        gone = np.array([tuple(key) not in there for key in self.members.T.tolist()], np.bool_)
        left = self.values.filter(pa.array(gone)) if self.values.num_columns else self.values
        return replace(self, members=self.members[:, gone], at_us=self.at_us[gone], values=left)


def meetings(plan: Plan, join: Join, inputs: Inputs) -> Meetings:
    """Run the join of a query with the numbers of its rows in its answer, and everything else as it is."""
    inputs_shown = shown_inputs(join)
    members = [(f"{MEMBER}{i}", Column(alias, NUMBER, pa.int64())) for i, alias in enumerate(inputs_shown)]
    # What the query selects stays in it: in bounded memory the size of rows matters.
    shown = plan.root.columns if isinstance(plan.root, Project) and plan.root.child is join else ()
    columns = (*shown, *members, (WHEN, EventTime(pa.timestamp("us"))))
    root = Project(inputs.numbered(join), columns)
    answer, late, shed_rows = _run(replace(plan, root=root, options=plan.options.but(archive=None)))
    numbers = [answer[name].fill_null(0).combine_chunks().to_numpy(zero_copy_only=False) for name, _ in members]
    found = dict(zip(inputs_shown, numbers, strict=True))
    nothing = np.zeros(answer.num_rows, np.int64)
    aliases = tuple(one.alias for one in join.inputs)
    return Meetings(
        aliases,
        np.stack([found.get(alias, nothing) for alias in aliases]).astype(np.int64),
        times_of(answer[WHEN].combine_chunks()),
        answer.select([name for name, _ in shown]),
        late,
        shed_rows,
    )


def shown_inputs(join: Join) -> list[str]:
    """The inputs whose rows are in the answer: a semi or an anti join gives those of one side."""
    aliases = [one.alias for one in join.inputs]
    return aliases[:1] if join.kind in ("semi", "anti") else aliases


@dataclass(frozen=True)
class Log:
    """The rows of an answer: from when each of them is there and until when, FOREVER_US where it stays, or at one
    moment alone; and which rows of which stream came too late."""

    rows: pa.Table
    since: Times
    until: Times
    moments: bool
    late: Mapping[str, Numbers]

    def shown(self, places: Numbers) -> list[Answer]:
        """Some of them in words."""
        names = self.rows.schema.names
        texts = [values_text(names, row) for row in rows_in(self.rows.take(pa.array(places)))]
        times = zip(self.since[places].tolist(), self.until[places].tolist(), strict=True)
        return [
            Answer(text, since, None if self.moments or until == FOREVER_US else until, self.moments)
            for text, (since, until) in zip(texts, times, strict=True)
        ]


def answers(plan: Plan, inputs: Inputs) -> Log:
    """The answer of a query of any kind."""
    timed = _timed(plan.root) if plan.kind == "rows" else plan.root
    root = inputs.over_tables(timed)
    found, late, _ = _run(replace(plan, root=root, options=plan.options.but(archive=None)))
    at = times_of(found[WHEN if WHEN in found.schema.names else AT].combine_chunks())
    rows = found.select(plan.schema.names)
    if plan.kind != "changes":
        return Log(rows, at, at, True, late)
    enters, until = _paired(found[OP].to_pylist(), at, rows)
    return Log(rows.take(pa.array(enters)), at[enters], until, False, late)


def survivors(plan: Plan, one: Input, inputs: Inputs) -> Numbers:
    """Of a stream whose duplicates are left out, the numbers of the rows that are not."""
    alone = Join((replace(one, window=None),))
    root = Project(inputs.numbered(alone), ((WHEN, Column(one.alias, NUMBER, pa.int64())),))
    found, _, _ = _run(replace(without_options(plan), root=root))
    numbers: Numbers = found[WHEN].combine_chunks().to_numpy(zero_copy_only=False)
    return numbers


def without_options(plan: Plan) -> Plan:
    """The same query run as it is by default: none of these options changes what is asked, only how much is given."""
    return replace(plan, options=Options(boundary=plan.options.boundary, timezone=plan.options.timezone))


def _timed(root: Node) -> Node:
    """A query whose rows stay, with the time of each of them."""
    match root:
        case Project(columns=columns):
            return replace(root, columns=(*columns, (WHEN, EventTime(pa.timestamp("us")))))
        case Over(columns=columns, time=str(time), child=child):
            when = Column("", time, schema_of(child).field(time).type)
            return replace(root, columns=(*columns, (WHEN, when)))
        case SetOperation(left=left, right=right):
            return replace(root, left=_timed(left), right=_timed(right))
        case Changes(kind="complete"):
            # Each group is given once: what enters is the same, with its time.
            return replace(root, kind="istream")
    return root


def _run(plan: Plan) -> tuple[pa.Table, dict[str, Numbers], int]:
    run = PulledExecution(plan)
    late: dict[str, list[Numbers]] = {}
    run.on_late_rows = lambda stream, numbers: late.setdefault(stream, []).append(numbers + 1)
    run.tell = lambda what: None  # the picture shows them
    answer = pa.Table.from_batches(run.batches(), schema=plan.output_schema)
    return answer, {name: np.concatenate(pieces) for name, pieces in late.items()}, run.metrics.shed_rows


def rows_in(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.combine_chunks().to_batches():
        yield from python_rows(batch)


def _paired(ops: Sequence[str], at: Times, rows: pa.Table) -> tuple[Numbers, Times]:
    """The places of rows that enter, and for each until when it is there: up to the next leaving of an equal one."""
    here: dict[str, list[int]] = {}
    enters: list[int] = []
    until: list[int] = []
    for place, (op, when, row) in enumerate(zip(ops, at.tolist(), rows_in(rows), strict=True)):
        equal = repr(row)  # lists are no keys, and NaN is not equal to itself
        if op == "+":
            here.setdefault(equal, []).append(len(enters))
            enters.append(place)
            until.append(FOREVER_US)
        else:
            # The instant before: a change log names the first at which a row is gone.
            until[here[equal].pop(0)] = when - 1
    return np.array(enters, np.int64), np.array(until, np.int64)
