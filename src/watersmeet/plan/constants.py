"""Rows that a query says itself: VALUES, SELECT without FROM, and series of numbers or times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Statistics, Table
from watersmeet.plan.expressions import Column, Expression, Literal, replaced

MOST_ROWS = 10_000_000  # of a series, which is kept in memory
SAID_AT = "#at"  # the event time of such rows where they are a stream: the same of all


@dataclass(frozen=True)
class Listed:
    """Rows of expressions over nothing, the columns of which have the same types in all of them."""

    rows: tuple[tuple[Expression, ...], ...]
    names: tuple[str, ...]

    @property
    def known_rows(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Series:
    """From `start` on, by `step`, up to `stop`, which is among them only if it is `inclusive`; nothing if one of these
    is NULL. They are whole numbers, or times and an interval."""

    start: Expression
    stop: Expression
    step: Expression
    inclusive: bool

    names = ("value",)

    @property
    def type(self) -> pa.DataType:
        return self.start.type

    @property
    def known_rows(self) -> int | None:
        """How many numbers there are, where they are written as such."""
        match self.start, self.stop, self.step:
            case Literal(value=int(start)), Literal(value=int(stop)), Literal(value=int(step)) if step != 0:
                end = stop + (1 if step > 0 else -1) * self.inclusive
                return max(0, -((start - end) // step))  # there may be more than len() can tell
        return None


@dataclass(frozen=True)
class Selected:
    """What is selected of such rows: expressions over their columns, which belong to no stream."""

    of: Listed | Series
    columns: tuple[tuple[str, Expression], ...]
    where: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Constants(Table):
    """A static table that nobody reads, as the query says its rows: those of all its parts."""

    parts: tuple[Selected, ...] = ()


def constants(name: str, parts: Sequence[Selected]) -> Constants:
    counts = [None if part.where else part.of.known_rows for part in parts]
    known = Statistics(rows=None if None in counts else sum(count or 0 for count in counts))
    schema = pa.schema([pa.field(name, e.type) for name, e in parts[0].columns])
    return Constants(name, schema, statistics=known, parts=tuple(parts))


def selected(part: Selected, columns: Sequence[tuple[str, Expression]], where: Sequence[Expression]) -> Selected:
    """What is selected of what was selected."""
    own = dict(part.columns)

    def below(expression: Expression) -> Expression:
        return replaced(expression, lambda one: own[one.name] if isinstance(one, Column) else None)

    return Selected(part.of, tuple((name, below(e)) for name, e in columns), (*part.where, *map(below, where)))


def with_time(rows: Constants) -> Constants:
    """The same with their event time, which rows without columns can be counted by."""
    time = (SAID_AT, Literal(0, pa.timestamp("us")))
    return constants(rows.name, [replace(part, columns=(*part.columns, time)) for part in rows.parts])
