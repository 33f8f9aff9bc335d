"""Which names a query can see: the inputs of FROM and their columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from typing import Any

import pyarrow as pa
from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.errors import BindError, SqlError
from watersmeet.plan.expressions import Column, Expression
from watersmeet.plan.nodes import Input
from watersmeet.plan.user_functions import UserFunction
from watersmeet.sql.foreign import FUNCTIONS as FOREIGN
from watersmeet.sql.syntax import Name, QuerySyntax, Span
from watersmeet.warning import PlanWarning, warn

UTC = "UTC"
HIDDEN = "#"  # what names of columns begin with that nobody has written
HIDDEN_TIME = "_ts"
"""The event-time column of a subquery that does not select one."""


@dataclass(frozen=True)
class Text:
    """The text being bound, to point into, and the functions it may call besides those of the language."""

    sql: str
    functions: Mapping[str, UserFunction] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set, compare=False)

    def warn_once(self, warning: PlanWarning) -> None:
        """Warn, unless this text was warned of for the same."""
        if warning.code not in self._told:
            self._told.add(warning.code)
            warn(warning)

    def error(
        self, message: str, span: Span | None, *, hint: str | None = None, kind: type[SqlError] = BindError
    ) -> SqlError:
        return kind(message, hint=hint, sql=self.sql, span=span)

    def piece(self, span: Span | None) -> str:
        """The words at a span, on one line."""
        return " ".join(self.sql[span[0] : span[1]].split()) if span else "expression"


@dataclass(frozen=True)
class Merged:
    """A column of USING: what it is, and of which inputs it is the column of that name."""

    name: str
    expression: exp.Expr
    covers: frozenset[str]


@dataclass(frozen=True)
class Computed:
    """A query of LATERAL whose columns are expressions over the row, or over an input that nobody else sees."""

    alias: str
    columns: tuple[tuple[str, exp.Expr], ...]
    inside: str | None = None

    def column(self, name: str) -> exp.Expr | None:
        return next((e for each, e in self.columns if each.lower() == name.lower()), None)


@dataclass(frozen=True)
class Scope:
    """The inputs of one SELECT. Names are matched as written first, then without regard to case."""

    text: Text
    inputs: tuple[Input, ...]
    zone: str = UTC
    selected: tuple[str, ...] = ()
    """The names that AS gives in the select list, in lower case."""
    value_of: Callable[[QuerySyntax, Span, str], Expression] | None = None
    """What a query in the place of a value is, where one may stand; with a word for what is asked of it, as several
    things may be asked of what is written at one place."""
    outer: Scope | None = None
    """What stands around a query in a condition: names that are not found here are looked for there."""
    merged: tuple[Merged, ...] = ()
    """The columns of USING."""
    entries: Mapping[str, str] = field(default_factory=dict)
    """The names of UNNEST, in lower case, each with that of the stream that has its columns."""
    computed: tuple[Computed, ...] = ()

    def computed_column(self, names: Sequence[Name]) -> tuple[exp.Expr, Sequence[Name]] | None:
        """What a name stands for that LATERAL gives, and the fields that are asked of it."""
        if len(names) > 1:
            mine = [one for one in self.computed if one.alias.lower() == names[0].text.lower()]
            found = mine[0].column(names[1].text) if mine else None
            if mine and found is None:
                known = [name for name, _ in mine[0].columns]
                hint = _meant(names[1].text, known, "its columns are")
                raise self.text.error(f"{names[0].text} has no column {names[1].text}", names[1].span, hint=hint)
            return None if found is None else (found.copy(), names[2:])
        having = [(one.alias, e) for one in self.computed if (e := one.column(names[0].text)) is not None]
        others = [one.alias for one in self._having(names[0])] if having else []
        if len(having) + len(others) > 1:
            candidates = " or ".join(f"{alias}.{names[0].text}" for alias in [*others, *(a for a, _ in having)])
            raise self.text.error(f"{names[0].text} is ambiguous", names[0].span, hint=f"write {candidates}")
        return (having[0][1].copy(), ()) if having else None

    def input(self, name: Name) -> Input:
        asked = self.entries.get(name.text.lower(), name.text).lower()
        for one in self.inputs:
            if one.alias.lower() == asked:
                return one
        if self.outer is not None:
            return self.outer.input(name)
        known = [one.alias for one in self.inputs if len(one.schema)]
        if not known:
            raise self._without_from(name)
        hint = FOREIGN.get(name.text.lower()) or _meant(name.text, known, "the sources here are")
        raise self.text.error(f"{name.text} is not in FROM", name.span, hint=hint)

    def stands_around(self, name: str) -> bool:
        """Whether a source is called so that stands around the query, not in it."""
        outer = self.outer
        return outer is not None and (
            any(one.alias.lower() == name.lower() for one in outer.inputs) or outer.stands_around(name)
        )

    def column(self, source: Name | None, name: Name, span: Span | None = None) -> Column:
        if source is not None:
            return self._qualified(self.input(source), name)
        found = self._having(name)
        if len(found) > 1:
            candidates = " or ".join(f"{one.alias}.{name.text}" for one in found)
            raise self.text.error(f"{name.text} is ambiguous", name.span, hint=f"write {candidates}")
        if not found and self.outer is not None:
            return self.outer.column(source, name, span)
        if not found:
            raise self._unknown(name)
        return self._qualified(found[0], name)

    @property
    def seen(self) -> tuple[Input, ...]:
        """The inputs whose columns may be named without them."""
        hidden = {one.inside for one in self.computed}
        return tuple(one for one in self.inputs if one.alias not in hidden) if hidden else self.inputs

    def _having(self, name: Name) -> list[Input]:
        return [one for one in self.seen if field_index(one.schema, name.text) is not None]

    def merged_column(self, name: Name) -> exp.Expr | None:
        """What a name without a source stands for, if it is one of USING."""
        mine = [one for one in self.merged if one.name.lower() == name.text.lower()]
        if not mine:
            return None
        covered = frozenset().union(*(one.covers for one in mine))
        others = [one.alias for one in self._having(name) if one.alias not in covered]
        if len(mine) > 1 or others:
            candidates = [min(one.covers) for one in mine] + others
            hint = f"write {' or '.join(f'{alias}.{name.text}' for alias in candidates)}"
            raise self.text.error(f"{name.text} is ambiguous", name.span, hint=hint)
        return mine[0].expression.copy()

    def columns(self, source: Name | None) -> list[Column]:
        """What `*` or `a.*` stands for."""
        inputs = self.seen if source is None else (self.input(source),)
        return [Column(one.alias, field.name, field.type) for one in inputs for field in visible_fields(one)]

    def is_time(self, column: Column) -> bool:
        """Whether a column is the event time of its stream."""
        one = self.input_of(column)
        return one is not None and one.time == column.name

    def input_of(self, column: Column) -> Input | None:
        """The input that a column is of, here or around the query."""
        mine = next((one for one in self.inputs if one.alias == column.stream), None)
        return self.outer.input_of(column) if mine is None and self.outer is not None else mine

    def _qualified(self, one: Input, name: Name) -> Column:
        index = field_index(one.schema, name.text)
        if index is None:
            known = [field.name for field in visible_fields(one)]
            raise self.text.error(
                f"{one.alias} has no column {name.text}", name.span, hint=_meant(name.text, known, "its columns are")
            )
        known_field = one.schema.field(index)
        return Column(one.alias, known_field.name, known_field.type)

    def _unknown(self, name: Name) -> SqlError:
        known = [f"{one.alias}.{field.name}" for one in self.inputs for field in visible_fields(one)]
        if not known:
            return self._without_from(name)
        near = get_close_matches(name.text.lower(), [entry.split(".", 1)[1].lower() for entry in known], n=1)
        meant = next((entry for entry in known if near and entry.split(".", 1)[1].lower() == near[0]), None)
        listing = f"the columns are {', '.join(known)}"
        known_slip = self._slip(name)
        if known_slip is not None:
            return self.text.error(f"there is no column {name.text}", name.span, hint=f"{known_slip}; {listing}")
        return self.text.error(
            f"there is no column {name.text}", name.span, hint=f"did you mean {meant}? {listing}" if meant else listing
        )

    def _without_from(self, name: Name) -> SqlError:
        return self.text.error(
            f"{name.text} is a column of nothing, as there is no FROM",
            name.span,
            hint="write SELECT … FROM stream [RANGE 1 MINUTE]; a text stands in single quotes",
        )

    def _slip(self, name: Name) -> str | None:
        """What else a name that is no column may have been meant for."""
        # Those who know MySQL write texts in double quotes, which make a name here.
        if self.text.piece(name.span).startswith('"'):
            return f"a text stands in single quotes: '{name.text}'"
        if name.text.lower() in self.selected:
            return (
                f"{name.text} is a column of the answer, which comes later: repeat what it stands for; conditions on "
                f"aggregates go into HAVING, on OVER (…) into QUALIFY"
            )
        return FOREIGN.get(name.text.lower())


def event_time_type(inputs: tuple[Input, ...], zone: str) -> pa.DataType:
    """The type of event_time(): an instant, in the query's zone, only if every stream's time is one."""
    kinds = [one.schema.field(one.time).type for one in inputs if one.time is not None]
    aware = bool(kinds) and all(kind.tz is not None for kind in kinds)
    return pa.timestamp("us", tz=zone) if aware else pa.timestamp("us")


def visible_fields(one: Input) -> list[pa.Field[Any]]:
    """The columns `*` shows; not among them are the event time that a subquery carries without having selected it, and
    what stands for an expression elsewhere."""
    hidden = one.time if one.hides_time else None
    return [field for field in one.schema if field.name != hidden and not field.name.startswith(HIDDEN)]


def field_index(schema: pa.Schema, name: str) -> int | None:
    names = list(schema.names)
    if name in names:
        return names.index(name)
    lowered = [known.lower() for known in names]
    return lowered.index(name.lower()) if name.lower() in lowered else None


def _meant(given: str, known: list[str], listing: str) -> str:
    near = get_close_matches(given.lower(), [name.lower() for name in known], n=1)
    meant = next((name for name in known if near and name.lower() == near[0]), None)
    everything = f"{listing} {', '.join(known)}"
    return f"did you mean {meant}? {everything}" if meant else everything
