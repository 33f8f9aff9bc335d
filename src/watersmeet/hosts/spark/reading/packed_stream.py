"""A stream that Spark gets as packets, and never as rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from watersmeet.hosts.spark.exchange.pack import PACKED_SCHEMA
from watersmeet.hosts.spark.jobs.job import SparkJob, stream_of
from watersmeet.hosts.spark.reading.partitions import NEWEST
from watersmeet.model.catalog import Stream


class PackedStream(Protocol):
    """A stream that hands packets to Spark, and knows when it ends."""

    def packed_reader(self, spark: SparkSession, job: SparkJob) -> DataStreamReader:
        """Of its packets, for a job."""

    def dataframe(self, spark: SparkSession, stream: Stream) -> DataFrame:
        """The same stream as ordinary Spark rows."""


def packed_dataframe(
    spark: SparkSession, job: SparkJob, source: str, stream: PackedStream, late_ms: int, ending: str | None = None
) -> DataFrame:
    """The packets of a source, with the watermark its rows drive. A run of the name `ending` tells when it ends."""
    # Whoever packs rows joins nothing, so the static tables need not travel.
    reader = stream.packed_reader(spark, replace(job, tables={})).option("source", source)
    if ending is not None:
        reader = reader.option("ending", ending)
    relation = next(stream_of(one) for one in job.streams if one.relation.name == source)
    if relation.arrival.max_future_us is not None:
        reader = reader.option("maxFuture", str(relation.arrival.max_future_us))
    if relation.by_arrival:
        reader = reader.option("arrival", "true")
    columns = [field.name for field in PACKED_SCHEMA]
    return reader.load().withWatermark(NEWEST, f"{late_ms} milliseconds").select(*columns)
