"""How a continuous query notices that rows have expired: by time probing or negative tuples, as costs say (H04)."""

from __future__ import annotations

import math

from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import Range
from watersmeet.optimizer.classify_predicates import classify_predicates
from watersmeet.optimizer.close_equalities import close_equalities
from watersmeet.optimizer.cost.h04 import nta_expiry_cost, tpa_expiry_cost
from watersmeet.optimizer.cost.loops import Loops
from watersmeet.optimizer.describe import Description
from watersmeet.physical.pipeline import PipelineChoice, pipeline_of
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.nodes import Join, Plan, nodes_below


def choose_pipeline(plan: Plan) -> PipelineChoice:
    """The one asked for, else the cheapest; where a join's results have no certain end, as the windows suggest."""
    # Rows of a plain join do not leave, so nothing has to notice it.
    if plan.options.pipeline != "auto" or plan.kind == "rows":
        return PipelineChoice(pipeline_of(plan))
    nodes = list(nodes_below(plan.root, into_subqueries=False))
    joins = [node for node in nodes if isinstance(node, Join) and len(node.streams) > 1]
    # Where rows push each other out, or a view says when, no rate tells how many leave.
    if not joins or not all(map(_ends_by_time, joins)):
        return PipelineChoice(pipeline_of(plan))
    probing = negative = 0.0
    for join in joins:
        description = _described(join)
        streams = [one for one in description.graph.streams if one.name in description.rates]
        stored = _results_alive(description)
        buckets = max(1, round(min(stored, *(max(1.0, one.rows) for one in streams))))
        probing += tpa_expiry_cost(streams, stored)
        # A negative tuple passes every operator of the query once more.
        negative += nta_expiry_cost(streams, stored, buckets, operators=len(nodes))
    return PipelineChoice("tpa" if probing <= negative else "nta", {"tpa": probing, "nta": negative})


def _described(join: Join) -> Description:
    return Description(close_equalities(classify_predicates(JoinStrategy(join))))


def _results_alive(description: Description) -> float:
    """How many combinations are in the answer at a time."""
    # Without an origin: all whole windows, as at any instant.
    loops = Loops(description.graph, None)
    alive = loops.rows((1 << len(description.aliases)) - 1)
    return alive if math.isfinite(alive) else 0.0


def _ends_by_time(join: Join) -> bool:
    return all(isinstance(one.relation, Stream | Table) for one in join.inputs) and all(
        isinstance(one.window, Range) for one in join.streams
    )
