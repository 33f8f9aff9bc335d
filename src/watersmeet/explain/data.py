"""A plan as plain values, for programs: what EXPLAIN says in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from watersmeet.explain.joins import ExplainedJoin, join_of_the_answer
from watersmeet.model.catalog import Stream
from watersmeet.model.time import FOREVER_US
from watersmeet.physical.estimate import JoinEstimate, MemoryEstimate
from watersmeet.physical.nodes import LastOfEach, LeafNode, PartitionedNode, PhysicalNode, WindowJoinNode
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.physical.strategy import Route, Step
from watersmeet.plan.expressions import to_text
from watersmeet.plan.query import Plan
from watersmeet.plan.window_words import window_text
from watersmeet.runtime.shared_parts import Shared


def explain_data(
    plan: Plan,
    physical: PhysicalPlan,
    joins: Sequence[ExplainedJoin],
    memory: MemoryEstimate | None = None,
    shared: Shared | None = None,
) -> dict[str, Any]:
    """Names that stay: programs read them. `join` and `estimate` are of a query that is a join; `operators` are what
    runs, with the same of every other join among them."""
    described: dict[str, Any] = {
        "sql": plan.sql,
        "answer": plan.kind,
        "columns": {field.name: str(field.type) for field in plan.output_schema},
        "options": plan.options.changed(),
    }
    if plan.kind != "rows":
        choice = physical.choice
        described["pipeline"] = {
            "chosen": choice.pipeline,
            "microseconds_per_second": choice.costs,
            "rows_held": choice.held,
        }
    answered = join_of_the_answer(plan, joins)
    if answered is not None and len(answered.join.inputs) > 1:
        described |= _joined(answered)
    if physical.one_thread is not None:
        described["one_thread"] = physical.one_thread
    if memory is not None:
        described["memory"] = asdict(memory)
    if shared is not None and shared.answered_once_for:
        described["answered_once_for"] = list(shared.answered_once_for)
    if shared is not None and shared.loaded_once_for:
        described["loaded_once_for"] = {name: list(queries) for name, queries in shared.loaded_once_for.items()}
    if shared is not None and shared.parts:
        described["computed_once"] = [asdict(one) for one in shared.parts]
    described["streams"] = {leaf.name: _stream(leaf, shared or Shared()) for leaf in physical.leaves}
    # The join that is the answer has been told above already.
    described["operators"] = _operator(physical.root, {id(one.node): one for one in joins if one is not answered})
    return described


def _stream(leaf: LeafNode, shared: Shared) -> dict[str, Any]:
    # The last of each key stays, however old.
    kept = None if leaf.reach_us >= FOREVER_US or isinstance(leaf.window, LastOfEach) else leaf.reach_us
    name = leaf.stream.name
    said: dict[str, Any] = {"stream": name, "columns": sorted(leaf.columns), "kept_us": kept}
    if name in shared.read_once_for:
        said["read_once_for"] = list(shared.read_once_for[name])
    if name in shared.kept_once_for:
        said["kept_once_for"] = list(shared.kept_once_for[name])
    walked = [list(one.queries) for one in shared.walks if one.stream == name and len(one.queries) > 1]
    if walked:
        said["walked_once_for"] = walked[0]
    if name in shared.given_by:
        said["given_by"] = shared.given_by[name]
    return said


def _operator(node: PhysicalNode, joins: Mapping[int, ExplainedJoin]) -> dict[str, Any]:
    """What runs, and below it what it takes from."""
    described: dict[str, Any] = {"operator": node.word}
    if isinstance(node, LeafNode):
        described["name"] = node.name
    if isinstance(node, WindowJoinNode):
        described["replans"] = node.replans
    if isinstance(node, PartitionedNode):
        described |= {"threads": node.parts, "keys": {name: str(key) for name, key in node.keys.items()}}
        described |= {"fragment": node.fragment} if node.fragment is not None else {}
        if node.spread is not None:
            described["spread"] = {"split": node.spread.split, "keys": len(node.spread.codes)}
        described |= {"copied": sorted(node.copied)} if node.copied else {}
    explained = joins.get(id(node))
    if explained is not None and len(explained.join.inputs) > 1:
        described |= _joined(explained)
    return described | ({"below": [_operator(child, joins) for child in node.children]} if node.children else {})


def _joined(explained: ExplainedJoin) -> dict[str, Any]:
    described = {"join": _join(explained)}
    return described if explained.estimate is None else {**described, "estimate": _estimate(explained.estimate)}


def _join(explained: ExplainedJoin) -> dict[str, Any]:
    strategy, views = explained.strategy, explained.views
    join = strategy.join
    kept = {one.alias: join.retention_us(one.alias) for one in join.inputs}
    return {
        "algorithm": strategy.method.algorithm,
        "inputs": {
            one.alias: {
                "relation": one.relation.name,
                "table": one.is_table,
                "window": "view" if one.alias in views else window_text(explained.window_of(one)),
                "kept_us": None if kept[one.alias] >= FOREVER_US else kept[one.alias],
                "buckets": strategy.method.buckets.get(one.alias),
                **_written_time(one.relation),
            }
            for one in join.inputs
        },
        "routes": [_route(route) for route in strategy.routes],
        "residuals": [to_text(test) for test in (*strategy.verified, *strategy.residuals)],
    }


def _written_time(relation: object) -> dict[str, Any]:
    """How a stream has its event times where they come from, if not as timestamps."""
    if isinstance(relation, Stream) and relation.by_arrival:
        return {"event_time": {"column": relation.time, "read_as": "the moment at which rows arrive"}}
    if not isinstance(relation, Stream) or relation.reading is None:
        return {}
    return {"event_time": {"column": relation.time, "read_as": str(relation.reading)}}


def _route(route: Route) -> dict[str, Any]:
    return {"origin": route.origin, "start": route.start, "steps": [_step(step) for step in route.steps]}


def _step(step: Step) -> dict[str, Any]:
    return {
        "input": step.stream,
        "access": step.access,
        "equalities": [f"{own} = {bound}" for bound, own in step.equalities],
        "comparisons": [f"{c.own} {c.operator} {c.bound}" for c in step.comparisons],
        "then": [to_text(test) for test in step.then],
    }


def _estimate(estimate: JoinEstimate) -> dict[str, Any]:
    return {
        "inputs": {alias: asdict(one) for alias, one in estimate.inputs.items()},
        "distinct": dict(estimate.distinct),
        "unique": {key: {"values": values, "rows": rows} for key, (values, rows) in estimate.unique.items()},
        "way": estimate.way,
        "conditions": [asdict(one) for one in estimate.conditions],
        "routes": [
            {**asdict(route), "order": route.order, "comparisons": route.comparisons} for route in estimate.routes
        ],
        "comparisons_per_second": estimate.comparisons,
        "busy_ns_per_second": estimate.busy_ns,
        "results_per_second": estimate.results,
        "alternatives": [asdict(one) for one in estimate.alternatives],
    }
