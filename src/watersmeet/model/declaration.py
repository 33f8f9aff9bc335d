"""What is declared, before anything of it is opened: a value, made by SQL or by Python alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import BindError, CatalogError, OptionError, WatersmeetError
from watersmeet.model.arriving import is_arrival, named_time
from watersmeet.model.stream_options import STREAM_OPTIONS
from watersmeet.model.time_reading import TimeReading, time_reading
from watersmeet.model.types import arrow_type
from watersmeet.model.versions import Versions

Span = tuple[int, int]
Kind = Literal["stream", "table", "sink"]


@dataclass(frozen=True)
class Setting:
    """`name = value`: of WITH (…) or OPTIONS (…), as text with its place; or of a call in Python, as it was given."""

    name: str
    value: Any
    span: Span | None = None


@dataclass(frozen=True)
class Declaration:
    """A stream, a table or a sink as it was declared.

    `schema` is None when the columns were left out: they then come from the source. `data`: the rows, if Python gave
    them. `sql` is the text that places are in, that of the name (`span`) and those of the settings; None for what
    Python declares, and errors name the parameter then.
    """

    kind: Kind
    name: str
    schema: pa.Schema | None = None
    settings: tuple[Setting, ...] = field(default=(), repr=False)  # a password may be among them
    replace: bool = False
    data: Any = field(default=None, repr=False, compare=False)
    sql: str | None = field(default=None, repr=False)
    span: Span | None = None

    @classmethod
    def in_python(cls, kind: Kind, name: str, words: Mapping[str, Any], **more: Any) -> Declaration:
        """What a call says. Words that are None were not said."""
        return cls(kind, name, settings=tuple(Setting(*word) for word in words.items() if word[1] is not None), **more)

    @cached_property
    def said(self) -> Mapping[str, Any]:
        """What was written under each name, in lower case."""
        return {one.name.lower(): one.value for one in self.settings}

    @cached_property
    def options(self) -> Mapping[str, str]:
        """The same as text, which is what connectors and readers of formats take."""
        return {name: as_text(value) for name, value in self.said.items()}

    @cached_property
    def is_static(self) -> bool:
        """Whether it is a table without versions; one with a key is read as the stream of its changes."""
        return self.kind == "table" and "key" not in self.said

    @cached_property
    def has_source(self) -> bool:
        return bool(self.said.get("source") or self.said.get("path"))

    @cached_property
    def is_given(self) -> bool:
        """Whether its rows are given by Python, now or with every push."""
        return self.sql is None and not self.has_source

    @cached_property
    def is_pushed(self) -> bool:
        return not self.is_static and not self.has_source and self.data is None

    @cached_property
    def by_arrival(self) -> bool:
        """Whether the event time is the moment at which rows arrive."""
        return not self.is_static and is_arrival(self.said.get("time"))

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """What the options say that all streams or tables have; those that nobody said are missing."""
        kind = "table" if self.is_static else "stream"
        known = [(one, STREAM_OPTIONS[one.name.lower()]) for one in self.settings if one.name.lower() in STREAM_OPTIONS]
        return {option.name: self._value(one, option.parse) for one, option in known if kind in option.of}

    def _value(self, setting: Setting, parse: Any) -> Any:
        try:
            return parse(setting.value)
        except ValueError as error:
            if self.sql is None:
                raise CatalogError(f"the {setting.name} of {self.name!r}: {error}") from None
            raise self.wrong(f"{setting.name}: {error}", setting.name) from None

    @cached_property
    def reading(self) -> TimeReading | None:
        """How event times are written, if that was said."""
        time = self.values.get("time")
        if time is None or self.by_arrival:
            return None
        try:
            found = time_reading(named_time(time), self.values)
            return None if found is None else found.declared_in(self.schema)
        except ValueError as error:
            raise self.wrong(str(error), "time_unit", "time_format") from None

    @cached_property
    def versions(self) -> Versions | None:
        """Of what its rows are changes, if they are."""
        key, op = self.values.get("key"), self.values.get("op")
        if key is None and op is not None:
            problem = "op says which rows delete, and of what is said by key = '…', which is missing"
            raise self.wrong(problem, "op")
        return None if key is None else Versions(key, op, is_table=self.kind == "table")

    def wrong(self, problem: str, *options: str, hint: str | None = None) -> WatersmeetError:
        """An error about some options: at the place of the first in SQL, or with the name of what Python declares."""
        if self.sql is None:
            named = repr(self.name) in problem
            return CatalogError(problem if named else f"{self.kind} {self.name!r}: {problem}", hint=hint)
        found = next((one for one in self.settings if one.name.lower() in options), None)
        span, option = (self.span, None) if found is None else (found.span, found.name)
        return OptionError(problem, hint=hint, sql=self.sql, span=span, option=option)

    def misnamed(self, error: CatalogError, *options: str) -> WatersmeetError:
        """What the catalog says of it: at the name of what is declared, or of what an option speaks of."""
        if self.sql is None:
            return error
        span = next((one.span for one in self.settings if one.name.lower() in options), self.span)
        return BindError(error.message, hint=error.hint, sql=self.sql, span=span)


def as_text(value: Any) -> str:
    """A value as WITH (…) has it.

    >>> as_text(True), as_text(timedelta(seconds=2)), as_text(["a", "b"]), as_text({"k": 5})
    ('true', '2000000 microseconds', 'a, b', 'k: 5')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)} microseconds"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {one}" for key, one in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return str(value)


def declared_schema(name: str, given: object) -> pa.Schema:
    """The columns of a stream or table, from a pyarrow schema or from types by the names of columns.

    >>> declared_schema("s", {"k": "BIGINT", "price": "decimal(10, 2)", "ts": pa.timestamp("us")}).names
    ['k', 'price', 'ts']
    """
    if isinstance(given, pa.Schema):
        names = list(given.names)
        twice = next((one for one in names if names.count(one) > 1), None)
        if twice is not None:
            raise CatalogError(f"the schema of {name!r} has two columns named {twice!r}")
        return given
    if not isinstance(given, Mapping) or not given:
        raise CatalogError(
            f"the schema of {name!r} is {given!r}, not columns with their types",
            hint="give a pyarrow schema, or a mapping such as {'k': 'BIGINT', 'ts': 'TIMESTAMP'}",
        )
    return pa.schema([pa.field(str(column), _type(name, str(column), kind)) for column, kind in given.items()])


def _type(name: str, column: str, kind: object) -> pa.DataType:
    found = kind if isinstance(kind, pa.DataType) else arrow_type(kind) if isinstance(kind, str) else None
    if found is None:
        raise CatalogError(
            f"the schema of {name!r}: {kind!r} is not a type that column {column!r} can have",
            hint="types are BIGINT, INT, DOUBLE, DECIMAL(10, 2), STRING, BOOLEAN, DATE, TIMESTAMP, TIMESTAMPTZ, "
            "BINARY, or those of pyarrow",
        )
    return found
