"""FROM below an answer that changes: its inputs with their lives, and how those of several are joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import Range
from watersmeet.optimizer.choose_threshold import Against, choose_threshold
from watersmeet.optimizer.classify_predicates import alternatives
from watersmeet.optimizer.plan_join import plan_join
from watersmeet.optimizer.plan_outer import (
    asked_of_partners,
    growing_leaves,
    has_sides,
    looked_up_leaf,
    plan_asof,
    plan_growing,
    plan_outer,
    remembered_us,
    runs_alone,
)
from watersmeet.optimizer.read_inputs import columns_read, joined_leaf, leaf_of, reach_us, unlike
from watersmeet.optimizer.stages import optimize
from watersmeet.physical.hidden import GIVEN_AT, SERIAL, hidden_columns, member_column, with_lives
from watersmeet.physical.nodes import (
    AnswerNode,
    ChangesSourceNode,
    Columns,
    FromGrowingNode,
    FromManyNode,
    FromMatchedNode,
    FromOneNode,
    JoinSourceNode,
    LeafNode,
    NegativeJoinNode,
    Noticing,
    SourceNode,
    StreamSourceNode,
    ThresholdNode,
    ViewSourceNode,
    WindowJoinNode,
)
from watersmeet.physical.pipeline import Pipeline
from watersmeet.plan.expressions import Column, EventTime, Literal, columns_of
from watersmeet.plan.method import Method
from watersmeet.plan.nodes import Changes, Derived, Input, Join, Node, Over, Project, SetOperation, View, schema_of
from watersmeet.plan.shapes import keeps_arrival


@dataclass(frozen=True)
class Surroundings:
    """What stands around a part of a query: when it has to notice that rows have expired, and for how long its past
    matters to what is made of it."""

    noticing: Noticing
    outer_us: int = 0

    def in_from(self, outer_us: int) -> Surroundings:
        """Of a subquery: what is joined or counted again must be there in time, and complete up to one instant."""
        return Surroundings("in_time", outer_us)


class Answers(Protocol):
    """Plans what stands in FROM in parentheses."""

    def node(self, node: Node, around: Surroundings) -> AnswerNode: ...

    def changes(self, changes: Changes, around: Surroundings) -> AnswerNode: ...


class FromPlanner:
    """Plans every FROM of one query, and gives its streams names of their own."""

    def __init__(self, answers: Answers, pipeline: Pipeline) -> None:
        self.answers = answers
        self.negative = pipeline in ("nta", "nta_scan")
        self._names: set[str] = set()

    def rows(
        self,
        join: Join,
        columns: Columns,
        around: Surroundings,
        *,
        ordered: bool = False,
        numbered: bool = False,
        method: Method | None = None,
    ) -> AnswerNode:
        """ordered: FIRST or LAST goes by the order of combinations. numbered: rows that leave must say which. method:
        how the join was asked to run."""
        inputs = [one for one in join.inputs if not isinstance(one.relation, Table)]
        sources = tuple(self._source(one, join, columns, around) for one in inputs)
        # A static table beside a stream makes a join of it.
        if len(join.inputs) == 1:
            read = columns_read(inputs[0], join, columns)
            schema = pa.schema([field for field in inputs[0].schema if field.name in read])
            return FromOneNode(sources[0], schema, join.predicates, columns, around.noticing, self.negative)
        if join.kind != "inner":
            return self._matched(join, sources, columns)
        # FIRST and LAST go by the order of combinations, and a way that was asked for is taken.
        if around.noticing == "in_time" and not ordered and method in (None, Method()):
            against = choose_threshold(join, columns)
            if against is not None:
                return _threshold(join, against, {source.alias: source for source in sources}, columns)
        announced = tuple(source.alias for source in sources if source.announced)
        # FIRST and LAST break ties of time by the serial numbers of all members.
        counted = tuple(source.alias for source in sources) if ordered else announced
        joining = _joining(join, columns, counted, announced, method)
        made = (join, sources, joining, columns, counted, around.noticing)
        # What is found again when a row leaves has neither a number nor a place in an order, and a row that others push
        # out is not there any more to look for it.
        in_time = not join.views and all(isinstance(one.window, Range) for one in join.streams)
        if self.negative and in_time and not ordered and not numbered:
            return NegativeJoinNode(*made, held=_held(join, columns))
        return FromManyNode(*made)

    def growing(self, project: Project, around: Surroundings) -> AnswerNode:
        """A join that only grows. Its inputs are not all streams as they come, or it would run by itself."""
        join = project.child
        assert isinstance(join, Join)
        if join.kind == "inner":
            return self.rows(join, project.columns, around)
        inside = around.in_from(min(FOREVER_US, around.outer_us + remembered_us(project, ())))
        more = (*join.where, *(e for _, e in join.certain), *asked_of_partners(join))
        asked = (*project.columns, *((f"__{i}", e) for i, e in enumerate(more)))
        inputs = [one for one in join.inputs if not isinstance(one.relation, Table)]
        sources = tuple(self._source(one, join, asked, inside) for one in inputs)
        if join.asof is not None:
            sources = tuple(_looked_up(one, join, inside.outer_us) for one in sources)
        timed = replace(project, columns=(*project.columns, (GIVEN_AT, EventTime())))
        inner = plan_outer(timed, join) if join.asof is None else plan_asof(timed, join)
        return FromGrowingNode(sources, inner, project.columns)

    def _matched(self, join: Join, sources: tuple[SourceNode, ...], columns: Columns) -> AnswerNode:
        """Who matches is found by the join inside, which tells the numbers of the rows that count without a match."""
        announced = tuple(source.alias for source in sources if source.announced)
        numbered = tuple(source.alias for source in sources if source.announced or source.alias in join.preserved)
        inside = replace(join, kind="inner", where=(), certain=())
        members = tuple((member_column(alias), Column(alias, SERIAL, pa.int64())) for alias in join.preserved)
        shown = (*(columns if join.kind in ("left", "full") else ()), *members)
        # One that is found in two ways is a partner all the same, as long as it is not shown.
        ways = alternatives(inside) if join.kind in ("semi", "anti") else (inside,)
        joining, *otherwise = (_joining(way, shown, numbered, announced, None) for way in ways)
        # What has expired is noticed in time: a row that is left alone enters the answer then.
        combinations = FromManyNode(join, sources, joining, shown, numbered, "in_time")
        return FromMatchedNode(combinations, columns, tuple(otherwise))

    def _source(self, one: Input, join: Join, outputs: Columns, around: Surroundings) -> SourceNode:
        outer_us = _mattering_us(one, join, around.outer_us)
        reach = reach_us(one.window, outer_us)
        match one.relation:
            case Stream():
                leaf = leaf_of(self._name(one.alias), one, join, outputs, outer_us)
                return StreamSourceNode(one.alias, leaf, one.window, join.boundary, one.made)
            case View(plan=Project(child=Join() as inside, columns=columns)):
                inner = self.rows(inside, columns, around.in_from(around.outer_us), numbered=True)
                return ViewSourceNode(one.alias, inner)
            case View(plan=plan):
                return ViewSourceNode(one.alias, self.answers.node(plan, around.in_from(around.outer_us)))
            case Derived(plan=Changes() as changes, time=time):
                answer = self.answers.changes(changes, around.in_from(reach))
                return ChangesSourceNode(one.alias, answer, changes.kind, time, one.window, join.boundary)
            case Derived(plan=SetOperation() as union, time=time):
                bare_union = _without_place(union, schema_of(union).names.index(time))
                answer = self.answers.node(bare_union, around.in_from(reach))
                return ChangesSourceNode(one.alias, answer, "istream", time, one.window, join.boundary, ordered=True)
            case Derived(plan=Over() as over, time=time):
                bare_over = replace(over, columns=_without(over.columns, time))
                answer = self.answers.node(bare_over, around.in_from(reach))
                return ChangesSourceNode(one.alias, answer, "istream", time, one.window, join.boundary)
            case Derived(plan=Project() as project, time=time) if has_sides(project):
                if runs_alone(project):
                    leaves = tuple(replace(leaf, name=self._name(leaf.name)) for leaf in growing_leaves(project, reach))
                    return JoinSourceNode(one.alias, plan_growing(project), leaves, time, one.window, join.boundary)
                bare = replace(project, columns=_without(project.columns, time))
                rows = self.growing(bare, around.in_from(reach))
                return ChangesSourceNode(one.alias, rows, "istream", time, one.window, join.boundary)
            case Derived(plan=Project(child=Join(inputs=inputs) as inside) as project, time=time):
                # A join that reads subqueries, or whose windows step, cannot run alone: as an answer, its entering rows
                # are the stream.
                if inside.moves_in_steps or any(isinstance(each.relation, Derived | View) for each in inputs):
                    rows = self.rows(inside, _without(project.columns, time), around.in_from(reach))
                    ordered = keeps_arrival(inside)
                    return ChangesSourceNode(one.alias, rows, "istream", time, one.window, join.boundary, ordered)
                leaves = tuple(self._joined_leaf(each, inside, project.columns, reach) for each in inside.streams)
                return JoinSourceNode(one.alias, plan_join(project), leaves, time, one.window, join.boundary)
        raise TypeError(f"{one.relation} cannot stand in FROM")

    def _joined_leaf(self, one: Input, join: Join, outputs: Columns, outer_us: int) -> LeafNode:
        return joined_leaf(self._name(one.alias), one, join, outputs, outer_us)

    def _name(self, alias: str) -> str:
        name = unlike(self._names, alias)
        self._names.add(name)
        return name


def _mattering_us(one: Input, join: Join, outer_us: int) -> int:
    """For how long rows matter outside of their window: where they have none, while those of others can meet them."""
    if one.window is not None or one.time is None or len(join.streams) == 1 or join.kind != "inner":
        return outer_us
    return min(FOREVER_US, join.retention_us(one.alias) + outer_us)


def _threshold(join: Join, against: Against, sources: Mapping[str, SourceNode], columns: Columns) -> ThresholdNode:
    rows, values = against.rows, sources[against.values.alias]
    assert isinstance(values, ViewSourceNode)
    asked = (*(e for _, e in columns), *(own.expression for own, _ in against.keys), against.comparison.own.expression)
    needed = {column.name for e in asked for column in columns_of(e)}
    held = tuple(
        (field.name, Column(rows.alias, field.name, field.type)) for field in rows.schema if field.name in needed
    )
    read = columns_read(rows, join, columns)
    schema = pa.schema([field for field in rows.schema if field.name in read])
    one = FromOneNode(sources[rows.alias], schema, against.conditions, held, "in_time", negative=False)
    return ThresholdNode(join, one, values.child, against.keys, against.comparison, columns)


def _looked_up(source: SourceNode, join: Join, kept_us: int) -> SourceNode:
    """The side in which an as-of join looks for partners, with what of it a restart needs."""
    one = join.inputs[1]
    if source.alias != one.alias or not isinstance(source, StreamSourceNode):
        return source
    return replace(source, leaf=looked_up_leaf(source.leaf.name, one, join, source.leaf.columns, kept_us))


def _joining(
    join: Join, columns: Columns, numbered: tuple[str, ...], announced: tuple[str, ...], method: Method | None
) -> WindowJoinNode:
    """The join that finds the combinations, with what their lives are told from."""
    inside = with_lives(join, numbered, announced)
    asked = (*columns, *hidden_columns(inside, numbered))
    views = tuple(one.alias for one in join.views)
    return WindowJoinNode(optimize(inside, method), asked, announced=announced, timeless=views)


def widened(node: FromManyNode, columns: Columns, read: Mapping[str, frozenset[str]]) -> FromManyNode:
    """The same join with other columns. read: the columns of each stream that these take."""
    hidden = node.joining.columns[len(node.columns) :]
    sources = tuple(
        replace(one, leaf=replace(one.leaf, columns=read[one.alias])) if isinstance(one, StreamSourceNode) else one
        for one in node.sources
    )
    joining = replace(node.joining, columns=(*columns, *hidden))
    made = replace(node, sources=sources, columns=columns, joining=joining)
    return replace(made, held=_held(node.join, columns)) if isinstance(made, NegativeJoinNode) else made


def _held(join: Join, columns: Columns) -> tuple[tuple[str, pa.Schema], ...]:
    read = {one.alias: columns_read(one, join, columns) for one in join.streams}
    return tuple((one.alias, pa.schema([f for f in one.schema if f.name in read[one.alias]])) for one in join.streams)


def _without(columns: Columns, time: str) -> Columns:
    """The select list without the event time, which the changes carry themselves."""
    others = tuple((name, e) for name, e in columns if name != time)
    # Rows without columns could not be counted.
    return others or (("__there", Literal(True, pa.bool_())),)


def _without_place(node: Node, place: int) -> Node:
    """The same for what is put together, whose columns go by their places."""
    match node:
        case SetOperation(left=left, right=right):
            return replace(node, left=_without_place(left, place), right=_without_place(right, place))
        case Project(columns=columns) | Over(columns=columns):
            return replace(node, columns=_without(columns, columns[place][0]))
    raise TypeError(f"{type(node).__name__} is no stream")
