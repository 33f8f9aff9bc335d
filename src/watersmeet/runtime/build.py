"""A physical plan as operators: for every kind of node, what it becomes. Nothing is chosen here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import RowsWindow
from watersmeet.operators.continuous.distinct import DistinctOperator
from watersmeet.operators.continuous.from_many import FromMany
from watersmeet.operators.continuous.from_one import FromOne
from watersmeet.operators.continuous.group_by import GroupByOperator
from watersmeet.operators.continuous.negative_join import NegativeJoin
from watersmeet.operators.continuous.net import Net
from watersmeet.operators.continuous.network import Fifo, Network
from watersmeet.operators.continuous.node import Node
from watersmeet.operators.continuous.pipeline import Continuous, Expiring, Leaf
from watersmeet.operators.continuous.set_operation import SetOperator
from watersmeet.operators.continuous.snapshots import Snapshots
from watersmeet.operators.continuous.sources import ChangesSource, JoinSource, LivesSource, StreamSource, ViewSource
from watersmeet.operators.continuous.top_k import TopKOperator
from watersmeet.operators.continuous.triggers import AtNextInput, Timely, Trigger
from watersmeet.operators.contract import Operator
from watersmeet.operators.join.keeping import Keeping
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.join.window_join import Planner, WindowJoin
from watersmeet.operators.select import CountedSelect, Select
from watersmeet.operators.time_order import Counting, InTimeOrder
from watersmeet.operators.waiting import Waiting
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.optimizer.replan import Replanner
from watersmeet.physical.nodes import (
    AnswerNode,
    ChangesSourceNode,
    ClassicJoinNode,
    ContinuousNode,
    DistinctNode,
    FromManyNode,
    FromOneNode,
    GroupByNode,
    InTimeOrderNode,
    JoinNode,
    JoinSourceNode,
    LeafNode,
    NegativeJoinNode,
    NetNode,
    NetworkNode,
    Noticing,
    QueueNode,
    RowsNode,
    SelectNode,
    SetOperationNode,
    SnapshotsNode,
    SourceNode,
    StreamSourceNode,
    TopKNode,
    ViewSourceNode,
    WindowJoinNode,
    leaves_below,
)
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.plan.algorithms import CLASSIC_JOIN, load
from watersmeet.plan.nodes import Join, Plan

LoadTable = Callable[[pa.RecordBatch], None]
MakePlanner = Callable[[WindowJoinNode], Planner | None]
TRIGGERS: dict[Noticing, Callable[[], Trigger]] = {"in_time": Timely, "at_next_input": AtNextInput}


@dataclass
class Built:
    """An operator, the streams it reads by the names their rows are pushed under, what takes its tables, and the joins
    inside it, in the order in which its plan has them."""

    operator: Operator
    streams: dict[str, Stream]
    tables: list[tuple[Table, LoadTable]]
    joins: list[WindowJoin] = field(default_factory=list)


def build_query(plan: Plan, *, refresh_at_push: bool = False, quantum: int | None = None) -> Built:
    """The operator that answers a plan, and what it reads; see `plan_query`."""
    with plan.pointing_at_options():
        return build_plan(plan_query(plan, refresh_at_push=refresh_at_push, quantum=quantum))


def build(plan: Plan, *, refresh_at_push: bool = False) -> Operator:
    """The operator alone."""
    return build_query(plan, refresh_at_push=refresh_at_push).operator


def build_plan(plan: PhysicalPlan, planner: MakePlanner | None = None) -> Built:
    """planner: what looks for better routes for a join, instead of what usually does."""
    builder = Builder(planner or _planner)
    return Built(builder.operator(plan.root), plan.streams, builder.tables, builder.joins)


def _planner(node: WindowJoinNode) -> Planner | None:
    return Replanner(node.strategy) if node.replans else None


def built_join(join: Join, operator: Operator) -> Built:
    """An operator made elsewhere for a plain join, with what it reads."""
    streams = {one.alias: one.relation for one in join.streams if isinstance(one.relation, Stream)}
    return Built(operator, streams, _tables(join, operator))


class Builder:
    """Turns nodes into operators, and collects what takes tables, where rows enter, and what is run in turns."""

    def __init__(self, planner: MakePlanner) -> None:
        self.tables: list[tuple[Table, LoadTable]] = []
        self.joins: list[WindowJoin] = []
        self._planner = planner
        self._leaves: dict[str, Leaf] = {}
        self._queues: list[Fifo] = []

    def operator(self, node: RowsNode) -> Operator:
        match node:
            case SelectNode():
                return Select(node.strategy.join.predicates, node.columns)
            case WindowJoinNode():
                return self._window_join(node)
            case InTimeOrderNode():
                return InTimeOrder(self._counting(node.inner), list(node.aliases))
            case ContinuousNode():
                # First, as making the nodes fills in where rows enter and which joins there are.
                root = self._node(node.child)
                return Continuous(root, self._leaves, node.kind, node.schema, node.pipeline, self.joins)
        raise TypeError(f"{type(node).__name__} takes its rows in time order only")

    def _counting(self, node: JoinNode) -> Counting:
        match node:
            case SelectNode(only=only):
                assert isinstance(only.window, RowsWindow)
                return CountedSelect(only.alias, only.window, node.strategy.join.predicates, node.columns)
            case ClassicJoinNode():
                classic: Counting = load(CLASSIC_JOIN)(node.strategy, node.columns)
                self.tables += _tables(node.strategy.join, classic)
                return classic
            case WindowJoinNode():
                return self._window_join(node)

    def _window_join(self, node: WindowJoinNode) -> WindowJoin:
        joining = _window_join(node, self._planner(node))
        self.joins.append(joining)
        self.tables += _tables(node.strategy.join, joining)
        return joining

    def _node(self, node: AnswerNode) -> Node:
        match node:
            case FromOneNode(read=read, predicates=predicates, columns=columns, negative=negative):
                trigger = TRIGGERS[node.noticing]()
                return FromOne(self._source(node.source), read, predicates, columns, trigger, negative=negative)
            case NegativeJoinNode():
                return NegativeJoin(*self._joined(node), ranged=node.ranged, held=dict(node.held))
            case FromManyNode():
                return FromMany(*self._joined(node), ranged=node.ranged, numbered=node.numbered)
            case GroupByNode(keys=keys, aggregates=aggregates, having=having, columns=columns, fifo=fifo):
                return GroupByOperator(self._node(node.child), keys, aggregates, having, columns, fifo=fifo)
            case DistinctNode():
                return DistinctOperator(self._node(node.child))
            case SetOperationNode(left=left, right=right):
                return SetOperator(node.kind, self._node(left), self._node(right), all=node.all)
            case TopKNode():
                return TopKOperator(self._node(node.child), node.keys, node.limit)
            case NetNode():
                return Net(self._node(node.child))
            case SnapshotsNode():
                # First, as the leaves below are known only once it is made.
                child = self._node(node.child)
                waiting = [self._leaves[leaf.name].waiting for leaf in leaves_below(node)]
                return Snapshots(child, node.every_us, waiting, node.order)
            case QueueNode():
                return self._queue(node)
            case NetworkNode():
                return Network(self._queue(node.child), self._queues)

    def _queue(self, node: QueueNode) -> Fifo:
        queue = Fifo(self._node(node.child), node.quantum)
        self._queues.append(queue)  # after those below it
        return queue

    def _joined(self, node: FromManyNode) -> tuple[WindowJoin, dict[str, LivesSource], pa.Schema, Trigger]:
        sources = {source.alias: self._source(source) for source in node.sources}
        schema = pa.schema([pa.field(name, e.type) for name, e in node.columns])
        return self._window_join(node.joining), sources, schema, TRIGGERS[node.noticing]()

    def _source(self, node: SourceNode) -> LivesSource:
        match node:
            case StreamSourceNode(leaf=leaf):
                source = StreamSource(node.window, node.boundary)
                self._leaves[leaf.name] = _entered(leaf, source.waiting, source)
                return source
            case ViewSourceNode():
                return ViewSource(self._node(node.child))
            case ChangesSourceNode(kind=kind, time=time):
                return ChangesSource(self._node(node.child), kind, time, node.window, node.boundary)
            case JoinSourceNode():
                return self._join_source(node)

    def _join_source(self, node: JoinSourceNode) -> JoinSource:
        streams = dict(zip(node.aliases, node.leaves, strict=True))
        source = JoinSource(self.operator(node.inner), list(streams), node.time, node.window, node.boundary)
        for alias, leaf in streams.items():
            self._leaves[leaf.name] = _entered(leaf, source.streams[alias], source)
        return source


def _entered(leaf: LeafNode, waiting: Waiting, source: Expiring) -> Leaf:
    return Leaf(waiting, source, leaf.reach_us, leaf.window)


def _window_join(node: WindowJoinNode, planner: Planner | None) -> WindowJoin:
    keeping: Callable[[Layout], Keeping] = Keeping
    if node.shedding is not None:
        # A query without a bound does not wait for its kernels.
        from watersmeet.operators.keeping.bounded import BoundedMemory

        keeping = partial(BoundedMemory, shedding=node.shedding)
    return WindowJoin(
        node.strategy,
        node.columns,
        keeping=keeping,
        announced=node.announced,
        timeless=node.timeless,
        planner=planner,
    )


def _tables(join: Join, operator: Operator) -> list[tuple[Table, LoadTable]]:
    return [
        (one.relation, partial(operator.load_table, one.alias))
        for one in join.inputs
        if isinstance(one.relation, Table)
    ]


def join_inside(operator: Operator) -> Operator:
    """The operator itself, without what only sorts its rows."""
    return operator.inner if isinstance(operator, InTimeOrder) else operator
