"""Which parts of changing answers are computed once: those that are equal, of one query or of several that are fed
together, such as a view, a subquery or the branches of a UNION. Equal is what runs by the same operators, over the same
rows of the same streams.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field, fields, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import Bound, Hop
from watersmeet.optimizer.plan_from import widened
from watersmeet.physical.nodes import (
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
    NegativeJoinNode,
    NetNode,
    OverChangingNode,
    OverStreamNode,
    PhysicalNode,
    SetOperationNode,
    SourceNode,
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
from watersmeet.plan.expressions import Column, Expression, replaced
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
P = TypeVar("P", bound=PhysicalNode)
GivenRows = Mapping[tuple[str, str], Hashable]
Place = tuple[PhysicalNode, str]  # a node in the plan of a query


@dataclass(frozen=True)
class Part:
    """A part as it is made, and the queries that have it, as often as they do."""

    node: PhysicalNode
    queries: tuple[str, ...]


@dataclass(frozen=True)
class CommonParts:
    """The parts, and by the ids of the nodes that they stand for which it is; what columns of it these show, if not all
    as they are; and of leaves the columns that their queries are to look at, as others do."""

    parts: Sequence[Part]
    numbers: Mapping[int, int]
    shown: Mapping[int, Sequence[int]]
    read: Mapping[int, frozenset[str]]

    def builder(self) -> BuiltParts:
        return BuiltParts(self)


def common_parts(plans: Mapping[str, PhysicalPlan], given: GivenRows) -> CommonParts:
    """Of plans that run together, by the names of their queries."""
    names = _Names()
    found: dict[int, list[Place]] = {}
    for query, plan in plans.items():
        # Duplicates are left out by each query itself, as its own time goes on.
        same = {
            one.name: given.get((query, one.name), query) if one.first is None else query
            for one in plan.streams.values()
        }
        for node in _candidates(plan.root):
            found.setdefault(names.of(node, same), []).append((node, query))
    # What stands inside of a part is a part of its own only if it is elsewhere, too.
    repeated = [places for places in found.values() if len(places) > 1]
    inside = {id(node) for places in repeated for one, _ in places[1:] for node in _below(one)}
    kept = [[place for place in places if id(place[0]) not in inside] for places in repeated]
    kept = [places for places in kept if len(places) > 1]
    made = [_made([node for node, _ in places]) for places in kept]
    return CommonParts(
        [Part(one.node, tuple(query for _, query in places)) for one, places in zip(made, kept, strict=True)],
        {id(node): number for number, places in enumerate(kept) for node, _ in places},
        {node: shown for one in made for node, shown in one.shown.items()},
        {leaf: read for one in made for leaf, read in one.read.items()},
    )


@dataclass(frozen=True)
class _Made:
    """A node that stands for several; see CommonParts."""

    node: PhysicalNode
    shown: Mapping[int, Sequence[int]] = field(default_factory=dict)
    read: Mapping[int, frozenset[str]] = field(default_factory=dict)


def _made(nodes: Sequence[PhysicalNode]) -> _Made:
    """The first of some nodes that are the same; of joins one with all columns that any of them shows."""
    joins = [node for node in nodes if isinstance(node, FromManyNode)]
    if not joins:
        return _Made(nodes[0])
    first = joins[0]
    shown = [_as_called_by(first, one) for one in joins]
    if all(one == shown[0] for one in shown) and all(one.columns == first.columns for one in joins):
        return _Made(first)
    places = {e: place for place, e in enumerate(dict.fromkeys(e for one in shown for e in one))}
    leaves = [
        [one.leaf for one in (node.sources[place] for node in joins) if isinstance(one, StreamSourceNode)]
        for place, source in enumerate(first.sources)
        if isinstance(source, StreamSourceNode)
    ]
    reads = [frozenset[str]().union(*(leaf.columns for leaf in alike)) for alike in leaves]
    aliases = [source.alias for source in first.sources if isinstance(source, StreamSourceNode)]
    columns = tuple((f"__{place}", e) for e, place in places.items())
    return _Made(
        widened(first, columns, dict(zip(aliases, reads, strict=True))),
        {id(node): [places[e] for e in mine] for node, mine in zip(joins, shown, strict=True)},
        {id(leaf): read for alike, read in zip(leaves, reads, strict=True) for leaf in alike},
    )


def _as_called_by(first: FromManyNode, other: FromManyNode) -> list[Expression]:
    """What a join shows, with the aliases of another."""
    names = {own.alias: one.alias for own, one in zip(other.join.inputs, first.join.inputs, strict=True)}

    def renamed(part: Expression) -> Expression | None:
        return replace(part, stream=names[part.stream]) if isinstance(part, Column) else None

    return [replaced(e, renamed) for _, e in other.columns]


class BuiltParts:
    """The parts as operators: each is made where it is met first."""

    def __init__(self, common: CommonParts) -> None:
        self._common = common
        self._built: dict[int, tuple[CommonPart, list[tuple[CommonInput, Expiring]]]] = {}

    def __contains__(self, node: PhysicalNode) -> bool:
        return id(node) in self._common.numbers

    def columns_of(self, leaf: LeafNode) -> frozenset[str]:
        """What a query looks at of a stream, for whoever has a part with it."""
        return self._common.read.get(id(leaf), leaf.columns)

    def node(self, node: P, leaves: dict[str, Leaf], make: Callable[[P], Node]) -> Node:
        """What gives the changes of a node. leaves: where rows enter, by the names they are pushed under; those of what
        stands below are put there. make: makes it, if nobody else has."""
        number = self._common.numbers.get(id(node))
        if number is None:
            return make(node)
        from watersmeet.operators.continuous.pipeline import Leaf

        if number not in self._built:
            whole = self._common.parts[number].node
            made = partial(make, whole)  # type: ignore[arg-type]  # of one kind
            self._built[number] = _built(whole, leaves, made, self.columns_of)
        part, inputs = self._built[number]
        for leaf, (rows, source) in zip(leaves_below(node), inputs, strict=True):
            leaves[leaf.name] = Leaf(rows.entry(), source, leaf.reach_us, leaf.window)
        shown = self._common.shown.get(id(node))
        if shown is None:
            return part.reader()
        assert isinstance(node, FromManyNode)
        return part.reader(shown, pa.schema([pa.field(name, e.type) for name, e in node.columns]))


def _built(
    node: PhysicalNode, leaves: dict[str, Leaf], make: Callable[[], Node], read: Callable[[LeafNode], frozenset[str]]
) -> tuple[CommonPart, list[tuple[CommonInput, Expiring]]]:
    from watersmeet.operators.continuous.common import CommonInput, CommonPart

    before = dict(leaves)
    part = CommonPart(make())
    entered = [(leaves.pop(leaf.name), leaf) for leaf in leaves_below(node)]  # whoever's names these are
    leaves.update(before)
    # Parts inside of it may show more than it looks at.
    columns = [read(leaf) | {leaf.stream.time} for _, leaf in entered]
    return part, [(CommonInput(one.waiting, own), one.source) for (one, _), own in zip(entered, columns, strict=True)]


def _below(node: PhysicalNode) -> Iterator[PhysicalNode]:
    return (one for one in everything_below(node) if one is not node)


def _candidates(root: PhysicalNode) -> Iterator[PhysicalNode]:
    """What may be a part, from above. In threads each has its own rows."""
    if isinstance(root, ContinuousNode) and _goes_with_time(root):
        nodes = list(everything_below(root))
        # What is inside of others as a piece of them is none by itself.
        pieces = {id(node.combinations) for node in nodes if isinstance(node, FromMatchedNode)}
        yield from (
            node for node in nodes if isinstance(node, _KINDS) and id(node) not in pieces and _may_be_shared(node)
        )


def _goes_with_time(root: ContinuousNode) -> bool:
    """Whether it goes as far as time, as the others who have a part of it do."""
    return root.pipeline not in (*PUBLISHED_PIPELINES, "ita") and root.expire_us is None


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
        match node:
            case JoinSourceNode():  # whatever windows its rows go through afterwards
                named = known.of_rows(node)
            case FromManyNode():  # whatever it shows
                named = known.of_combinations(node)
            case _:
                named = known.of(node)
        return self._numbers.setdefault(named, len(self._numbers))


class _Name:
    """What a node is, as values that can be compared."""

    def __init__(self, given: Mapping[str, Hashable]) -> None:
        self._given = given
        self._aliases: dict[str, int] = {"": -1}
        self._known: dict[int, Hashable] = {}

    def of_rows(self, node: JoinSourceNode) -> Hashable:
        return "rows", self.of(node.inner), self.of(node.leaves), node.time

    def of_combinations(self, node: FromManyNode) -> Hashable:
        # Rows that are found again when they leave have no numbers, by which some would know them.
        how = isinstance(node, NegativeJoinNode), tuple(self._alias(alias) for alias in node.numbered)
        return "combinations", how, self.of(node.join), tuple(map(self._entering, node.sources))

    def _entering(self, source: SourceNode) -> Hashable:
        if not isinstance(source, StreamSourceNode):
            return self.of(source)
        stream = self._stream(source.leaf.stream)
        return self._alias(source.alias), stream, self.of(source.window), source.boundary, self.of(source.made)

    def _stream(self, stream: Stream) -> Hashable:
        """Streams of one name are the same but for the duplicates that a query leaves out. Those that are made inside
        of a query are its own."""
        return "stream", stream.name, self._given.get(stream.name, id(stream)), repr(stream.first)

    def of(self, value: Any) -> Hashable:
        match value:
            case LeafNode(stream=stream, columns=columns):
                return "leaf", self._stream(stream), tuple(sorted(columns))
            case Stream():
                return self._stream(value)
            case Table():
                return "table", value.name
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
            case FromManyNode():
                return "from many", isinstance(value, NegativeJoinNode), self._joined(value)
            case (
                GroupByNode(child=FromManyNode(numbered=()) as child)
                | DistinctNode(child=FromManyNode(numbered=()) as child)
            ):
                below = self._joined(child)  # here none does
                return type(value).__name__, below, self._fields(value, but=("child",))
            case JoinStrategy(join=join, method=method):
                return "join", self.of(join), self.of(method)
        return type(value).__name__, self._fields(value, but=_ONLY_TOLD.get(type(value), ()))

    def _joined(self, node: FromManyNode) -> Hashable:
        numbered = tuple(self._alias(alias) for alias in node.numbered)
        return numbered, self.of(node.join), self.of(node.sources), self.of(node.columns)

    def _fields(self, value: Any, but: Sequence[str]) -> Hashable:
        aliases = _ALIASES.get(type(value), ())
        return tuple(
            self._alias(getattr(value, field.name)) if field.name in aliases else self.of(getattr(value, field.name))
            for field in fields(value)
            if field.name not in but
        )

    def _alias(self, name: str) -> Hashable:
        """By the order in which names are met."""
        return "alias", self._aliases.setdefault(name, len(self._aliases))
