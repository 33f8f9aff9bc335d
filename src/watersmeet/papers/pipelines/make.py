"""The operators of the paper for a query: for every node of its plan, what it becomes."""

from __future__ import annotations

from collections.abc import Callable

from watersmeet.operators.continuous.aggregates import counts_up_and_down
from watersmeet.operators.continuous.delta import Delta, in_order
from watersmeet.operators.continuous.from_many import FromMany
from watersmeet.operators.continuous.from_one import FromOne
from watersmeet.operators.continuous.group_by import GroupByOperator
from watersmeet.operators.continuous.negative_join import NegativeJoin
from watersmeet.operators.continuous.net import Net
from watersmeet.operators.continuous.node import Node, Unary
from watersmeet.operators.continuous.sources import StreamSource
from watersmeet.operators.waiting import Waiting
from watersmeet.papers.pipelines.contract import NOTICING, Noticing, PublishedOperator
from watersmeet.papers.pipelines.distinct import WDistinct
from watersmeet.papers.pipelines.from_scan import FromExpire, FromScan, WExpire, lasting
from watersmeet.papers.pipelines.group_by import Contents, Increments, WGroupBy
from watersmeet.papers.pipelines.network import Fifo, FifoNetwork
from watersmeet.papers.pipelines.set_operations import Binary, WIntersect, WMinus, WUnion
from watersmeet.physical.nodes import (
    AnswerNode,
    DistinctNode,
    FromManyNode,
    FromOneNode,
    GroupByNode,
    NetNode,
    SetOperationNode,
)


class Published:
    """One query. `work` counts what its operators do."""

    def __init__(
        self,
        pipeline: str,
        schedule: str,
        engine: Callable[[AnswerNode], Node],
        streams_below: Callable[[AnswerNode], list[Waiting]],
    ) -> None:
        """engine: makes the engine's own operators, of which those of FROM find and join rows here. schedule: who gets
        a turn next; with 'pull' operators ask each other. streams_below: where rows enter, once FROM is made."""
        self.schedule = schedule
        self.queues: list[Fifo] = []
        self.noticing = NOTICING[pipeline]
        self.engine = engine
        self.streams_below = streams_below
        self.work: dict[str, int] = {}

    def answer(self, node: AnswerNode) -> Node:
        """The log of an answer. Who reads it expires what it was given by its timestamps, as far as it was told of."""
        assert isinstance(node, NetNode), "checked when the query was planned"
        noticing: Noticing = "negative" if self.noticing == "negative" else "in_time"
        contents = Contents(self.operator(node.child), noticing, self.work)
        pulled = self.schedule == "pull"
        root = contents if pulled else FifoNetwork(contents, self.queues, self.schedule, self.work)
        return Net(LeavingFirst(root))

    def operator(self, node: AnswerNode) -> PublishedOperator:
        """With a queue at its output, unless operators ask each other."""
        made = self._made(node)
        return made if self.schedule == "pull" else self._queued(made)

    def _queued(self, made: PublishedOperator) -> Fifo:
        queue = Fifo(made, _inputs(made))
        self.queues.append(queue)  # after those below it
        return queue

    def _made(self, node: AnswerNode) -> PublishedOperator:
        match node:
            case FromOneNode() | FromManyNode():
                return self._from(self.engine(node))
            case DistinctNode(child=child):
                return WDistinct(self.operator(child), self.noticing, self.work)
            case SetOperationNode():
                return self._set_operation(node)
            case GroupByNode():
                return self._grouped(node)
        raise AssertionError(f"{type(node).__name__} is refused when a query is planned")

    def _grouped(self, node: GroupByNode) -> PublishedOperator:
        child = self.operator(node.child)
        counts_down = self.noticing == "negative" and counts_up_and_down(node.aggregates, fifo=node.fifo)
        below = Increments(child) if counts_down else Contents(child, self.noticing, self.work)
        streams = self.streams_below(node) if node.always else []
        groups = GroupByOperator(
            below, node.keys, node.aggregates, node.having, node.columns, fifo=node.fifo, begins_with=streams
        )
        return WGroupBy(groups, self.noticing)

    def _from(self, node: Node) -> PublishedOperator:
        assert isinstance(node, FromOne | FromMany)
        if self.noticing != "negative":
            return FromScan(node, lasting(node), self.noticing)
        sources = [node.source] if isinstance(node, FromOne) else list(node.sources.values())
        node.trigger = WExpire([one for one in sources if isinstance(one, StreamSource)])
        assert isinstance(node, FromOne | NegativeJoin)
        node.every = True
        return FromExpire(node)

    def _set_operation(self, node: SetOperationNode) -> PublishedOperator:
        left, right = self.operator(node.left), self.operator(node.right)
        made: PublishedOperator
        if node.kind == "union":
            made = WUnion(left, right)
        else:
            # EXCEPT has each row of the left side once, or not at all: duplicates on either side do not count.
            if not node.all:
                left, right = (self._between(WDistinct(one, self.noticing, self.work)) for one in (left, right))
            make = WMinus if node.kind == "except" else WIntersect
            made = make(left, right, self.noticing, self.work)
        return made if node.all else WDistinct(self._between(made), self.noticing, self.work)

    def _between(self, made: PublishedOperator) -> PublishedOperator:
        return made if self.schedule == "pull" else self._queued(made)


def _inputs(made: PublishedOperator) -> list[Fifo]:
    """The queues that an operator takes from."""
    match made:
        case WDistinct(child=child):
            below = [child]
        case WGroupBy(groups=GroupByOperator(child=Contents(child=child) | Increments(child=child))):
            below = [child]
        case Binary(both=both):
            below = [both.left, both.right]
        case _:
            below = []
    return [one for one in below if isinstance(one, Fifo)]


class LeavingFirst(Unary):
    """The log of an answer as all pipelines give it: of what happens at one instant, rows that leave come first. The
    operators below tell it in the order in which they see it."""

    netted = False
    held_rows = 0
    nbytes = 0

    def __init__(self, child: Node) -> None:
        super().__init__(child, child.schema)

    def take(self, until: int) -> Delta:
        delta = self.child.take(until)
        return delta.take(in_order(delta.instants, delta.diffs))
