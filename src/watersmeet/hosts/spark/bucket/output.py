"""How results leave the stateful stage, with the numbers of the batch beside them.

Usually as packets, which a later stage unpacks. When the query selects event_time(), as typed columns, one of
which Spark knows as the event time: then windows and joins of Spark's own can follow without a new watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from watersmeet.hosts.spark.bucket.account import NUMBERS
from watersmeet.hosts.spark.exchange.bad_records import has_side_outputs
from watersmeet.hosts.spark.exchange.stream_end import END, REACHED
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.hosts.spark.packets import from_packet, to_packet
from watersmeet.hosts.spark.types import spark_layout, spark_schema
from watersmeet.io.conform import conform

OBSERVED = "watersmeet"  # the name under which the numbers of a query are observed
FIRST = "_first_"  # in that of a first stage
REPORTS = "reports"  # of buckets, of what does not add up: a text of each, and all of them are listed
SIDE = "side"  # packets of what goes to sinks beside the answers
PREFIX = "__"  # of the columns that carry the numbers beside typed results


class Output(Protocol):
    """Makes the frames that the stateful stage gives to Spark, and takes them apart on the other side."""

    event_time: str
    marks_end: bool

    @property
    def schema(self) -> spark.StructType: ...

    def ended(self, run: str, watermark_us: int) -> pd.DataFrame:
        """Tells a stage that follows that this bucket has ended in a run; only where `marks_end` says so."""
        ...

    def reached(self, until_us: int, watermark_us: int) -> pd.DataFrame:
        """Tells a stage that follows up to which time this bucket has given everything; only where `marks_end` does."""
        ...

    def frame(self, results: Sequence[pa.RecordBatch]) -> pd.DataFrame: ...

    def report(self, numbers: dict[str, int], watermark_us: int, text: str | None = None) -> pd.DataFrame: ...

    def side(self, records: bytes) -> pd.DataFrame:
        """A packet of what goes to a sink beside the answers; only where something does."""
        ...

    def rows(self, frames: DataFrame, observed: str) -> DataFrame: ...


def output_of(job: SparkJob, *, marks_end: bool = False) -> Output:
    """How a job gives its results. With `marks_end` they go to a second stage, which must learn of the end."""
    schema = job.plan.output_schema
    keeps = has_side_outputs(job.plan)
    if job.event_time is None or (keeps and not marks_end):
        return PackedOutput(schema, keeps)
    return TypedOutput(schema, job.event_time, marks_end=marks_end)


def _number_fields() -> list[spark.StructField]:
    numbers = [spark.StructField(PREFIX + name, spark.LongType()) for name in NUMBERS]
    return [*numbers, spark.StructField(PREFIX + REPORTS, spark.StringType())]


def _zeros(rows: int) -> dict[str, Any]:
    return {**{PREFIX + name: [0] * rows for name in NUMBERS}, PREFIX + REPORTS: [None] * rows}


def _observe(frames: DataFrame, observed: str) -> DataFrame:
    sums = [F.sum(PREFIX + name).alias(name) for name in NUMBERS]
    return frames.observe(observed, *sums, F.collect_list(PREFIX + REPORTS).alias(REPORTS))


class PackedOutput:
    """One packet per frame in a binary column."""

    event_time = ""
    marks_end = False

    def __init__(self, results: pa.Schema, keeps: bool = False) -> None:
        """keeps: something goes to sinks beside the answers. Then packets are what is given, of both."""
        self.results = results
        self.keeps = keeps

    def side(self, records: bytes) -> pd.DataFrame:
        return pd.DataFrame({"payload": [None], SIDE: [records], **_zeros(1)})

    def ended(self, run: str, watermark_us: int) -> pd.DataFrame:
        raise AssertionError("no stage follows packets")

    def reached(self, until_us: int, watermark_us: int) -> pd.DataFrame:
        raise AssertionError("no stage follows packets")

    @property
    def schema(self) -> spark.StructType:
        columns = ["payload", *([SIDE] if self.keeps else [])]
        return spark.StructType([*(spark.StructField(name, spark.BinaryType()) for name in columns), *_number_fields()])

    def frame(self, results: Sequence[pa.RecordBatch]) -> pd.DataFrame:
        return pd.DataFrame({"payload": [to_packet(results, self.results)], **self._no_records(), **_zeros(1)})

    def _no_records(self) -> dict[str, Any]:
        return {SIDE: [None]} if self.keeps else {}

    def report(self, numbers: dict[str, int], watermark_us: int, text: str | None = None) -> pd.DataFrame:
        counts = {PREFIX + name: [numbers.get(name, 0)] for name in NUMBERS}
        return pd.DataFrame({"payload": [None], **self._no_records(), **counts, PREFIX + REPORTS: [text]})

    def rows(self, frames: DataFrame, observed: str) -> DataFrame:
        if self.keeps:
            return _observe(frames, observed).select("payload", SIDE)
        out = spark_schema(self.results)
        return _observe(frames, observed).select("payload").mapInArrow(unpacker(self.results), out)


def unpacker(schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for mapInArrow that gives rows of `schema`, in the types Spark has for them."""
    layout = spark_layout(schema)

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column("payload"):
                if payload.is_valid:
                    for part in from_packet(payload.as_buffer()):
                        yield conform(part, layout)

    return unpack


class TypedOutput:
    """The result columns themselves; a row of numbers only is marked and left out afterwards."""

    def __init__(self, results: pa.Schema, event_time: str, *, marks_end: bool = False) -> None:
        self.results = results
        self.event_time = event_time
        self.marks_end = marks_end

    @property
    def schema(self) -> spark.StructType:
        marked = [spark.StructField(PREFIX + "report", spark.BooleanType())]
        if self.marks_end:
            marked += [spark.StructField(END, spark.StringType()), spark.StructField(REACHED, spark.LongType())]
        return spark.StructType([*spark_schema(self.results).fields, *marked, *_number_fields()])

    def frame(self, results: Sequence[pa.RecordBatch]) -> pd.DataFrame:
        layout = spark_layout(self.results)
        table = pa.Table.from_batches([conform(batch, layout) for batch in results], schema=layout)
        frame: pd.DataFrame = table.to_pandas(types_mapper=_keeping_nulls, maps_as_pydicts="strict")
        return self._marked(frame, report=False).assign(
            **{PREFIX + name: 0 for name in NUMBERS}, **{PREFIX + REPORTS: None}
        )

    def side(self, records: bytes) -> pd.DataFrame:
        raise AssertionError("typed results have nothing beside them")

    def report(self, numbers: dict[str, int], watermark_us: int, text: str | None = None) -> pd.DataFrame:
        counts = {PREFIX + name: numbers.get(name, 0) for name in NUMBERS}
        return self._marked(self._empty_row(watermark_us), report=True).assign(**counts, **{PREFIX + REPORTS: text})

    def ended(self, run: str, watermark_us: int) -> pd.DataFrame:
        return self._marker(watermark_us, end=run)

    def reached(self, until_us: int, watermark_us: int) -> pd.DataFrame:
        return self._marker(watermark_us, until_us=until_us)

    def _marker(self, watermark_us: int, *, end: str | None = None, until_us: int | None = None) -> pd.DataFrame:
        marked = self._marked(self._empty_row(watermark_us), report=False, end=end, until_us=until_us)
        return marked.assign(**{PREFIX + name: 0 for name in NUMBERS}, **{PREFIX + REPORTS: None})

    def _marked(
        self, frame: pd.DataFrame, *, report: bool, end: str | None = None, until_us: int | None = None
    ) -> pd.DataFrame:
        frame[PREFIX + "report"] = report
        if self.marks_end:
            frame[END] = end
            # Without the nullable type a None would make the column float, in which microseconds lose digits.
            frame[REACHED] = pd.array([until_us] * len(frame), dtype=pd.Int64Dtype())
        return frame

    def _empty_row(self, watermark_us: int) -> pd.DataFrame:
        """Its event time is the watermark, because Spark refuses rows that lie before it."""
        layout = spark_layout(self.results)
        columns = [pa.nulls(1, column.type) for column in layout]
        at = layout.get_field_index(self.event_time)
        # At least 1 ms: Spark's watermark is 0 before there is one, and a row at the watermark is too old for it.
        columns[at] = pa.array([max(watermark_us, 1000)]).cast(layout.field(at).type)
        frame: pd.DataFrame = pa.table(columns, schema=layout).to_pandas(types_mapper=_keeping_nulls)
        return frame

    def rows(self, frames: DataFrame, observed: str) -> DataFrame:
        # Observed first: the filter drops the very rows that carry the numbers.
        kept = _observe(frames, observed).filter(f"NOT `{PREFIX}report`")
        names = [*self.results.names, *([END, REACHED] if self.marks_end else [])]
        return kept.select(*(F.col(f"`{name}`") for name in names))


_NULLABLE: dict[pa.DataType, Callable[[], Any]] = {
    pa.bool_(): pd.BooleanDtype,
    pa.int8(): pd.Int8Dtype,
    pa.int16(): pd.Int16Dtype,
    pa.int32(): pd.Int32Dtype,
    pa.int64(): pd.Int64Dtype,
}


def _keeping_nulls(kind: pa.DataType) -> Any:
    """Integers with NULLs must not become floats."""
    made = _NULLABLE.get(kind)
    return made() if made else None
