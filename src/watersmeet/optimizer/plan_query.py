"""From what a query asks to how it runs: everything that is chosen is chosen here and below."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import moves_in_steps
from watersmeet.optimizer.choose_join import quicker_join
from watersmeet.optimizer.choose_pipeline import choose_pipeline
from watersmeet.optimizer.drop_alone import drop_alone
from watersmeet.optimizer.plan_answer import AnswerPlanner
from watersmeet.optimizer.plan_join import plan_join
from watersmeet.optimizer.plan_outer import growing_leaves, has_sides, plan_growing, runs_alone
from watersmeet.optimizer.read_inputs import joined_leaf
from watersmeet.physical.nodes import ContinuousNode, leaves_below
from watersmeet.physical.pipeline import PipelineChoice
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.plan.nodes import Join, Project
from watersmeet.plan.published import CHECK_PUBLISHED, PUBLISHED_PIPELINES, load
from watersmeet.plan.query import Plan
from watersmeet.plan.shapes import is_monotone


def plan_query(plan: Plan, *, refresh_at_push: bool = False, to_the_end: bool = False) -> PhysicalPlan:
    """How a plan will run. With `refresh_at_push` a lazy join is refreshed whenever rows are pushed and time advances,
    not at moments of event time: for a host that has moments of its own. `to_the_end`: the run reads what lies there,
    to its end, and keeps no state beyond that."""
    plan = drop_alone(plan)
    choice = choose_pipeline(plan)
    match plan.root:
        case Project(child=Join(inputs=inputs, kind="inner") as join) as project if all(
            isinstance(one.relation, Stream | Table) and not moves_in_steps(one.window) for one in inputs
        ):
            method = plan.method
            if refresh_at_push and method.is_lazy:
                method = replace(method, at_every_push=True)
            if to_the_end and plan.options.threads == 1:
                method = quicker_join(join, plan) or method
            # By alias, which is enough here: only subqueries can use one twice.
            leaves = tuple(joined_leaf(one.alias, one, join, project.columns) for one in join.streams)
            return PhysicalPlan(plan_join(project, method, plan.shedding, plan.spilling), leaves, choice)
        case Project(child=Join()) as project if is_monotone(project) and runs_alone(project) and has_sides(project):
            if plan.options.has("expire"):
                why = "says when it is looked for rows that leave an answer, and no row leaves this one"
                raise plan.options.wrong("expire", why, "leave expire out")
            return PhysicalPlan(plan_growing(project), growing_leaves(project), choice)
    answer = AnswerPlanner(plan, choice.pipeline).answer()
    if plan.options.has("schedule") and choice.pipeline not in PUBLISHED_PIPELINES:
        raise plan.options.wrong(
            "schedule",
            "gives turns to operators as H04 prints them; the engine's own take whole batches from each other",
            "write pipeline = 'tpa_scan' or 'nta_scan' too, or leave schedule out",
        )
    if choice.pipeline in PUBLISHED_PIPELINES:
        load(CHECK_PUBLISHED)(answer, plan.options)
    root = ContinuousNode(
        answer, plan.kind, plan.output_schema, choice.pipeline, plan.options.schedule, _expire_us(plan, choice)
    )
    return PhysicalPlan(root, leaves_below(root), choice)


def _expire_us(plan: Plan, choice: PipelineChoice) -> int | None:
    """How often an answer looks for rows that have left, if the query says so."""
    if not plan.options.has("expire"):
        return None
    if choice.pipeline == "ita" or choice.pipeline in PUBLISHED_PIPELINES:
        raise plan.options.wrong(
            "expire",
            f"says when rows that have left are looked for, and so does pipeline = {choice.pipeline!r}",
            "leave one of them out",
        )
    asked = plan.options.expire_us
    return None if asked == "auto" else asked
