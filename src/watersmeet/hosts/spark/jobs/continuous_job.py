"""A query with an answer that changes, on Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.operators.join.admission import Admission
from watersmeet.optimizer.choose_bucket_key import bucket_codes
from watersmeet.physical.partitioning import Dimension, Partitioning
from watersmeet.plan.expressions import Column
from watersmeet.plan.nodes import Input, Plan
from watersmeet.plan.published import PUBLISHED_PIPELINES


@dataclass(frozen=True)
class ContinuousJob(SparkJob):
    """Buckets are cut by a column that every stream shares, or one bucket holds everything."""

    event_time = None
    nulls_count = True

    @cached_property
    def streams(self) -> tuple[Input, ...]:
        return tuple(Input(leaf.name, leaf.stream) for leaf in self.physical.leaves)

    @cached_property
    def counts_rows(self) -> bool:
        return any(leaf.window is not None for leaf in self.physical.leaves)

    @cached_property
    def partitioning(self) -> Partitioning:
        codes = bucket_codes(self.plan.root, self.physical.leaves)
        if codes is None:
            return Partitioning((), "one bucket: the answer depends on all rows together")
        if self.buckets == 1:
            return Partitioning((), "one bucket")
        return Partitioning((Dimension(self.buckets, codes),), "a column that keeps together what belongs together")

    @cached_property
    def bucket_plan(self) -> Plan:
        """Spark runs a batch when there is input or time has gone on, so an operator has nothing to wait for."""
        if self.plan.options.pipeline in PUBLISHED_PIPELINES:
            raise self.plan.options.wrong(
                "pipeline",
                "runs operators as H04 prints them, which are here to be compared, in one process",
                "leave pipeline out on Spark",
            )
        if self.plan.options.pipeline != "ita":
            return self.plan
        return replace(self.plan, options=self.plan.options.but(pipeline="tpa"))

    def columns_needed(self, one: Input) -> list[str]:
        keys = {code.expression.name for code in self.keys_of(one) if isinstance(code.expression, Column)}
        needed = self.physical.leaf(one.alias).columns | keys
        return [name for name in one.schema.names if name in needed]

    def admission(self, one: Input) -> Admission:
        """Every row counts; those without a key too."""
        return Admission((), ())
