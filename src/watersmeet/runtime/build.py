"""A plan as operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, runtime_checkable

import pyarrow as pa

from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import RowsWindow
from watersmeet.operators.contract import Operator
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.select import CountedSelect, Select
from watersmeet.operators.time_order import InTimeOrder
from watersmeet.optimizer.replan import Replanner
from watersmeet.optimizer.stages import optimize
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.algorithms import CLASSIC_JOIN, load
from watersmeet.plan.nodes import Join, Plan, Project
from watersmeet.plan.options import Options
from watersmeet.plan.shedding import Shedding
from watersmeet.runtime.continuous import Builder

LoadTable = Callable[[pa.RecordBatch], None]


@dataclass
class Built:
    """An operator, the streams it reads by the names their rows are pushed under, and what takes its tables."""

    operator: Operator
    streams: dict[str, Stream]
    tables: list[tuple[Table, LoadTable]]


def build_query(plan: Plan, *, refresh_at_push: bool = False, quantum: int | None = None) -> Built:
    """The operator that answers a plan, and what it reads. With `refresh_at_push` a lazy join is refreshed whenever
    rows are pushed and time advances, not at moments of event time: for a host that has moments of its own. With a
    `quantum` the operators of a continuous query run in turns, with queues between them."""
    plain = plan.plain_join
    if plain is not None:
        with plan.pointing_at_options():
            return built_join(plain.join, build(plan, refresh_at_push=refresh_at_push))
    builder = Builder(plan, _inner_join, quantum)
    continuous = builder.build()
    return Built(continuous, builder.inputs.streams, builder.inputs.tables)


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
    joining = table_join_of(operator)
    if joining is None:
        return []
    return [
        (one.relation, partial(joining.load_table, one.alias)) for one in join.inputs if isinstance(one.relation, Table)
    ]


def build(plan: Plan, *, refresh_at_push: bool = False) -> Operator:
    """The operator of a plain join."""
    plain = plan.plain_join
    assert plain is not None
    join, project, method = plain.join, plain.project, plan.method
    if refresh_at_push and method.is_lazy:
        method = replace(method, at_every_push=True)
    aliases = [one.alias for one in join.streams]
    counts_rows = any(isinstance(one.window, RowsWindow) for one in join.streams)
    if len(join.inputs) > 1:
        strategy = optimize(join, method)
        if method.is_classic:
            return InTimeOrder(load(CLASSIC_JOIN)(strategy, project.columns), aliases)
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


@runtime_checkable
class TakesTables(Protocol):
    """A join that static tables are loaded into, before any rows are pushed."""

    def load_table(self, alias: str, data: pa.RecordBatch) -> None: ...


def table_join_of(operator: Operator) -> TakesTables | None:
    """The join inside an operator, which static tables are loaded into."""
    inner = join_inside(operator)
    return inner if isinstance(inner, TakesTables) else None
