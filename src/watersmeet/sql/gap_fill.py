"""GAP_FILL in FROM: between two rows of a key a row for every step, made of what is known already.

Each row is asked for the one before it (LAG), and taken apart into the steps from there up to itself (UNNEST). So a gap
is filled when the row that ends it is certain, and nothing that was given is taken back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from watersmeet.errors import UnsupportedError, WindowError
from watersmeet.model.time import format_interval
from watersmeet.model.types import is_number, sql_type
from watersmeet.model.windows import Each
from watersmeet.plan.expressions import Call, Column, Expression, Frame, Literal, OverCall, SortKey
from watersmeet.plan.nodes import Derived, Input, Join, Over, Project
from watersmeet.sql.clause_binder import typed_call
from watersmeet.sql.context import Context
from watersmeet.sql.expressions import ExpressionBinder
from watersmeet.sql.scope import HIDDEN_TIME, Scope, field_index
from watersmeet.sql.syntax import Fill, GapFillSyntax, Name
from watersmeet.sql.unnesting import LISTS

_ENTRY = "#entry"
_LONG, _DOUBLE = pa.int64(), pa.float64()


def bind_gap_fill(one: Input, gaps: GapFillSyntax, of_windows: Iterable[str], context: Context) -> Input:
    """of_windows: the columns that tell of windows, which go on together."""
    if one.time is None:
        raise context.text.error(
            f"{one.alias} is {'a static table' if one.is_table else 'an answer that changes'}, and gaps are those of a "
            f"stream",
            gaps.span,
            hint="name a stream, or a query that is one: groups of TUMBLE, or SELECT ISTREAM …",
            kind=WindowError,
        )
    return _GapFill(replace(one, window=None), gaps, frozenset(of_windows), context).input(one)


class _GapFill:
    def __init__(self, one: Input, gaps: GapFillSyntax, of_windows: frozenset[str], context: Context) -> None:
        assert one.time is not None
        self.one, self.gaps, self.context = one, gaps, context
        self.keys = [self._column(key) for key in gaps.keys]
        self.time = one.time if gaps.time is None else self._column(gaps.time)
        if self.time not in of_windows:
            assert gaps.time is not None
            raise context.text.error(
                f"{self.time} is not the event time of {one.alias}, which is {one.time}",
                gaps.time.span,
                hint=f"write GAP_FILL({one.alias}, {one.time}, …)",
            )
        self.step_us = self._step_us()
        self.moving = of_windows - {self.time}
        self.fills = {self._column(fill.column): fill for fill in gaps.fills}
        self._check()

    def _step_us(self) -> int:
        step, zone = self.gaps.step, getattr(self._type(self.time), "tz", None)
        if step.unit == "us" or (step.unit != "month" and zone in (None, "UTC")):
            return step.us
        raise self.context.text.error(
            "gaps are filled by steps of one length, and "
            + ("months have none" if step.unit == "month" else f"days have 23, 24 or 25 hours in {zone}"),
            self.gaps.span,
            hint="write the step in hours, or in days of a query whose timezone is UTC",
            kind=UnsupportedError,
        )

    def input(self, written: Input) -> Input:
        """The stream with a row for every step. What fills a gap is given with the row that ends it, at its time."""
        one, rows = self.one, self._over()
        over = Input(one.alias, Derived(one.alias, rows, rows.schema, HIDDEN_TIME, hides_time=True))
        by = f" of each {', '.join(self.keys)}" if self.keys else ""
        words = f"gaps{by} filled every {format_interval(self.step_us)} of {self.time}"
        inside = replace(over, window=Each(LISTS, (_ENTRY,), words=words))
        shown = [field.name for field in one.schema if field.name != HIDDEN_TIME]
        columns = [(name, self._filled(name)) for name in shown]
        columns.append((HIDDEN_TIME, self._own(HIDDEN_TIME)))
        project = Project(Join((inside,), boundary=self.context.boundary), tuple(columns))
        relation = Derived(one.alias, project, project.schema, HIDDEN_TIME, hides_time=True)
        return Input(one.alias, relation, written.window)

    def _over(self) -> Over:
        """Each row with what is needed of the one before it, and the numbers of the steps between them and its own."""
        rows = tuple((field.name, Column(self.one.alias, field.name, field.type)) for field in self.one.schema)
        order = (SortKey(self._below(self.one.time or "")),)
        partition = tuple(map(self._below, self.keys))
        calls = [
            (
                _before(name),
                OverCall("lag", (self._below(name),), self._type(name), partition, order, Frame("range", None), 1),
            )
            for name in self._carried()
        ]
        shown = [*(name for name, _ in rows), *(name for name, _ in calls)]
        columns = {name: Column("", name, self._type(name)) for name in shown} | {
            HIDDEN_TIME: self._below(self.one.time or ""),
            LISTS: self._steps(),
        }
        project = Project(Join((self.one,), boundary=self.context.boundary), rows)
        return Over(project, tuple(calls), tuple(columns.items()), None, self.one.time)

    def _steps(self) -> Expression:
        """From one step after the row before to the row itself; if that lies between two steps, to the later one."""
        own, before = (
            typed_call("epoch_us", Column("", name, self._type(self.time))) for name in (self.time, _before(self.time))
        )
        step = Literal(self.step_us, _LONG)
        first = typed_call("least", typed_call("coalesce", typed_call("add", before, step), own), own)
        last = typed_call("subtract", typed_call("add", own, step), Literal(1, _LONG))
        return typed_call("generate_series", first, last, step)

    def _filled(self, name: str) -> Expression:
        """A column of a row that is there, or of one that fills a gap."""
        own = self._own(name)
        if name == self.time or name in self.moving:
            return typed_call("add", own, typed_call("multiply", self._behind(), Literal(1, pa.duration("us"))))
        if name in self.keys:
            return own
        there = typed_call("ge", self._own(_ENTRY), typed_call("epoch_us", self._own(self.time)))
        return Call("case", (there, own, self._fill(name)), own.type)

    def _behind(self) -> Expression:
        """How far before its end a row fills the gap; zero for the row itself."""
        entry, own = self._own(_ENTRY), typed_call("epoch_us", self._own(self.time))
        return typed_call("subtract", typed_call("least", entry, own), own)

    def _fill(self, name: str) -> Expression:
        fill, own = self.fills.get(name), self._own(name)
        how = "locf" if fill is None else fill.how
        if how == "keepnull":
            return Literal(None, own.type)
        if how == "constant":
            assert fill is not None
            return self._constant(fill, own.type)
        before = self._own(_before(name))
        return before if how == "locf" else self._interpolated(before, own)

    def _interpolated(self, before: Expression, own: Expression) -> Expression:
        """On the straight line between two rows, as a DOUBLE; NULL if one of them is."""
        start, end = (typed_call("epoch_us", self._own(one)) for one in (_before(self.time), self.time))
        x, y = (Call("cast", (one,), _DOUBLE) for one in (before, own))
        passed = Call("cast", (typed_call("subtract", self._own(_ENTRY), start),), _DOUBLE)
        share = typed_call(
            "divide", typed_call("multiply", typed_call("subtract", y, x), passed), typed_call("subtract", end, start)
        )
        return Call("cast", (typed_call("add", x, share),), own.type)

    def _constant(self, fill: Fill, kind: pa.DataType) -> Expression:
        scope = Scope(self.context.text, (), self.context.zone)
        assert fill.value is not None
        binder = ExpressionBinder(scope, "GAP_FILL", event_time=False)
        value = binder.bind(fill.value)
        return value if value.type == kind else binder.converted(value, kind, fill.value)

    def _carried(self) -> list[str]:
        kept = [
            field.name
            for field in self.one.schema
            if field.name not in (*self.keys, *self.moving, self.time, HIDDEN_TIME)
            and (field.name not in self.fills or self.fills[field.name].how in ("locf", "interpolate"))
        ]
        return [self.time, *kept]

    def _below(self, name: str) -> Column:
        return Column("", name, self._type(name))

    def _own(self, name: str) -> Column:
        return Column(self.one.alias, name, self._type(name))

    def _type(self, name: str) -> pa.DataType:
        if name == _ENTRY:
            return _LONG
        if name == HIDDEN_TIME and HIDDEN_TIME not in self.one.schema.names:
            name = self.one.time or ""
        return self.one.schema.field(name.removeprefix(_before(""))).type

    def _column(self, name: Name) -> str:
        index = field_index(self.one.schema, name.text)
        if index is None:
            known = ", ".join(field.name for field in self.one.schema if field.name != HIDDEN_TIME)
            raise self.context.text.error(
                f"{self.one.alias} has no column {name.text}", name.span, hint=f"its columns are {known}"
            )
        return str(self.one.schema.field(index).name)

    def _check(self) -> None:
        text = self.context.text
        if HIDDEN_TIME in self.one.schema.names and not self.one.hides_time:
            raise text.error(
                f"{HIDDEN_TIME} is the name that the time of rows which fill gaps gets by itself",
                self.gaps.span,
                hint="give the column another name with AS, in a query inside GAP_FILL",
            )
        written = [self._column(fill.column) for fill in self.gaps.fills]
        for place, (name, fill) in enumerate(zip(written, self.gaps.fills, strict=True)):
            if name in written[:place]:
                raise text.error(f"{name} is filled twice", fill.column.span, hint="say once how it is filled")
            if name in (*self.keys, *self.moving, self.time):
                raise text.error(
                    f"{name} is known in every row that fills a gap", fill.column.span, hint="leave it out here"
                )
            kind = self._type(name)
            if fill.how == "interpolate" and not is_number(kind):
                raise text.error(
                    f"between values of {name} is no straight line, as it is {sql_type(kind)}",
                    fill.column.span,
                    hint=f"write LOCF({name}), KEEPNULL({name}) or CONSTANT({name}, …)",
                    kind=UnsupportedError,
                )
        for key, column in zip(self.gaps.keys, self.keys, strict=True):
            kind = self._type(column)
            if pa.types.is_nested(kind):
                raise text.error(f"rows cannot be kept apart by {column}, which is nested: {sql_type(kind)}", key.span)


def _before(name: str) -> str:
    """The name of a column of the row before."""
    return f"#before_{name}"
