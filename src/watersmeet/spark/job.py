"""A query as it travels to Spark's workers: plain values that pickle, nothing of the driver."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from watersmeet.engine.build import build, runnable_join, table_join_of
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import Rows
from watersmeet.operators.contract import Operator
from watersmeet.optimizer.choose_partitioning import choose_partitioning
from watersmeet.optimizer.stages import optimize
from watersmeet.plan.explain import window_text
from watersmeet.plan.expressions import Column, columns_of, to_text
from watersmeet.plan.nodes import Derived, Input, Join, Plan, Project
from watersmeet.plan.partitioning import Partitioning
from watersmeet.plan.strategy import JoinStrategy
from watersmeet.spark.buckets import balanced_ids
from watersmeet.spark.packets import from_packet

STATE_FORMAT = 1
# Of an announced row: whether it belongs to this bucket.
OWN = "__own"
OWN_FIELD = pa.field(OWN, pa.bool_())


@dataclass(frozen=True)
class SparkJob:
    """The plan without its sources, the static tables as packets, and the grid of buckets."""

    plan: Plan
    tables: Mapping[str, bytes]
    buckets: int

    @staticmethod
    def of(plan: Plan, tables: Mapping[str, bytes], buckets: int) -> SparkJob:
        return SparkJob(without_sources(plan), tables, buckets)

    @cached_property
    def join(self) -> Join:
        return runnable_join(self.plan)[0]

    @cached_property
    def project(self) -> Project:
        return runnable_join(self.plan)[1]

    @cached_property
    def strategy(self) -> JoinStrategy:
        return optimize(self.join, self.plan.method)

    @cached_property
    def partitioning(self) -> Partitioning:
        return choose_partitioning(self.strategy, self.buckets)

    @cached_property
    def counts_rows(self) -> bool:
        return any(isinstance(one.window, Rows) for one in self.join.streams)

    @cached_property
    def bucket_ids(self) -> list[int]:
        return balanced_ids(self.partitioning.buckets)

    @cached_property
    def aliases(self) -> list[str]:
        """The streams, in the order their numbers in packets refer to."""
        return [one.alias for one in self.join.streams]

    def columns_needed(self, one: Input) -> list[str]:
        """The columns of a stream that the query reads, its time among them; no others leave the source."""
        expressions = [e for _, e in self.project.columns] + list(self.join.predicates)
        used = {c.name for e in expressions for c in columns_of(e) if c.stream == one.alias}
        used.add(one.time or "")
        window = getattr(one.window, "partition_by", ())
        return [name for name in one.schema.names if name in used or name in window]

    def row_schema(self, one: Input) -> pa.Schema:
        return pa.schema([one.schema.field(name) for name in self.columns_needed(one)])

    def packet_schema(self, one: Input) -> pa.Schema:
        """The columns that reach a bucket: of an announced input, also which rows belong there."""
        schema = self.row_schema(one)
        return schema.append(OWN_FIELD) if one.alias in self.partitioning.announced else schema

    @cached_property
    def bucket_plan(self) -> Plan:
        """The plan as a bucket runs it: rows of announced inputs count everywhere but join where they belong."""
        announced = self.partitioning.announced
        if not announced:
            return self.plan
        inputs = tuple(_with_own(one) if one.alias in announced else one for one in self.join.inputs)
        own = tuple(Column(alias, OWN, pa.bool_()) for alias in announced)
        join = replace(self.join, inputs=inputs, predicates=(*self.join.predicates, *own))
        return replace(self.plan, root=replace(self.project, child=join))

    def make_operator(self) -> Operator:
        """A fresh operator tree for one bucket, static tables loaded. Spark's trigger is what refreshes it."""
        operator = build(self.bucket_plan, refresh_at_push=True)
        joining = table_join_of(operator)
        if joining is not None:
            for alias, packet in self.tables.items():
                for batch in from_packet(packet):
                    joining.load_table(alias, batch)
        return operator

    @cached_property
    def fingerprint(self) -> str:
        """What must not change between two runs on one checkpoint."""
        join = self.join
        parts = [f"format {STATE_FORMAT}", f"buckets {self.partitioning.buckets}", f"boundary {join.boundary}"]
        for one in join.inputs:
            parts.append(f"{one.alias} {one.relation.name} {window_text(one.window)} {one.time} {one.schema}")
        parts += sorted(to_text(predicate) for predicate in join.predicates)
        parts += sorted(map(str, join.bounds)) + [str(choice) for choice in join.choices]
        parts += [f"{name} {to_text(expression)}" for name, expression in self.project.columns]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def without_sources(plan: Plan) -> Plan:
    """The same plan with relations that only have names and columns."""
    join, project = runnable_join(plan)
    inputs = tuple(replace(one, relation=_bare(one.relation)) for one in join.inputs)
    return replace(plan, root=replace(project, child=replace(join, inputs=inputs)))


def _bare(relation: Stream | Table | Derived) -> Stream | Table:
    assert not isinstance(relation, Derived)
    return replace(relation, source=None, options={})


def _with_own(one: Input) -> Input:
    stream = stream_of(one)
    return replace(one, relation=replace(stream, schema=stream.schema.append(OWN_FIELD)))


def stream_of(one: Input) -> Stream:
    assert isinstance(one.relation, Stream)
    return one.relation
