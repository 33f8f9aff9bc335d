"""How evenly the threads of a query are at work, by which keys if not, and what would do."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.plan.query import Plan
from watersmeet.plan.spread import Spread
from watersmeet.runtime import skew
from watersmeet.runtime.build import planned_here
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.skew import Places

WHEN = "start it"


def skew_text(plan: Plan, metrics: Metrics) -> str | None:
    """Of a whole run; nothing where its threads are even enough, or keys are spread already."""
    if plan.options.spread is not None:
        return None
    return skew.skew_text(metrics, lambda: places_of(plan, len(metrics.work_by_bucket)))


def places_of(plan: Plan, threads: int) -> Places:
    def take(spread: Spread) -> object:
        return planned_here(replace(plan, options=plan.options.but(threads=threads, spread=spread)))

    streams = {name: stream.name for name, stream in planned_here(plan).streams.items()}
    return Places("thread", streams, take, WHEN)
