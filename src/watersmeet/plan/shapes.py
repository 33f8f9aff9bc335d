"""What a plan turns out to be: a join alone, one stream, constants; whether its rows stay, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Stream
from watersmeet.plan.constants import Constants, Selected, constants, selected
from watersmeet.plan.expressions import Expression
from watersmeet.plan.nodes import Changes, Derived, Input, Join, Node, Over, Project, SetOperation, schema_of
from watersmeet.plan.walks import children


def keeps_arrival(join: Join) -> bool:
    """Whether it gives the rows of a stream, each with a partner perhaps, so that those of equal times have the order
    in which they came. Others come into being together."""
    first = join.inputs[0].relation
    if join.asof is None:
        alone = len(join.inputs) == 1 and not join.moves_in_steps
        return alone and isinstance(first, Derived) and _is_ordered(first.plan)
    if join.asof.key:  # several may come of one row
        return False
    if isinstance(first, Derived) and isinstance(first.plan, Project) and isinstance(first.plan.child, Join):
        return first.plan.child.asof is not None and keeps_arrival(first.plan.child)
    return isinstance(first, Stream)


def _is_ordered(node: Node) -> bool:
    """Whether its rows have an order of their own at equal times: a log, streams put together, or what is selected from
    these."""
    match node:
        case Project(child=Join(asof=None) as join):
            return keeps_arrival(join)
    return (isinstance(node, Changes) and node.kind == "log") or bool(streams_together(node))


def comes_as_stored(node: Project | Over) -> bool:
    """Whether, put together with others, its rows of equal times stay in the order in which they came."""
    match node:
        case Project(child=Join(inputs=(Input(relation=Stream()),)) as join):
            return not join.moves_in_steps
        case Project(child=Join() as join):
            return keeps_arrival(join)
    return False


@dataclass(frozen=True)
class SelectedJoin:
    """A select list over a join: what a query is whose rows never leave its answer."""

    join: Join
    project: Project

    @property
    def columns(self) -> tuple[tuple[str, Expression], ...]:
        return self.project.columns


def growing_join(node: Node) -> SelectedJoin | None:
    """A join whose rows, once given, stay in the answer: it reads no answers that change, and gives rows without a
    partner when that is certain."""
    match node:
        case Project(child=Join() as join) if not join.views and not join.changes:
            return SelectedJoin(join, node)
    return None


def plain_join(node: Node) -> SelectedJoin | None:
    """A growing inner join of streams and static tables, without subqueries, windows that step or duplicates to be left
    out: what one operator runs by itself."""
    found = growing_join(node)
    if found is None or found.join.kind != "inner" or children(found.join) or found.join.moves_in_steps:
        return None
    return None if found.join.deduplicates else found


def is_monotone(node: Node) -> bool:
    """Whether the rows of an answer never leave it."""
    final = isinstance(node, Over) and node.time is not None
    return final or growing_join(node) is not None or bool(streams_together(node))


def streams_together(node: Node) -> tuple[Project | Over, ...]:
    """What UNION ALL puts together, from left to right, where all of it are streams without windows, and so one stream;
    nothing otherwise."""
    match node:
        case SetOperation(kind="union", all=True, left=left, right=right):
            sides = [(side,) if is_bare_stream(side) else streams_together(side) for side in (left, right)]
            return tuple(part for side in sides for part in side if isinstance(part, Project | Over)) * all(sides)
    return ()


def is_bare_stream(node: Node) -> bool:
    """Whether it is made of streams none of which has a window."""
    if isinstance(node, Over):
        return node.time is not None
    found = growing_join(node)
    return found is not None and bool(found.join.streams) and all(one.window is None for one in found.join.streams)


def constant_table(node: Node, name: str) -> Constants | None:
    """The static table that a query is which reads no other; None if it does, or does more than to select."""
    match node:
        case Project(child=Join(inputs=(Input(relation=Constants(parts=parts)),)) as join, columns=columns):
            return constants(name, [selected(part, columns, join.predicates) for part in parts])
        case SetOperation(kind="union", all=True):
            sides = [constant_table(side, name) for side in (node.left, node.right)]
            names = schema_of(node).names
            both = [_renamed(part, names) for side in sides if side is not None for part in side.parts]
            return None if None in sides else constants(name, both)
    return None


def _renamed(part: Selected, names: Sequence[str]) -> Selected:
    return replace(part, columns=tuple((name, e) for name, (_, e) in zip(names, part.columns, strict=True)))
