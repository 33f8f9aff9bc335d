"""Where the queries of Session(spark) run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from watersmeet.archive.folder import OpenRun
from watersmeet.errors import SetupError, UnsupportedError
from watersmeet.hosts.spark.bucket.archive import archived_answer, refuse_archive
from watersmeet.hosts.spark.bucket.output import OBSERVED
from watersmeet.hosts.spark.dataframe import dataframe, make_job, streams_without_end
from watersmeet.hosts.spark.errors import friendly
from watersmeet.hosts.spark.exchange.bad_records import has_side_outputs
from watersmeet.hosts.spark.exchange.stream_end import Ending
from watersmeet.hosts.spark.jobs.job import AtStart, SparkJob
from watersmeet.hosts.spark.jobs.kinds import in_stages, job_of
from watersmeet.hosts.spark.launching.launch import cores, ensure_settings
from watersmeet.hosts.spark.launching.workers import check_workers
from watersmeet.hosts.spark.paths import has_scheme
from watersmeet.hosts.spark.progress.listener import listener_of
from watersmeet.hosts.spark.progress.messages import QueryWarnings
from watersmeet.hosts.spark.progress.post_office import mailbox, warn_of
from watersmeet.hosts.spark.progress.skipped_rows import tell_of_skipped
from watersmeet.hosts.spark.reading.inputs import as_dataframe
from watersmeet.hosts.spark.reading.sample import sampled
from watersmeet.hosts.spark.reading.sources import OnSpark, open_given
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.hosts.spark.writing.sinks import is_checkpoint
from watersmeet.io.conform import conform
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, normalize_time_column, times_of
from watersmeet.model.time_reading import TimeReading
from watersmeet.model.wording import listed
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import relations_below, streams_below
from watersmeet.runtime.final import answer_over_nothing, by_instant, check_final, final_answer, given_whole
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.outcome import Outcome
from watersmeet.runtime.run_settings import Answers, RunSettings

if TYPE_CHECKING:
    from watersmeet.runtime.clock import OnLateRows
    from watersmeet.runtime.declaring import Opener
    from watersmeet.runtime.script import Job

_serial = count(1)


class SparkHost:
    """`buckets` is how many parts of the state work apart, by default one for each core that Spark has; it is fixed
    for the life of a checkpoint."""

    name = "spark"
    in_arrival_order = False
    takes_pushes = False

    def __init__(self, spark: SparkSession, buckets: int | None = None) -> None:
        check_workers(spark, by_job=False)
        self.spark = spark
        self.buckets = buckets or cores(spark)

    @property
    def opener(self) -> Opener:
        return OnSpark(self.spark)

    def opened(
        self,
        data: Any,
        name: str,
        rounding: str = "error",
        declared: pa.Schema | None = None,
        reading: TimeReading | None = None,
        on_bad: str = "error",
    ) -> tuple[pa.Schema, Any, int | None]:
        return open_given(self.spark, data, name, rounding, declared, reading, on_bad)

    def sampled(self, plan: Plan, rows: int) -> Plan:
        return sampled(plan, rows)

    def layout(self, plan: Plan) -> str:
        staged = in_stages(plan)
        if staged is None:
            return self._partitioning_text(plan)
        parts = [f"stage 1, {name}\n" + self.layout(join) for name, join in staged.joins.items()]
        parts.append("stage 2, what is made of it\n" + self._partitioning_text(staged.plan))
        return "".join(parts)

    def _partitioning_text(self, plan: Plan) -> str:
        job = job_of(plan, {}, self.buckets)
        job.check()
        return partitioning_text(job)

    def dataframe(self, plan: Plan, metrics: Metrics, skipped: frozenset[int] = frozenset()) -> DataFrame:
        df = self._dataframe(plan, metrics, None, skipped=skipped)
        if not df.isStreaming:
            refuse_archive(plan)
        if skipped and not df.isStreaming:
            raise UnsupportedError("skip_batches is for streaming DataFrames: others come in no batches")
        return df

    def framed(self, rows: pa.Table) -> DataFrame:
        return as_dataframe(self.spark, rows, "plan")

    def finish(self, plan: Plan, metrics: Metrics, write: Callable[[DataFrame], Any], checkpoint: str) -> None:
        """Take in what is left, then answer what waits: two runs where a stream cannot tell its end, else one."""
        folder = checkpoint if has_scheme(checkpoint) else str(Path(checkpoint).absolute())
        if not has_scheme(folder) and not is_checkpoint(folder):
            raise SetupError(
                f"{checkpoint} is not the checkpoint of a query that has started, so nothing waits there",
                hint="give the checkpointLocation of the query that is to be finished",
            )
        # The first run takes in what is there; only when it has ended is it true that the streams have.
        endings = [None, Ending(folder)] if streams_without_end(plan, self.buckets) else [Ending()]
        for ending in endings:
            df = self._dataframe(plan, metrics, None, ending, goes_on=ending is None)
            if not df.isStreaming:
                raise UnsupportedError(
                    "the inputs are batch DataFrames, whose whole answer is given at once, so nothing waits"
                )
            writer = write(df).option("checkpointLocation", folder).trigger(availableNow=True)
            with friendly():
                writer.start().awaitTermination()

    def _dataframe(
        self,
        plan: Plan,
        metrics: Metrics,
        run: OpenRun | None,
        ending: Ending | None = None,
        *,
        goes_on: bool = False,
        skipped: frozenset[int] = frozenset(),
        by_driver: bool = False,
    ) -> DataFrame:
        check_workers(self.spark)
        if has_side_outputs(plan):
            raise UnsupportedError(
                "what goes to sinks beside the answers goes there from scripts only: a DataFrame has but its rows",
                hint="run the script with watersmeet run or session.run(), or say on_bad = 'skip' and "
                "on_late = 'count', which count",
            )
        observed = f"{OBSERVED}_{next(_serial)}"
        start = AtStart(skipped, mailbox(self.spark, warn_of), by_driver)
        df = dataframe(self.spark, plan, self.buckets, observed, run, ending, start=start)
        if df.isStreaming:
            ensure_settings(self.spark)
            streams = streams_below(plan.root)
            listener_of(self.spark).follow(observed, metrics, streams, goes_on=goes_on, skipped=skipped)
            return df
        tell_of_skipped(plan, metrics)
        if plan.shedding is not None:
            # Only batches of a streaming query tell what buckets did.
            metrics.lost_results = metrics.incomplete_rows = None
        return df

    def batches(
        self, plan: Plan, batch_rows: int, metrics: Metrics, on_late_rows: OnLateRows | None = None
    ) -> Iterator[pa.RecordBatch]:
        if on_late_rows is not None:
            raise UnsupportedError("on_late_rows is told in-process only", hint="on Spark, late rows are counted")
        with archived_answer(plan) as run:
            return iter(self._answer(plan, metrics, run))

    def _answer(self, plan: Plan, metrics: Metrics, run: OpenRun | None) -> list[pa.RecordBatch]:
        df = self._dataframe(plan, metrics, run, by_driver=True)
        if df.isStreaming:
            raise UnsupportedError(
                "the inputs are streaming DataFrames, whose answer never ends",
                hint="use query.dataframe().writeStream …, or give batch DataFrames to get a table",
            )
        with friendly():
            table = df.toArrow()
        metrics.results = table.num_rows
        if plan.kind == "snapshots":
            table = by_instant(table, plan)
        elif plan.kind != "rows":
            # Buckets answer in any order. "-" before "+" at one instant; "+" sorts before "-", hence descending.
            table = table.sort_by([("_ts", "ascending"), *([("_op", "descending")] if plan.kind == "changes" else [])])
        return [conform(batch, plan.output_schema) for batch in table.to_batches()]

    def start(self, plan: Plan, settings: RunSettings, answers: Answers) -> Any:
        if settings.checkpoint is None:
            raise UnsupportedError(
                "rows are pushed into queries of this process only; Spark reads its rows from sources",
                hint="make the session without Spark: Session(); or write the rows to files or a topic that Spark "
                "reads",
            )
        raise UnsupportedError(
            "start(checkpoint=…) runs a query in this process; on Spark it is started as every DataFrame is",
            hint="write query.dataframe().writeStream.option('checkpointLocation', …).format(…).start(…)",
        )

    def run_jobs(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Side by side over what is there now; rows without a sink are printed."""
        run = SparkRun(self.spark, jobs, RunSettings(available_now=True, buckets=self.buckets))
        ended = run.run() if run.jobs else []
        for one in ended:
            QueryWarnings(streams_below(one.job.plan.root)).look(one.job.name, one.metrics, at_end=True)
        return [Outcome(one.job.name, None, one.metrics.as_dict()) for one in ended]

    def final(self, plan: Plan, metrics: Metrics) -> pa.Table:
        check_final(plan)
        answer = pa.Table.from_batches(self.batches(plan, 0, metrics), schema=plan.output_schema)
        if plan.kind == "rows":
            return given_whole(answer, plan)
        last_event_us = _last_event_us(plan)
        if last_event_us > BEGINNING_US:
            return final_answer(answer, plan, last_event_us)
        return answer_over_nothing(plan, lambda: make_job(plan, self.buckets).make_operator())


def _last_event_us(plan: Plan) -> int:
    """The newest event time of all streams."""
    newest = BEGINNING_US
    for one in relations_below(plan.root):
        if isinstance(one, Stream) and one.arrivals is not None:
            newest = max(newest, one.arrivals.last_us)
        elif isinstance(one, Stream):
            column = one.source.select(F.max(F.col(f"`{one.time}`")).alias("newest")).toArrow()["newest"]
            if column[0].is_valid:
                newest = max(newest, int(times_of(normalize_time_column(column.combine_chunks()))[0]))
    return newest


def _spread_text(job: SparkJob) -> list[str]:
    said = job.plan.options.spread
    if said is None:
        return []
    for one in job.partitioning.dimensions:
        if one.spread is not None:
            copied = listed([alias for alias in one.keys if alias != one.spread.split])
            keys = listed([repr(value) for value in said.values])
            dealt = f"rows of {one.spread.split} with the keys {keys} are dealt out over {one.size} buckets"
            return [f"  spread: {dealt}" + (f", and those of {copied} copied there" if copied else "")]
    return ["  spread: nothing, as one bucket has all keys"]


def partitioning_text(job: SparkJob) -> str:
    chosen = job.partitioning
    grid = " x ".join(str(dimension) for dimension in chosen.dimensions) or "1"
    lines = [f"on Spark: {chosen.buckets} bucket{'s' if chosen.buckets != 1 else ''} ({chosen.reason})"]
    if chosen.dimensions:
        lines.append(f"  grid: {grid}")
        copied = [f"{alias} x{chosen.copies(alias)}" for alias in job.aliases if chosen.copies(alias) > 1]
        if copied:
            lines.append(f"  copies: {', '.join(copied)}")
    lines += _spread_text(job)
    if chosen.announced:
        lines.append(f"  every row is announced to every bucket, for counting: {', '.join(chosen.announced)}")
    if job.sharing is not None:
        by = "what their rows are worth" if job.sharing.finer > 1 else "how many rows they have"
        lines.append(f"  the memory, {job.sharing.memory}, is shared among the buckets by {by}")
    if job.plan.method.is_lazy:
        lines.append("  new rows are joined at every trigger, which takes the place of the refresh interval")
    return "\n".join(lines) + "\n"
