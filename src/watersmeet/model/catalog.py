"""What is declared: streams, static tables and sinks, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from difflib import get_close_matches
from typing import Any

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import CatalogError
from watersmeet.model.arrival import Arrival
from watersmeet.model.arriving import Arrivals
from watersmeet.model.names import column_named, columns_hint
from watersmeet.model.plain_types import refuse_unknown
from watersmeet.model.side_sink import SideSink, sink_named
from watersmeet.model.time_reading import TimeReading
from watersmeet.model.types import is_text
from watersmeet.model.versions import Versions
from watersmeet.model.zones import entering_schema


@dataclass(frozen=True)
class Statistics:
    """What is known or declared about a stream before it flows; None where nothing is known.

    `distinct` is the number of values of some columns, by name. `unique` names columns of which each value comes once
    in what a window holds. Both are hints: they guide plans and change no answer.
    """

    rows_per_second: float | None = None
    rows: int | None = None
    distinct: Mapping[str, float] = field(default_factory=dict)
    unique: tuple[str, ...] = ()


@dataclass(frozen=True)
class Deduplication:
    """Of the rows of a key only those are taken, as they arrive, whose time is further than this from that of every row
    taken before, earlier or later. NULL is a key like others."""

    keys: tuple[str, ...]
    within_us: int


@dataclass(frozen=True)
class Stream:
    """A stream: its columns, which of them is the event time, and how disordered rows may arrive.

    `source` is whatever the host reads it from: in-process an object of engine.sources, or None for a stream
    that only has a schema (enough for EXPLAIN). `rounding` says what becomes of times finer than a microsecond.
    `schema` is what queries see; `reading` says how the event times are written where they come from, if they are no
    timestamps there. With `versions` its rows are changes of a table. With `arrivals` the event time is the moment at
    which rows arrive, and they have no such column. `first`: a query that names the stream leaves out its duplicates.
    `bad_to` and `late_to`: the sinks that records go to which cannot be read, and rows that come too late. `is_pushed`:
    nothing was said of where its rows are read, so that somebody pushes them, in any order.
    """

    name: str
    schema: pa.Schema
    time: str
    lateness_us: int = 0
    source: Any = None
    statistics: Statistics = Statistics()
    arrival: Arrival = field(default_factory=Arrival)
    rounding: str = "error"
    reading: TimeReading | None = None
    versions: Versions | None = None
    arrivals: Arrivals | None = field(default=None, compare=False)
    first: Deduplication | None = None
    bad_to: SideSink | None = None
    late_to: SideSink | None = None
    is_pushed: bool = False

    @property
    def by_arrival(self) -> bool:
        """Whether the event time is the moment at which rows arrive."""
        return self.arrivals is not None

    @property
    def given_schema(self) -> pa.Schema:
        """The columns that rows have where they come from."""
        return self.schema.remove(self.schema.get_field_index(self.time)) if self.by_arrival else self.schema

    def __post_init__(self) -> None:
        time = column_named(self.time, self.schema.names)
        if time is None:
            raise CatalogError(
                f"stream {self.name!r} has no column {self.time!r} to take its event time from",
                hint=columns_hint(self.schema.names),
            )
        # The column's own spelling. Past the dataclass, which is frozen.
        object.__setattr__(self, "time", time)
        kind = self.schema.field(time).type
        if not pa.types.is_timestamp(kind):
            raise CatalogError(
                f"the event time {time!r} of stream {self.name!r} is {kind}, not a timestamp",
                hint=_said_how(kind),
            )
        object.__setattr__(self, "statistics", _as_declared(self.name, self.schema, self.statistics))
        if self.lateness_us < 0:
            raise CatalogError(f"the lateness of stream {self.name!r} is negative; write '0 seconds' or more")
        object.__setattr__(self, "schema", entering_schema(self.schema))
        refuse_unknown(self.schema, f"stream {self.name!r}")
        if self.versions is not None:
            object.__setattr__(self, "versions", self.versions.among(self.name, self.schema, time))


@dataclass(frozen=True)
class Table:
    """A static table, read once when a query starts, or again and again, so long after the load before."""

    name: str
    schema: pa.Schema
    source: Any = None
    statistics: Statistics = Statistics()
    rounding: str = "error"
    reload_us: int | None = None

    @property
    def given_schema(self) -> pa.Schema:
        return self.schema

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", entering_schema(self.schema))
        refuse_unknown(self.schema, f"table {self.name!r}")
        object.__setattr__(self, "statistics", _as_declared(self.name, self.schema, self.statistics))


Relation = Stream | Table


def _said_how(kind: pa.DataType) -> str:
    """What to write for an event time that is no timestamp."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "say what it counts since 1970: time_unit = 's', 'ms', 'us' or 'ns'; or name another column as time"
    if is_text(kind):
        return "say how it is written: time_format = 'iso' for any form of ISO 8601, or else as '%d.%m.%Y %H:%M:%S'"
    if pa.types.is_date(kind):
        return "declare it TIMESTAMP, which takes midnight of each day, or name another column as time"
    return "cast it to a timestamp before it enters, or name another column as time"


def _as_declared(name: str, schema: pa.Schema, statistics: Statistics) -> Statistics:
    """By the columns' own names, which are written in any case."""

    def own(hint: str, written: str) -> str:
        column = column_named(written, schema.names)
        if column is None:
            raise CatalogError(
                f"{hint} names column {written!r}, which {name!r} does not have", hint=columns_hint(schema.names)
            )
        return column

    distinct = {own("distinct", written): count for written, count in statistics.distinct.items()}
    return replace(statistics, distinct=distinct, unique=tuple(own("unique", one) for one in statistics.unique))


@dataclass(frozen=True)
class NamedQuery:
    """CREATE VIEW: a query that stands for itself wherever its name does. `query` is its syntax and `text` what that
    points into; they are for the binder, and nobody else looks inside."""

    name: str
    schema: pa.Schema
    query: Any
    text: str
    columns: tuple[str, ...] = ()


def kind_of(relation: Relation | NamedQuery) -> str:
    """What the language calls it."""
    if isinstance(relation, NamedQuery):
        return "view"
    has_versions = isinstance(relation, Stream) and relation.versions is not None and relation.versions.is_table
    return "table" if has_versions else type(relation).__name__.lower()


# Functions and aggregates that were registered for every session of this process, by name in lower case.
FUNCTIONS_OF_ALL: dict[str, Any] = {}


class Catalog:
    """The streams, tables and views a session knows, the functions that were brought to it (plan.user_functions), and
    the sinks for what goes beside answers, by name in lower case. Names are case-insensitive, as in SQL.
    `rows_as_stream`: how the host opens rows that a query says itself (plan.constants), where it reads no others."""

    def __init__(self, rows_as_stream: Callable[[Any], Stream] | None = None) -> None:
        self.rows_as_stream = rows_as_stream
        self._relations: dict[str, Relation | NamedQuery] = {}
        self.functions: dict[str, Any] = dict(FUNCTIONS_OF_ALL)
        self.sinks: dict[str, SideSink] = {}

    def add(self, relation: Relation | NamedQuery, *, replace: bool = False) -> None:
        if not isinstance(relation.name, str) or not relation.name.strip():
            raise CatalogError(
                f"{relation.name!r} is no name", hint="a stream or table is named by a text, such as 'a'"
            )
        if not replace:
            self.check_new(relation.name)
        self._relations[relation.name.lower()] = relation

    def check_new(self, name: str) -> None:
        if name.lower() in self._relations:
            raise CatalogError(f"{name!r} is declared twice", hint="give the second one another name")

    def remove(self, name: str) -> None:
        # A function may be called like a stream, which is forgotten first.
        if self._relations.pop(str(name).lower(), None) is None and self.functions.pop(str(name).lower(), None) is None:
            meant = self.suggestion(str(name))
            raise CatalogError(
                f"there is no stream, table, view or function {name!r} to drop",
                hint=f"did you mean {meant!r}?" if meant else None,
            )

    def discard(self, name: str) -> None:
        self._relations.pop(name.lower(), None)

    def __getitem__(self, name: str) -> Relation | NamedQuery:
        return self._relations[name.lower()]

    def copy(self) -> Catalog:
        same = Catalog(self.rows_as_stream)
        same._relations = dict(self._relations)
        same.functions = dict(self.functions)
        same.sinks = dict(self.sinks)
        return same

    def become(self, other: Catalog) -> None:
        """Hold what another holds."""
        self._relations = dict(other._relations)
        self.functions = dict(other.functions)
        self.sinks = dict(other.sinks)

    def add_sink(self, sink: SideSink) -> None:
        if sink.name.lower() in self.sinks:
            raise CatalogError(f"sink {sink.name!r} is created twice", hint="rename one")
        self.sinks[sink.name.lower()] = sink

    def sink_of(self, policy: str) -> SideSink | None:
        """The sink that `on_bad` or `on_late` speaks of, if it does."""
        name = sink_named(policy)
        if name is None:
            return None
        if name.lower() not in self.sinks:
            near = get_close_matches(name.lower(), self.sinks, n=1)
            meant = f"did you mean {self.sinks[near[0]].name!r}? " if near else ""
            raise CatalogError(
                f"there is no sink {name!r} that takes what goes beside answers",
                hint=f"{meant}declare it before the stream: CREATE SINK {name} WITH (sink = 'json', path = '…')",
            )
        return self.sinks[name.lower()]

    def find(self, name: str) -> Relation | None:
        found = self._relations.get(name.lower())
        return None if isinstance(found, NamedQuery) else found

    def find_query(self, name: str) -> NamedQuery | None:
        found = self._relations.get(name.lower())
        return found if isinstance(found, NamedQuery) else None

    def views(self) -> list[str]:
        return [one.name for one in self._relations.values() if isinstance(one, NamedQuery)]

    def names(self) -> list[str]:
        return [relation.name for relation in self._relations.values()]

    def suggestion(self, name: str) -> str | None:
        """The declared name nearest to a misspelt one."""
        near = get_close_matches(name.lower(), self._relations, n=1)
        return self._relations[near[0]].name if near else None
