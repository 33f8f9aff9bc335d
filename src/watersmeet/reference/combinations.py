"""The combinations of a join by its definition: every one, tested against every written constraint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from watersmeet.model.windows import Bound, Choice, Range, RowsWindow
from watersmeet.plan.expressions import streams_of, uses_event_time
from watersmeet.plan.nodes import Input, Join
from watersmeet.reference.evaluate import holds
from watersmeet.reference.inputs import NS_PER_US, Member, Members, combination
from watersmeet.reference.order import same
from watersmeet.reference.values import Value

Rows = Mapping[str, Sequence[Member]]  # by alias
Test = Callable[[Members], bool]


def combinations(join: Join, rows: Rows) -> Iterator[Members]:
    """Every combination that satisfies every predicate and every window of the join."""
    for members in _product(join, rows, [*_condition_tests(join), *_range_tests(join)]):
        if all(_is_among_latest(one, members, rows[one.alias]) for one in join.inputs):
            yield members


def matches(join: Join, rows: Rows) -> Iterator[Members]:
    """Every combination that satisfies the predicates and the bounds between times; windows are not looked at."""
    return _product(join, rows, list(_condition_tests(join)))


def _condition_tests(join: Join) -> Iterator[tuple[set[str], Test]]:
    yield from _predicate_tests(join)
    yield from _bound_tests(join)
    yield from _choice_tests(join)


def _product(join: Join, rows: Rows, tests: Sequence[tuple[set[str], Test]]) -> Iterator[Members]:
    """The product of all inputs; each test is made as soon as the inputs it reads are bound."""
    aliases = [one.alias for one in join.inputs]
    # Where the last input that it reads is bound; what reads none is tested with the first.
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


def _predicate_tests(join: Join) -> Iterator[tuple[set[str], Test]]:
    everything = {one.alias for one in join.inputs}
    for predicate in join.predicates:
        reads = everything if uses_event_time(predicate) else streams_of(predicate)
        # Bound as a default, or every test would see the predicate of the last round.
        yield reads, lambda members, predicate=predicate: holds(predicate, combination(members))  # type: ignore[misc]


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
    return members[bound.later].at_ns - members[bound.earlier].at_ns <= bound.at_most_us * NS_PER_US


def _respects_any(members: Members, choice: Choice) -> bool:
    return any(all(_respects(members, bound) for bound in bounds) for bounds in choice.alternatives)


def _is_among_latest(one: Input, members: Members, rows: Sequence[Member]) -> bool:
    """`[ROWS n]`: of the rows not newer than the newest member, is this one among the n latest (of its partition)?"""
    if not isinstance(one.window, RowsWindow):
        return True
    now_ns = combination(members).event_time_ns
    assert now_ns is not None, "only streams have windows"
    # By identity: another row may have the same values.
    return any(row is members[one.alias] for row in latest(rows, one.window, now_ns))


def latest(rows: Iterable[Member], window: RowsWindow, now_ns: int) -> list[Member]:
    """What `[ROWS n]` holds at an instant: of the rows up to then the n latest, of each partition."""
    partitions: dict[tuple[Value, ...], list[Member]] = {}
    for row in sorted((row for row in rows if row.at_ns <= now_ns), key=lambda row: (row.at_ns, row.arrival)):
        partitions.setdefault(same([row.values[name] for name in window.partition_by]), []).append(row)
    return [row for partition in partitions.values() for row in partition[-window.count :]]
