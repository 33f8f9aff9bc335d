"""A query as a Spark DataFrame: pack, exchange by bucket, join, unpack.

    source → mapInArrow(pack) → withWatermark ─┐
    source → mapInArrow(pack) → withWatermark ─┴ union → groupBy(bucket) → stateful join → observe → rows

Streaming inputs give a streaming DataFrame. If all inputs are batch, the same buckets run without state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType

from watersmeet.archive.folder import OpenRun
from watersmeet.dataclass import dataclass
from watersmeet.errors import CatalogError, UnsupportedError
from watersmeet.hosts.spark.bucket.archive import with_archive
from watersmeet.hosts.spark.bucket.output import FIRST, OBSERVED, PackedOutput, output_of
from watersmeet.hosts.spark.bucket.stage import BucketStage
from watersmeet.hosts.spark.bucket.stateless import bucket_answer, packed_answer, stateless_answer
from watersmeet.hosts.spark.errors import friendly
from watersmeet.hosts.spark.exchange.bad_records import has_side_outputs, refuse_bad_frame
from watersmeet.hosts.spark.exchange.messages import NOW, PACKED_SCHEMA
from watersmeet.hosts.spark.exchange.pack import FUTURE, ender, packer, watermark_delay_ms
from watersmeet.hosts.spark.exchange.stream_end import END, REACHED, Ending, end_source
from watersmeet.hosts.spark.jobs.group import JobGroup
from watersmeet.hosts.spark.jobs.ids import name_of_source
from watersmeet.hosts.spark.jobs.job import NO_WISHES, AtStart, SparkJob, stream_of
from watersmeet.hosts.spark.jobs.kinds import in_stages, job_of
from watersmeet.hosts.spark.jobs.team import TeamJob
from watersmeet.hosts.spark.launching.launch import is_connect, is_local, limit_arrow_batches, wait_for_workers
from watersmeet.hosts.spark.packets import to_packet
from watersmeet.hosts.spark.progress.skipped_rows import counting_skipped
from watersmeet.hosts.spark.reading.connector_stream import ConnectorStream
from watersmeet.hosts.spark.reading.event_times import with_arrival
from watersmeet.hosts.spark.reading.file_stream import FileStream
from watersmeet.hosts.spark.reading.pulse import PULSE, pulse_reader
from watersmeet.hosts.spark.reading.splits import DATED, NEWEST, PACKED
from watersmeet.hosts.spark.types import is_of_fixed_size, spark_schema
from watersmeet.io.conform import entered
from watersmeet.model.catalog import Stream, Table
from watersmeet.optimizer.stage_joins import Staged
from watersmeet.plan.query import Plan
from watersmeet.plan.rewrite import with_relations
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.reloading import refuse_reload


def dataframe(
    spark: SparkSession,
    plan: Plan,
    buckets: int,
    observed: str = OBSERVED,
    run: OpenRun | None = None,
    ending: Ending | None = None,
    *,
    is_first: bool = False,
    start: AtStart = NO_WISHES,
) -> DataFrame:
    """The answer of a plan whose relations hold DataFrames; its numbers are observed under the given name. What a
    bounded input makes the buckets archive goes to a run, which whoever reads the answer commits. `ending` is a run
    (see stream_end.py) that answers at its end what then still waits. `is_first`: a second stage follows, which hears
    of the end from this one. `start`: what is said of this start alone."""
    staged = in_stages(plan)
    if staged is not None:
        _refuse_kept_in_stages(plan)
        return _second_stage(spark, staged, buckets, observed, ending, start)
    sources = _sources(plan)
    is_streaming = _is_streaming(sources)
    job = make_job(plan, buckets, replace(start, shares_memory=is_streaming and _is_one_machine(spark)))
    group = JobGroup((job,))
    if _has_values_of_any_size(group, sources):
        limit_arrow_batches(spark)
    for one in job.streams:
        source = sources[one.relation.name]
        if not isinstance(source, ConnectorStream):
            refuse_bad_frame(stream_of(one), is_streaming=source.isStreaming)
    if job.is_stateless:
        (source,) = sources.values()
        return _without_state(spark, job, source, observed)
    ends = job.waits or is_first
    packed = _packed_together(spark, group, sources, ending if ends else None, ends=ends)
    if not is_streaming:
        return packed.applyInArrow(bucket_answer(job, run), spark_schema(job.plan.output_schema))
    output = output_of(job, marks_end=is_first)
    # Of time Spark is to know only where it goes on with it: else it would look for timers in each task, which takes it
    # longer than to open our state.
    joined = packed.transformWithStateInPandas(
        BucketStage([(job, output)]),
        output.schema,
        "Append",
        "EventTime" if output.event_time else "None",
        eventTimeColumnName=output.event_time,
    )
    answer = output.rows(joined, observed)
    wait_for_workers()
    return answer


@dataclass(frozen=True)
class QueryInSlot:
    """A query among those that Spark runs as one: its slot in the state, what is said of this start alone, and the slot
    in which joins that keep their rows once do so."""

    plan: Plan
    slot: int
    start: AtStart = NO_WISHES
    team: int | None = None


def dataframe_of_several(
    spark: SparkSession, members: Sequence[QueryInSlot], buckets: int, ending: Ending | None, gone: Sequence[int] = ()
) -> DataFrame:
    """The answers of several queries as packets, each with the slot of its query. They read our own sources alone, each
    of them once: these have names, by which Spark knows them whatever else comes or goes. `gone`: the keys of the state
    that nobody needs any more."""
    shares_memory = _is_one_machine(spark)
    teams: dict[int, list[SparkJob]] = {}
    for one in members:
        job = make_job(one.plan, buckets, replace(one.start, shares_memory=shares_memory))
        teams.setdefault(one.slot if one.team is None else one.team, []).append(replace(job, slot=one.slot))
    in_teams = {one.team for one in members}
    jobs = [TeamJob.of(some, slot) if slot in in_teams else some[0] for slot, some in teams.items()]
    group = JobGroup(tuple(jobs), tuple(gone))
    sources = {name: source for one in members for name, source in _sources(one.plan).items()}
    if _has_values_of_any_size(group, sources):
        limit_arrow_batches(spark)
    packed = _packed_together(spark, group, sources, ending if group.waiting else None, named=True)
    outputs = [[PackedOutput(query.plan.output_schema, slot=query.slot) for query in job.queries] for job in jobs]
    stage = BucketStage(list(zip(jobs, outputs, strict=True)))
    first = outputs[0][0]
    joined = packed.transformWithStateInPandas(stage, first.schema, "Append", "None")
    answers = first.rows(joined, OBSERVED)
    wait_for_workers()
    return answers


def reads_our_sources(plan: Plan) -> bool:
    """Whether all streams of a query are read by sources of ours."""
    return all(isinstance(source, ConnectorStream) for source in _sources(plan).values())


def _is_one_machine(spark: SparkSession) -> bool:
    return not is_connect(spark) and is_local(spark.sparkContext.master or "")


def _is_streaming(sources: Mapping[str, Source]) -> bool:
    """Whether the inputs are streaming: all of them, or none."""
    flowing = [name for name, source in sources.items() if _flows(source)]
    still = [name for name in sources if name not in flowing]
    if flowing and still:
        raise CatalogError(
            f"streaming and batch DataFrames are mixed: {', '.join(flowing)} streaming, {', '.join(still)} batch",
            hint="declare the batch ones as static tables with session.table(), or read all of them as streams",
        )
    return bool(flowing)


def _packed_together(
    spark: SparkSession,
    group: JobGroup,
    sources: Mapping[str, Source],
    ending: Ending | None,
    *,
    ends: bool = False,
    named: bool = False,
) -> GroupedData:
    """The packets of all sources, by bucket. `ends`: buckets are to hear of the end of a run, also from those that
    cannot tell it. `named`: Spark is to know the sources by their names."""
    # Else its offset log knows them by their place in the plan: the order of these parts must stay as it is.
    parts = [_packed(spark, group, name, source, ending, named=named) for name, source in sources.items()]
    silent = [name for name, source in sources.items() if _cannot_tell_its_end(source)]
    if silent and ends:
        parts.append(end_source(spark, ending).mapInArrow(ender(group, silent), PACKED))
    if not _is_streaming(sources):
        return reduce(DataFrame.union, parts).groupBy("bucket")
    if group.pulse_us is not None:
        pulse = pulse_reader(spark, group.keys, group.pulse_us)
        parts.append((pulse.name(PULSE) if named else pulse).load())
    return reduce(DataFrame.union, parts).withColumn(NOW, batch_time()).groupBy("bucket")


def batch_time() -> Column:
    """In milliseconds, as Spark logs it before the batch runs. Spark writes a time into the Java that it makes of a
    plan, and would make and compile that anew for every batch; what it sorts lists of it evaluates without."""
    return F.array_sort(F.array(F.unix_millis(F.current_timestamp())))[0]


def _without_state(spark: SparkSession, job: SparkJob, source: Source, observed: str) -> DataFrame:
    """Every row is answered by itself. Where records or rows are left out, packets tell of them, which rows cannot."""
    stream, out = stream_of(job.streams[0]), spark_schema(job.plan.output_schema)
    if stream.arrival.keeps_going or (isinstance(source, ConnectorStream) and source.has_history):
        return _stateless_from_packets(spark, job, source, observed)
    assert not isinstance(source, Following)
    df = source.dataframe(spark, stream) if isinstance(source, ConnectorStream) else source
    df = with_arrival(df, stream)
    df = df.select(*_columns(JobGroup((job,)), stream.name, df))
    if not (df.isStreaming and (stream.arrival.skips_nulls or job.start.skipped)):
        return df.mapInArrow(stateless_answer(job), out)
    answer = counting_skipped(df, stream, f"{observed}{FIRST}input").mapInArrow(stateless_answer(job), out)
    return answer.observe(observed, F.count(F.lit(1)).alias("results"))


def _stateless_from_packets(spark: SparkSession, job: SparkJob, source: Source, observed: str) -> DataFrame:
    output = PackedOutput(job.plan.output_schema, has_side_outputs(job.plan))
    (one,) = job.streams
    packets = _packed(spark, JobGroup((job,)), one.relation.name, source, None)
    return output.rows(packets.mapInArrow(packed_answer(job, output), output.schema), observed)


def _refuse_kept_in_stages(plan: Plan) -> None:
    if has_side_outputs(plan):
        raise UnsupportedError(
            "on Spark this query runs in two stages, and bad records and late rows of a first stage cannot be kept in "
            "a sink",
            hint="say on_bad = 'skip' and on_late = 'count', which count them, or run it in-process: --engine local",
        )


def _second_stage(
    spark: SparkSession, staged: Staged, buckets: int, observed: str, ending: Ending | None, start: AtStart
) -> DataFrame:
    """Every join as a DataFrame of its own, and those as the streams of the rest."""

    def first(name: str, join: Plan) -> DataFrame:
        seen_as = f"{observed}{FIRST}{name}"
        return dataframe(spark, join, buckets, seen_as, ending=ending, is_first=True, start=start)

    frames = {name: Following(first(name, join)) for name, join in staged.joins.items()}

    def fed(relation: Stream | Table) -> Stream | Table:
        return replace(relation, source=frames[relation.name]) if relation.name in frames else relation

    rest = replace(staged.plan, root=with_relations(staged.plan.root, fed))
    return dataframe(spark, rest, buckets, observed, ending=ending, start=start)


@dataclass(frozen=True)
class Following:
    """The rows of a first stage, whose event times Spark knows already."""

    df: DataFrame

    @property
    def isStreaming(self) -> bool:
        return self.df.isStreaming


Source = DataFrame | ConnectorStream | Following


def make_job(plan: Plan, buckets: int, start: AtStart = NO_WISHES) -> SparkJob:
    """What the workers are sent; static tables are read here, once."""
    refuse_reload(plan, "on Spark")
    plan = with_archive(plan)
    tables = {one.name: _packet_of(one) for one in plan.relations if isinstance(one, Table)}
    job = job_of(plan, tables, buckets, start)
    with plan.pointing_at_options():
        job.check()
    return job


def _packet_of(table: Table) -> bytes:
    with friendly():
        rows = table.source.toArrow()
    return to_packet(list(entered(rows.to_batches(), table)), table.schema)


def _flows(source: Source) -> bool:
    return isinstance(source, ConnectorStream) or source.isStreaming


def _cannot_tell_its_end(source: Source) -> bool:
    """Whether nobody but the caller knows which of a stream's batches is the last."""
    return not isinstance(source, ConnectorStream | Following) and source.isStreaming


def streams_without_end(plan: Plan, buckets: int) -> list[str]:
    """The streams of a query whose end no batch can tell, if some answers wait for it."""
    silent = [name for name, source in _sources(plan).items() if _cannot_tell_its_end(source)]
    return silent if silent and job_of(plan, {}, buckets).waits else []


def _sources(plan: Plan) -> dict[str, Source]:
    return {one.name: _source(one) for one in streams_below(plan.root)}


def _source(stream: Stream) -> Source:
    source: FileStream | Source = stream.source
    return source.connected(stream) if isinstance(source, FileStream) else source


def _packed(
    spark: SparkSession, group: JobGroup, name: str, source: Source, ending: Ending | None, *, named: bool = False
) -> DataFrame:
    stream = group.stream(name)
    if isinstance(source, ConnectorStream):
        return _packed_at_the_source(spark, group, stream, source, ending, named=named)
    df = source.df if isinstance(source, Following) else with_arrival(source, stream)
    # The rows of a first stage move no watermark: it tells by itself how far it has come.
    dated = df.isStreaming and not isinstance(source, Following)
    if dated and (max_future_us := stream.arrival.max_future_us) is not None:
        df = _marked_future(df, stream.time, max_future_us)
    marks = [name for name in (END, REACHED, FUTURE) if name in df.columns]
    rows = df.select(*_columns(group, name, df), *marks)
    if not dated:
        return rows.mapInArrow(packer(group, name), PACKED)
    # Declared on rows, a watermark would have Spark look at each of them by itself.
    return _with_watermark(rows.mapInArrow(packer(group, name, dated=True), DATED), stream)


def _packed_at_the_source(
    spark: SparkSession,
    group: JobGroup,
    stream: Stream,
    source: ConnectorStream,
    ending: Ending | None,
    *,
    named: bool,
) -> DataFrame:
    """The packets of a source that hands them to Spark, with the watermark its rows drive; it knows when it ends."""
    # Whoever packs rows joins nothing, so the static tables need not travel; nor need queries that do not read it.
    reading = JobGroup(tuple(replace(job, tables={}) for job, _ in group.reading(stream.name)), group.gone)
    reader = source.packed_reader(spark, reading).option("source", stream.name)
    if named:
        reader = reader.name(name_of_source(stream.name))
    if ending is not None:
        reader = reader.option("ending", ending.run)
    if stream.arrival.max_future_us is not None:
        reader = reader.option("maxFuture", str(stream.arrival.max_future_us))
    if stream.by_arrival:
        reader = reader.option("arrival", "true")
    return _with_watermark(reader.load(), stream)


def _with_watermark(packets: DataFrame, stream: Stream) -> DataFrame:
    columns = [field.name for field in PACKED_SCHEMA]
    return packets.withWatermark(NEWEST, f"{watermark_delay_ms(stream)} milliseconds").select(*columns)


def _marked_future(df: DataFrame, time: str, max_future_us: int) -> DataFrame:
    """With the column that tells rows too far ahead of the clock, which Spark logs with the batch. A time without a
    zone is UTC, whatever the session's zone."""
    t = F.col(f"`{time}`")
    seconds = F.extract(F.lit("SECOND"), t)
    parts = (F.year(t), F.month(t), F.day(t), F.hour(t), F.minute(t), seconds, F.lit("UTC"))
    instant = F.make_timestamp(*parts) if isinstance(df.schema[time].dataType, TimestampNTZType) else t
    return df.withColumn(FUTURE, instant > F.current_timestamp() + F.expr(f"INTERVAL '{max_future_us}' MICROSECOND"))


def _columns(group: JobGroup, source: str, df: DataFrame) -> list[str]:
    """The columns any alias of a source needs; the others never leave Spark."""
    needed = group.columns_sent(source)
    return [f"`{name}`" for name in df.columns if name in needed]


def _has_values_of_any_size(group: JobGroup, sources: Iterable[str]) -> bool:
    """Among those that leave Spark."""
    sent = ((group.stream(source).schema, name) for source in sources for name in group.columns_sent(source))
    return not all(is_of_fixed_size(schema.field(name).type) for schema, name in sent)
