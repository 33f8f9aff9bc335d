"""The part of a physical plan whose answer changes, as operators: for every kind of node, what it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from watersmeet.model.windows import Hop, Window
from watersmeet.operators.continuous.alone import Alone, Teed, Told
from watersmeet.operators.continuous.each_step import EachStep
from watersmeet.operators.continuous.from_growing import FromGrowing
from watersmeet.operators.continuous.from_many import FromMany
from watersmeet.operators.continuous.from_matched import FromMatched
from watersmeet.operators.continuous.from_one import FromOne
from watersmeet.operators.continuous.group_by import GroupByOperator
from watersmeet.operators.continuous.negative_join import NegativeJoin
from watersmeet.operators.continuous.net import Net
from watersmeet.operators.continuous.node import Node
from watersmeet.operators.continuous.over.changing import OverChanging
from watersmeet.operators.continuous.over.stream import OverStream
from watersmeet.operators.continuous.passes import Passes
from watersmeet.operators.continuous.pipeline import Continuous, Expiring, Leaf
from watersmeet.operators.continuous.set_operation import SetOperator, Together
from watersmeet.operators.continuous.snapshots import Snapshots
from watersmeet.operators.continuous.sources import ChangesSource, JoinSource, LivesSource, StreamSource, ViewSource
from watersmeet.operators.continuous.threshold import Threshold
from watersmeet.operators.continuous.top_k import TopKOperator
from watersmeet.operators.continuous.triggers import AtNextInput, Timely, Trigger
from watersmeet.operators.contract import Operator
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.waiting import Waiting
from watersmeet.physical.nodes import (
    AnswerNode,
    AsofJoinNode,
    ChangesSourceNode,
    ContinuousNode,
    DistinctNode,
    EachStepNode,
    FromGrowingNode,
    FromManyNode,
    FromMatchedNode,
    FromOneNode,
    GroupByNode,
    JoinSourceNode,
    LeafNode,
    NegativeJoinNode,
    NetNode,
    Noticing,
    OrderedNode,
    OuterJoinNode,
    OverChangingNode,
    OverStreamNode,
    RowsNode,
    SetOperationNode,
    SnapshotsNode,
    SourceNode,
    StreamSourceNode,
    ThresholdNode,
    TogetherNode,
    TopKNode,
    ViewSourceNode,
    WindowJoinNode,
    leaves_below,
)
from watersmeet.plan.expressions import Column
from watersmeet.plan.published import PUBLISHED_OPERATORS, PUBLISHED_PIPELINES, load
from watersmeet.plan.shapes import keeps_arrival

if TYPE_CHECKING:
    from watersmeet.operators.outer.asof_join import AsofJoin
    from watersmeet.operators.outer.outer_join import OuterJoin
    from watersmeet.runtime.common_parts import BuiltParts

TRIGGERS: dict[Noticing, Callable[[], Trigger]] = {"in_time": Timely, "at_next_input": AtNextInput}


class RowsBuilder(Protocol):
    """Makes the operators whose answers are rows, and collects the joins among them."""

    joins: list[WindowJoin]
    parts: BuiltParts | None

    def operator(self, node: RowsNode) -> Operator: ...

    def window_join(self, node: WindowJoinNode, again: Mapping[str, pa.Schema] | None = None) -> WindowJoin: ...

    def outer_join(self, node: OuterJoinNode) -> OuterJoin: ...

    def asof_join(self, node: AsofJoinNode) -> AsofJoin: ...


class AnswerBuilder:
    """Turns nodes into operators, and collects where rows enter."""

    def __init__(self, rows: RowsBuilder) -> None:
        self._rows = rows
        self._leaves: dict[str, Leaf] = {}
        self._hops: list[Hop] = []

    def operator(self, node: ContinuousNode) -> Operator:
        if node.pipeline in PUBLISHED_PIPELINES:
            return self._published(node)
        root = self._node(node.child)
        inside = (node.kind, node.schema, node.pipeline, self._rows.joins)
        passes = None if node.expire_us is None else Passes(node.expire_us)
        return Continuous(root, self._leaves, *inside, whole=node.kept_whole, hops=self._hops, passes=passes)

    def _published(self, node: ContinuousNode) -> Operator:
        """One of the papers' networks, which the engine's own operators do not know of."""
        published = load(PUBLISHED_OPERATORS)(node.pipeline, node.schedule, self._node, self._streams_below)
        root = published.answer(node.child)
        made = Continuous(root, self._leaves, node.kind, node.schema, node.pipeline, self._rows.joins)
        made.counters.work = published.work
        return made

    def _node(self, node: AnswerNode) -> Node:
        """What gives its changes: it may be a part that others have, too."""
        parts = self._rows.parts
        return self._made(node) if parts is None else parts.node(node, self._leaves, self._made)

    def _made(self, node: AnswerNode) -> Node:
        match node:
            case FromOneNode(read=read, predicates=predicates, columns=columns, negative=negative):
                trigger = TRIGGERS[node.noticing]()
                return FromOne(self._source(node.source), read, predicates, columns, trigger, negative=negative)
            case NegativeJoinNode():
                again = dict(node.held)
                return NegativeJoin(*self._joined(node, again), ranged=node.ranged, held=again)
            case FromMatchedNode():
                return self._matched(node)
            case FromGrowingNode():
                sources = {source.alias: self._source(source) for source in node.sources}
                given = pa.schema([pa.field(name, e.type) for name, e in node.columns])
                return FromGrowing(self._growing(node.inner), sources, given)
            case ThresholdNode(rows=rows, values=values, keys=keys, comparison=comparison, columns=columns):
                return Threshold(self._node(rows), self._node(values), keys, comparison, columns)
            case FromManyNode():
                return FromMany(*self._joined(node), ranged=node.ranged, numbered=node.numbered)
            case GroupByNode(keys=keys, aggregates=aggregates, having=having, columns=columns, fifo=fifo, final=final):
                child = self._node(node.child)
                streams = self._streams_below(node) if node.always else []
                return GroupByOperator(
                    child,
                    keys,
                    aggregates,
                    having,
                    columns,
                    fifo=fifo,
                    final=final,
                    begins_with=streams,
                    ends=node.ends,
                )
            case EachStepNode(window=window, having=having, columns=columns):
                return EachStep(self._node(node.child), window, having, columns)
            case DistinctNode():
                child = self._node(node.child)
                whole = [(one.name, Column("", f"key_{place}", one.type)) for place, one in enumerate(child.schema)]
                return GroupByOperator(child, len(whole), [], None, whole, fifo=False)
            case SetOperationNode(left=left, right=right):
                return SetOperator(node.kind, self._node(left), self._node(right), all=node.all)
            case TogetherNode(branches=branches, arrived=arrived):
                return Together([self._node(one) for one in branches], arrived)
            case TopKNode():
                return TopKOperator(self._node(node.child), node.keys, node.limit, node.offset)
            case OverStreamNode(calls=calls, keep=keep, columns=columns):
                return OverStream(self._node(node.child), calls, keep, columns)
            case OverChangingNode(calls=calls, keep=keep, columns=columns, top=top, grows=grows):
                return OverChanging(self._node(node.child), calls, keep, columns, top, grows=grows)
            case NetNode():
                return Net(self._node(node.child))
            case SnapshotsNode():
                child = self._node(node.child)
                return Snapshots(child, node.every, self._streams_below(node), node.order)

    def _streams_below(self, node: AnswerNode) -> list[Waiting]:
        """Where the rows enter that an operator is made of, once those below it are made."""
        return [self._leaves[leaf.name].waiting for leaf in leaves_below(node)]

    def _growing(self, node: OuterJoinNode | AsofJoinNode) -> OuterJoin | AsofJoin:
        return self._rows.outer_join(node) if isinstance(node, OuterJoinNode) else self._rows.asof_join(node)

    def _matched(self, node: FromMatchedNode) -> FromMatched:
        join, inside = node.combinations.join, node.combinations
        joining, sources, schema, trigger = self._joined(inside)
        seen = [alias for alias in sources if node.otherwise or alias in join.preserved]
        teed = {alias: Teed(sources[alias]) for alias in seen}

        def found(by: WindowJoin, inputs: Mapping[str, LivesSource], trigger: Trigger) -> FromMany:
            return FromMany(by, inputs, schema, trigger, ranged=inside.ranged, numbered=inside.numbered)

        combinations = found(joining, {**sources, **teed}, trigger)
        told = {alias: Told(one) for alias, one in teed.items()}
        otherwise = [found(self._rows.window_join(one), told, TRIGGERS[inside.noticing]()) for one in node.otherwise]
        given = pa.schema([pa.field(name, e.type) for name, e in node.columns])
        alone = {
            alias: Alone(given, teed[alias], with_partner=join.kind == "semi", numbered_from=1 + place)
            for place, alias in enumerate(join.preserved)
        }
        return FromMatched(combinations, alone, node.columns, pairs=join.kind in ("left", "full"), otherwise=otherwise)

    def _joined(
        self, node: FromManyNode, again: Mapping[str, pa.Schema] | None = None
    ) -> tuple[WindowJoin, dict[str, LivesSource], pa.Schema, Trigger]:
        sources = {source.alias: self._source(source) for source in node.sources}
        schema = pa.schema([pa.field(name, e.type) for name, e in node.columns])
        return self._rows.window_join(node.joining, again), sources, schema, TRIGGERS[node.noticing]()

    def _source(self, node: SourceNode) -> LivesSource:
        if not isinstance(node, ViewSourceNode) and isinstance(node.window, Hop) and node.window.repeats:
            self._hops.append(node.window)
        match node:
            case StreamSourceNode(leaf=leaf):
                source = StreamSource(leaf.name, node.window, node.boundary, node.made)
                self._leaves[leaf.name] = _entered(leaf, source.waiting, source)
                return source
            case ViewSourceNode():
                return ViewSource(self._node(node.child))
            case ChangesSourceNode(kind=kind, time=time):
                child = self._node(node.child)
                return ChangesSource(child, kind, time, node.window, node.boundary, ordered=node.ordered)
            case JoinSourceNode():
                return self._rows_as_stream(node)

    def _rows_as_stream(self, node: JoinSourceNode) -> LivesSource:
        """Rows that others have in other windows, too, come once."""
        parts = self._rows.parts
        if parts is None or node not in parts:
            return self._join_source(node, node.window)
        from watersmeet.operators.continuous.common import CommonRows, GrowingRows

        inner = node.inner.inner if isinstance(node.inner, OrderedNode) else node.inner
        schema = pa.schema([pa.field(name, e.type) for name, e in inner.columns])
        rows = parts.node(node, self._leaves, lambda one: GrowingRows(self._join_source(one, None), schema))
        return CommonRows(rows, node.window, node.boundary)

    def _join_source(self, node: JoinSourceNode, window: Window | None) -> JoinSource:
        streams = dict(zip(node.aliases, node.leaves, strict=True))
        source = JoinSource(
            self._rows.operator(node.inner),
            {alias: leaf.name for alias, leaf in streams.items()},
            node.time,
            window,
            node.boundary,
            # What becomes certain at an instant is of that instant, and asked for are those before it.
            up_to_now=isinstance(node.inner, OuterJoinNode | AsofJoinNode),
            in_turn_of_arrival=isinstance(node.inner, AsofJoinNode) and keeps_arrival(node.inner.join),
        )
        for alias, leaf in streams.items():
            self._leaves[leaf.name] = _entered(leaf, source.streams[alias], source)
        return source


def _entered(leaf: LeafNode, waiting: Waiting, source: Expiring) -> Leaf:
    return Leaf(waiting, source, leaf.reach_us, leaf.window)
