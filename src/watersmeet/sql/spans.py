"""How far apart in time the members of a row may be that came of outer joins, whoever of them is there.

A row of a tree of joins may lack some of its members. For every set of members that can be there (a `Shape`) this
keeps the bounds between them, and how long after a member's time the row itself may come into being. From that follows
when it is certain that a row has no partner, and how long rows must be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from watersmeet.dataclass import dataclass
from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import Bound, Boundary, Range, close, range_bounds
from watersmeet.plan.expressions import Call, Expression, streams_of
from watersmeet.plan.nodes import Join
from watersmeet.sql.join_tree import Group, Leaf, Outer

Limits = Mapping[tuple[str, str], int]  # (u, v): how much later than u a row of v may be
# With a NULL among the arguments these are NULL, so that a condition made of them does not hold.
_STRICT = ("eq", "ne", "lt", "le", "gt", "ge", "add", "subtract", "multiply", "divide", "modulo", "like", "concat")


@dataclass(frozen=True)
class Shape:
    """Members that are there together. `behind` says of each that has a time how much later the row may be."""

    present: frozenset[str]
    bounds: tuple[Bound, ...]
    behind: Mapping[str, int]

    @property
    def limits(self) -> Limits:
        return limits_of(self.behind, self.bounds)


def limits_of(streams: Iterable[str], bounds: Iterable[Bound]) -> Limits:
    names = sorted(streams)
    closed = close(names, tuple(bounds)).limits
    return {(u, v): closed[i][j] for i, u in enumerate(names) for j, v in enumerate(names)}


def shapes_of(part: Group | Outer | Leaf, boundary: Boundary) -> list[Shape]:
    match part:
        case Leaf(input=one):
            return [Shape(frozenset({one.alias}), (), {} if one.time is None else {one.alias: 0})]
        case Group():
            return list(_of_group(part, boundary))
        case Outer():
            return list(_of_outer(part, boundary))


def _of_group(group: Group, boundary: Boundary) -> Iterator[Shape]:
    if group.is_flat:
        yield _flat(group, boundary)
        return
    crossing = [*group.found.bounds, *ranges_between(group.members, boundary)]
    for shapes in product(*(shapes_of(member, boundary) for member in group.members)):
        yield _joined(shapes, crossing)


def _flat(group: Group, boundary: Boundary) -> Shape:
    inputs = tuple(member.input for member in group.members if isinstance(member, Leaf))
    streams = [one.alias for one in inputs if one.time is not None]
    if len(streams) < 2:
        return Shape(frozenset(one.alias for one in inputs), (), dict.fromkeys(streams, 0))
    found = group.found
    join = Join(inputs, (), tuple(found.bounds), tuple(found.choices), boundary)
    closed = join.windows
    bounds = tuple(
        Bound(u, v, closed.limits[i][j], "")
        for i, u in enumerate(closed.streams)
        for j, v in enumerate(closed.streams)
        if i != j and closed.limits[i][j] < FOREVER_US
    )
    behind = {u: max(limit for limit in closed.limits[i]) for i, u in enumerate(closed.streams)}
    return Shape(frozenset(one.alias for one in inputs), bounds, behind)


def _joined(shapes: tuple[Shape, ...], crossing: Iterable[Bound]) -> Shape:
    """Rows of several parts, which meet when the last of them is there."""
    timed = [name for shape in shapes for name in shape.behind]
    bounds = (*(bound for shape in shapes for bound in shape.bounds), *among(timed, crossing))
    limits = limits_of(timed, bounds)
    behind = {
        u: max(min((_sum(limits[u, v], later) for v, later in shape.behind.items()), default=0) for shape in shapes)
        for u in timed
    }
    return Shape(frozenset().union(*(shape.present for shape in shapes)), bounds, behind)


def _of_outer(outer: Outer, boundary: Boundary) -> Iterator[Shape]:
    left, right = shapes_of(outer.left, boundary), shapes_of(outer.right, boundary)
    crossing = crossing_bounds(outer, boundary)
    if outer.kind in ("left", "full", "asof", "asof_left"):
        for one, other in product(left, right):
            if can_match(outer, one, other):
                both = _joined((one, other), crossing)
                yield _waiting(outer, both) if outer.kind.startswith("asof") else both
    if outer.kind.startswith("asof"):
        # Rows wait for the time up to which they look, whether they find a partner or not.
        yield from (_waiting(outer, one) for one in left if outer.kind == "asof_left")
        return
    # A row of SEMI comes at its first partner, which is not later than when it is certain that there is none.
    yield from (_alone(outer, one, right, crossing) for one in left)
    if outer.kind == "full":
        yield from (_alone(outer, one, left, crossing) for one in right)


def _waiting(outer: Outer, one: Shape) -> Shape:
    """A row of an as-of join, which is not given before the time up to which it looks for a partner."""
    own = one.limits
    later = {each.alias for each in outer.right.visible}
    until = {b.earlier: b.at_most_us for b in outer.found.bounds if b.earlier in one.behind and b.later in later}
    behind = {
        u: max(later, *(_sum(own[u, v], us) for v, us in until.items()), later) for u, later in one.behind.items()
    }
    return Shape(one.present, one.bounds, behind)


def _alone(outer: Outer, one: Shape, others: Iterable[Shape], crossing: Iterable[Bound]) -> Shape:
    """A row without a partner, which is given when none can come any more."""
    waits = certain_after(outer, one, others, crossing)
    own = one.limits
    behind = {
        u: max(later, *(min((_sum(own[u, v], by) for v, by in way.items()), default=0) + 1 for way in waits), later)
        for u, later in one.behind.items()
    }
    return Shape(one.present, one.bounds, behind)


def certain_after(outer: Outer, one: Shape, others: Iterable[Shape], crossing: Iterable[Bound]) -> list[dict[str, int]]:
    """When a row has no partner for certain: for every shape that one could have, the first of these times after its
    members has passed. Nothing to wait for if no shape can match."""
    ways = []
    for other in others:
        if not can_match(outer, one, other) or not other.behind:
            continue
        timed = [*one.behind, *other.behind]
        limits = limits_of(timed, (*one.bounds, *other.bounds, *among(timed, crossing)))
        ways.append({u: min(_sum(limits[u, v], later) for v, later in other.behind.items()) for u in one.behind})
    return ways


def reach(outer: Outer, ones: Iterable[Shape], others: Iterable[Shape], crossing: Iterable[Bound]) -> int:
    """How much later than a row of one side, by the times of the rows themselves, a partner may be."""
    ways = [way for one in ones for way in certain_after(outer, one, others, crossing)]
    return max((min(way.values(), default=FOREVER_US) for way in ways), default=0)


def crossing_bounds(outer: Outer, boundary: Boundary) -> tuple[Bound, ...]:
    """Between the two sides: what ON and WINDOW say, and [RANGE] of the streams on either side."""
    return (*outer.found.bounds, *ranges_between((outer.left, outer.right), boundary))


def ranges_between(parts: Iterable[Leaf | Outer | Group], boundary: Boundary) -> Iterator[Bound]:
    sides = [part.visible for part in parts]
    for i, side in enumerate(sides):
        others = [one.alias for j, beside in enumerate(sides) if j != i for one in beside if one.time is not None]
        for one in side:
            if isinstance(one.window, Range) and one.time is not None:
                yield from range_bounds(one.alias, one.window, others, boundary)


def among(streams: Iterable[str], bounds: Iterable[Bound]) -> Iterator[Bound]:
    """The bounds between streams that are there; one that names another does not apply."""
    there = set(streams)
    return (bound for bound in bounds if {bound.earlier, bound.later} <= there)


def can_match(outer: Outer, one: Shape, other: Shape) -> bool:
    """Whether ON may hold for rows that lack some members: what compares one that is missing does not hold."""
    everything: set[str] = {each.alias for each in (*outer.left.visible, *outer.right.visible)}
    missing = everything - one.present - other.present
    return not any(_fails_on_null(predicate, missing) for predicate in outer.found.predicates)


def _fails_on_null(expression: Expression, missing: set[str]) -> bool:
    return isinstance(expression, Call) and expression.function in _STRICT and _is_null(expression, missing)


def _is_null(expression: Expression, missing: set[str]) -> bool:
    if isinstance(expression, Call):
        return expression.function in _STRICT and any(_is_null(arg, missing) for arg in expression.args)
    return bool(streams_of(expression) & missing)


def _sum(a: int, b: int) -> int:
    return min(FOREVER_US, a + b)
