"""FROM with outer, semi or anti joins: the tree as it is written, its conditions where they belong.

Inner joins beside each other are one group, whose members meet all at once; the other kinds join two groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.errors import SqlError, UnsupportedError, WindowError
from watersmeet.model.windows import Bound, Boundary
from watersmeet.plan.nodes import Input, JoinKind
from watersmeet.sql.expressions import ExpressionBinder
from watersmeet.sql.scope import Merged, Scope, Text
from watersmeet.sql.syntax import Constraint, FromSyntax, JoinSyntax, SourceSyntax, Span, span_of
from watersmeet.sql.time_bounds import shifted_time
from watersmeet.sql.using import JoinedSides
from watersmeet.sql.windows import Conditions, bind_conditions


@dataclass(frozen=True)
class Leaf:
    """One entry of FROM."""

    input: Input

    @property
    def visible(self) -> tuple[Input, ...]:
        return (self.input,)

    @property
    def everything(self) -> tuple[Input, ...]:
        return (self.input,)

    @property
    def nullable(self) -> frozenset[str]:
        return frozenset()


@dataclass(frozen=True)
class Group:
    """What is joined with no row left over; a single member is a group, too."""

    members: tuple[Leaf | Outer, ...]
    found: Conditions = field(default_factory=Conditions)

    @property
    def visible(self) -> tuple[Input, ...]:
        """The inputs whose columns may be named outside."""
        return tuple(one for member in self.members for one in member.visible)

    @property
    def everything(self) -> tuple[Input, ...]:
        return tuple(one for member in self.members for one in member.everything)

    @property
    def nullable(self) -> frozenset[str]:
        """The inputs that a row may lack."""
        return frozenset().union(*(member.nullable for member in self.members))

    @property
    def only(self) -> Leaf | Outer | None:
        """The single member that this is, if nothing is asked of it."""
        asks = self.found.predicates or self.found.bounds or self.found.choices
        return self.members[0] if len(self.members) == 1 and not asks else None

    @property
    def is_flat(self) -> bool:
        return all(isinstance(member, Leaf) for member in self.members)


@dataclass(frozen=True)
class Outer:
    """Two groups of which rows are given, or asked for, without a partner in the other."""

    kind: JoinKind
    left: Group
    right: Group
    found: Conditions
    span: Span
    within: tuple[Bound, ...] = ()
    """Of a join with versions: the bounds in ON, which are asked of the version that was chosen."""

    @property
    def visible(self) -> tuple[Input, ...]:
        return self.left.visible if self.kind in ("semi", "anti") else (*self.left.visible, *self.right.visible)

    @property
    def everything(self) -> tuple[Input, ...]:
        return (*self.left.everything, *self.right.everything)

    @property
    def nullable(self) -> frozenset[str]:
        if self.kind in ("semi", "anti"):
            return self.left.nullable
        if self.kind == "asof":
            return self.left.nullable | self.right.nullable
        lost = self.right.visible if self.kind in ("left", "asof_left") else (*self.left.visible, *self.right.visible)
        return self.left.nullable | self.right.nullable | {one.alias for one in lost}


class TreeBinder:
    """Binds the joins of one FROM; `inputs` are its entries from left to right."""

    def __init__(self, scope: Scope, inputs: tuple[Input, ...], boundary: Boundary) -> None:
        self.scope = scope
        self.boundary: Boundary = boundary
        self._inputs = iter(inputs)
        self.merged: tuple[Merged, ...] = ()

    def bind(self, tree: FromSyntax) -> Group:
        group, self.merged = self._bound(tree)
        return group

    def _bound(self, tree: FromSyntax) -> tuple[Group, tuple[Merged, ...]]:
        """A part of FROM, and the columns of USING in it."""
        if isinstance(tree, SourceSyntax):
            if tree.as_of is not None:
                raise self._refused_versions("stands on the right side of a JOIN, not here", tree)
            return Group((Leaf(next(self._inputs)),)), ()
        left, merged = self._bound(tree.left)
        if isinstance(tree.right, SourceSyntax) and tree.right.as_of is not None:
            self._check_versions(tree, tree.right)
            right, others = Group((Leaf(next(self._inputs)),)), tuple[Merged, ...]()
        else:
            right, others = self._bound(tree.right)
        sides = JoinedSides(self.scope, tree, left, right, merged, others)
        as_of = tree.kind.startswith("asof")
        found = bind_conditions(sides.conditions(), (), sides.scope, self.boundary, as_of=as_of)
        if isinstance(tree.right, SourceSyntax) and tree.right.as_of is not None:
            return self._as_of(tree, tree.right, left, right, found), sides.merged()
        return self._joined(tree, left, right, found), sides.merged()

    def _joined(self, tree: JoinSyntax, left: Group, right: Group, found: Conditions) -> Group:
        if found.choices and tree.kind != "inner":
            raise refused_path(self.scope.text, tree.span)
        match tree.kind:
            case "inner":
                return Group((*left.members, *right.members), together(left.found, right.found, found))
            case "right":
                return Group((Outer("left", right, left, found, tree.span),))
        return Group((Outer(tree.kind, left, right, found, tree.span),))

    def _check_versions(self, tree: JoinSyntax, source: SourceSyntax) -> None:
        if tree.kind not in ("inner", "left"):
            word = {"asof": "ASOF JOIN", "asof_left": "ASOF LEFT JOIN"}.get(tree.kind, f"{tree.kind.upper()} JOIN")
            raise self._refused_versions(f"goes with JOIN and LEFT JOIN, not with {word}", source)
        if tree.condition is None and not tree.using:
            raise self._refused_versions("needs ON, which says of which key", source)

    def _as_of(self, tree: JoinSyntax, source: SourceSyntax, left: Group, right: Group, found: Conditions) -> Group:
        """A join with the versions of a table that hold at a time; of a static table that is its only one."""
        (one,) = right.visible
        if one.is_table and _is_proctime(source.as_of):
            return self._joined(tree, left, right, found)
        bound = self._instant(source, left, one)
        if one.is_table:
            return self._joined(tree, left, right, found)
        kind: JoinKind = "asof" if tree.kind == "inner" else "asof_left"
        within = tuple(found.bounds)
        found = Conditions(found.predicates, [bound], found.choices, found.places)
        return Group((Outer(kind, left, right, found, tree.span, within),))

    def _instant(self, source: SourceSyntax, left: Group, one: Input) -> Bound:
        """The time of AS OF, as a bound: no version is later."""
        assert source.as_of is not None
        if _is_proctime(source.as_of):
            raise self.scope.text.error(
                "there is no version of a table as of the clock on the wall: the answer would depend on when it runs",
                span_of(source.as_of),
                hint="write FOR SYSTEM_TIME AS OF a.ts, by the event time of a stream before it",
                kind=UnsupportedError,
            )
        seen = Scope(self.scope.text, left.visible, self.scope.zone)
        instant = ExpressionBinder(seen, "AS OF", event_time=False).bind(source.as_of)
        found = shifted_time(instant, seen)
        if found is None:
            times = [f"{each.alias}.{each.time}" for each in left.visible if each.time is not None]
            raise self.scope.text.error(
                "AS OF takes the event time of a stream that stands before it, plus or minus an interval",
                span_of(source.as_of) or source.span,
                hint=f"write FOR SYSTEM_TIME AS OF {times[0] if times else 'a.ts'}",
                kind=WindowError,
            )
        return Bound(found[0], one.alias, found[1], seen.text.piece(source.span))

    def _refused_versions(self, why: str, source: SourceSyntax) -> Exception:
        return self.scope.text.error(
            f"FOR SYSTEM_TIME AS OF {why}",
            source.span,
            hint="write a [LEFT] JOIN t FOR SYSTEM_TIME AS OF a.ts ON a.k = t.k",
            kind=WindowError,
        )

    def add_windows(self, constraints: tuple[Constraint, ...], tree: Group) -> None:
        """WINDOW constraints of the whole SELECT, each put where the streams meet that it bounds."""
        seen = Scope(self.scope.text, tree.everything, self.scope.zone)
        for constraint in constraints:
            found = bind_conditions((), (constraint,), seen, self.boundary)
            for bound in found.bounds:
                _place_of(tree, {bound.earlier, bound.later}).bounds.append(bound)
            for choice in found.choices:
                named = {end for way in choice.alternatives for bound in way for end in (bound.earlier, bound.later)}
                if not _meet_at_once(tree, named):
                    raise refused_path(self.scope.text, constraint.span)
                _place_of(tree, named).choices.append(choice)
            _place_of(tree, set()).places.update(found.places)


def refused_path(text: Text, span: Span | None) -> SqlError:
    return text.error(
        "WINDOW PATH does not reach over an outer, semi or anti join",
        span,
        hint="say which stream comes first: DWINDOW (a, b) = 5 SECONDS",
        kind=UnsupportedError,
    )


def together(*found: Conditions) -> Conditions:
    """The conditions of joins that have become one."""
    return Conditions(
        [predicate for one in found for predicate in one.predicates],
        [bound for one in found for bound in one.bounds],
        [choice for one in found for choice in one.choices],
        {words: span for one in found for words, span in one.places.items()},
        [streams for one in found for streams in one.tied],
        [nearest for one in found for nearest in one.nearest],
    )


def holder_of(group: Group, streams: set[str]) -> Group | Outer:
    """The smallest part in which all of some streams are."""
    for member in group.members:
        if streams and isinstance(member, Outer) and streams <= {one.alias for one in member.everything}:
            for side in (member.left, member.right):
                if streams <= {one.alias for one in side.everything}:
                    return holder_of(side, streams)
            return member
    return group


def _place_of(group: Group, streams: set[str]) -> Conditions:
    return holder_of(group, streams).found


def _meet_at_once(group: Group, streams: set[str]) -> bool:
    """Whether some streams are members of one group, so that constraints among all of them can be tested there."""
    holder = holder_of(group, streams)
    if not isinstance(holder, Group):
        return False
    return streams <= {member.input.alias for member in holder.members if isinstance(member, Leaf)}


def outer_joins(group: Group) -> Iterator[Outer]:
    for member in group.members:
        if isinstance(member, Outer):
            yield member
            yield from outer_joins(member.left)
            yield from outer_joins(member.right)


def _is_proctime(instant: exp.Expr | None) -> bool:
    """Whether AS OF says PROCTIME(), which of a table that has one version says nothing."""
    return isinstance(instant, exp.Anonymous) and instant.name.upper() == "PROCTIME"
