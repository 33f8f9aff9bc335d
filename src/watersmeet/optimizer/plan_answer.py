"""An answer that changes: which operators give its changes, what they hold, and how its joins run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from watersmeet.model.pace import Pace
from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import WINDOW_COLUMNS, Hop, Session, Stepped, Unbounded
from watersmeet.optimizer.plan_from import FromPlanner, Surroundings
from watersmeet.physical.nodes import (
    AnswerNode,
    Columns,
    DistinctNode,
    EachStepNode,
    FromOneNode,
    GroupByNode,
    NetNode,
    OverChangingNode,
    OverStreamNode,
    SetOperationNode,
    SnapshotsNode,
    TogetherNode,
    TopKNode,
)
from watersmeet.physical.over import calls_alike, copy_number, top_rows
from watersmeet.physical.pipeline import Pipeline
from watersmeet.plan.expressions import Aggregate, Call, Column, Expression, goes_by_time, walk
from watersmeet.plan.nodes import (
    Changes,
    Distinct,
    GroupBy,
    Input,
    Join,
    Node,
    Over,
    Project,
    SetOperation,
    SortKey,
    TopK,
    schema_of,
)
from watersmeet.plan.over_functions import keeps_for_us
from watersmeet.plan.panes import aggregates_of, hop_by_steps, is_window_column
from watersmeet.plan.query import Plan
from watersmeet.plan.shapes import comes_as_stored, is_monotone, streams_together
from watersmeet.plan.walks import origin_of


class AnswerPlanner:
    """Plans one query. FROM, in which subqueries stand, is planned by `FromPlanner`, and the two call each other."""

    def __init__(self, plan: Plan, pipeline: Pipeline) -> None:
        self.plan = plan
        self.froms = FromPlanner(self, pipeline)
        self.outermost = Surroundings("at_next_input" if pipeline in ("ita", "ita_scan") else "in_time")

    def answer(self) -> AnswerNode:
        node = self.plan.root
        match node:
            case Changes(kind="rstream", child=child, every=every):
                return self._snapshots(child, every, self.outermost, self.plan.order)
            case Changes(kind="complete"):
                return self._complete(node, self.outermost)
            case Changes(child=child):
                # ISTREAM and DSTREAM differ only in what the pipeline lets out at the end.
                return NetNode(self.node(child, self.outermost))
            case Project(child=Join(kind=kind)) if kind != "inner" and is_monotone(node):
                inside = self.froms.growing(node, self.outermost)
            case Project(child=Join(kind="inner") as join, columns=columns):
                # Only here may options say in which order to join.
                inside = self.froms.rows(join, columns, self.outermost, method=self.plan.method)
            case _:
                inside = self.node(node, self.outermost)
        # A join that only grows sends nothing that could cancel.
        return inside if self.plan.kind == "rows" else NetNode(inside)

    def node(self, node: Node, around: Surroundings) -> AnswerNode:
        match node:
            case Project(child=Join() as join, columns=columns):
                return self.froms.rows(join, columns, around)
            case Project(child=GroupBy() as grouped, columns=columns):
                return self._grouped(grouped, columns, around, always=not grouped.keys)
            case Distinct(child=child):
                return DistinctNode(self.node(child, around))
            case SetOperation() if branches := streams_together(node):
                return self._together(branches, around)
            case SetOperation(kind=kind, all=keep_all, left=left, right=right):
                return SetOperationNode(kind, keep_all, self.node(left, around), self.node(right, around))
            case TopK(child=child, keys=keys, limit=limit, offset=offset):
                return TopKNode(self.node(child, around), keys, limit, offset)
            case Over():
                return self._over(node, around)
        raise TypeError(f"{type(node).__name__} cannot stand inside an answer")

    def _together(self, branches: Sequence[Project | Over], around: Surroundings) -> AnswerNode:
        made = [
            self.froms.growing(one, around) if isinstance(one, Project) else self.node(one, around) for one in branches
        ]
        return TogetherNode(tuple(made), tuple(map(comes_as_stored, branches)))

    def _over(self, node: Over, around: Surroundings) -> AnswerNode:
        if node.time is None:
            return self._over_changing(node, around)
        kept = [keeps_for_us(call) for _, call in node.calls]
        # How far back rows are asked for by those to come.
        reach = FOREVER_US if None in kept else max(one for one in kept if one is not None) + 1
        inside = around.in_from(min(FOREVER_US, around.outer_us + reach))
        return OverStreamNode(self.node(node.child, inside), node.calls, node.keep, node.columns)

    def _over_changing(self, node: Over, around: Surroundings) -> AnswerNode:
        """An operator for each PARTITION BY and ORDER BY, one above the other; the last chooses and selects."""
        child = self._numbered(node.child, around)
        *others, last = calls_alike(node.calls)
        if not others:
            grows = isinstance(node.child, Project) and _never_shrinks(node.child)
            return OverChangingNode(child, last, node.keep, node.columns, top_rows(node), grows)
        known: Columns = tuple((field.name, Column("", field.name, field.type)) for field in schema_of(node.child))
        # Rows that are equal in everything have an order, too: the same for all functions.
        for calls in ((copy_number(known),), *others):
            known = (*known, *((name, Column("", name, call.type)) for name, call in calls))
            child = OverChangingNode(child, calls, None, known, None, grows=False)
        return OverChangingNode(child, last, node.keep, node.columns, None, grows=False)

    def _numbered(self, node: Node, around: Surroundings) -> AnswerNode:
        """An input whose rows must be known again when they leave."""
        if isinstance(node, Project) and isinstance(node.child, Join):
            return self.froms.rows(node.child, node.columns, around, numbered=True)
        return self.node(node, around)

    def changes(self, changes: Changes, around: Surroundings) -> AnswerNode:
        """ISTREAM, DSTREAM or RSTREAM in FROM."""
        if changes.kind == "rstream":
            return self._snapshots(changes.child, changes.every, around)
        return (
            self._complete(changes, around) if changes.kind == "complete" else NetNode(self.node(changes.child, around))
        )

    def _complete(self, changes: Changes, around: Surroundings) -> AnswerNode:
        """Windows that are given once. Groups of two that look alike are not the same, so nothing cancels."""
        hop = hop_by_steps(changes.child)
        return self.node(changes.child, around) if hop is None else self._by_steps(changes.child, hop, around)

    def _by_steps(self, node: Node, hop: Hop, around: Surroundings) -> AnswerNode:
        """HOP without copies: a window that moves in steps to the last instants before windows end, by groups."""
        assert isinstance(node, Project)
        grouped = node.child
        assert isinstance(grouped, GroupBy)
        steps = Stepped(hop.size_us, hop.slide_us, hop.ends_us - 1, hop.cumulates)
        join = replace(grouped.child, inputs=(replace(grouped.child.inputs[0], window=steps),))
        keys = tuple(key for key in grouped.keys if not is_window_column(key))
        own = [*keys, *aggregates_of(node)]
        # A group of a window that ends is there while it has rows, whatever else it is grouped by.
        named = tuple((f"own_{i}", e) for i, e in enumerate(own))
        inside = self._grouped(GroupBy(join, keys), named, around, always=False)
        places: dict[Expression, Column] = {e: Column("", f"own_{i}", e.type) for i, e in enumerate(own)}
        places |= {
            key: Column("", key.name, key.type) for key in grouped.keys if isinstance(key, Column) and key not in keys
        }
        having = None if grouped.having is None else _placed(grouped.having, places)
        return EachStepNode(inside, hop, having, tuple((n, _placed(e, places)) for n, e in node.columns))

    def _snapshots(
        self, child: Node, every: Pace | None, around: Surroundings, order: tuple[SortKey, ...] = ()
    ) -> AnswerNode:
        assert every is not None
        return SnapshotsNode(self.node(child, around), every, order)

    def _grouped(self, grouped: GroupBy, columns: Columns, around: Surroundings, *, always: bool) -> AnswerNode:
        """Below stands FROM, which gives the keys and the arguments of the aggregates."""
        assert isinstance(grouped.child, Join)
        expressions = [e for _, e in columns] + ([grouped.having] if grouped.having is not None else [])
        aggregates = list(dict.fromkeys(a for e in expressions for a in walk(e) if isinstance(a, Aggregate)))
        keys = list(grouped.keys)
        outputs = [(f"key_{i}", key) for i, key in enumerate(keys)]
        # What else an aggregate takes is constant, such as the share of PERCENTILE.
        outputs += [(f"arg_{i}", a.args[0]) for i, a in enumerate(aggregates) if a.args]
        ordered, numbered = any(map(goes_by_time, aggregates)), any(a.timeless for a in aggregates)
        child = self.froms.rows(grouped.child, tuple(outputs), around, ordered=ordered, numbered=numbered)
        places: dict[Expression, Column] = {a: Column("", f"value_{i}", a.type) for i, a in enumerate(aggregates)}
        places |= {key: Column("", f"key_{i}", key.type) for i, key in enumerate(keys)}
        growing = [_in_window_at_once(key, grouped.child) for key in keys]
        return GroupByNode(
            child,
            len(keys),
            tuple((a, f"arg_{i}" if a.args else None) for i, a in enumerate(aggregates)),
            None if grouped.having is None else _placed(grouped.having, places),
            tuple((name, _placed(e, places)) for name, e in columns),
            # Combinations of several streams die with their first member, in no order.
            fifo=isinstance(child, FromOneNode) and child.source.in_turn,
            final=any(one is not None for one in growing),
            always=always,
            ends=tuple(place for place, one in enumerate(growing) if one == WINDOW_COLUMNS[1]),
        )


def _in_window_at_once(key: Expression, join: Join) -> str | None:
    """Which column it is of a window that is given as rows come, and that ends; None if of none."""
    match origin_of(key, join) if isinstance(key, Column) else None:
        case (Input(window=Hop(at_once=True) | Session(at_once=True)), name):
            return name
    return None


def _never_shrinks(project: Project) -> bool:
    """Whether no row ever leaves what is selected."""
    join = project.child
    if not isinstance(join, Join) or join.kind != "inner":
        return False
    return all(one.is_table or isinstance(one.window, Unbounded) for one in join.inputs)


def _placed(expression: Expression, places: dict[Expression, Column]) -> Expression:
    """The expression over a group's columns: keys and aggregates stand for themselves."""
    if expression in places:
        return places[expression]
    if isinstance(expression, Call):
        return replace(expression, args=tuple(_placed(a, places) for a in expression.args))
    return expression
