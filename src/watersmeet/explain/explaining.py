"""What a person is told of a plan: how it runs, what that should cost and, on a sample, what it does cost."""

from __future__ import annotations

import json
from collections.abc import Sequence

from watersmeet.explain.data import explain_data
from watersmeet.explain.joins import ExplainedJoin, explained_joins, join_of_the_answer
from watersmeet.explain.text import explain
from watersmeet.optimizer.choose_join import ends_by_itself
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.physical.estimate import MemoryEstimate
from watersmeet.physical.nodes import WindowJoinNode
from watersmeet.plan.explaining import Explaining
from watersmeet.plan.nodes import Plan
from watersmeet.runtime.host import Host


def explained(plan: Plan, how: Explaining, host: Host) -> str:
    """A plan with what it should cost, where it runs and, analyzed, what a sample showed."""
    # Of the plan as it was given: a sample runs in this process, on other sources.
    layout = host.layout(plan)
    analysis = None
    if how.analyze:
        from watersmeet.explain.analyze import analysis_text, analyze

        plan = host.sampled(plan, how.sample_rows)
        analysis = analyze(plan, how.sample_rows)
    with plan.pointing_at_options():
        # A sample is measured on the engine's own join.
        physical = plan_query(plan, to_the_end=not how.analyze and host.name == "local" and ends_by_itself(plan))
        joins = explained_joins(physical, () if analysis is None else analysis.measured)
        memory = memory_estimate(joins)
    if how.format == "json":
        told = explain_data(plan, physical, joins, memory)
        shown = {} if analysis is None else {"measured": analysis.as_dict()}
        where = {host.name: layout.splitlines()} if layout else {}
        return json.dumps({**told, **shown, **where}, indent=2, default=str)
    beside = None if memory is None else (memory, None if analysis is None else analysis.recall)
    text = explain(plan, joins, physical.choice, beside)
    if analysis is not None:
        answered = join_of_the_answer(plan, joins)
        text += analysis_text(analysis, None if answered is None else answered.estimate)
    return text + layout


def memory_estimate(joins: Sequence[ExplainedJoin]) -> MemoryEstimate | None:
    """What a bound on the memory of a join should cost, if there is one."""
    for one in joins:
        if isinstance(one.node, WindowJoinNode) and one.node.shedding is not None:
            from watersmeet.explain.expect_recall import expect_recall

            return expect_recall(one.strategy, one.node.columns, one.node.shedding)
    return None
