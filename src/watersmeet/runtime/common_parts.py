"""Which parts of changing answers are computed once: those that are equal, of one query or of several that are fed
together, such as a view, a subquery or the branches of a UNION. Equal is what runs by the same operators, over the same
rows of the same streams.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import Bound, Hop
from watersmeet.physical.nodes import (
    AnswerNode,
    ChangesSourceNode,
    ContinuousNode,
    DistinctNode,
    FromGrowingNode,
    FromManyNode,
    FromMatchedNode,
    FromOneNode,
    GroupByNode,
    JoinSourceNode,
    LeafNode,
    NetNode,
    OverChangingNode,
    OverStreamNode,
    PhysicalNode,
    SetOperationNode,
    StreamSourceNode,
    ThresholdNode,
    TogetherNode,
    TopKNode,
    ViewSourceNode,
    everything_below,
    leaves_below,
)
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.physical.strategy import Code, JoinStrategy
from watersmeet.plan.expressions import Column
from watersmeet.plan.nodes import Derived, Input
from watersmeet.plan.published import PUBLISHED_PIPELINES

if TYPE_CHECKING:
    from watersmeet.operators.continuous.common import CommonInput, CommonPart
    from watersmeet.operators.continuous.node import Node
    from watersmeet.operators.continuous.pipeline import Expiring, Leaf

# What has work to do: rows of a stream are selected as soon as those are looked at that another has selected.
_KINDS = (
    DistinctNode, FromGrowingNode, FromManyNode, FromMatchedNode, GroupByNode, NetNode, OverChangingNode,
    OverStreamNode, SetOperationNode, ThresholdNode, TogetherNode, TopKNode, JoinSourceNode,
)  # fmt: skip
# For each query and stream: equal where queries are given the same rows of it.
GivenRows = Mapping[tuple[str, str], Hashable]
Part = tuple[PhysicalNode, tuple[str, ...]]


@dataclass(frozen=True)
class CommonParts:
    """The parts, each with the queries that have it, as often as they do; and which nodes of their plans they are."""

    parts: Sequence[Part]
    numbers: Mapping[int, int]  # by the ids of nodes

    def builder(self) -> BuiltParts:
        return BuiltParts(self)


def common_parts(plans: Mapping[str, PhysicalPlan], given: GivenRows) -> CommonParts:
    """Of plans that run together, by the names of their queries."""
    names = _Names()
    found: dict[int, list[tuple[PhysicalNode, str]]] = {}
    for query, plan in plans.items():
        same = {name: given.get((query, name), query) for name in {one.name for one in plan.streams.values()}}
        for node in _candidates(plan.root):
            found.setdefault(names.of(node, same), []).append((node, query))
    # What stands inside of a part is a part of its own only if it is elsewhere, too.
    repeated = {number for number, places in found.items() if len(places) > 1}
    inside = {id(node) for number in repeated for one, _ in found[number][1:] for node in _below(one)}
    kept = {
        number: places
        for number in repeated
        if len(places := [place for place in found[number] if id(place[0]) not in inside]) > 1
    }
    parts = [(places[0][0], tuple(query for _, query in places)) for places in kept.values()]
    numbers = {id(node): number for number, places in enumerate(kept.values()) for node, _ in places}
    return CommonParts(parts, numbers)


class BuiltParts:
    """The parts as operators: each is made where it is met first."""

    def __init__(self, common: CommonParts) -> None:
        self._numbers = common.numbers
        self._built: dict[int, tuple[CommonPart, list[tuple[CommonInput, Expiring]]]] = {}

    def __contains__(self, node: PhysicalNode) -> bool:
        return id(node) in self._numbers

    def node(self, node: AnswerNode | JoinSourceNode, leaves: dict[str, Leaf], make: Callable[[], Node]) -> Node:
        """What gives the changes of a node. leaves: where rows enter, by the names they are pushed under; those of what
        stands below are put there. make: makes it, if nobody else has."""
        number = self._numbers.get(id(node))
        if number is None:
            return make()
        from watersmeet.operators.continuous.common import CommonInput, CommonPart
        from watersmeet.operators.continuous.pipeline import Leaf

        if number not in self._built:
            part = CommonPart(make())
            entered = [(leaves[leaf.name], leaf) for leaf in leaves_below(node)]
            inputs = [(CommonInput(one.waiting, _columns(leaf)), one.source) for one, leaf in entered]
            self._built[number] = part, inputs
        part, inputs = self._built[number]
        for leaf, (rows, source) in zip(leaves_below(node), inputs, strict=True):
            leaves[leaf.name] = Leaf(rows.entry(), source, leaf.reach_us, leaf.window)
        return part.reader()


def _columns(leaf: LeafNode) -> frozenset[str]:
    return leaf.columns | {leaf.stream.time}


def _below(node: PhysicalNode) -> Iterator[PhysicalNode]:
    return (one for one in everything_below(node) if one is not node)


def _candidates(root: PhysicalNode) -> Iterator[PhysicalNode]:
    """What may be a part, from above. In threads each has its own rows."""
    if isinstance(root, ContinuousNode) and root.pipeline not in PUBLISHED_PIPELINES and root.pipeline != "ita":
        yield from (node for node in everything_below(root) if isinstance(node, _KINDS) and _may_be_shared(node))


def _may_be_shared(node: PhysicalNode) -> bool:
    """Rows that have a copy for each of many windows are made in steps, which go by what the whole answer is. Static
    tables are each query's own."""
    # Of rows that come of a join the window is not shared.
    below = list(_below(node) if isinstance(node, JoinSourceNode) else everything_below(node))
    if any(isinstance(window := getattr(one, "window", None), Hop) and window.repeats for one in below):
        return False
    joins = [getattr(one, "join", None) or getattr(getattr(one, "strategy", None), "join", None) for one in below]
    return not any(isinstance(one.relation, Table) for join in joins if join is not None for one in join.inputs)


# What names inputs as the query does, which makes no difference: by kinds of values, their fields.
_ALIASES: Mapping[type, Sequence[str]] = {
    Column: ("stream",), Code: ("stream",), Input: ("alias",), Derived: ("name",), Bound: ("earlier", "later"),
    StreamSourceNode: ("alias",), JoinSourceNode: ("alias",), ChangesSourceNode: ("alias",), ViewSourceNode: ("alias",),
}  # fmt: skip
_ONLY_TOLD: Mapping[type, Sequence[str]] = {Bound: ("written",)}


class _Names:
    """A number for each node that is another one than those before, whatever it calls its inputs and under whatever
    names their rows are pushed."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def of(self, node: PhysicalNode, given: Mapping[str, Hashable]) -> int:
        known = _Name(given)
        # Of rows as a stream, whatever windows they go through afterwards.
        named = known.of_rows(node) if isinstance(node, JoinSourceNode) else known.of(node)
        return self._numbers.setdefault(named, len(self._numbers))


class _Name:
    """What a node is, as values that can be compared."""

    def __init__(self, given: Mapping[str, Hashable]) -> None:
        self._given = given
        self._aliases: dict[str, int] = {"": -1}
        self._known: dict[int, Hashable] = {}

    def of_rows(self, node: JoinSourceNode) -> Hashable:
        return "rows", self.of(node.inner), self.of(node.leaves), node.time

    def of(self, value: Any) -> Hashable:
        match value:
            case LeafNode(stream=stream, columns=columns):
                return "leaf", stream.name, self._given[stream.name], tuple(sorted(columns))
            case Stream() | Table():
                return "relation", value.name
            case pa.DataType() | pa.Schema() | pa.Field():
                return "type", str(value)
            case str() | bytes() | int() | float() | bool() | None:
                return type(value).__name__, value
            case tuple() | list():
                return tuple(map(self.of, value))
            case frozenset():
                return "set", tuple(sorted(map(repr, map(self.of, value))))
            case Mapping():
                return "mapping", tuple((self.of(key), self.of(one)) for key, one in value.items())
        if not is_dataclass(value):
            return "object", repr(value)
        if id(value) not in self._known:
            self._known[id(value)] = self._parts(value)
        return self._known[id(value)]

    def _parts(self, value: Any) -> Hashable:
        """Without what is chosen by cost: how expired rows are told, by which routes rows are found."""
        match value:
            case FromOneNode(source=source, predicates=predicates, columns=columns):
                return "from one", self.of(source), self.of(predicates), self.of(columns)
            case FromManyNode(join=join, sources=sources, columns=columns):
                return "from many", self.of(join), self.of(sources), self.of(columns)
            case JoinStrategy(join=join, method=method):
                return "join", self.of(join), self.of(method)
        aliases, told = _ALIASES.get(type(value), ()), _ONLY_TOLD.get(type(value), ())
        return type(value).__name__, tuple(
            self._alias(getattr(value, field.name)) if field.name in aliases else self.of(getattr(value, field.name))
            for field in fields(value)
            if field.name not in told
        )

    def _alias(self, name: str) -> Hashable:
        """By the order in which names are met."""
        return "alias", self._aliases.setdefault(name, len(self._aliases))
