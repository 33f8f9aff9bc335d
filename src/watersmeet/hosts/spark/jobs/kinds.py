"""Which kind of job a query is on Spark: a join of streams and tables, or an answer that changes; and whether it is one
job or several, in stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError
from watersmeet.hosts.spark.jobs.job import NO_WISHES, AtStart, SparkJob, stream_of
from watersmeet.hosts.spark.jobs.layout import PacketLayout, own_columns
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import RowsWindow
from watersmeet.operators.contract import Operator
from watersmeet.operators.join.admission import Admission
from watersmeet.operators.keeping.policies import POLICIES
from watersmeet.operators.memory_bound import Sharing
from watersmeet.optimizer.asked_rows import AskedRows, asked_of
from watersmeet.optimizer.choose_bucket_key import bucket_codes, choose_bucket_key
from watersmeet.optimizer.choose_partitioning import choose_partitioning
from watersmeet.optimizer.stage_joins import Staged, stage_joins
from watersmeet.optimizer.stages import optimize
from watersmeet.physical.partitioning import Dimension, Partitioning
from watersmeet.physical.strategy import Code, JoinStrategy
from watersmeet.plan.expressions import Column, EventTime, columns_of
from watersmeet.plan.nodes import Input, Join, Project
from watersmeet.plan.options import Options
from watersmeet.plan.published import PUBLISHED_PIPELINES
from watersmeet.plan.query import Plan
from watersmeet.plan.rewrite import with_relations
from watersmeet.plan.shapes import SelectedJoin
from watersmeet.runtime.build import build

# Of an announced row: whether it belongs to this bucket.
OWN = "__own"
OWN_FIELD = pa.field(OWN, pa.bool_())
# Cells by which needs are told apart, in all buckets together, and at least in each.
CELLS, MIN_CELLS = 2048, 8


@dataclass(frozen=True)
class JoinJob(SparkJob):
    @cached_property
    def plain(self) -> SelectedJoin:
        plain = self.plan.plain_join
        assert plain is not None
        return plain

    @property
    def join(self) -> Join:
        return self.plain.join

    @property
    def project(self) -> Project:
        return self.plain.project

    @cached_property
    def strategy(self) -> JoinStrategy:
        return self.physical.strategy

    @property
    def streams(self) -> tuple[Input, ...]:
        return self.join.streams

    @cached_property
    def partitioning(self) -> Partitioning:
        return self._spread(choose_partitioning(self.strategy, min(self.buckets, self._most_buckets)))

    @property
    def _most_buckets(self) -> int:
        """Each must have room for a row of every stream. Of others nobody knows how their rows may be spread."""
        if not self.physical.root.row_by_row:
            return 1
        memory = self.plan.shedding.memory if self.plan.shedding is not None else None
        return self.buckets if memory is None or memory.rows is None else max(memory.rows // len(self.join.streams), 1)

    @cached_property
    def counts_rows(self) -> bool:
        return any(isinstance(one.window, RowsWindow) for one in self.join.streams)

    @property
    def waits(self) -> bool:
        """Rows wait where they are counted, and for algorithms that take them in time order."""
        method = self.plan.method
        return self.counts_rows or (method.is_classic and not method.kind.any_order)

    @property
    def is_stateless(self) -> bool:
        """One stream, alone or with static tables, and no rows to count. Where late rows are kept, a clock must tell
        which are."""
        alone = len(self.streams) == 1 and not self.counts_rows and self.physical.root.row_by_row
        return alone and stream_of(self.streams[0]).late_to is None

    @property
    def event_time(self) -> str | None:
        return next((name for name, e in self.project.columns if isinstance(e, EventTime)), None)

    def columns_needed(self, one: Input) -> list[str]:
        needed = self.physical.leaf(one.alias).columns
        return [name for name in one.schema.names if name in needed]

    def admission(self, one: Input) -> Admission:
        """In a ROWS window every row counts, also one that can match nothing."""
        announced = one.alias in self.partitioning.announced
        if announced or isinstance(one.window, RowsWindow):
            return Admission((), () if announced else self.keys_of(one))
        strategy = self.bucket_strategy
        compared = (*strategy.probing_codes(one.alias), *strategy.stored_codes(one.alias))
        return Admission(strategy.filters.get(one.alias, ()), (*self.keys_of(one), *compared))

    def asked_of(self, source: str) -> Sequence[AskedRows]:
        return asked_of(self.physical).get(source, ())

    @cached_property
    def bucket_strategy(self) -> JoinStrategy:
        """How a bucket will join. What it compares there is encoded before; where routes may change, all codes are."""
        if not self.partitioning.announced:
            return self.strategy
        inside = self.bucket_plan.plain_join
        assert inside is not None
        return optimize(inside.join, self.plan.method)

    def layout(self, one: Input) -> PacketLayout:
        """Of an announced input, also which rows belong to the bucket; of any that is joined, but for ROWS windows,
        whose rows all count, the codes."""
        schema, time = self.row_schema(one), one.time or ""
        if one.alias in self.partitioning.announced:
            return PacketLayout(schema.append(OWN_FIELD), time)
        if isinstance(one.window, RowsWindow) or len(self.join.inputs) == 1:
            return PacketLayout(schema, time)
        # The admission filters by these codes and makes them; here only those travel that the bucket compares again.
        codes = [code for code in self.admission(one).codes if self._is_compared(code)]
        kept = {time, *own_columns(codes), *self._shown(one.alias)}
        return PacketLayout.with_codes(pa.schema([field for field in schema if field.name in kept]), time, codes)

    def _is_compared(self, code: Code) -> bool:
        """Not a key that only places rows."""
        strategy = self.bucket_strategy
        return code in strategy.probing_codes(code.stream) or code in strategy.stored_codes(code.stream)

    def _shown(self, alias: str) -> set[str]:
        """The columns of a stream that results are made of or tested by. A join that forgets early may have to write
        down others, so that completion finds its rows again."""
        strategy = self.bucket_strategy
        shown = [*(e for _, e in self.project.columns), *strategy.residuals, *strategy.verified]
        if self.plan.shedding is not None:
            shown += self.join.predicates
        return {c.name for e in shown for c in columns_of(e) if c.stream == alias}

    @cached_property
    def bucket_plan(self) -> Plan:
        """Rows of announced inputs count everywhere but join where they belong; and each bucket begins with the same
        share of the memory."""
        announced = self.partitioning.announced
        plan = replace(self.plan, options=self._bucket_options)
        if not announced:
            return plan
        inputs = tuple(_with_own(one) if one.alias in announced else one for one in self.join.inputs)
        # As a predicate, OWN keeps strangers out of results; it is no filter of the input, so they are still counted.
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
        one_key = len(dimensions) == 1 and dimensions[0].spread is None
        one_key &= all(alias in dimensions[0].keys for alias in self.aliases)
        return one_key and policy.keys and not policy.completes

    def check(self) -> None:
        """A worker knows only its bucket's share of the memory, and cannot say what is wrong with the whole."""
        super().check()
        shedding, buckets = self.plan.shedding, self.partitioning.buckets
        if self.plan.spilling is not None:
            raise self.plan.options.wrong(
                "when_full",
                "is for queries in one process: Spark keeps windows in its state store, from which a bucket is rebuilt "
                "in memory",
                "leave memory out, and have more buckets, so that each is smaller: Session(spark, buckets=…)",
            )
        if shedding is None:
            return
        # With the whole memory: a share that is too small would be refused here in words that name only the share.
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

    @property
    def _bucket_options(self) -> Options:
        shedding, options = self.plan.shedding, self.plan.options
        if shedding is None:
            return options
        share = shedding.memory.shared(self.partitioning.buckets, len(self.join.streams))
        return options.but(memory=share)

    def keeping(self) -> list[str]:
        one = self.plan.shedding
        if one is None:
            return []
        return [
            f"memory {one.memory}",
            f"shed {one.policy}, allocation {one.allocation}, seed {one.seed}, recall {one.recall}",
            f"max_lag {one.max_lag_us}, queue {one.queue}",
            f"archive {one.archive}",
            f"aliases {self.aliases}",  # which name the arrays of a state that is kept whole
        ]


def _with_own(one: Input) -> Input:
    stream = stream_of(one)
    return replace(one, relation=replace(stream, schema=stream.schema.append(OWN_FIELD)))


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
        why = "a column that keeps together what belongs together"
        return self._spread(Partitioning((Dimension(self.buckets, codes),), why))

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


def job_of(plan: Plan, tables: Mapping[str, bytes], buckets: int, start: AtStart = NO_WISHES) -> SparkJob:
    """The job of a plan, with its static tables as packets."""
    # Sources are DataFrames and handles of the driver, which do not pickle.
    frequencies = tuple((alias, replace(table, source=None)) for alias, table in plan.frequencies)
    bare = replace(plan, root=with_relations(plan.root, _without_source), frequencies=frequencies)
    return (ContinuousJob if plan.plain_join is None else JoinJob)(bare, tables, buckets, start)


def _without_source(relation: Stream | Table) -> Stream | Table:
    return replace(relation, source=None)


def in_stages(plan: Plan) -> Staged | None:
    """The joins of a query apart, if the whole of it cannot be cut by one key."""
    if plan.plain_join is not None or choose_bucket_key(plan.root) is not None:
        return None
    return stage_joins(plan)
