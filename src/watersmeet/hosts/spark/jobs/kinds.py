"""Which kind of job a query is on Spark, and whether it is one or several, in stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from watersmeet.hosts.spark.jobs.continuous_job import ContinuousJob
from watersmeet.hosts.spark.jobs.job import NO_WISHES, AtStart, SparkJob
from watersmeet.hosts.spark.jobs.join_job import JoinJob
from watersmeet.model.catalog import Stream, Table
from watersmeet.optimizer.choose_bucket_key import choose_bucket_key
from watersmeet.optimizer.stage_joins import Staged, stage_joins
from watersmeet.plan.nodes import Plan
from watersmeet.plan.rewrite import with_relations


def job_of(plan: Plan, tables: Mapping[str, bytes], buckets: int, start: AtStart = NO_WISHES) -> SparkJob:
    """The job of a plan, with its static tables as packets."""
    # Sources are DataFrames and handles of the driver, which do not pickle.
    bare = replace(plan, root=with_relations(plan.root, _without_source))
    return (ContinuousJob if plan.plain_join is None else JoinJob)(bare, tables, buckets, start)


def _without_source(relation: Stream | Table) -> Stream | Table:
    return replace(relation, source=None)


def in_stages(plan: Plan) -> Staged | None:
    """The joins of a query apart, if the whole of it cannot be cut by one key."""
    if plan.plain_join is not None or choose_bucket_key(plan.root) is not None:
        return None
    return stage_joins(plan)
