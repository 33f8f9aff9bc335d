"""A plan as plain values, for programs: what EXPLAIN says in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from watersmeet.model.time import FOREVER_US
from watersmeet.physical.estimate import JoinEstimate, MemoryEstimate
from watersmeet.physical.pipeline import Pipeline
from watersmeet.physical.strategy import JoinStrategy, Route, Step
from watersmeet.plan.expressions import to_text
from watersmeet.plan.nodes import Plan
from watersmeet.plan.window_words import window_text


def explain_data(
    plan: Plan,
    strategy: JoinStrategy | None = None,
    estimate: JoinEstimate | None = None,
    pipeline: Pipeline | None = None,
    pipeline_costs: Mapping[str, float] | None = None,
    memory: MemoryEstimate | None = None,
) -> dict[str, Any]:
    """Names that stay: programs read them."""
    told: dict[str, Any] = {
        "sql": plan.sql,
        "answer": plan.kind,
        "columns": {field.name: str(field.type) for field in plan.output_schema},
        "options": plan.options.changed(),
    }
    if plan.kind != "rows":
        told["pipeline"] = {"chosen": pipeline, "comparisons_per_second": dict(pipeline_costs or {})}
    if strategy is not None and len(strategy.join.inputs) > 1:
        told["join"] = _join(strategy)
    if estimate is not None:
        told["estimate"] = _estimate(estimate)
    if memory is not None:
        told["memory"] = asdict(memory)
    return told


def _join(strategy: JoinStrategy) -> dict[str, Any]:
    join = strategy.join
    kept = {one.alias: join.retention_us(one.alias) for one in join.inputs}
    return {
        "algorithm": strategy.method.algorithm,
        "inputs": {
            one.alias: {
                "relation": one.relation.name,
                "table": one.is_table,
                "window": window_text(one.window),
                "kept_us": None if kept[one.alias] >= FOREVER_US else kept[one.alias],
                "buckets": strategy.method.buckets.get(one.alias),
            }
            for one in join.inputs
        },
        "routes": [_route(route) for route in strategy.routes],
        "residuals": [to_text(test) for test in (*strategy.verified, *strategy.residuals)],
    }


def _route(route: Route) -> dict[str, Any]:
    return {"origin": route.origin, "start": route.start, "steps": [_step(step) for step in route.steps]}


def _step(step: Step) -> dict[str, Any]:
    return {
        "input": step.stream,
        "access": step.access,
        "equalities": [f"{own} = {bound}" for bound, own in step.equalities],
        "comparisons": [f"{c.own} {c.operator} {c.bound}" for c in step.comparisons],
    }


def _estimate(estimate: JoinEstimate) -> dict[str, Any]:
    return {
        "inputs": {alias: asdict(one) for alias, one in estimate.inputs.items()},
        "distinct": dict(estimate.distinct),
        "routes": [
            {**asdict(route), "order": route.order, "comparisons": route.comparisons} for route in estimate.routes
        ],
        "comparisons_per_second": estimate.comparisons,
        "busy_ns_per_second": estimate.busy_ns,
        "results_per_second": estimate.results,
        "alternatives": [asdict(one) for one in estimate.alternatives],
    }
