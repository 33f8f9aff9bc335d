"""How results leave the stateful stage, and beside them what its buckets tell of the batch.

As typed columns, one of which Spark knows as the event time when the query selects event_time(): then windows and joins
of Spark's own can follow without a new watermark. As packets, which a later stage unpacks, where results hold values
that pandas, through which all output of the stage goes, would take apart one by one, and where not only results leave.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from watersmeet.hosts.spark.exchange.bad_records import has_side_outputs
from watersmeet.hosts.spark.exchange.stream_end import END, REACHED
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.hosts.spark.packets import cut, from_packet, to_packet
from watersmeet.hosts.spark.types import spark_layout, spark_schema
from watersmeet.io.conform import conform

OBSERVED = "watersmeet"  # the name under which a query is observed
FIRST = "_first_"  # in that of a first stage
REPORTS = "reports"  # what is observed: a text from each bucket that took part
SIDE = "side"  # packets of what goes to sinks beside the answers
QUERY = "query"  # the column of the slot of the query that a packet is of, where several answer together
REPORT = "__report"  # the column of such a text; a row that has one is no result


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

    def report(self, text: str, watermark_us: int) -> pd.DataFrame: ...

    def side(self, records: bytes) -> pd.DataFrame:
        """A packet of what goes to a sink beside the answers; only where something does."""
        ...

    def rows(self, frames: DataFrame, observed: str) -> DataFrame: ...


def output_of(job: SparkJob, *, marks_end: bool = False) -> Output:
    """How a job gives its results. With `marks_end` they go to a second stage, which must learn of the end."""
    schema = job.plan.output_schema
    keeps = has_side_outputs(job.plan)
    is_plain = all(not pa.types.is_nested(one.type) and one.name.lower() != REPORT for one in spark_layout(schema))
    if (job.event_time is None and not is_plain) or (keeps and not marks_end):
        return PackedOutput(schema, keeps)
    return TypedOutput(schema, job.event_time or "", marks_end=marks_end)


def report_of(bucket: int, counts: Mapping[str, int], told: Mapping[str, Any]) -> str:
    """What a bucket tells of a batch: numbers that add up over buckets, of which none are left out, and the rest."""
    return json.dumps({"bucket": bucket, **told, "counts": {name: one for name, one in counts.items() if one}})


def _observe(frames: DataFrame, observed: str) -> DataFrame:
    # One aggregate, as Spark runs each of them for each row of an answer, and plans them anew for each batch.
    return frames.observe(observed, F.collect_list(REPORT).alias(REPORTS))


class PackedOutput:
    """Packets in a binary column."""

    event_time = ""
    marks_end = False

    def __init__(self, results: pa.Schema, keeps: bool = False, slot: int | None = None) -> None:
        """keeps: something goes to sinks beside the answers. Then packets are what is given, of both. slot: that of the
        query among those that answer together; then packets, and what goes beside them, are given with it."""
        self.results = results
        self.keeps = keeps or slot is not None
        self.slot = slot

    @property
    def schema(self) -> spark.StructType:
        columns = ["payload", *([SIDE] if self.keeps else [])]
        fields = [spark.StructField(name, spark.BinaryType()) for name in columns]
        fields += [] if self.slot is None else [spark.StructField(QUERY, spark.IntegerType())]
        return spark.StructType([*fields, spark.StructField(REPORT, spark.StringType())])

    def frame(self, results: Sequence[pa.RecordBatch]) -> pd.DataFrame:
        packets = [to_packet([piece], self.results) for batch in results for piece in cut(batch)]
        return self._rows(payload=packets)

    def report(self, text: str, watermark_us: int) -> pd.DataFrame:
        return self._rows(report=[text])

    def side(self, records: bytes) -> pd.DataFrame:
        return self._rows(side=[records])

    def _rows(self, payload: Any = None, side: Any = None, report: Any = None) -> pd.DataFrame:
        """What is not given is NULL in all of them."""
        made = pd.DataFrame({"payload": payload, SIDE: side, QUERY: self.slot, REPORT: report})
        return made[self.schema.names]

    def ended(self, run: str, watermark_us: int) -> pd.DataFrame:
        raise AssertionError("no stage follows packets")

    def reached(self, until_us: int, watermark_us: int) -> pd.DataFrame:
        raise AssertionError("no stage follows packets")

    def rows(self, frames: DataFrame, observed: str) -> DataFrame:
        if self.keeps:
            return _observe(frames, observed).drop(REPORT)
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
    """The result columns themselves, and beside them those of rows that tell something, which are NULL in results."""

    def __init__(self, results: pa.Schema, event_time: str, *, marks_end: bool = False) -> None:
        self.results = results
        self.event_time = event_time
        self.marks_end = marks_end

    @property
    def schema(self) -> spark.StructType:
        return spark.StructType([*spark_schema(self.results).fields, *spark_schema(self._beside).fields])

    @property
    def _beside(self) -> pa.Schema:
        ends = [(END, pa.string()), (REACHED, pa.int64())] if self.marks_end else []
        return pa.schema([*ends, (REPORT, pa.string())])

    def frame(self, results: Sequence[pa.RecordBatch]) -> pd.DataFrame:
        layout = spark_layout(self.results)
        # In one piece, as pandas gives a column of several back as such, which fits into no batch of Spark's.
        return self._frame(pa.concat_batches([conform(batch, layout) for batch in results]))

    def side(self, records: bytes) -> pd.DataFrame:
        raise AssertionError("typed results have nothing beside them")

    def report(self, text: str, watermark_us: int) -> pd.DataFrame:
        return self._frame(self._empty_row(watermark_us), {REPORT: text})

    def ended(self, run: str, watermark_us: int) -> pd.DataFrame:
        return self._frame(self._empty_row(watermark_us), {END: run})

    def reached(self, until_us: int, watermark_us: int) -> pd.DataFrame:
        return self._frame(self._empty_row(watermark_us), {REACHED: until_us})

    def _frame(self, rows: pa.RecordBatch, told: Mapping[str, Any] | None = None) -> pd.DataFrame:
        told = told or {}
        for column in self._beside:
            one = pa.scalar(told.get(column.name), column.type)
            rows = rows.append_column(column.name, pa.repeat(one, rows.num_rows))
        frame: pd.DataFrame = rows.to_pandas(types_mapper=_as_it_is, maps_as_pydicts="strict")
        return frame

    def _empty_row(self, watermark_us: int) -> pa.RecordBatch:
        """Its event time, if there is one, is the watermark, because Spark refuses rows that lie before it."""
        layout = spark_layout(self.results)
        columns = [pa.nulls(1, column.type) for column in layout]
        if self.event_time:
            at = layout.get_field_index(self.event_time)
            # At least 1 ms: Spark's watermark is 0 before there is one, and a row at the watermark is too old for it.
            columns[at] = pa.array([max(watermark_us, 1000)]).cast(layout.field(at).type)
        return pa.RecordBatch.from_arrays(columns, schema=layout)

    def rows(self, frames: DataFrame, observed: str) -> DataFrame:
        # Observed first: the filter drops the very rows that are.
        return _observe(frames, observed).filter(F.col(REPORT).isNull()).drop(REPORT)


def _as_it_is(kind: pa.DataType) -> pd.ArrowDtype | None:
    """Arrow's own values, which pandas only hands on; those with parts pyspark wants as Python's."""
    return None if pa.types.is_nested(kind) else pd.ArrowDtype(kind)
