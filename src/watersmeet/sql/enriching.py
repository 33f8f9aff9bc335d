"""As-of joins in an answer that changes.

A row has its partner for good once time has passed it, and that is when it enters the answer: so the stream by whose
time partners are chosen is joined first, and has its window after that. What is joined with a whole combination is
joined with that stream alone, if nothing else is compared.
"""

from __future__ import annotations

from dataclasses import replace

from watersmeet.model.catalog import Stream
from watersmeet.plan.expressions import Call, Column, Expression, streams_of
from watersmeet.sql.join_tree import Group, Leaf, Outer, together


def is_asof(part: Leaf | Outer | None) -> bool:
    return isinstance(part, Outer) and part.kind.startswith("asof")


def enriched(part: Leaf | Outer | None) -> Leaf | None:
    """The stream at the bottom of a chain of as-of joins; None if something else is there."""
    while isinstance(part, Outer) and is_asof(part):
        part = part.left.only
    return part if isinstance(part, Leaf) and part.input.time is not None else None


def compared_column(predicate: Expression, alias: str) -> str | None:
    """The column of an input that a condition says to be equal to something else."""
    if not isinstance(predicate, Call) or predicate.function != "eq":
        return None
    for mine, other in (predicate.args, predicate.args[::-1]):
        if isinstance(mine, Column) and mine.stream == alias and alias not in streams_of(other):
            return mine.name
    return None


def may_have_several(part: Leaf | Outer | None) -> bool:
    """Whether a row of a chain of as-of joins may be given several times: with versions that are not looked up by all
    of their key."""
    while isinstance(part, Outer) and is_asof(part):
        for one in part.right.visible:
            versions = one.relation.versions if isinstance(one.relation, Stream) else None
            compared = {compared_column(predicate, one.alias) for predicate in part.found.predicates}
            if versions is not None and not compared >= set(versions.key):
                return True
        part = part.left.only
    return False


def looked_up(group: Group) -> frozenset[str]:
    """The streams in which as-of joins look for partners. How long their rows count is said by that, not by windows."""
    found: frozenset[str] = frozenset()
    for member in group.members:
        if isinstance(member, Outer):
            found |= looked_up(member.left) | looked_up(member.right)
            found |= {one.alias for one in member.right.visible} if is_asof(member) else frozenset()
    return found


def with_bare(outer: Outer, leaf: Leaf) -> Outer:
    """The chain over another stream."""
    only = outer.left.only
    inside = with_bare(only, leaf) if isinstance(only, Outer) else leaf
    return replace(outer, left=Group((inside,)))


def enriched_first(group: Group) -> Group:
    """The same rows, with as-of joins as far down as they go."""
    members: list[Leaf | Outer] = []
    found = [group.found]
    for member in group.members:
        if not isinstance(member, Outer):
            members.append(member)
        elif is_asof(member):
            inside = _moved(replace(member, left=enriched_first(member.left)))
            members += inside.members
            found.append(inside.found)
        else:
            members.append(replace(member, left=enriched_first(member.left), right=enriched_first(member.right)))
    return Group(tuple(members), together(*found))


def _moved(outer: Outer) -> Group:
    asks = _asked(outer)
    left = outer.left
    for place, member in enumerate(left.members):
        if asks <= {one.alias for one in member.visible}:
            below = _below(outer, member)
            if below is not None:
                return Group((*left.members[:place], below, *left.members[place + 1 :]), left.found)
    return Group((outer,))


def _below(outer: Outer, member: Leaf | Outer) -> Outer | None:
    """The join with one member of its left side, or with a part of that."""
    if enriched(member) is not None:
        return replace(outer, left=Group((member,)))
    if not isinstance(member, Outer):
        return None
    # A row that is given without a side must not be lost with it.
    keeps = outer.kind == "asof_left"
    if (keeps or member.kind in ("left", "semi", "anti")) and _asks_only(outer, member.left):
        return replace(member, left=_moved(replace(outer, left=member.left)))
    if keeps and _asks_only(outer, member.right):
        return replace(member, right=_moved(replace(outer, left=member.right)))
    return None


def _asks_only(outer: Outer, part: Group) -> bool:
    return _asked(outer) <= {one.alias for one in part.visible}


def _asked(outer: Outer) -> set[str]:
    """The streams on the left side that the join compares."""
    mine = {one.alias for one in outer.left.visible}
    named = {name for predicate in outer.found.predicates for name in streams_of(predicate)}
    named |= {end for bound in (*outer.found.bounds, *outer.within) for end in (bound.earlier, bound.later)}
    named |= {end for nearest in outer.found.nearest for end in nearest.ends}
    return named & mine
