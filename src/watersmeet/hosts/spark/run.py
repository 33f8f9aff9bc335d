"""Runs a script on Spark: its queries as streaming queries side by side, until they end or are stopped."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.errors import DataError, SetupError, UnsafeFolderError, UnsupportedError, WatersmeetError
from watersmeet.hosts.spark.bucket.archive import follow
from watersmeet.hosts.spark.checkpoints.checkpoint import Checkpoint, Owner
from watersmeet.hosts.spark.dataframe import dataframe, streams_without_end
from watersmeet.hosts.spark.errors import first_useful_line, ours_in
from watersmeet.hosts.spark.exchange.stream_end import Ending
from watersmeet.hosts.spark.jobs.fingerprint import GUARDED
from watersmeet.hosts.spark.jobs.job import AtStart
from watersmeet.hosts.spark.launching.launch import cores, is_connect
from watersmeet.hosts.spark.launching.query_start import has_jobs, start_in_turn
from watersmeet.hosts.spark.launching.workers import check_workers
from watersmeet.hosts.spark.memory_folder import discard
from watersmeet.hosts.spark.paths import has_scheme
from watersmeet.hosts.spark.progress.boards import Boards
from watersmeet.hosts.spark.progress.post_office import Flood, mailbox
from watersmeet.hosts.spark.progress.running_query import RunningQuery
from watersmeet.hosts.spark.progress.tally import ANSWER, Batch, Tally
from watersmeet.hosts.spark.reading.sources import OnSpark
from watersmeet.hosts.spark.writing.file_claim import RACE, FileClaim
from watersmeet.hosts.spark.writing.sinks import SparkSink, is_checkpoint
from watersmeet.noticing import phase
from watersmeet.private_folders import kept_file, temporary_folder
from watersmeet.runtime.checkpoints import query_folders
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import Job, read_script
from watersmeet.runtime.skipped_batches import skipped_batches, way_past
from watersmeet.runtime.watched import Board

logger = logging.getLogger("watersmeet")
POLL_SECONDS = 0.1
FINISHING_S = 10.0  # that a batch in hand may take when a stop was asked for
OnBatch = Callable[[RunningQuery, Batch], None]


class QueryError(WatersmeetError):
    """A query that Spark could not go on with, for a reason that is not one of ours."""


class SparkRun:
    """The jobs of a script on a Spark session."""

    def __init__(self, spark: SparkSession, script: str | Sequence[Job], settings: RunSettings | None = None) -> None:
        """Read and check the script, unless that was done; nothing runs yet."""
        self.spark = spark
        self.settings = settings or RunSettings()
        jobs = script
        if isinstance(jobs, str):
            jobs = read_script(jobs, opener=OnSpark(spark, streams=True), explain=True)
        self.jobs = [job for job in jobs if job.explaining is None]
        self.explained = [job for job in jobs if job.explaining is not None]
        self.buckets = self.settings.buckets or cores(spark)
        self._asked = skipped_batches(self.settings.skip_batches, self.jobs)
        self._skipped: dict[str, frozenset[int]] = {}  # the batches that are left out, by the checkpoint of their query
        self._flooding: dict[str, int] = {}  # by the id of a query, a batch that brings about very many answers
        self._stop = False
        self._stop_by_s = inf

    def request_stop(self) -> None:
        """Let every query end the batch in hand and then stop; one that takes longer is left to the next start."""
        self._stop_by_s = time.monotonic() + FINISHING_S
        self._stop = True

    def run(self, on_batch: OnBatch | None = None, boards: Mapping[str, Board] | None = None) -> list[RunningQuery]:
        """Start every job and watch them until all have ended, one has failed, or a stop was asked for. boards: by job,
        for whoever looks at it."""
        with (
            _until_the_first_batch(on_batch or (lambda running, batch: None)) as tell,
            self._checkpoints() as checkpoints,
        ):
            self._refuse_in_process(checkpoints)
            connect = is_connect(self.spark)
            jobs = zip(self.jobs, checkpoints, strict=True)
            durable = self.settings.checkpoint is not None
            sinks = [SparkSink(job, folder, over_connect=connect, durable=durable) for job, folder in jobs]
            watching = Boards(sinks, boards or {})
            check_workers(self.spark)
            owners = self._owners(sinks)
            self._skipped = self._left_out(sinks)
            running: list[RunningQuery] = []
            try:
                for sink in sinks:
                    sink.open(self.spark)
                for sink in sinks:
                    running.append(self._start(sink))
                    if sink.checkpoint in owners:
                        Checkpoint(self.spark, sink.checkpoint).note(owners[sink.checkpoint])
                self._watch(running, watching.before(tell))
                if self._start_endings(sinks, running):
                    self._watch(running, watching.before(tell))
                watching.end()
            finally:
                for one in running:
                    _end(one)
                _close(sinks)
            return running

    def _owners(self, sinks: list[SparkSink]) -> dict[str, Owner]:
        """The queries that the checkpoints are certain to belong to; one of another query is refused."""
        if self.settings.checkpoint is None:
            return {}
        owners = {sink.checkpoint: Owner.of(sink.job.plan, self.buckets) for sink in sinks}
        return {
            folder: owner for folder, owner in owners.items() if Checkpoint(self.spark, folder).refuse_others(owner)
        }

    def _left_out(self, sinks: list[SparkSink]) -> dict[str, frozenset[int]]:
        if self.settings.checkpoint is None:
            return {}
        asked = {sink.checkpoint: self._asked.get(sink.job.name, frozenset()) for sink in sinks}
        names = {sink.checkpoint: sink.job.name for sink in sinks}
        return {folder: Checkpoint(self.spark, folder).left_out(asked[folder], names[folder]) for folder in asked}

    def _refuse_in_process(self, checkpoints: Sequence[str]) -> None:
        """Before sinks look at what they hold: that would be told first, and is not what is wrong."""
        for folder in () if self.settings.checkpoint is None else checkpoints:
            Checkpoint(self.spark, folder).refuse_in_process()

    def _start_endings(self, sinks: list[SparkSink], running: list[RunningQuery]) -> bool:
        """Once more, for queries over streams that could not tell their end: now that they have, we do."""
        if not self.settings.ends or self._stop:
            return False
        open_ended = [pair for pair in zip(sinks, running, strict=True) if self._cannot_end(pair[0].job)]
        for sink, one in open_ended:
            one.query = self._start(sink, Ending(sink.checkpoint)).query
        return bool(open_ended)

    def _cannot_end(self, job: Job) -> bool:
        return bool(streams_without_end(job.plan, self.buckets))

    def _start(self, sink: SparkSink, ending: Ending | None = None) -> RunningQuery:
        if ending is None and self.settings.ends and not self._cannot_end(sink.job):
            ending = Ending()
        skipped = self._skipped.get(sink.checkpoint, frozenset())
        start = AtStart(skipped, mailbox(self.spark, partial(self._flooded, sink.job.name)), sink.by_driver)
        df = dataframe(self.spark, sink.job.plan, self.buckets, ending=ending, start=start)
        if not df.isStreaming:
            raise UnsupportedError(f"{sink.job.name} reads no stream, so it has nothing to run on")
        if not sink.has_sides:  # where packets are given, rows cannot be counted by Spark
            df = df.observe(ANSWER, F.count(F.lit(1)).alias("results"))
        query = start_in_turn(
            self.spark,
            sink.job.name,
            lambda: sink.start(df, self._trigger()),
            lambda: self._stop,
            lambda query: self._look_for_others(query, sink.claimed),
        )
        follow(sink.job.plan, str(query.id), sink.checkpoint, ended=False)
        return RunningQuery(sink.job, query, sink.checkpoint, Tally(skipped=skipped), sink.claimed)

    def _look_for_others(self, query: StreamingQuery, claimed: FileClaim | None) -> None:
        """Before the first batch of a query runs: what comes into its files until then is another start's."""
        # In this order: a batch of this one's may begin and end between the two.
        if claimed is not None and claimed.has_more() and query.isActive and not has_jobs(self.spark, query):
            query.stop()
            raise claimed.written_by_another()

    def _flooded(self, name: str, flood: Flood) -> None:
        self._flooding[flood.query] = flood.batch or 0
        logger.warning("%s: %s", name, flood)

    def _trigger(self) -> dict[str, Any]:
        if self.settings.available_now:
            return {"availableNow": True}
        return {"processingTime": f"{round(1000 * (self.settings.trigger_s or 0))} milliseconds"}

    def _watch(self, running: list[RunningQuery], tell: OnBatch) -> None:
        ending: dict[int, int] = {}
        while any(one.query.isActive for one in running):
            for number, one in enumerate(running):
                if one.tally.batches == 0:
                    self._look_for_others(one.query, one.claimed)
                batches = list(one.new_batches())
                for batch in batches:
                    tell(one, batch)
                one.check_owner(has_written=bool(batches))
                if self._stop and one.query.isActive:
                    ending.setdefault(number, one.tally.batches)
                    if one.tally.batches > ending[number] or not one.query.status["isTriggerActive"]:
                        one.query.stop()
                    elif self._is_flooding(one) or time.monotonic() > self._stop_by_s:
                        self._leave_in_the_middle(one)
                self._raise_failure(one)
            time.sleep(POLL_SECONDS)
        for one in running:
            batches = list(one.new_batches())
            for batch in batches:
                tell(one, batch)
            one.check_owner(has_written=bool(batches))
            self._raise_failure(one)

    def _raise_failure(self, one: RunningQuery) -> None:
        """What ended a query; where it was the rows of a batch, which comes again, also how that is left out."""
        try:
            _raise_failure(one, self._stop)
        except DataError as error:
            repeated = self._repeated(one)
            if repeated is None or error.message.startswith(GUARDED):
                raise
            hints = [error.hint, f"{way_past(repeated, 'dataframe')}, with all its rows"]
            error.hint = "; ".join(hint for hint in hints if hint)
            raise

    def _is_flooding(self, one: RunningQuery) -> bool:
        ended = -1 if one.tally.last is None else one.tally.last.number
        return self._flooding.get(str(one.query.id), -1) > ended

    def _leave_in_the_middle(self, one: RunningQuery) -> None:
        one.query.stop()
        repeated = self._repeated(one)
        if repeated is not None:
            left = "the batch in hand was left in the middle of its answers, and the next start repeats it"
            logger.warning("%s: %s; %s", one.job.name, left, way_past(repeated, "dataframe"))

    def _repeated(self, one: RunningQuery) -> int | None:
        """The batch that the next start repeats, if there is one."""
        return None if self.settings.checkpoint is None else Checkpoint(self.spark, one.checkpoint).repeated_batch()

    @contextmanager
    def _checkpoints(self) -> Iterator[list[str]]:
        """A folder for each job: the given one, or one below it for each of several; else temporary ones."""
        if self.settings.checkpoint is not None:
            yield checkpoint_folders(str(self.settings.checkpoint), self.jobs)
            return
        if is_connect(self.spark):
            raise SetupError("on Spark Connect a query needs a checkpoint that its server can reach; add --checkpoint")
        with temporary_folder("checkpoint-") as made:
            yield checkpoint_folders(str(made), self.jobs)


@contextmanager
def _until_the_first_batch(tell: OnBatch) -> Iterator[OnBatch]:
    """Say that the first batch has not ended yet: until then Spark plans and starts its Pythons, and shows nothing."""
    with ExitStack() as waiting:
        waiting.enter_context(phase("waiting for the first batch"))

        def on_batch(running: RunningQuery, batch: Batch) -> None:
            waiting.close()
            tell(running, batch)

        yield on_batch


def checkpoint_folders(checkpoint: str, jobs: list[Job]) -> list[str]:
    """Where each job keeps its checkpoint."""
    folder = checkpoint if has_scheme(checkpoint) else str(Path(checkpoint).expanduser().absolute())
    if len(jobs) == 1:
        below = [p.name for p in Path(folder).glob("*/") if is_checkpoint(str(p))]
        if below:
            raise SetupError(
                f"{folder} holds the checkpoints of several queries ({', '.join(sorted(below))}), and this is one",
                hint="give the folder of that query, or another one",
            )
        return [folder]
    if is_checkpoint(folder):
        raise SetupError(f"{folder} is the checkpoint of one query, and these are {len(jobs)}", hint="give another one")
    return [f"{folder}/{name}" for name in query_folders([job.name for job in jobs])]


def _raise_failure(one: RunningQuery, stopping: bool) -> None:
    error = None if one.query.isActive else one.query.exception()
    if error is None:
        return
    text = str(error)
    found = ours_in(text)
    if found is not None:
        raise found from None
    if RACE in text and one.claimed is not None:
        raise one.claimed.written_by_another()
    if stopping:  # Spark's own words are then about the stop
        return
    hint = _kept(one.job.name, text)
    raise QueryError(f"{one.job.name} failed: {first_useful_line(text)}", hint=hint)


def _kept(name: str, text: str) -> str:
    """Where the whole text of a failure is; it may quote rows, so only its user can read it."""
    try:
        log = kept_file(f"{name}\n{text}\n", "failure-", ".log")
    except (OSError, UnsafeFolderError) as error:
        return f"all that Spark says could not be kept: {error}"
    return f"all that Spark says is in {log}"


def _close(sinks: Sequence[SparkSink]) -> None:
    """All that was taken is there for good by now, so a sink that cannot close has lost nothing."""
    for sink in sinks:
        try:
            sink.close()
        except Exception as error:
            logger.warning("%s: %s", sink.job.name, first_useful_line(error))


def _end(one: RunningQuery) -> None:
    with suppress(Exception):
        one.query.stop()
    with suppress(Exception):
        discard(str(one.query.id))
    with suppress(Exception):
        follow(one.job.plan, str(one.query.id), one.checkpoint, ended=True)
