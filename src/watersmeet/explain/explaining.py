"""What a person is told of a plan: how it runs, what that should cost and, on a sample, what it does cost."""

from __future__ import annotations

import json

from watersmeet.explain.data import explain_data
from watersmeet.explain.text import explain
from watersmeet.optimizer.choose_pipeline import choose_pipeline
from watersmeet.optimizer.estimate_join import estimate_join
from watersmeet.optimizer.stages import optimize
from watersmeet.physical.estimate import JoinEstimate, MemoryEstimate
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.explaining import Explaining
from watersmeet.plan.nodes import Plan, Project, growing_join
from watersmeet.runtime.host import Host


def explained(plan: Plan, how: Explaining, host: Host) -> str:
    """A plan with what it should cost, where it runs and, analyzed, what a sample showed."""
    layout = host.layout(plan)
    if how.analyze:
        plan = host.sampled(plan, how.sample_rows)
    strategy, choice = strategy_of(plan), choose_pipeline(plan)
    analysis = None
    if how.analyze:
        from watersmeet.explain.analyze import analysis_text, analyze

        analysis = analyze(plan, how.sample_rows)
        strategy = analysis.strategy or strategy
    estimate = estimate_of(plan, strategy)
    memory = memory_estimate(plan, strategy)
    if how.format == "json":
        told = explain_data(plan, strategy, estimate, choice.pipeline, choice.costs, memory)
        measured = {} if analysis is None else {"measured": analysis.as_dict()}
        where = {host.name: layout.splitlines()} if layout else {}
        return json.dumps({**told, **measured, **where}, indent=2, default=str)
    beside = None if memory is None else (memory, None if analysis is None else analysis.recall)
    text = explain(plan, strategy, estimate, choice.pipeline, choice.costs, beside)
    return text + ("" if analysis is None else analysis_text(analysis, estimate)) + layout


def strategy_of(plan: Plan) -> JoinStrategy | None:
    """How the join of a plan would run, if it is one."""
    growing = growing_join(plan.root)
    with plan.pointing_at_options():
        return None if growing is None else optimize(growing.join, plan.method)


def memory_estimate(plan: Plan, strategy: JoinStrategy | None) -> MemoryEstimate | None:
    """What a bound on the memory of that join should cost, if there is one."""
    if strategy is None or plan.shedding is None or not isinstance(plan.root, Project):
        return None
    from watersmeet.explain.expect_recall import expect_recall

    return expect_recall(strategy, plan.root.columns, plan.shedding)


def estimate_of(plan: Plan, strategy: JoinStrategy | None) -> JoinEstimate | None:
    """What that join should cost."""
    if strategy is None or not isinstance(plan.root, Project):
        return None
    return estimate_join(strategy, plan.root.columns)
