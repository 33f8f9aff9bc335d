"""The answer of a join by its definition: every combination, tested against every written constraint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import pyarrow as pa

from watersmeet.errors import DataError, UnsupportedError
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.time import normalize_time_column
from watersmeet.model.windows import Bound, Choice, Range, Rows
from watersmeet.plan.expressions import streams_of, uses_event_time
from watersmeet.plan.nodes import Changes, Derived, Input, Join, Node, Plan, Project, schema_of
from watersmeet.reference.evaluate import Combination, Row, evaluate, holds
from watersmeet.reference.values import Value, plain_column, present

Arrivals = Mapping[str, pa.Table]
_US = 1_000  # nanoseconds


@dataclass(frozen=True)
class Member:
    """A row with its event time (None in a static table) and its place in the order of arrival."""

    values: Row
    time_ns: int | None
    arrival: int


Members = Mapping[str, Member]
Test = Callable[[Members], bool]


def answer(plan: Plan, arrivals: Arrivals) -> list[tuple[Any, ...]]:
    """The bag of output rows, given for every stream and table by name its rows in the order they arrive."""
    types = [field.type for field in plan.schema]
    return [
        tuple(present(value, kind) for value, kind in zip(row, types, strict=True))
        for row in _rows(plan.root, arrivals)
    ]


def late_rows(plan: Plan, arrivals: Arrivals) -> dict[str, int]:
    """How many rows of each stream arrive too late and are dropped."""
    return {
        relation.name: sum(late for _, late in _with_lateness(relation, _table(relation.name, arrivals)))
        for relation in _streams(plan.root)
    }


def _rows(node: Node, arrivals: Arrivals) -> list[tuple[Value, ...]]:
    match node:
        case Project(child=Join() as join, columns=columns):
            return [
                tuple(evaluate(expression, combination) for _, expression in columns)
                for combination in combinations(join, arrivals)
            ]
        case Changes(kind="istream", child=child):
            return _rows(child, arrivals)
    raise UnsupportedError(f"the reference for joins cannot answer a {type(node).__name__}")


def combinations(join: Join, arrivals: Arrivals) -> Iterator[Combination]:
    """Every combination that satisfies every predicate and every window of the join."""
    rows = {one.alias: _members(one, arrivals) for one in join.inputs}
    tests = [*_predicate_tests(join), *_bound_tests(join), *_choice_tests(join), *_range_tests(join)]
    for members in _product(join, rows, tests):
        if all(_is_among_latest(one, members, rows[one.alias]) for one in join.inputs):
            yield _combination(members)


def _product(
    join: Join, rows: Mapping[str, Sequence[Member]], tests: Sequence[tuple[set[str], Test]]
) -> Iterator[Members]:
    """The product of all inputs; each test is made as soon as the inputs it reads are bound."""
    aliases = [one.alias for one in join.inputs]
    due = [
        [test for reads, test in tests if reads <= set(aliases[: i + 1]) and not (i and reads <= set(aliases[:i]))]
        for i in range(len(aliases))
    ]

    def extend(members: dict[str, Member]) -> Iterator[Members]:
        depth = len(members)
        if depth == len(aliases):
            yield members
            return
        for row in rows[aliases[depth]]:
            longer = {**members, aliases[depth]: row}
            if all(test(longer) for test in due[depth]):
                yield from extend(longer)

    return extend({})


def _combination(members: Members) -> Combination:
    times = [member.time_ns for member in members.values() if member.time_ns is not None]
    return Combination({alias: member.values for alias, member in members.items()}, max(times, default=None))


def _predicate_tests(join: Join) -> Iterator[tuple[set[str], Test]]:
    everything = {one.alias for one in join.inputs}
    for predicate in join.predicates:
        reads = everything if uses_event_time(predicate) else streams_of(predicate)
        yield reads, lambda members, predicate=predicate: holds(predicate, _combination(members))  # type: ignore[misc]


def _bound_tests(join: Join) -> Iterator[tuple[set[str], Test]]:
    for bound in join.bounds:
        yield _ends(bound), lambda members, bound=bound: _respects(members, bound)  # type: ignore[misc]


def _choice_tests(join: Join) -> Iterator[tuple[set[str], Test]]:
    for choice in join.choices:
        reads = {end for bounds in choice.alternatives for bound in bounds for end in _ends(bound)}
        yield reads, lambda members, choice=choice: _respects_any(members, choice)  # type: ignore[misc]


def _range_tests(join: Join) -> Iterator[tuple[set[str], Test]]:
    """`u [RANGE w]`: no other member may be more than w newer than u's row (with half-open windows: w or more)."""
    for one in join.streams:
        if not isinstance(one.window, Range):
            continue
        limit_us = one.window.size_us - (join.boundary == "half_open")
        for other in join.streams:
            if other.alias != one.alias:
                bound = Bound(one.alias, other.alias, limit_us, "")
                yield _ends(bound), lambda members, bound=bound: _respects(members, bound)  # type: ignore[misc]


def _ends(bound: Bound) -> set[str]:
    return {bound.earlier, bound.later}


def _respects(members: Members, bound: Bound) -> bool:
    return _time(members[bound.later]) - _time(members[bound.earlier]) <= bound.at_most_us * _US


def _respects_any(members: Members, choice: Choice) -> bool:
    return any(all(_respects(members, bound) for bound in bounds) for bounds in choice.alternatives)


def _is_among_latest(one: Input, members: Members, rows: Sequence[Member]) -> bool:
    """`[ROWS n]`: of the rows not newer than the newest member, is this one among the n latest (of its partition)?"""
    if not isinstance(one.window, Rows):
        return True
    member, now_ns = members[one.alias], _combination(members).event_time_ns
    group = _partition(member, one.window)
    seen = [row for row in rows if _time(row) <= _time_of(now_ns) and _partition(row, one.window) == group]
    latest = sorted(seen, key=lambda row: (_time(row), row.arrival))[-one.window.count :]
    return any(row is member for row in latest)


def _time(row: Member) -> int:
    return _time_of(row.time_ns)


def _time_of(time_ns: int | None) -> int:
    assert time_ns is not None, "only streams have windows"
    return time_ns


def _partition(row: Member, window: Rows) -> tuple[Value, ...]:
    """The partition's values; NULL, and NaN, each form one group."""
    values = [row.values[name] for name in window.partition_by]
    return tuple("NaN" if isinstance(v, float) and isnan(v) else v for v in values)


def _members(one: Input, arrivals: Arrivals) -> list[Member]:
    """The rows of one input that count: all of a table's, those of a stream that are not late."""
    match one.relation:
        case Table(name=name):
            return [Member(row, None, i) for i, row in enumerate(_row_dicts(_table(name, arrivals)))]
        case Stream(name=name):
            return [member for member, late in _with_lateness(one.relation, _table(name, arrivals)) if not late]
        case Derived(plan=node, time=time):
            names = schema_of(node).names
            rows = [dict(zip(names, row, strict=True)) for row in _rows(node, arrivals)]
            return [Member(row, row[time], i) for i, row in enumerate(rows)]


def _with_lateness(stream: Stream, table: pa.Table) -> Iterator[tuple[Member, bool]]:
    """The rows in arrival order, each with whether it is late: older than (newest so far − lateness)."""
    newest: int | None = None
    for arrival, row in enumerate(_row_dicts(_normalized(stream, table))):
        time_ns = row[stream.time]
        yield Member(row, time_ns, arrival), newest is not None and time_ns < newest - stream.lateness_us * _US
        newest = time_ns if newest is None else max(newest, time_ns)


def _normalized(stream: Stream, table: pa.Table) -> pa.Table:
    column = table[stream.time].combine_chunks()
    if column.null_count:
        raise DataError(
            f"stream {stream.name!r} has {column.null_count} rows without an event time ({stream.time} is NULL)",
            hint="filter them out or fill them in before they enter",
        )
    return table.set_column(table.schema.get_field_index(stream.time), stream.time, normalize_time_column(column))


def _table(name: str, arrivals: Arrivals) -> pa.Table:
    return next(table for given, table in arrivals.items() if given.lower() == name.lower())


def _row_dicts(table: pa.Table) -> Iterator[Row]:
    columns = [plain_column(column) for column in table.columns]
    names = table.schema.names
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def _streams(node: Node) -> list[Stream]:
    """The distinct streams a join reads."""
    match node:
        case Project(child=child) | Changes(child=child):
            return _streams(child)
        case Join(inputs=inputs):
            found = [s for i in inputs for s in _streams_behind(i)]
            return list({stream.name: stream for stream in found}.values())
    raise UnsupportedError(f"the reference for joins cannot answer a {type(node).__name__}")


def _streams_behind(one: Input) -> list[Stream]:
    match one.relation:
        case Stream() as stream:
            return [stream]
        case Derived(plan=node):
            return _streams(node)
    return []
