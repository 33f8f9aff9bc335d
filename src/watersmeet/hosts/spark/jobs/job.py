"""A query as it travels to Spark's workers: plain values that pickle, nothing of the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError
from watersmeet.hosts.spark.jobs.fingerprint import fingerprint_of
from watersmeet.hosts.spark.jobs.ids import balanced_ids, guard_of
from watersmeet.hosts.spark.jobs.layout import PacketLayout
from watersmeet.hosts.spark.jobs.mailbox import Mailbox, log_only
from watersmeet.hosts.spark.packets import from_packet
from watersmeet.io.own_files import LOADED
from watersmeet.model.catalog import Stream
from watersmeet.operators.contract import Operator, Results, Rows
from watersmeet.operators.join.admission import Admission
from watersmeet.operators.memory_bound import Came, Sharing
from watersmeet.optimizer.asked_rows import AskedRows
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.optimizer.spread_keys import spread_along
from watersmeet.physical.partitioning import Dimension, Partitioning
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.physical.strategy import Code
from watersmeet.plan.identity import expression_text
from watersmeet.plan.memory import Memory
from watersmeet.plan.nodes import Input
from watersmeet.plan.query import Plan
from watersmeet.runtime.build import build_plan

_pickle: Any = cloudpickle
MOST_BYTES_OF_A_TASK = 2 << 30  # that Spark can hand to the driver
ARRIVAL_SILENCE_US = 8_000_000  # so that windows come out about two seconds after their ends


@dataclass(frozen=True)
class AtStart:
    """What is said of one start of a query, and is nothing of the query itself: the numbers of batches that are left
    out, where floods are told, whether answers go by way of the driver, a batch at a time, and whether all tasks run on
    one machine, where rows can be handed over in its memory. `begun`: the savepoint that buckets without a state begin
    with: its place, the name of the query in it, and its mark."""

    skipped: frozenset[int] = frozenset()
    floods: Mailbox | None = None
    by_driver: bool = False
    shares_memory: bool = False
    query: str = ""  # its name, where several run as one
    begun: tuple[str, str, str] | None = None


NO_WISHES = AtStart()


def send_by_value() -> None:
    """Let what files of a user define travel by value: they may be known to this process alone."""
    for module in LOADED:
        _pickle.register_pickle_by_value(module)


@dataclass(frozen=True)
class SparkJob(ABC):
    """The plan without its sources, the static tables as packets by name, and the number of buckets asked for."""

    plan: Plan
    tables: Mapping[str, bytes]
    buckets: int
    start: AtStart = NO_WISHES
    slot: int = 0  # among the jobs that are read together

    def __getstate__(self) -> dict[str, object]:
        """What was worked out stays behind: it is worked out anew where it is needed."""
        send_by_value()
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def physical(self) -> PhysicalPlan:
        """How the whole query would run in one place: what it reads, and how long rows of it matter."""
        return plan_query(self.plan)

    @cached_property
    def _bucket_physical(self) -> PhysicalPlan:
        """How a bucket runs it. Spark's trigger is what refreshes it."""
        return plan_query(self.bucket_plan, refresh_at_push=True)

    @property
    @abstractmethod
    def streams(self) -> tuple[Input, ...]:
        """What is read, in the order that numbers in packets refer to; an alias is the name rows are pushed under."""

    @property
    @abstractmethod
    def partitioning(self) -> Partitioning: ...

    def _spread(self, chosen: Partitioning) -> Partitioning:
        """With the keys that the query wants spread."""
        return replace(chosen, dimensions=spread_along(self.plan, self.physical, chosen.dimensions))

    @property
    @abstractmethod
    def counts_rows(self) -> bool:
        """Whether some window counts rows."""

    @property
    @abstractmethod
    def event_time(self) -> str | None:
        """The output column that Spark may take as the event time of results."""

    @abstractmethod
    def columns_needed(self, one: Input) -> list[str]:
        """The columns of a stream that the query reads, its time among them; no others leave the source."""

    @abstractmethod
    def admission(self, one: Input) -> Admission:
        """Which rows of a stream go to any bucket at all."""

    @property
    def bucket_plan(self) -> Plan:
        """The plan as a bucket runs it."""
        return self.plan

    @property
    def sharing(self) -> Sharing | None:
        """How buckets share a memory, if they do."""
        return None

    @property
    def waits(self) -> bool:
        """Whether some answers wait for the watermark, so that the end of the input brings more of them."""
        return True

    @property
    def is_stateless(self) -> bool:
        """Whether every row is answered by itself."""
        return False

    @property
    def nulls_count(self) -> bool:
        """Whether rows without a key belong somewhere: they match nothing, but they can be grouped."""
        return False

    @property
    def pulse_us(self) -> int | None:
        """The shortest silence that is to be noticed, if any is: then time must go on by itself. Streams whose rows
        have the moments of their arrival are never waited for."""
        streams = [stream_of(one) for one in self.streams]
        said = [ARRIVAL_SILENCE_US if one.by_arrival and self.waits else one.arrival.idle_us for one in streams]
        return min((silence_us for silence_us in said if silence_us is not None), default=None)

    @cached_property
    def bucket_ids(self) -> list[int]:
        return balanced_ids(self.partitioning.buckets, self.slot)

    @property
    def guard(self) -> int:
        """The key of the state that has the fingerprint."""
        return guard_of(self.slot)

    @cached_property
    def aliases(self) -> list[str]:
        return [one.alias for one in self.streams]

    @property
    def clocks(self) -> list[str]:
        """The names of the clocks of streams, in the order of these."""
        return self.aliases

    def number_of(self, one: Input) -> int:
        """By which packets refer to an input."""
        return self.aliases.index(one.alias)

    def copies(self, alias: str) -> int:
        """In how many buckets a row of a stream is, also where it only counts."""
        chosen = self.partitioning
        return chosen.buckets if alias in chosen.announced else chosen.copies(alias)

    def row_schema(self, one: Input) -> pa.Schema:
        return pa.schema([one.schema.field(name) for name in self.columns_needed(one)])

    def asked_of(self, source: str) -> Sequence[AskedRows]:
        """The rows of a stream that it asks for by constants, where no others are let in."""
        return ()

    def layout(self, one: Input) -> PacketLayout:
        """How the rows of a stream reach a bucket."""
        return PacketLayout(self.row_schema(one), one.time or "")

    def keys_of(self, one: Input) -> list[Code]:
        """The keys that place the rows of a stream."""
        dimensions = self.partitioning.dimensions
        return [dimension.keys[one.alias] for dimension in dimensions if one.alias in dimension.keys]

    def table_schema(self, name: str) -> pa.Schema:
        return next(one.schema for one in self.plan.relations if one.name == name)

    def leaves_out(self, batch: int | None) -> bool:
        """Whether nothing of a batch is to be answered; its rows are counted."""
        return batch in self.start.skipped

    def tell_of_flood(self, sentence: str, size: int) -> None:
        """Whoever started the query, if there is a way; else the log of the task. `size`: of the answers, in bytes."""
        if self.start.by_driver and size > MOST_BYTES_OF_A_TASK:
            raise DataError(
                f"{sentence}. They go by way of the driver, whose memory Spark would fill",
                hint="write them to Parquet files, into which they go block by block",
            )
        (log_only if self.start.floods is None else self.start.floods.tell)(sentence)

    def check(self) -> None:
        """Refuse, before it starts, what could only fail in the buckets, or would be left out of account."""
        _ = self.partitioning  # which is chosen here, with the keys that are to be spread
        if self.plan.options.has("threads"):
            raise self.plan.options.wrong(
                "threads",
                "is for queries in one process: on Spark rows are divided by key over buckets, and each core runs some",
                "leave it out, and say how many buckets there are: --buckets, or Session(spark, buckets=…)",
            )

    def make_operator(self, *, tables: bool = True) -> Operator:
        """A fresh operator tree for one bucket, static tables loaded unless these are to come from a state that was
        saved."""
        built = build_plan(self._bucket_physical)
        for table, load in built.tables if tables else ():
            for batch in from_packet(self.tables[table.name]):
                load(batch)
        return built.operator

    # ---- one job of several queries ----------------------------------------------------------------------------------

    @property
    def queries(self) -> Sequence[SparkJob]:
        """What it answers: itself, or each of several, in whose slots that is told."""
        return (self,)

    @property
    def kept_for(self) -> list[int]:
        """The slots of the queries that a log is kept for, if these may change."""
        return []

    def operators(self, operator: Operator) -> Sequence[Operator]:
        """That of each query, in an operator of a bucket."""
        return (operator,)

    def fits(self, operator: Operator) -> bool:
        """Whether it is one of these queries, of those that a worker has at hand."""
        return True

    def answers(
        self, operator: Operator, batch: Mapping[str, Rows], watermarks: Mapping[str, int]
    ) -> Iterator[tuple[int, Results]]:
        """To all that one batch brings, each with the place of its query; to be taken one after the other."""
        yield 0, operator.take(batch, watermarks)

    def own(self, query: int, stream: int, rows: Rows) -> Rows:
        """Of rows that came of a stream those that a query would have been given."""
        return rows

    def knows(self, guard: str) -> bool:
        """Whether a state that says so is its own."""
        return guard == self.fingerprint

    # ---- its operator ------------------------------------------------------------------------------------------------

    def share_memory(self, operator: Operator, bucket: int, came: Sequence[Came]) -> Memory | None:
        """Let a bucket keep what it now needs, after all that came in a batch, and say how much that is; None where
        memory is not bounded."""
        bounded = operator.bounded
        if bounded is None:
            return None
        if self.sharing is not None and bucket in self.bucket_ids:
            bounded.take_needs(came, self.bucket_ids.index(bucket))
        return bounded.memory

    @cached_property
    def fingerprint(self) -> str:
        """What must not change between two runs on one checkpoint."""
        where = [f"buckets {self.partitioning.buckets}", *self.grid(), *self.keeping()]
        if self.pulse_us is not None:  # a source more, and Spark goes on only with as many as it had
            where.append("some stream may be idle")
        return fingerprint_of(self.plan, where)

    def grid(self) -> list[str]:
        """Where rows lie in the state."""
        return [_dimension(dimension) for dimension in self.partitioning.dimensions]

    def keeping(self) -> list[str]:
        """What besides time decides which rows the state holds."""
        return []


def _dimension(one: Dimension) -> str:
    if one.fragment is not None:
        return f"{one.size} fragments of {one.fragment.lower()}"
    keys = f"{one.size} by {', '.join(sorted(expression_text(code.expression) for code in one.keys.values()))}"
    if one.spread is None:
        return keys
    return f"{keys}, spread {one.spread.split.lower()} {', '.join(map(str, one.spread.codes))}"


def stream_of(one: Input) -> Stream:
    assert isinstance(one.relation, Stream)
    return one.relation
