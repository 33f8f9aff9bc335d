"""The answer to why rows did not meet, as a value that prints as sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.io.sources import TableSource
from watersmeet.model.catalog import Statistics, Stream, Table
from watersmeet.model.time import format_instant
from watersmeet.plan.expressions import Column, EventTime
from watersmeet.plan.nodes import Input, Join, Project
from watersmeet.plan.query import Plan
from watersmeet.runtime.over import constants_as_tables
from watersmeet.why.asked import Asked, Picked, check_asked, join_of, pick, picked_row, rows_of
from watersmeet.why.conditions import Meeting, Reason, shown_values

MOST_COLUMNS = 6  # of a row that is shown


@dataclass(frozen=True)
class Why:
    """Whether rows met and when, or what kept them apart.

    rows: the number of each input's row, counted from 1, by the name of the input; also of those that were not asked
    about, if rows of them met the others.
    shown: that row in words.
    met_us: the time of the answer, in microseconds since 1970; None if they did not meet.
    reasons: all that keeps them apart.
    """

    rows: Mapping[str, int]
    shown: Mapping[str, str]
    met_us: int | None
    reasons: tuple[Reason, ...]

    @property
    def met(self) -> bool:
        """Whether they did: then there are no reasons."""
        return self.met_us is not None

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "rows": dict(self.rows),
            "met": self.met,
            "met_at": None if self.met_us is None else format_instant(self.met_us),
            "reasons": [{"kind": one.kind, "text": one.text} for one in self.reasons],
        }

    def __str__(self) -> str:
        lines = [f"{alias}, row {number:,}: {self.shown[alias]}" for alias, number in self.rows.items()]
        if self.met_us is not None:
            return "\n".join([*lines, f"they meet: their row is in the answer at {format_instant(self.met_us)}"])
        return "\n".join([*lines, "they do not meet:", *(f"  {one.text}" for one in self.reasons)])


def why(plan: Plan, asked: Asked) -> Why:
    """Look at one row of each input of a join, or of some, and if nothing keeps them apart, run the query and see."""
    check_asked(asked)
    plan = constants_as_tables(plan)
    join = join_of(plan, list(asked))
    picked = pick(join, asked)
    meeting = Meeting(join, picked)
    reasons = tuple(meeting.reasons())
    rows = {one.alias: one for one in picked}
    outcome = None if reasons else tried(plan, join, rows)
    if outcome is not None and outcome.met_us is None:
        reasons = (*_of_run(plan, meeting, outcome),)
    elif outcome is not None:
        rows |= outcome.partners
    return Why(
        {alias: one.number for alias, one in rows.items()},
        {alias: _described(one) for alias, one in rows.items()},
        None if outcome is None else outcome.met_us,
        reasons,
    )


def _of_run(plan: Plan, meeting: Meeting, outcome: Outcome) -> list[Reason]:
    """All conditions and windows hold, and yet there is no answer."""
    found = [
        Reason("late", f"{alias}: its row came too late, below the watermark, and was left out; see lateness")
        for alias in outcome.late
    ]
    if not found and plan.shedding is not None:
        found.append(
            Reason(
                "forgotten",
                f"all conditions and windows hold; one of them was among the {outcome.shed_rows:,} rows that bounded "
                "memory let go of: a larger memory, or another shed, may keep it",
            )
        )
    if not found and meeting.missing:
        others = " and ".join(meeting.rows)
        rows = f"row of {meeting.missing[0]} meets" if len(meeting.missing) == 1 else "rows of the other inputs meet"
        found.append(Reason("partner", f"nothing keeps {others} apart, but no {rows} them"))
    if not found:
        moving = [one.alias for one in meeting.join.streams if one.window is not None]
        found.append(
            Reason(
                "elsewhere",
                "all conditions hold, but the rows were never in their windows together: "
                + (f"those of {', '.join(moving)} move in steps" if moving else "another input stands between them"),
            )
        )
    return found


def _described(one: Picked) -> str:
    names = one.row.schema.names
    shown = shown_values({name: one.value(name) for name in names[:MOST_COLUMNS]})
    return shown if len(names) <= MOST_COLUMNS else f"{shown}, …"


NUMBER = "__number"


@dataclass(frozen=True)
class Outcome:
    """late: the inputs whose row came too late. met_us: the event time of their answer, if there was one. shed_rows:
    how many rows bounded memory let go of. partners: of inputs that were not asked about the rows that met them."""

    late: tuple[str, ...]
    met_us: int | None
    shed_rows: int
    partners: Mapping[str, Picked] = field(default_factory=dict)


def tried(plan: Plan, join: Join, picked: Mapping[str, Picked]) -> Outcome:
    """Run the join over all rows and look for the answer that is made of these."""
    tables = {
        one.alias: picked[one.alias].everything if one.alias in picked else rows_of(one.relation)
        for one in join.inputs
        if isinstance(one.relation, Stream | Table)  # those of a query have no numbers
    }
    inputs = tuple(_numbered(one, tables[one.alias]) if one.alias in tables else one for one in join.inputs)
    numbered = replace(join, inputs=inputs, kind="inner", where=(), certain=())
    columns = [(alias, Column(alias, NUMBER, pa.int64())) for alias in tables]
    root = Project(numbered, (*columns, ("at", EventTime(pa.timestamp("us")))))
    run = PulledExecution(replace(plan, root=root))
    late: dict[str, list[npt.NDArray[np.int64]]] = {}
    run.on_late_rows = lambda stream, numbers: late.setdefault(stream, []).append(numbers + 1)
    run.tell = lambda what: None
    met_us: int | None = None
    partners: dict[str, Picked] = {}
    for batch in run.batches():
        here = None
        for alias, one in picked.items():
            same = pc.equal(batch.column(alias), one.number)
            here = same if here is None else pc.and_(here, same)
        found = batch.filter(here)
        if found.num_rows and met_us is None:
            met_us = int(found.column("at").view(pa.int64())[0].as_py())
            others = {alias: found.column(alias)[0].as_py() for alias in tables if alias not in picked}
            partners = {alias: picked_row(alias, number, tables[alias]) for alias, number in others.items()}
    streams = {one.alias: one.relation.name for one in join.inputs if isinstance(one.relation, Stream)}
    too_late = [
        alias
        for alias, stream in streams.items()
        if alias in picked and any(bool((numbers == picked[alias].number).any()) for numbers in late.get(stream, ()))
    ]
    return Outcome(tuple(too_late), met_us, run.metrics.shed_rows, partners)


def _numbered(one: Input, rows: pa.Table) -> Input:
    """The same input with the number of every row."""
    table = rows.append_column(pa.field(NUMBER, pa.int64()), pa.array(np.arange(1, rows.num_rows + 1)))
    relation = one.relation
    assert isinstance(relation, Stream | Table)
    schema = pa.schema([*relation.schema, pa.field(NUMBER, pa.int64())])
    known = replace(relation, schema=schema, source=TableSource(table, schema), statistics=Statistics())
    return replace(one, relation=known)
