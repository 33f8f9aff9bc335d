"""How evenly the buckets of a query are at work, by which keys if not, and what would do."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.hosts.spark.jobs.kinds import job_of
from watersmeet.plan.query import Plan
from watersmeet.plan.spread import Spread
from watersmeet.runtime import skew
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.skew import Places

WHEN = "begin it, or go on from a savepoint,"


def skew_text(plan: Plan, metrics: Metrics) -> str | None:
    """Of a whole run; nothing where buckets are even enough."""
    return skew.skew_text(metrics, lambda: places_of(plan, len(metrics.work_by_bucket)))


def places_of(plan: Plan, buckets: int) -> Places:
    job = job_of(plan, {}, buckets)

    def take(spread: Spread) -> object:
        return replace(job, plan=replace(plan, options=plan.options.but(spread=spread))).partitioning

    return Places("bucket", {one.alias: one.relation.name for one in job.streams}, take, WHEN)
