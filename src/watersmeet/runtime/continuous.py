"""A continuous query as a tree of operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from watersmeet.model.catalog import Stream, Table
from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import Range, RowsWindow, Unbounded, Until, Window
from watersmeet.operators.continuous.distinct import DistinctNode
from watersmeet.operators.continuous.from_many import FromMany
from watersmeet.operators.continuous.from_one import FromOne
from watersmeet.operators.continuous.group_by import GroupByNode
from watersmeet.operators.continuous.negative_join import NegativeJoin
from watersmeet.operators.continuous.net import Net
from watersmeet.operators.continuous.network import Fifo, Network
from watersmeet.operators.continuous.node import Node
from watersmeet.operators.continuous.pipeline import Continuous, Leaf
from watersmeet.operators.continuous.set_operation import SetOperationNode
from watersmeet.operators.continuous.snapshots import Snapshots
from watersmeet.operators.continuous.sources import ChangesSource, JoinSource, Source, StreamSource, ViewSource
from watersmeet.operators.continuous.top_k import TopKNode
from watersmeet.operators.continuous.triggers import AtNextInput, Timely, Trigger
from watersmeet.operators.contract import Operator
from watersmeet.optimizer.choose_pipeline import choose_pipeline
from watersmeet.optimizer.stages import optimize
from watersmeet.plan.expressions import Aggregate, Call, Column, Expression, columns_of, walk
from watersmeet.plan.nodes import (
    Changes,
    Derived,
    Distinct,
    GroupBy,
    Input,
    Join,
    Plan,
    Project,
    SetOperation,
    SortKey,
    TopK,
    View,
    order_of,
)
from watersmeet.plan.nodes import Node as PlanNode

LoadTable = Callable[[pa.RecordBatch], None]
JoinBuilder = Callable[[Project], tuple[Operator, list[tuple[Table, LoadTable]]]]


@dataclass
class Inputs:
    """What a pipeline reads: streams by a name of their own, and tables with what takes their rows."""

    streams: dict[str, Stream] = field(default_factory=dict)
    leaves: dict[str, Leaf] = field(default_factory=dict)
    tables: list[tuple[Table, LoadTable]] = field(default_factory=list)

    def add(self, alias: str, stream: Stream, leaf: Leaf) -> str:
        """An alias may stand for different inputs in different subqueries: later ones get a number."""
        name, number = alias, 1
        while name in self.streams:
            number += 1
            name = f"{alias}#{number}"
        self.streams[name], self.leaves[name] = stream, leaf
        return name


class Builder:
    """Turns plan nodes into operators, collecting the inputs on the way."""

    def __init__(self, plan: Plan, build_join: JoinBuilder, quantum: int | None = None) -> None:
        """quantum: run operators in turns with queues between them, so many changes at a time."""
        self.plan = plan
        self.build_join = build_join
        self.strategy = choose_pipeline(plan).pipeline
        self.inputs = Inputs()
        self.quantum = quantum
        self.queues: list[Fifo] = []

    def build(self) -> Continuous:
        root = self._root(self.plan.root)
        if self.quantum is not None:
            root = Network(self._queue(root, self.quantum), self.queues)
        return Continuous(root, self.inputs.leaves, self.plan.kind, self.plan.output_schema, self.strategy)

    def _root(self, node: PlanNode) -> Node:
        make = self._trigger
        match node:
            case Changes(kind="rstream", child=child, every_us=every_us):
                assert every_us is not None
                return self._snapshots(child, every_us, make, 0, order_of(child))
            case Changes(child=child):
                return Net(self._edge(self._node(child, make, 0)))
        inside = self._node(node, make, 0)
        return inside if self.plan.kind == "rows" else Net(self._edge(inside))

    def _edge(self, node: Node) -> Node:
        """What the next operator takes from: the operator below, or a queue at its output."""
        return node if self.quantum is None else self._queue(node, self.quantum)

    def _queue(self, node: Node, quantum: int) -> Fifo:
        self.queues.append(Fifo(node, quantum))
        return self.queues[-1]

    def _trigger(self) -> Trigger:
        return AtNextInput() if self.strategy == "ita" else Timely()

    def _node(self, node: PlanNode, trigger: Callable[[], Trigger], outer_us: int) -> Node:
        """outer_us: for how long the answer's past matters to what stands around it."""
        match node:
            case Project(child=Join() as join, columns=columns):
                return self._from(join, columns, trigger, outer_us)
            case Project(child=GroupBy() as grouped, columns=columns):
                return self._grouped(grouped, columns, trigger, outer_us)
            case Distinct(child=child):
                return DistinctNode(self._edge(self._node(child, trigger, outer_us)))
            case SetOperation(kind=kind, all=keep_all, left=left, right=right):
                sides = [self._edge(self._node(side, trigger, outer_us)) for side in (left, right)]
                return SetOperationNode(kind, *sides, all=keep_all)
            case TopK(child=child, keys=keys, limit=limit):
                return TopKNode(self._edge(self._node(child, trigger, outer_us)), keys, limit)
        raise TypeError(f"{type(node).__name__} cannot stand inside an answer")

    def _grouped(
        self,
        grouped: GroupBy,
        columns: tuple[tuple[str, Expression], ...],
        trigger: Callable[[], Trigger],
        outer_us: int,
    ) -> Node:
        assert isinstance(grouped.child, Join)
        expressions = [e for _, e in columns] + ([grouped.having] if grouped.having is not None else [])
        aggregates = list(dict.fromkeys(a for e in expressions for a in walk(e) if isinstance(a, Aggregate)))
        keys = list(grouped.keys)
        outputs = [(f"key_{i}", key) for i, key in enumerate(keys)]
        outputs += [(f"arg_{i}", a.args[0]) for i, a in enumerate(aggregates) if a.args]
        ordered = any(a.function in ("first", "last") for a in aggregates)
        child = self._from(grouped.child, tuple(outputs), trigger, outer_us, ordered=ordered)
        places: dict[Expression, Column] = {a: Column("", f"value_{i}", a.type) for i, a in enumerate(aggregates)}
        places |= {key: Column("", f"key_{i}", key.type) for i, key in enumerate(keys)}
        return GroupByNode(
            self._edge(child),
            len(keys),
            [(a, f"arg_{i}" if a.args else None) for i, a in enumerate(aggregates)],
            None if grouped.having is None else _placed(grouped.having, places),
            [(name, _placed(e, places)) for name, e in columns],
            fifo=isinstance(child, FromOne) and child.source.in_turn,
        )

    def _from(
        self,
        join: Join,
        columns: tuple[tuple[str, Expression], ...],
        trigger: Callable[[], Trigger],
        outer_us: int,
        *,
        ordered: bool = False,
        numbered: bool = False,
    ) -> Node:
        """ordered: FIRST or LAST goes by the order of combinations. numbered: rows that leave must say which."""
        quantum, self.quantum = self.quantum, None  # a join wants its inputs complete up to one instant
        sources = {
            one.alias: self._source(one, join, [e for _, e in columns], outer_us)
            for one in join.inputs
            if not isinstance(one.relation, Table)
        }
        self.quantum = quantum
        negative = self.strategy == "nta"
        if len(join.inputs) == 1:
            only = join.inputs[0]
            read = _columns_read(only, join, [e for _, e in columns])
            schema = pa.schema([field for field in only.schema if field.name in read])
            return FromOne(sources[only.alias], schema, join.predicates, columns, trigger(), negative=negative)
        made: FromMany
        in_time = not join.views and all(isinstance(one.window, Range) for one in join.streams)
        if negative and in_time and not ordered and not numbered:
            made = NegativeJoin(join, sources, columns, trigger(), optimize)
        else:
            made = FromMany(join, sources, columns, trigger(), optimize, ordered=ordered)
        for one in join.inputs:
            if isinstance(one.relation, Table):
                self.inputs.tables.append((one.relation, _loader(made, one.alias)))
        return made

    def _source(self, one: Input, join: Join, outputs: Sequence[Expression], outer_us: int) -> Source:
        match one.relation:
            case Stream() as stream:
                source = StreamSource(one.window, join.boundary)
                columns = _columns_read(one, join, outputs)
                self.inputs.add(one.alias, stream, _leaf(source, columns, one.window, outer_us))
                return source
            case View(plan=Project(child=Join() as inside, columns=columns)):
                return ViewSource(self._from(inside, columns, Timely, outer_us, numbered=True))
            case View(plan=inner):
                return ViewSource(self._node(inner, Timely, outer_us))
            case Derived(plan=Changes() as changes, time=time):
                reach = _reach(one.window, outer_us)
                return ChangesSource(self._changes(changes, reach), changes.kind, time, one.window, join.boundary)
            case Derived(plan=Project(child=Join()) as project, time=time):
                return self._join_source(project, time, one.window, join, outer_us)
        raise TypeError(f"{one.relation} cannot stand in FROM")

    def _changes(self, changes: Changes, outer_us: int) -> Node:
        if changes.kind == "rstream":
            assert changes.every_us is not None
            return self._snapshots(changes.child, changes.every_us, Timely, outer_us)
        return Net(self._node(changes.child, Timely, outer_us))

    def _snapshots(
        self,
        child: PlanNode,
        every_us: int,
        trigger: Callable[[], Trigger],
        outer_us: int,
        order: Sequence[SortKey] = (),
    ) -> Node:
        known = set(self.inputs.leaves)
        node = self._node(child, trigger, outer_us)
        below = [leaf.waiting for name, leaf in self.inputs.leaves.items() if name not in known]
        return Snapshots(node, every_us, below, order)

    def _join_source(self, project: Project, time: str, window: Window | None, around: Join, outer_us: int) -> Source:
        """A monotone join or selection inside FROM."""
        inside = project.child
        assert isinstance(inside, Join)
        reach = _reach(window, outer_us)
        if any(isinstance(one.relation, Derived | View) for one in inside.inputs):
            node = self._from(inside, _without(project.columns, time), Timely, reach)
            return ChangesSource(node, "istream", time, window, around.boundary)
        operator, tables = self.build_join(project)
        self.inputs.tables += tables
        source = JoinSource(operator, [one.alias for one in inside.streams], time, window, around.boundary)
        for one in inside.streams:
            assert isinstance(one.relation, Stream)
            retention = min(FOREVER_US, inside.retention_us(one.alias) + reach)
            rows = one.window if isinstance(one.window, RowsWindow) else None
            leaf = Leaf(
                source.streams[one.alias],
                source,
                _columns_read(one, inside, [e for _, e in project.columns]),
                FOREVER_US if rows and reach else retention,
                None if reach else rows,
            )
            self.inputs.add(one.alias, one.relation, leaf)
        return source


def _without(columns: tuple[tuple[str, Expression], ...], time: str) -> tuple[tuple[str, Expression], ...]:
    """The select list without the event time, which the changes carry themselves."""
    return tuple((name, e) for name, e in columns if name != time)


def _reach(window: Window | None, outer_us: int) -> int:
    """For how long rows of a window matter, given how long what they make matters."""
    match window:
        case Range(size_us=size):
            return min(FOREVER_US, size + 1 + outer_us)
        case None:
            return outer_us
        case Until(ends=ends):
            return min(FOREVER_US, max(size for _, size in ends) + 1 + outer_us)
        case RowsWindow() | Unbounded():
            return FOREVER_US


def _leaf(source: StreamSource, columns: frozenset[str], window: Window | None, outer_us: int) -> Leaf:
    if isinstance(window, RowsWindow) and outer_us == 0:
        return Leaf(source.waiting, source, columns, 0, window)
    return Leaf(source.waiting, source, columns, _reach(window, outer_us))


def _columns_read(one: Input, join: Join, outputs: Sequence[Expression]) -> frozenset[str]:
    """The columns of an input that its query reads."""
    used = {c.name for e in (*outputs, *join.predicates) for c in columns_of(e) if c.stream == one.alias}
    ends = (name for name, _ in getattr(one.window, "ends", ()))
    return frozenset({*used, one.time or "", *getattr(one.window, "partition_by", ()), *ends})


def _loader(made: FromMany, alias: str) -> LoadTable:
    return lambda batch: made.join.load_table(alias, batch)


def _placed(expression: Expression, places: dict[Expression, Column]) -> Expression:
    """The expression over a group's columns: keys and aggregates stand for themselves."""
    if expression in places:
        return places[expression]
    if isinstance(expression, Call):
        return Call(expression.function, tuple(_placed(a, places) for a in expression.args), expression.type)
    return expression
