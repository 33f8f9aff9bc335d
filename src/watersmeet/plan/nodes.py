"""Logical plans: frozen nodes, checked when made, one class per thing a query can ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from watersmeet.errors import WindowError
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.time import FOREVER_US, format_interval
from watersmeet.model.windows import (
    Bound,
    Boundary,
    Choice,
    ClosedWindows,
    Range,
    Rows,
    Window,
    check_retention,
    close,
    range_bounds,
)
from watersmeet.plan.expressions import Expression
from watersmeet.plan.method import Method
from watersmeet.plan.options import Options

MAX_INPUTS = 8


@dataclass(frozen=True)
class Input:
    """One entry of FROM: a stream, a static table or a derived stream, under its alias, with its window."""

    alias: str
    relation: Stream | Table | Derived
    window: Window | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.relation.schema

    @property
    def is_table(self) -> bool:
        return isinstance(self.relation, Table)

    @property
    def time(self) -> str | None:
        """The event-time column, or None for a static table."""
        return None if isinstance(self.relation, Table) else self.relation.time


@dataclass(frozen=True)
class Join:
    """All combinations, one row of each input, that satisfy every predicate and every window bound.

    `bounds` and `choices` are the constraints written between streams; those of `[RANGE …]` windows are added
    here. One input is allowed: then this is a filter over a single stream. `predicates` are AND-ed and hold no
    bounds on time columns that `bounds` already expresses.
    """

    inputs: tuple[Input, ...]
    predicates: tuple[Expression, ...] = ()
    bounds: tuple[Bound, ...] = ()
    choices: tuple[Choice, ...] = ()
    boundary: Boundary = "closed"

    def __post_init__(self) -> None:
        if not self.streams:
            raise WindowError(
                "the query reads only static tables; at least one input must be a stream",
                hint="declare one of them with CREATE STREAM, or query the tables with a database",
            )
        if len(self.inputs) > MAX_INPUTS:
            raise WindowError(f"{len(self.inputs)} inputs are joined; the limit is {MAX_INPUTS}")
        for one in self.inputs:
            self._check_window(one)
        check_retention(self.windows, {i.alias: i.window for i in self.streams}, self.all_bounds, self.choices)

    @staticmethod
    def _check_window(one: Input) -> None:
        match one.window:
            case Rows(count=count) if count < 1:
                raise WindowError(f"{one.alias} [ROWS {count}] holds nothing; the count must be at least 1")
            case Range(size_us=size) if size < 0:
                raise WindowError(f"{one.alias} [RANGE {format_interval(size)}] has a negative length")
        if one.is_table and one.window is not None:
            raise WindowError(
                f"{one.alias} is a static table and cannot have a window", hint=f"write {one.alias} without [...]"
            )

    @property
    def streams(self) -> tuple[Input, ...]:
        """The inputs that have event times."""
        return tuple(i for i in self.inputs if not i.is_table)

    @property
    def all_bounds(self) -> tuple[Bound, ...]:
        names = [i.alias for i in self.streams]
        ranged = [
            bound
            for i in self.streams
            if isinstance(i.window, Range)
            for bound in range_bounds(i.alias, i.window, names, self.boundary)
        ]
        return (*self.bounds, *ranged)

    @property
    def windows(self) -> ClosedWindows:
        """The closure over the streams, in FROM order."""
        return close([i.alias for i in self.streams], self.all_bounds, self.choices)

    def input(self, alias: str) -> Input:
        return next(i for i in self.inputs if i.alias == alias)

    def retention_us(self, alias: str) -> int:
        """How long a row must be kept by time alone; FOREVER_US for tables, unbounded and pure ROWS windows."""
        return FOREVER_US if self.input(alias).is_table else self.windows.retention_us(alias)


@dataclass(frozen=True)
class Project:
    """The select list: output names and what they are computed from."""

    child: Node
    columns: tuple[tuple[str, Expression], ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, expression.type) for name, expression in self.columns])


@dataclass(frozen=True)
class GroupBy:
    """GROUP BY with aggregates, or aggregates over everything when `keys` is empty; `having` filters groups.

    The Project above it holds the output columns, written over keys and Aggregate expressions."""

    child: Node
    keys: tuple[Expression, ...]
    having: Expression | None = None


@dataclass(frozen=True)
class Distinct:
    """SELECT DISTINCT over the rows of its child."""

    child: Node


@dataclass(frozen=True)
class SetOperation:
    """UNION, EXCEPT or INTERSECT, ALL or distinct."""

    kind: Literal["union", "except", "intersect"]
    all: bool
    left: Node
    right: Node


@dataclass(frozen=True)
class TopK:
    """ORDER BY … LIMIT k over the windows."""

    child: Node
    keys: tuple[tuple[Expression, bool], ...]  # (expression, descending)
    limit: int


@dataclass(frozen=True)
class Changes:
    """ISTREAM, DSTREAM or RSTREAM EVERY d: which changes of the answer are sent on."""

    kind: Literal["istream", "dstream", "rstream"]
    child: Node
    every_us: int | None = None


Node = Join | Project | GroupBy | Distinct | SetOperation | TopK | Changes


@dataclass(frozen=True)
class Derived:
    """A subquery in FROM, used as a stream; `time` names its event-time column."""

    name: str
    plan: Node
    schema: pa.Schema
    time: str


@dataclass(frozen=True)
class Plan:
    """A whole query: its root node, its options and the text it came from."""

    root: Node
    options: Options
    sql: str = ""

    @property
    def method(self) -> Method:
        return method_of(self.root, self.options)

    @property
    def schema(self) -> pa.Schema:
        return schema_of(self.root)


def method_of(root: Node, options: Options) -> Method:
    """How the options ask the join of a plan to run; other plans take no such options."""
    match root:
        case Project(child=Join(inputs=inputs)):
            tables = [one.alias for one in inputs if one.is_table]
            return Method.of(options, [one.alias for one in inputs if not one.is_table], tables)
    return Method.of_no_join(options)


def schema_of(node: Node) -> pa.Schema:
    """The output columns of a node that has any."""
    match node:
        case Project():
            return node.schema
        case SetOperation(left=left):
            return schema_of(left)
        case Distinct(child=child) | TopK(child=child) | Changes(child=child):
            return schema_of(child)
        case GroupBy() | Join():
            raise TypeError(f"{type(node).__name__} has no output columns of its own")
