"""How a continuous query notices that rows have expired: results held by their ends, or found again, as costs say.

The costs are those measured on this engine (`cost/expiry.py`), not H04's, which have time probing search all that it
holds (`cost/h04.py`).
"""

from __future__ import annotations

import math

from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import Range
from watersmeet.optimizer.classify_predicates import classify_predicates
from watersmeet.optimizer.close_equalities import close_equalities
from watersmeet.optimizer.cost.expiry import Leaving, finding_again_ns, holding_ns
from watersmeet.optimizer.cost.loops import Loops
from watersmeet.optimizer.describe import Description
from watersmeet.physical.pipeline import Pipeline, PipelineChoice
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.nodes import Join
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import inputs_below, nodes_below

# Results are found again only if that is so many times cheaper. How many partners a row has is often an assumption, and
# to be wrong costs more on that side: holding was never more than a quarter slower, finding again up to four times.
SURE = 2.0


def choose_pipeline(plan: Plan) -> PipelineChoice:
    """The one asked for, else the cheaper one. Only joins of windows in time can find their results again; of the rest
    neither is much cheaper, and states that were kept are of the one that the number of windows gives."""
    asked = plan.options.pipeline
    if asked != "auto":
        return PipelineChoice(asked)  # type: ignore[arg-type]  # the option has the same words
    # Rows of a plain join do not leave, so nothing has to notice it.
    nodes = () if plan.kind == "rows" else tuple(nodes_below(plan.root, into_subqueries=False))
    joins = [node for node in nodes if isinstance(node, Join) and len(node.streams) > 1]
    # Where rows push each other out, or a view says when, no rate tells how many leave.
    if not joins or not all(map(_ends_by_time, joins)):
        return PipelineChoice(_by_windows(plan))
    costs, held = {"tpa": 0.0, "nta": 0.0}, {"tpa": 0.0, "nta": 0.0}
    for join in joins:
        description = _described(join)
        streams = _leaving(description)
        costs["tpa"] += holding_ns(streams) / 1000
        costs["nta"] += finding_again_ns(streams) / 1000
        held["tpa"] += _results(description, None)  # what leaves is found again in the windows that the join has
    cheaper: Pipeline = "nta" if costs["tpa"] > SURE * costs["nta"] else "tpa"
    return PipelineChoice(cheaper, costs, held)


def _by_windows(plan: Plan) -> Pipeline:
    windows = [one for one in inputs_below(plan.root) if one.window is not None]
    return "tpa" if len(windows) <= 1 else "nta"


def _described(join: Join) -> Description:
    return Description(close_equalities(classify_predicates(JoinStrategy(join))))


def _leaving(description: Description) -> list[Leaving]:
    streams = [one for one in description.graph.streams if one.name in description.rates]
    return [Leaving(one.rate, one.rows, _results(description, one.name)) for one in streams]


def _results(description: Description, origin: str | None) -> float:
    """How many combinations a new row makes; without an origin, how many there are at any instant."""
    loops = Loops(description.graph, origin)
    found = loops.rows((1 << len(description.aliases)) - 1)
    return found if math.isfinite(found) else 0.0


def _ends_by_time(join: Join) -> bool:
    return all(isinstance(one.relation, Stream | Table) for one in join.inputs) and all(
        isinstance(one.window, Range) for one in join.streams
    )
