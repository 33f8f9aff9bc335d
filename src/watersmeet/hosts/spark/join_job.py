"""A join of streams and tables on Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.hosts.spark.job import SparkJob, stream_of
from watersmeet.model.windows import Rows
from watersmeet.operators.bounded import Sharing
from watersmeet.operators.contract import Operator
from watersmeet.operators.join.admission import Admission
from watersmeet.operators.keeping.policies import POLICIES
from watersmeet.optimizer.choose_partitioning import choose_partitioning
from watersmeet.optimizer.stages import optimize
from watersmeet.physical.partitioning import Partitioning
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.expressions import Column, EventTime, columns_of, to_text
from watersmeet.plan.nodes import Input, Join, Plan, Project
from watersmeet.plan.options import Options
from watersmeet.plan.window_words import window_text
from watersmeet.runtime.build import Built, build, build_query, runnable_join, strategy_of

# Of an announced row: whether it belongs to this bucket.
OWN = "__own"
OWN_FIELD = pa.field(OWN, pa.bool_())
# Cells by which needs are told apart, in all buckets together, and at least in each.
CELLS, MIN_CELLS = 2048, 8


@dataclass(frozen=True)
class JoinJob(SparkJob):
    @cached_property
    def join(self) -> Join:
        return runnable_join(self.plan)[0]

    @cached_property
    def project(self) -> Project:
        return runnable_join(self.plan)[1]

    @cached_property
    def strategy(self) -> JoinStrategy:
        return optimize(self.join, self.plan.method)

    @property
    def streams(self) -> tuple[Input, ...]:
        return self.join.streams

    @cached_property
    def partitioning(self) -> Partitioning:
        return choose_partitioning(self.strategy, min(self.buckets, self._most_buckets))

    @property
    def _most_buckets(self) -> int:
        """Each must have room for a row of every stream."""
        memory = self.plan.shedding.memory if self.plan.shedding is not None else None
        return self.buckets if memory is None or memory.rows is None else max(memory.rows // len(self.join.streams), 1)

    @cached_property
    def counts_rows(self) -> bool:
        return any(isinstance(one.window, Rows) for one in self.join.streams)

    @property
    def waits(self) -> bool:
        """Rows wait where they are counted, and for algorithms that take them in time order."""
        return self.counts_rows or self.plan.method.is_classic

    @property
    def tells_newest(self) -> bool:
        return self.waits and self.partitioning.buckets > 1

    @property
    def event_time(self) -> str | None:
        return next((name for name, e in self.project.columns if isinstance(e, EventTime)), None)

    def columns_needed(self, one: Input) -> list[str]:
        expressions = [e for _, e in self.project.columns] + list(self.join.predicates)
        used = {c.name for e in expressions for c in columns_of(e) if c.stream == one.alias}
        used.add(one.time or "")
        window = getattr(one.window, "partition_by", ())
        return [name for name in one.schema.names if name in used or name in window]

    def admission(self, one: Input) -> Admission:
        """In a ROWS window every row counts, also one that can match nothing."""
        announced = one.alias in self.partitioning.announced
        if announced or isinstance(one.window, Rows):
            return Admission((), () if announced else self.keys_of(one))
        compared = (*self.strategy.probing_codes(one.alias), *self.strategy.stored_codes(one.alias))
        return Admission(self.strategy.filters.get(one.alias, ()), (*self.keys_of(one), *compared))

    def retention_us(self, alias: str) -> int:
        return self.join.retention_us(alias)

    def packet_schema(self, one: Input) -> pa.Schema:
        """Of an announced input, also which rows belong to the bucket."""
        schema = self.row_schema(one)
        return schema.append(OWN_FIELD) if one.alias in self.partitioning.announced else schema

    @cached_property
    def bucket_plan(self) -> Plan:
        """Rows of announced inputs count everywhere but join where they belong; and each bucket begins with the same
        share of the memory."""
        announced = self.partitioning.announced
        plan = replace(self.plan, options=self._bucket_options)
        if not announced:
            return plan
        inputs = tuple(_with_own(one) if one.alias in announced else one for one in self.join.inputs)
        own = tuple(Column(alias, OWN, pa.bool_()) for alias in announced)
        join = replace(self.join, inputs=inputs, predicates=(*self.join.predicates, *own))
        return replace(plan, root=replace(self.project, child=join))

    @cached_property
    def sharing(self) -> Sharing | None:
        shedding, buckets = self.plan.shedding, self.partitioning.buckets
        if shedding is None or buckets == 1:
            return None
        finer = max(CELLS // buckets, MIN_CELLS) if self._keys_tell_worth else 1
        return Sharing(shedding.memory, shedding.allocation == "fixed", tuple(self.aliases), buckets, finer)

    @property
    def _keys_tell_worth(self) -> bool:
        """Whether rows are kept for how often their partners come, and all partners of a row are found by the key that
        the buckets are cut by."""
        assert self.plan.shedding is not None
        policy, dimensions = POLICIES[self.plan.shedding.policy], self.partitioning.dimensions
        one_key = len(dimensions) == 1 and all(alias in dimensions[0].keys for alias in self.aliases)
        return one_key and policy.keys and not policy.completes

    def check(self) -> None:
        """A worker knows only its bucket's share of the memory, and cannot say what is wrong with the whole."""
        shedding, buckets = self.plan.shedding, self.partitioning.buckets
        if shedding is None:
            return
        bounded = build(replace(self.bucket_plan, options=self.plan.options)).bounded
        assert bounded is not None
        size, each = shedding.memory.size, bounded.least_size
        if size is not None and size < each * buckets:
            most = size // each
            raise OptionError(
                f"option memory = {shedding.memory.written!r} is too little for {buckets} buckets: in each of them a "
                f"row of each stream that is kept, and one that comes, take {each} bytes",
                hint=f"write memory = '{each * buckets} bytes' or more, or have no more than {most} of them: --buckets "
                f"{most}, or Session(spark, buckets={most})",
                option="memory",
            )

    def make_operator(self, *, tables: bool = True) -> Operator:
        operator = super().make_operator(tables=tables)
        if operator.bounded is not None and self.plan.shedding is not None and self.plan.shedding.archive is not None:
            operator.bounded.start_recording()
        if operator.bounded is not None and self.sharing is not None:
            operator.bounded.share_by(self.sharing)
        return operator

    def _build(self) -> Built:
        return build_query(self.bucket_plan, refresh_at_push=True, strategy=self._bucket_strategy)

    @cached_property
    def _bucket_strategy(self) -> JoinStrategy | None:
        """Worked out once for all buckets of a task."""
        if self.bucket_plan.root is self.plan.root and not self.plan.method.is_lazy:
            return self.strategy
        return strategy_of(self.bucket_plan, refresh_at_push=True) if len(self.join.inputs) > 1 else None

    @property
    def _bucket_options(self) -> Options:
        shedding, options = self.plan.shedding, self.plan.options
        if shedding is None:
            return options
        share = shedding.memory.shared(self.partitioning.buckets, len(self.join.streams))
        return replace(options, memory=str(share))

    def meaning(self) -> list[str]:
        join = self.join
        parts = [f"boundary {join.boundary}"]
        if self.plan.shedding is not None:
            parts.append(str(self.plan.shedding))
        for one in join.inputs:
            parts.append(f"{one.alias} {one.relation.name} {window_text(one.window)} {one.time} {one.schema}")
        parts += sorted(to_text(predicate) for predicate in join.predicates)
        parts += sorted(map(str, join.bounds)) + [str(choice) for choice in join.choices]
        return parts + [f"{name} {to_text(expression)}" for name, expression in self.project.columns]


def _with_own(one: Input) -> Input:
    stream = stream_of(one)
    return replace(one, relation=replace(stream, schema=stream.schema.append(OWN_FIELD)))
