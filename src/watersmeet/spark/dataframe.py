"""A query as a Spark DataFrame: pack, exchange by bucket, join, unpack.

    source.withWatermark → mapInArrow(pack) ─┐
    source.withWatermark → mapInArrow(pack) ─┴ union → groupBy(bucket) → stateful join → observe → mapInArrow(unpack)

Streaming inputs give a streaming DataFrame. If all inputs are batch, the same buckets run without state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType

from watersmeet.engine.archive.folder import OpenRun
from watersmeet.engine.build import is_plain_join
from watersmeet.engine.conform import conform
from watersmeet.errors import CatalogError
from watersmeet.model.catalog import Stream, Table
from watersmeet.optimizer.choose_bucket_key import choose_bucket_key
from watersmeet.optimizer.stage_joins import Staged, stage_joins
from watersmeet.plan.nodes import Plan, relations_below
from watersmeet.plan.rewrite import with_relations
from watersmeet.spark.archive import with_archive
from watersmeet.spark.batch import bucket_answer, stateless_answer
from watersmeet.spark.job import SparkJob
from watersmeet.spark.join_job import JoinJob
from watersmeet.spark.output import output_of
from watersmeet.spark.pack import PACKED, packer, watermark_delay_ms
from watersmeet.spark.packed import ParquetStream, packed_dataframe
from watersmeet.spark.packets import to_packet
from watersmeet.spark.processor import BucketProcessor
from watersmeet.spark.types import spark_schema

OBSERVED = "watersmeet"
FIRST = "_first_"  # in the name under which a first stage is observed
INSTANT = "__instant"


def dataframe(
    spark: SparkSession,
    plan: Plan,
    buckets: int,
    observed: str = OBSERVED,
    run: OpenRun | None = None,
    ending: str | None = None,
) -> DataFrame:
    """The answer of a plan whose relations hold DataFrames; its numbers are observed under the given name. What a
    bounded input makes the buckets archive goes to a run, which whoever reads the answer commits. `ending` names a run
    (see ending.py) that answers at its end what then still waits."""
    staged = in_stages(plan)
    if staged is not None:
        return _second_stage(spark, staged, buckets, observed)
    job = make_job(plan, buckets)
    sources = _sources(plan)
    streaming = [_flows(source) for source in sources.values()]
    if any(streaming) and not all(streaming):
        flowing = ", ".join(name for name, source in sources.items() if _flows(source))
        still = ", ".join(name for name, source in sources.items() if not _flows(source))
        raise CatalogError(
            f"streaming and batch DataFrames are mixed: {flowing} streaming, {still} batch",
            hint="declare the batch ones as static tables with session.table(), or read all of them as streams",
        )
    out = spark_schema(job.plan.output_schema)
    if _is_stateless(job):
        (source,) = sources.values()
        assert not isinstance(source, Following)
        df = source.dataframe(spark, job.streams[0].schema) if isinstance(source, ParquetStream) else source
        return df.select(*_columns(job, df)).mapInArrow(stateless_answer(job), out)
    told = ending if job.waits else None
    packed = reduce(DataFrame.union, [_packed(spark, job, name, source, told) for name, source in sources.items()])
    grouped = packed.groupBy("bucket")
    if not any(streaming):
        return grouped.applyInArrow(bucket_answer(job, run), out)
    output = output_of(job)
    joined = grouped.transformWithStateInPandas(
        BucketProcessor(job, output), output.schema, "Append", "EventTime", eventTimeColumnName=output.event_time
    )
    return output.rows(joined, observed)


def in_stages(plan: Plan) -> Staged | None:
    """The joins of a query apart, if the whole of it cannot be cut by one key."""
    if is_plain_join(plan) or choose_bucket_key(plan.root) is not None:
        return None
    return stage_joins(plan)


def _second_stage(spark: SparkSession, staged: Staged, buckets: int, observed: str) -> DataFrame:
    """Every join as a DataFrame of its own, and those as the streams of the rest."""
    frames = {
        name: Following(dataframe(spark, join, buckets, f"{observed}{FIRST}{name}"))
        for name, join in staged.joins.items()
    }

    def fed(relation: Stream | Table) -> Stream | Table:
        return replace(relation, source=frames[relation.name]) if relation.name in frames else relation

    return dataframe(spark, replace(staged.plan, root=with_relations(staged.plan.root, fed)), buckets, observed)


@dataclass(frozen=True)
class Following:
    """The rows of a first stage, whose event times Spark knows already."""

    df: DataFrame

    @property
    def isStreaming(self) -> bool:
        return self.df.isStreaming


Source = DataFrame | ParquetStream | Following


def make_job(plan: Plan, buckets: int) -> SparkJob:
    """What the workers are sent; static tables are read here, once."""
    plan.options.require_runnable()
    plan = with_archive(plan)
    tables = {one.name: _packet_of(one) for one in relations_below(plan.root) if isinstance(one, Table)}
    job = SparkJob.of(plan, tables, buckets)
    job.check()
    return job


def _packet_of(table: Table) -> bytes:
    rows = table.source.toArrow()
    return to_packet([conform(batch, table.schema) for batch in rows.to_batches()], table.schema)


def _is_stateless(job: SparkJob) -> bool:
    """One stream, alone or with static tables, and no rows to count: every row is answered by itself."""
    return isinstance(job, JoinJob) and len(job.streams) == 1 and not job.counts_rows


def _flows(source: Source) -> bool:
    return isinstance(source, ParquetStream) or source.isStreaming


def _sources(plan: Plan) -> dict[str, Source]:
    return {one.name: one.source for one in relations_below(plan.root) if isinstance(one, Stream)}


def _packed(spark: SparkSession, job: SparkJob, name: str, df: Source, ending: str | None) -> DataFrame:
    one = next(one for one in job.streams if one.relation.name == name)
    assert one.time is not None
    late_ms = watermark_delay_ms(one)
    if isinstance(df, ParquetStream):
        return packed_dataframe(spark, job, name, df, late_ms, ending)
    if isinstance(df, Following):
        df = df.df
    elif df.isStreaming:
        df = _with_watermark(df, one.time, late_ms)
    return df.select(*_columns(job, df)).mapInArrow(packer(job, name), PACKED)


def _with_watermark(df: DataFrame, time: str, late_ms: int) -> DataFrame:
    """Spark takes watermarks from instants only; a time without a zone is UTC, whatever the session's zone."""
    if not isinstance(df.schema[time].dataType, TimestampNTZType):
        return df.withWatermark(time, f"{late_ms} milliseconds")
    t = F.col(f"`{time}`")
    seconds = F.extract(F.lit("SECOND"), t)
    instant = F.make_timestamp(F.year(t), F.month(t), F.day(t), F.hour(t), F.minute(t), seconds, F.lit("UTC"))
    return df.withColumn(INSTANT, instant).withWatermark(INSTANT, f"{late_ms} milliseconds")


def _columns(job: SparkJob, df: DataFrame) -> list[str]:
    """The columns any alias of a source needs; the others never leave Spark."""
    needed = {name for one in job.streams for name in job.columns_needed(one)}
    return [f"`{name}`" for name in df.columns if name in needed]
