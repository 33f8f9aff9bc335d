"""A plan as operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import Rows as RowsWindow
from watersmeet.operators.continuous.pipeline import Leaf
from watersmeet.operators.contract import Operator
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.select import CountedSelect, Select
from watersmeet.operators.time_order import InTimeOrder
from watersmeet.optimizer.replan import Replanner
from watersmeet.optimizer.stages import optimize
from watersmeet.papers.joins.classic_join import ClassicJoin
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.nodes import Derived, Join, Plan, Project, View
from watersmeet.plan.options import Options
from watersmeet.plan.shedding import Shedding
from watersmeet.runtime.continuous import Builder

LoadTable = Callable[[pa.RecordBatch], None]


@dataclass
class Built:
    """An operator, the streams it reads by the names their rows are pushed under, and what takes its tables. `leaves`
    says how a continuous query reads its streams."""

    operator: Operator
    streams: dict[str, Stream]
    tables: list[tuple[Table, LoadTable]]
    leaves: Mapping[str, Leaf] = field(default_factory=dict)


def is_plain_join(plan: Plan) -> bool:
    """Whether a query is one join of streams and tables, whose rows never leave the answer."""
    root = plan.root
    if not isinstance(root, Project) or not isinstance(root.child, Join):
        return False
    return not any(isinstance(one.relation, Derived | View) for one in root.child.inputs)


def runnable_join(plan: Plan) -> tuple[Join, Project]:
    """The join and the select list of a plan that is a plain join."""
    plan.options.require_runnable()
    assert is_plain_join(plan)
    assert isinstance(plan.root, Project)
    assert isinstance(plan.root.child, Join)
    return plan.root.child, plan.root


def build_query(
    plan: Plan, *, refresh_at_push: bool = False, quantum: int | None = None, strategy: JoinStrategy | None = None
) -> Built:
    """The operator that answers a plan, and what it reads. With `refresh_at_push` a lazy join is refreshed whenever
    rows are pushed and time advances, not at moments of event time: for a host that has moments of its own. With a
    `quantum` the operators of a continuous query run in turns, with queues between them. `strategy` is that of a plain
    join, if it was worked out before (see strategy_of)."""
    if is_plain_join(plan):
        join, _ = runnable_join(plan)
        return built_join(join, build(plan, refresh_at_push=refresh_at_push, strategy=strategy))
    plan.options.require_runnable()
    builder = Builder(plan, _inner_join, quantum)
    continuous = builder.build()
    return Built(continuous, builder.inputs.streams, builder.inputs.tables, builder.inputs.leaves)


def built_join(join: Join, operator: Operator) -> Built:
    """An operator for a plain join, with what it reads."""
    streams = {one.alias: one.relation for one in join.streams if isinstance(one.relation, Stream)}
    return Built(operator, streams, _tables(join, operator))


def _inner_join(project: Project) -> tuple[Operator, list[tuple[Table, LoadTable]]]:
    """A plain join inside another query."""
    operator = build(Plan(project, Options()))
    assert isinstance(project.child, Join)
    return operator, _tables(project.child, operator)


def _tables(join: Join, operator: Operator) -> list[tuple[Table, LoadTable]]:
    return [
        (one.relation, partial(operator.load_table, one.alias))
        for one in join.inputs
        if isinstance(one.relation, Table)
    ]


def strategy_of(plan: Plan, *, refresh_at_push: bool = False) -> JoinStrategy:
    """How a plain join runs."""
    join, _ = runnable_join(plan)
    method = plan.method
    if refresh_at_push and method.is_lazy:
        method = replace(method, at_every_push=True)
    return optimize(join, method)


def build(plan: Plan, *, refresh_at_push: bool = False, strategy: JoinStrategy | None = None) -> Operator:
    """The operator of a plain join."""
    join, project = runnable_join(plan)
    aliases = [one.alias for one in join.streams]
    counts_rows = any(isinstance(one.window, RowsWindow) for one in join.streams)
    if len(join.inputs) > 1:
        if strategy is None:
            strategy = strategy_of(plan, refresh_at_push=refresh_at_push)
        if strategy.method.is_classic:
            return InTimeOrder(ClassicJoin(strategy, project.columns), aliases)
        joining = _window_join(strategy, project, plan.shedding)
        return InTimeOrder(joining, aliases) if counts_rows else joining
    window = join.inputs[0].window
    if isinstance(window, RowsWindow):
        return InTimeOrder(CountedSelect(aliases[0], window, join.predicates, project.columns), aliases)
    return Select(join.predicates, project.columns)


def _window_join(strategy: JoinStrategy, project: Project, shedding: Shedding | None) -> WindowJoin:
    if shedding is None:
        planner = Replanner(strategy) if strategy.is_flexible else None
        return WindowJoin(strategy, project.columns, planner=planner)
    from watersmeet.operators.keeping.join import SheddingJoin

    return SheddingJoin(strategy, project.columns, shedding)


def join_inside(operator: Operator) -> Operator:
    """The operator itself, without what only sorts its rows."""
    return operator.inner if isinstance(operator, InTimeOrder) else operator
