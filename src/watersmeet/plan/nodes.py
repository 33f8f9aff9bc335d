"""Logical plans: frozen nodes, checked when made, one class per thing a query can ask for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, assert_never

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import PlanError, WindowError
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.pace import Pace
from watersmeet.model.time import FOREVER_US, format_interval
from watersmeet.model.windows import (
    WINDOW_COLUMNS,
    Bound,
    Boundary,
    Choice,
    ClosedWindows,
    Each,
    Hop,
    Landmark,
    Range,
    RowsWindow,
    Session,
    Stepped,
    SteppedRows,
    Window,
    check_retention,
    close,
    moves_in_steps,
    range_bounds,
)
from watersmeet.plan.constants import Constants
from watersmeet.plan.expressions import Aggregate, Expression, OverCall, columns_of, walk
from watersmeet.plan.expressions import SortKey as SortKey
from watersmeet.plan.over_functions import looks_ahead

# As wide as the tables of the kernels (operators/kernels/walk.py, papers/joins/kernels/nested.py).
MAX_INPUTS = 8


@dataclass(frozen=True)
class Input:
    """One entry of FROM: a stream, a static table, a derived stream or a view, under its alias, with its window. `made`
    are columns that rows of a stream get as they come, before anything else is done with them."""

    alias: str
    relation: Stream | Table | Derived | View
    window: Window | None = None
    made: tuple[tuple[str, Expression], ...] = ()

    def __post_init__(self) -> None:
        # Only a ROWS window has such columns.
        unknown = [name for name in getattr(self.window, "partition_by", ()) if name not in self.relation.schema.names]
        if unknown:
            raise PlanError(f"rows of {self.alias} are counted by {unknown[0]}, which is none of its columns")

    @property
    def schema(self) -> pa.Schema:
        if isinstance(self.window, Each):
            rows = pa.schema([*self.relation.schema, *(pa.field(name, e.type) for name, e in self.made)])
            kinds = (rows.field(self.window.column).type.value_type, pa.int64())
            return pa.schema([*rows, *map(pa.field, self.window.names, kinds)])
        if not isinstance(self.window, Hop | Session):
            return self.relation.schema
        kind = pa.timestamp("us", self.window.zone)
        return pa.schema([*self.relation.schema, *(pa.field(name, kind) for name in WINDOW_COLUMNS)])

    @property
    def is_table(self) -> bool:
        return isinstance(self.relation, Table)

    @property
    def is_view(self) -> bool:
        return isinstance(self.relation, View)

    @property
    def has_versions(self) -> bool:
        """Whether it is a table of which the version that holds at a time is meant."""
        return isinstance(self.relation, Stream) and self.relation.versions is not None

    @property
    def time(self) -> str | None:
        """The event-time column, or None for a static table or a view."""
        return None if isinstance(self.relation, Table | View) else self.relation.time

    @property
    def hides_time(self) -> bool:
        """Whether it has event times that were not selected."""
        return isinstance(self.relation, Derived) and self.relation.hides_time


JoinKind = Literal["inner", "left", "full", "semi", "anti", "asof", "asof_left"]


@dataclass(frozen=True)
class AsOf:
    """Of the partners of a row the one that is nearest in time to an instant, of two that are as near the earlier.

    `instant`, in microseconds since 1970, is the time of a stream, to which `up_to_us` were added; `within_us` is how
    much older than that time a partner may be, `ahead_us` how much later than the instant: 0 for the latest partner up
    to it, None if any partner to come will do. Where none may be older than the instant, it is the earliest from it on.
    `behind_us` is by how much a row of the first input may be later than the time of the stream. Where the second input
    has versions the last to arrive is the latest of equal times, and it is a partner only if it is no deletion and
    `holding` is true of it. Where what is compared does not tell the key of the versions, `key` is that: then each
    version that holds at the instant may be a partner, and a row may have several.
    """

    instant: Expression
    up_to_us: int
    within_us: int | None
    behind_us: int = 0
    holding: tuple[Expression, ...] = ()
    ahead_us: int | None = 0
    key: tuple[Expression, ...] = ()

    @property
    def back_us(self) -> int | None:
        """How much older than the instant a partner may be; None if that does not matter."""
        return None if self.within_us is None else self.up_to_us + self.within_us

    @property
    def at_own_time(self) -> bool:
        """Whether a row has its partner as soon as time has come to it, so that its time stays what it is."""
        return self.ahead_us == 0 and self.up_to_us <= 0

    @property
    def until_us(self) -> int | None:
        """How much later than the time of the stream a partner may be; None if that does not matter."""
        return None if self.ahead_us is None else self.up_to_us + self.ahead_us


@dataclass(frozen=True)
class Join:
    """All combinations, one row of each input, that satisfy every predicate and every window bound.

    `bounds` and `choices` are the constraints written between streams; those of `[RANGE …]` windows are added
    here. One input is allowed: then this is a filter over a single stream. `predicates` are AND-ed and hold no
    bounds on time columns that `bounds` already expresses.

    The other kinds have two inputs, and all of the above only says which of their rows match. `where` filters what
    comes of that. In a join that only grows `certain` is, for every input whose rows are given without a match, the
    first instant at which none can come any more: an expression over its columns.
    """

    inputs: tuple[Input, ...]
    predicates: tuple[Expression, ...] = ()
    bounds: tuple[Bound, ...] = ()
    choices: tuple[Choice, ...] = ()
    boundary: Boundary = "closed"
    kind: JoinKind = "inner"
    where: tuple[Expression, ...] = ()
    certain: tuple[tuple[str, Expression], ...] = ()
    asof: AsOf | None = None

    def __post_init__(self) -> None:
        self._check_names()
        self._check_kind()
        if not self.streams and not self.views and not self.is_constant:
            raise WindowError(
                "the query reads only static tables; at least one input must be a stream",
                hint="declare one of them with CREATE STREAM, or query the tables with a database",
            )
        if len(self.inputs) > MAX_INPUTS:
            raise WindowError(f"{len(self.inputs)} inputs are joined; the limit is {MAX_INPUTS}")
        for one in self.inputs:
            self._check_window(one)
        # This makes the closure, which is where windows that contradict each other are found.
        check_retention(self.windows, {i.alias: i.window for i in self.streams}, self.all_bounds, self.choices)

    def _check_names(self) -> None:
        aliases = [one.alias for one in self.inputs]
        if len({alias.lower() for alias in aliases}) < len(aliases):
            raise PlanError(f"two inputs of a join have one alias: {', '.join(aliases)}")
        holding = () if self.asof is None else self.asof.holding
        _check_columns("a condition", (*self.predicates, *self.where, *holding, *(e for _, e in self.certain)), self)
        _refuse_aggregates("a condition", (*self.predicates, *self.where))
        streams = {one.alias for one in self.streams}
        bounds = [*self.bounds, *(bound for choice in self.choices for way in choice.alternatives for bound in way)]
        strange = {name for bound in bounds for name in (bound.earlier, bound.later)} - streams
        if strange:
            raise PlanError(f"a window bounds {min(strange)}, which is none of the streams {', '.join(streams)}")

    def _check_kind(self) -> None:
        if self.kind == "inner":
            if self.where or self.certain:
                raise PlanError("an inner join has no conditions that come after it")
            return
        if len(self.inputs) != 2:
            raise PlanError(f"a {self.kind} join has two inputs, not {len(self.inputs)}")
        if (self.asof is None) == self.kind.startswith("asof"):
            raise PlanError(f"a {self.kind} join is told of an instant, if and only if it looks for the latest partner")
        for alias in self.preserved:
            if self.input(alias).is_table:
                raise WindowError(
                    f"{alias} is a static table, and its rows without a partner could be given only when all is over",
                    hint=f"put {alias} on the other side: keep the rows of the stream",
                    alias=alias,
                )

    @property
    def changes(self) -> bool:
        """Whether rows of it leave again: those that have no partner yet, and no instant at which that is certain."""
        return bool(self.preserved) and not self.certain

    @property
    def preserved(self) -> tuple[str, ...]:
        """The inputs of which every row counts, whether it has a match or not."""
        left, *others = (one.alias for one in self.inputs)
        if self.kind in ("inner", "asof", "asof_left"):
            return ()
        return (left, *others) if self.kind == "full" else (left,)

    @staticmethod
    def _check_window(one: Input) -> None:
        match one.window.within if isinstance(one.window, Each) else one.window:
            case Stepped() | SteppedRows() as stepped:
                _check_steps(one.alias, stepped)
            case Landmark(every_us=int(every)) if every < 1:
                raise WindowError(
                    f"{one.alias} [LANDMARK … EVERY {format_interval(every)}] would begin anew all the time; the "
                    f"interval must be more than zero",
                    hint="leave EVERY out for a window that never begins anew",
                    alias=one.alias,
                )
            case RowsWindow(count=count) if count < 1:
                raise WindowError(
                    f"{one.alias} [ROWS {count}] holds nothing; the count must be at least 1", alias=one.alias
                )
            case Range(size_us=size) if size < 0:
                raise WindowError(f"{one.alias} [RANGE {format_interval(size)}] has a negative length", alias=one.alias)
        if one.is_table and one.window is not None:
            raise WindowError(
                f"{one.alias} is a static table and cannot have a window",
                hint=f"write {one.alias} without [...]",
                alias=one.alias,
            )
        if one.is_view and one.window is not None:
            raise WindowError(
                f"{one.alias} is an answer that changes and cannot have a window: its rows are there while they are "
                f"in that answer",
                hint="write SELECT ISTREAM … in it to take its rows as they appear, for as long as the window says",
                alias=one.alias,
            )

    @property
    def streams(self) -> tuple[Input, ...]:
        """The inputs that have event times."""
        return tuple(i for i in self.inputs if i.time is not None)

    @property
    def views(self) -> tuple[Input, ...]:
        """The inputs that are answers which change; with one of them, so is the answer of the join."""
        return tuple(i for i in self.inputs if i.is_view)

    @property
    def is_constant(self) -> bool:
        """Whether it reads nothing but rows that the query says itself. That is no query yet, but a static table."""
        return all(isinstance(one.relation, Constants) for one in self.inputs)

    @property
    def moves_in_steps(self) -> bool:
        """Whether rows of some input enter their window later than at their own time."""
        return any(moves_in_steps(one.window) for one in self.inputs)

    @property
    def deduplicates(self) -> bool:
        """Whether duplicates of some stream are left out."""
        return any(isinstance(one.relation, Stream) and one.relation.first is not None for one in self.inputs)

    @property
    def all_bounds(self) -> tuple[Bound, ...]:
        names = [i.alias for i in self.streams]
        ranged = [
            bound
            for i in self.streams
            if isinstance(i.window, Range | Stepped | Landmark)
            for bound in range_bounds(i.alias, i.window, names, self.boundary)
        ]
        return (*self.bounds, *ranged)

    @property
    def windows(self) -> ClosedWindows:
        """The closure over the streams, in FROM order."""
        return close([i.alias for i in self.streams], self.all_bounds, self.choices)

    def input(self, alias: str) -> Input:
        return next(i for i in self.inputs if i.alias == alias)

    def kept_us(self, alias: str) -> int:
        """How long rows of a stream are kept: until no other stream, whose watermark trails by its lateness, can reach
        them any more."""
        windows = self.windows
        reach = zip(windows.streams, windows.limits[windows.streams.index(alias)], strict=True)
        # A row of the other stream may come that much behind its own newest, and must still find this one.
        kept = [limit + _lateness_us(self.input(other)) for other, limit in reach if other != alias]
        return min(FOREVER_US, max(0, *kept)) if kept else 0

    def retention_us(self, alias: str) -> int:
        """How long a row must be kept by time alone; FOREVER_US for tables, views, unbounded and pure ROWS windows."""
        return FOREVER_US if self.input(alias).time is None else self.windows.retention_us(alias)


def _check_steps(alias: str, window: Stepped | SteppedRows) -> None:
    of_rows = isinstance(window, SteppedRows)
    size, slide = (window.count, window.slide) if isinstance(window, SteppedRows) else (window.size_us, window.slide_us)
    said = (str(size), str(slide)) if of_rows else (format_interval(size), format_interval(slide))
    word = "ROWS" if of_rows else "RANGE"
    written = f"{alias} [{word} {said[0]} SLIDE {said[1]}]"
    if slide < 1 or size < 1:
        raise WindowError(
            f"{written} does not move, or holds nothing: both must be more than zero",
            hint=f"write [{word} {said[0]}] for a window that moves with every {'row' if of_rows else 'instant'}",
            alias=alias,
        )
    if slide > size:
        raise WindowError(
            f"{written} steps further than it is long, so rows between two steps would be in no window",
            hint=f"write [{word} {said[1]} SLIDE {said[1]}] so that every row is in one window, or a smaller SLIDE",
            alias=alias,
        )


def _lateness_us(one: Input) -> int:
    return one.relation.lateness_us if isinstance(one.relation, Stream) else 0


@dataclass(frozen=True)
class Project:
    """The select list: output names and what they are computed from."""

    child: Join | GroupBy
    columns: tuple[tuple[str, Expression], ...]

    def __post_init__(self) -> None:
        if not isinstance(self.child, Join | GroupBy):
            raise PlanError("a select list goes over a join or over groups")
        names = [name for name, _ in self.columns]
        # A plan may come from code, so it is checked again what the binder has seen to.
        if not names or len(set(names)) < len(names):
            raise PlanError(f"a select list needs columns, each with a name of its own, and has {names}")
        expressions = [expression for _, expression in self.columns]
        join = self.child if isinstance(self.child, Join) else self.child.child
        _check_columns("the select list", expressions, join)
        if isinstance(self.child, Join):
            _refuse_aggregates("a select list without GROUP BY", expressions)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, expression.type) for name, expression in self.columns])


@dataclass(frozen=True)
class GroupBy:
    """GROUP BY with aggregates, or aggregates over everything when `keys` is empty; `having` filters groups.

    Groups are there while they have rows. Without keys there is one row at every instant, from the first event of the
    streams below on. The Project above it holds the output columns, written over keys and Aggregate expressions."""

    child: Join
    keys: tuple[Expression, ...]
    having: Expression | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.child, Join):
            raise PlanError("GROUP BY goes over a join, which may be of a single input")
        _check_columns("a key of GROUP BY", self.keys, self.child)
        _refuse_aggregates("a key of GROUP BY", self.keys)
        if self.having is not None:
            _check_columns("HAVING", (self.having,), self.child)


@dataclass(frozen=True)
class Distinct:
    """SELECT DISTINCT over the rows of its child."""

    child: Node

    def __post_init__(self) -> None:
        schema_of(self.child)


@dataclass(frozen=True)
class SetOperation:
    """UNION, EXCEPT or INTERSECT, ALL or distinct."""

    kind: Literal["union", "except", "intersect"]
    all: bool
    left: Node
    right: Node

    def __post_init__(self) -> None:
        left, right = schema_of(self.left).types, schema_of(self.right).types
        if left != right:
            raise PlanError(
                f"{self.kind.upper()} joins answers with the same types, not {_listed(left)} and {_listed(right)}"
            )


@dataclass(frozen=True)
class TopK:
    """ORDER BY … LIMIT k OFFSET n over the windows. Rows that the keys do not tell apart go by all their columns."""

    child: Node
    keys: tuple[SortKey, ...]
    limit: int | None
    """None: all that are left."""
    offset: int = 0

    def __post_init__(self) -> None:
        if not self.keys or self.offset < 0 or (self.limit is not None and self.limit < 1):
            raise PlanError(f"ORDER BY … LIMIT {self.limit} by {len(self.keys)} keys: both must be 1 or more")
        names = schema_of(self.child).names
        for column in {column for key in self.keys for column in columns_of(key.expression)}:
            # Output columns belong to no stream; one of FROM would not be there any more.
            if column.stream or column.name not in names:
                raise PlanError(f"ORDER BY goes by output columns, {_listed(names)}, and {column.name} is none of them")

    @property
    def words(self) -> str:
        """Which rows of the order these are."""
        if not self.offset:
            return f"first {self.limit}"
        return f"{'all' if self.limit is None else self.limit} after the first {self.offset}"


ChangesKind = Literal["istream", "dstream", "rstream", "complete", "log"]


@dataclass(frozen=True)
class Changes:
    """ISTREAM, DSTREAM or RSTREAM EVERY d: which changes of the answer are sent on. Of windows that are given once,
    when they are complete, it is what enters; the time of that is the end of the window. CHANGES, the log, is all of
    them, each with its sign in a column before the others; it stands in FROM."""

    kind: ChangesKind
    child: Node
    every: Pace | None = None

    def __post_init__(self) -> None:
        if (self.kind == "rstream") != (self.every is not None) or (self.every is not None and self.every.every < 1):
            raise PlanError(f"RSTREAM, and only that, is sent every so often; {self.kind} was given {self.every}")
        schema_of(self.child)


@dataclass(frozen=True)
class Over:
    """Rows with what functions of OVER make of those around them. `calls` have names, and are over the columns of the
    child; `keep`, which says which rows are left (QUALIFY), and `columns` are over both.

    Where all go by event time and by nothing that may change, rows are final: then `time` names the column of the child
    with the event times of its rows, which are those of one stream. Rows of equal time are in the order of arrival.
    Otherwise the answer changes, and rows that ORDER BY leaves equal go by all columns of the child."""

    child: Node
    calls: tuple[tuple[str, OverCall], ...]
    columns: tuple[tuple[str, Expression], ...]
    keep: Expression | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        known = {*schema_of(self.child).names, *(name for name, _ in self.calls)}
        over_child = [part for _, call in self.calls for part in call.parts]
        asked = [*over_child, *(e for _, e in self.columns), *([] if self.keep is None else [self.keep])]
        for column in {column for expression in asked for column in columns_of(expression)}:
            if column.stream or column.name not in known:
                raise PlanError(f"OVER uses {column.stream}.{column.name}, which is not there")

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, expression.type) for name, expression in self.columns])

    @property
    def looks_ahead(self) -> bool:
        """Whether rows are given later than at their own times."""
        return any(looks_ahead(call) for _, call in self.calls)


Node = Join | Project | GroupBy | Distinct | SetOperation | TopK | Over | Changes


@dataclass(frozen=True)
class Derived:
    """A subquery in FROM, used as a stream; `time` names its event-time column, which `*` does not show where it was
    not selected."""

    name: str
    plan: Node
    schema: pa.Schema
    time: str
    hides_time: bool = False

    def __post_init__(self) -> None:
        if self.time not in self.schema.names or not pa.types.is_timestamp(self.schema.field(self.time).type):
            raise PlanError(f"{self.time} is no column of {self.name} with times: {_listed(self.schema.names)}")


@dataclass(frozen=True)
class View:
    """A subquery in FROM whose rows are there exactly while they are in its answer. It has no event time."""

    name: str
    plan: Node
    schema: pa.Schema


def _check_columns(what: str, expressions: Iterable[Expression], join: Join) -> None:
    """Columns belong to an input of the join."""
    schemas = {one.alias: one.schema for one in join.inputs}
    for column in {column for expression in expressions for column in columns_of(expression)}:
        if column.stream not in schemas or column.name not in schemas[column.stream].names:
            raise PlanError(f"{what} uses {column.stream}.{column.name}, which no input of its join has")


def _refuse_aggregates(what: str, expressions: Iterable[Expression]) -> None:
    for aggregate in (part for one in expressions for part in walk(one) if isinstance(part, Aggregate)):
        raise PlanError(f"{what} is over rows and cannot hold {aggregate.function.upper()}")


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


OP, AT = "_op", "_ts"


LOG_FIELDS = {OP: pa.field(OP, pa.string()), AT: pa.field(AT, pa.timestamp("us"))}


def schema_of(node: Node) -> pa.Schema:
    """The output columns of a node that has any."""
    match node:
        case Project() | Over():
            return node.schema
        case SetOperation(left=left):
            return schema_of(left)
        case Changes(kind="log", child=child):
            return pa.schema([LOG_FIELDS[OP], *schema_of(child)])
        case Distinct(child=child) | TopK(child=child) | Changes(child=child):
            return schema_of(child)
        case GroupBy() | Join():
            raise PlanError("GROUP BY and joins have no output columns of their own: a select list goes around them")
        case _:
            assert_never(node)
