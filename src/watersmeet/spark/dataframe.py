"""A query as a Spark DataFrame: pack, exchange by bucket, join, unpack.

    source.withWatermark → mapInArrow(pack) ─┐
    source.withWatermark → mapInArrow(pack) ─┴ union → groupBy(bucket) → stateful join → observe → mapInArrow(unpack)

Streaming inputs give a streaming DataFrame. If all inputs are batch, the same buckets run without state.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from watersmeet.engine.build import runnable_join
from watersmeet.engine.conform import conform
from watersmeet.errors import CatalogError
from watersmeet.model.catalog import Table
from watersmeet.plan.nodes import Input, Plan
from watersmeet.spark.batch import bucket_answer, stateless_answer
from watersmeet.spark.job import SparkJob, stream_of
from watersmeet.spark.pack import PACKED, packer, stream_lateness_ms
from watersmeet.spark.packets import to_packet
from watersmeet.spark.processor import COUNTED, GAUGES, RESULT, BucketProcessor
from watersmeet.spark.types import spark_schema
from watersmeet.spark.unpack import unpacker

OBSERVED = "watersmeet"


def dataframe(spark: SparkSession, plan: Plan, buckets: int) -> DataFrame:
    """The answer of a plan whose relations hold DataFrames."""
    job = make_job(plan, buckets)
    sources = _sources(plan)
    streaming = [df.isStreaming for df in sources.values()]
    if any(streaming) and not all(streaming):
        flowing = ", ".join(name for name, df in sources.items() if df.isStreaming)
        still = ", ".join(name for name, df in sources.items() if not df.isStreaming)
        raise CatalogError(
            f"streaming and batch DataFrames are mixed: {flowing} streaming, {still} batch",
            hint="declare the batch ones as static tables with session.table(), or read all of them as streams",
        )
    out = spark_schema(job.plan.schema)
    if _is_stateless(job):
        (df,) = sources.values()
        return df.select(*_columns(job, df)).mapInArrow(stateless_answer(job), out)
    packed = reduce(DataFrame.union, [_packed(job, name, df, any(streaming)) for name, df in sources.items()])
    grouped = packed.groupBy("bucket")
    if not any(streaming):
        return grouped.applyInArrow(bucket_answer(job), out)
    joined = grouped.transformWithStateInPandas(BucketProcessor(job), RESULT, "Append", "EventTime")
    totals = [F.sum(name).alias(name) for name in (*COUNTED, *GAUGES)]
    return joined.observe(OBSERVED, *totals).select("payload").mapInArrow(unpacker(job.plan.schema), out)


def make_job(plan: Plan, buckets: int) -> SparkJob:
    """What the workers are sent; static tables are read here, once."""
    tables = {one.alias: _packet_of(one) for one in runnable_join(plan)[0].inputs if isinstance(one.relation, Table)}
    return SparkJob.of(plan, tables, buckets)


def _packet_of(one: Input) -> bytes:
    assert isinstance(one.relation, Table)
    table = one.relation.source.toArrow()
    schema = one.schema
    return to_packet([conform(batch, schema) for batch in table.to_batches()], schema)


def _is_stateless(job: SparkJob) -> bool:
    """One stream, alone or with static tables, and no rows to count: every row is answered by itself."""
    return len(job.join.streams) == 1 and not job.counts_rows


def _sources(plan: Plan) -> dict[str, DataFrame]:
    return {one.relation.name: stream_of(one).source for one in runnable_join(plan)[0].streams}


def _packed(job: SparkJob, name: str, df: DataFrame, streaming: bool) -> DataFrame:
    one = next(one for one in job.join.streams if one.relation.name == name)
    assert one.time is not None
    if streaming:
        df = df.withWatermark(one.time, f"{stream_lateness_ms(one)} milliseconds")
    return df.select(*_columns(job, df)).mapInArrow(packer(job, name), PACKED)


def _columns(job: SparkJob, df: DataFrame) -> list[str]:
    """The columns any alias of a source needs; the others never leave Spark."""
    needed = {name for one in job.join.streams for name in job.columns_needed(one)}
    return [f"`{name}`" for name in df.columns if name in needed]
