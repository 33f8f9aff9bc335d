"""Runs a script on Spark: its queries as streaming queries side by side, until they end or are stopped."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError, SetupError, UnsafeFolderError, UnsupportedError, WatersmeetError
from watersmeet.hosts.spark.bucket.archive import follow
from watersmeet.hosts.spark.checkpoints.beginning import Beginning
from watersmeet.hosts.spark.checkpoints.checkpoint import Checkpoint, Owner
from watersmeet.hosts.spark.checkpoints.members import Members, buckets_noted
from watersmeet.hosts.spark.checkpoints.place import held, is_here
from watersmeet.hosts.spark.dataframe import QueryInSlot, dataframe, dataframe_of_several, streams_without_end
from watersmeet.hosts.spark.errors import first_useful_line, ours_in
from watersmeet.hosts.spark.exchange.bad_records import has_side_outputs
from watersmeet.hosts.spark.exchange.stream_end import Ending
from watersmeet.hosts.spark.grouping import Group, groups_of
from watersmeet.hosts.spark.jobs.fingerprint import GUARDED
from watersmeet.hosts.spark.jobs.job import AtStart
from watersmeet.hosts.spark.launching.launch import cores, is_connect
from watersmeet.hosts.spark.launching.query_start import has_jobs, sources_by_name, start_in_turn
from watersmeet.hosts.spark.launching.shared_folders import refuse_unshared
from watersmeet.hosts.spark.launching.workers import check_workers
from watersmeet.hosts.spark.memory_folder import discard
from watersmeet.hosts.spark.progress.boards import Boards
from watersmeet.hosts.spark.progress.post_office import Flood, mailbox
from watersmeet.hosts.spark.progress.running_query import RunningQuery, StartedQuery
from watersmeet.hosts.spark.progress.tally import ANSWER, Batch, Tally
from watersmeet.hosts.spark.reading.file_stream import FileStream
from watersmeet.hosts.spark.reading.sources import OnSpark
from watersmeet.hosts.spark.writing.begun import begun_queries
from watersmeet.hosts.spark.writing.file_claim import RACE, FileClaim
from watersmeet.hosts.spark.writing.group_writer import GroupWriter
from watersmeet.hosts.spark.writing.sink_run import SinkRun
from watersmeet.hosts.spark.writing.sink_writer import SideSinks
from watersmeet.hosts.spark.writing.sinks import SparkSink, open_sides
from watersmeet.noticing import phase
from watersmeet.plan.walks import streams_below
from watersmeet.private_folders import kept_file
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import Job, read_script
from watersmeet.runtime.skipped_batches import skipped_batches, way_past
from watersmeet.runtime.watched import Board
from watersmeet.temporary_folders import temporary_folder

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
        self.buckets = self.settings.buckets or self._noted_buckets() or cores(spark)
        self.remark: Callable[[str], None] = logger.info  # takes what a start says of itself
        self._asked = skipped_batches(self.settings.skip_batches, self.jobs)
        self._skipped: dict[str, frozenset[int]] = {}  # the batches that are left out, by the checkpoint of their query
        self._begun: dict[str, Beginning] = {}  # what queries began with, by their checkpoints
        self._flooding: dict[str, int] = {}  # by the id of a query, a batch that brings about very many answers
        self._stop = False
        self._stop_by_s = inf
        self._check_held: Callable[[], None] = lambda: None  # raises if another start has taken over the checkpoint

    def request_stop(self) -> None:
        """Let every query end the batch in hand and then stop; one that takes longer is left to the next start."""
        self._stop_by_s = time.monotonic() + FINISHING_S
        self._stop = True

    def run(self, on_batch: OnBatch | None = None, boards: Mapping[str, Board] | None = None) -> list[RunningQuery]:
        """Start every job and watch them until all have ended, one has failed, or a stop was asked for. boards: by job,
        for whoever looks at it."""
        with (
            _until_the_first_batch(on_batch or (lambda running, batch: None)) as tell,
            self._checkpoint() as folder,
            held(self.spark, folder) as self._check_held,
        ):
            groups = groups_of(self.spark, self.jobs, folder, self.buckets, apart=self.settings.savepoint is not None)
            self._begun = self._beginnings(groups)
            starting = [self._of(group) for group in groups]
            sinks = [sink for one in starting for sink in one.sinks]
            watching = Boards(sinks, boards or {})
            check_workers(self.spark)
            refuse_unshared(self.spark, *self._local_folders(folder, sinks))
            owners = self._owners(starting)
            self._skipped = self._left_out(sinks, groups)
            for one in starting:
                for words in one.group.shared_words:
                    self.remark(words)
            started: list[StartedQuery] = []
            try:
                for one in starting:
                    self._open(one)
                for one in starting:
                    started.append(self._start(one))
                    if one.group.folder in owners:
                        Checkpoint(self.spark, one.group.folder).note(owners[one.group.folder])
                self._watch(started, watching.before(tell))
                if self._start_endings(starting, started):
                    self._watch(started, watching.before(tell))
                watching.end()
                # Of a start that was killed before it noted them, once their states tell.
                late = [one for one in starting if one.group.folder not in owners]
                for folder, owner in self._owners(late).items():
                    Checkpoint(self.spark, folder).note(owner)
            finally:
                for query in started:
                    _end(query)
                _close(starting)
            running = {one.job.name: one for query in started for one in query.running}
            return [running[job.name] for job in self.jobs]

    def _beginnings(self, groups: Sequence[Group]) -> dict[str, Beginning]:
        """What queries begin or have begun with, by their checkpoints, which note where the script lies."""
        if self.settings.checkpoint is None:
            return {}
        for group in groups if self.settings.script is not None else ():
            Checkpoint(self.spark, group.folder).notes.note(script=self.settings.script)
        alone = [group for group in groups if group.members is None]
        jobs, folders = [group.jobs[0] for group in alone], [group.folder for group in alone]
        return begun_queries(self.spark, jobs, folders, self.settings, self.buckets, self.remark)

    def _noted_buckets(self) -> int | None:
        """A cluster need not have as many cores at each start."""
        return None if self.settings.checkpoint is None else buckets_noted(self.spark, str(self.settings.checkpoint))

    def _local_folders(self, checkpoint: str, sinks: Sequence[SparkSink]) -> tuple[list[str], list[str]]:
        """What lies in folders of this machine: where tasks write, and what they read."""
        written = [checkpoint, *(sink.path for sink in sinks if sink.path and not sink.by_driver)]
        streams = [one for job in self.jobs for one in streams_below(job.plan.root)]
        read = [one.source.path for one in streams if isinstance(one.source, FileStream)]
        return [one for one in written if is_here(self.spark, one)], read

    def _buckets_of(self, checkpoint: str) -> int:
        """Into how many a query is cut that is alone."""
        begun = self._begun.get(checkpoint)
        return self.buckets if begun is None or begun.buckets is None else begun.buckets

    def _of(self, group: Group) -> Starting:
        """Its sinks, made once it is certain that nothing else has its checkpoint: what they hold would be told first,
        and is not what is wrong."""
        durable = self.settings.checkpoint is not None
        if durable:
            Checkpoint(self.spark, group.folder).refuse_in_process()
        connect = is_connect(self.spark)
        sinks = [
            SparkSink(job, group.folder, over_connect=connect, durable=durable, begun=self._begun.get(group.folder))
            for job in group.jobs
        ]
        return Starting(group, sinks)

    def _open(self, starting: Starting) -> None:
        """Open what is written to, and note who has which part of a state before there is any."""
        members = starting.group.members
        if members is None:
            for sink in starting.sinks:
                sink.open(self.spark)
            return
        durable = self.settings.checkpoint is not None
        starting.run = run = SinkRun(members.checkpoint, durable=durable, is_shared=True)
        members.note()
        for sink in starting.sinks:
            sink.open(self.spark, run)
        plans = [job.plan for job in starting.group.jobs]
        if any(map(has_side_outputs, plans)):
            starting.sides = open_sides(plans, run)
        run.opened()

    def _owners(self, starting: Sequence[Starting]) -> dict[str, Owner]:
        """The queries that checkpoints of one are certain to belong to; one of another query is refused."""
        if self.settings.checkpoint is None:
            return {}
        alone = [one.group for one in starting if one.group.members is None]
        owners = {one.folder: Owner.of(one.jobs[0].plan, self._buckets_of(one.folder)) for one in alone}
        return {
            folder: owner for folder, owner in owners.items() if Checkpoint(self.spark, folder).refuse_others(owner)
        }

    def _left_out(self, sinks: Sequence[SparkSink], groups: Sequence[Group]) -> dict[str, frozenset[int]]:
        if self.settings.checkpoint is None:
            return {}
        asked = {sink.job.name: self._asked.get(sink.job.name, frozenset()) for sink in sinks}
        for members in (group.members for group in groups if group.members is not None):
            members.refuse_parts_of_teams(asked)
        folders = {sink.job.name: sink.checkpoint for sink in sinks}
        return {name: Checkpoint(self.spark, folders[name]).left_out(asked[name], name) for name in asked}

    def _start_endings(self, starting: Sequence[Starting], started: Sequence[StartedQuery]) -> bool:
        """Once more, for queries over streams that could not tell their end: now that they have, we do."""
        if not self.settings.ends or self._stop:
            return False
        open_ended = [pair for pair in zip(starting, started, strict=True) if self._cannot_end(pair[0])]
        for one, query in open_ended:
            query.starts_again(self._start(one, Ending(one.group.folder)))
        return bool(open_ended)

    def _cannot_end(self, starting: Starting) -> bool:
        return any(streams_without_end(job.plan, self.buckets) for job in starting.group.jobs)

    def _start(self, starting: Starting, ending: Ending | None = None) -> StartedQuery:
        if ending is None and self.settings.ends and not self._cannot_end(starting):
            ending = Ending()
        group = starting.group
        query = start_in_turn(
            self.spark,
            group.name,
            self._alone(starting, ending) if group.members is None else self._together(starting, group.members, ending),
            lambda: self._stop,
            lambda query: self._look_for_others(query, [sink.claimed for sink in starting.sinks]),
        )
        for job in group.jobs:
            follow(job.plan, str(query.id), group.folder, ended=False)
        return StartedQuery(query, [self._running(group, sink, query) for sink in starting.sinks])

    def _running(self, group: Group, sink: SparkSink, query: StreamingQuery) -> RunningQuery:
        tally = Tally(skipped=self._skipped.get(sink.job.name, frozenset()), slot=group.slot(sink.job))
        return RunningQuery(sink.job, query, sink.checkpoint, tally, sink.claimed)

    def _at_start(self, sink: SparkSink) -> AtStart:
        told = mailbox(self.spark, partial(self._flooded, sink.job.name))
        return AtStart(self._skipped.get(sink.job.name, frozenset()), told, sink.by_driver, query=sink.job.name)

    def _alone(self, starting: Starting, ending: Ending | None) -> Callable[[], StreamingQuery]:
        (sink,) = starting.sinks
        start, plan = self._at_start(sink), sink.job.plan
        if (begun := self._begun.get(sink.checkpoint)) is not None:
            start, plan = replace(start, begun=begun.for_buckets), begun.begun(plan)
        df = dataframe(self.spark, plan, self._buckets_of(sink.checkpoint), ending=ending, start=start)
        if not df.isStreaming:
            raise UnsupportedError(f"{sink.job.name} reads no stream, so it has nothing to run on")
        if not sink.has_sides:  # where packets are given, rows cannot be counted by Spark
            df = df.observe(ANSWER, F.count(F.lit(1)).alias("results"))
        return lambda: sink.start(df, self._trigger())

    def _together(self, starting: Starting, members: Members, ending: Ending | None) -> Callable[[], StreamingQuery]:
        group = starting.group
        slots = {sink.job.name: group.slot(sink.job) for sink in starting.sinks}
        queries = [
            QueryInSlot(one.job.plan, slots[one.job.name], self._at_start(one), group.team(one.job))
            for one in starting.sinks
        ]
        takers = {slots[one.job.name]: one.take for one in starting.sinks if one.take is not None}
        files = {slots[one.job.name]: one.files for one in starting.sinks if one.take is None}
        assert starting.run is not None
        writer = GroupWriter(takers, files, starting.sides, starting.run.noted)
        with sources_by_name(self.spark):
            df = dataframe_of_several(self.spark, queries, self.buckets, ending, members.keys_gone)
        into = df.writeStream.queryName(group.name).outputMode("append").foreachBatch(writer)
        into = into.option("checkpointLocation", group.folder).trigger(**self._trigger())

        def start() -> StreamingQuery:
            with sources_by_name(self.spark):
                return into.start()

        return start

    def _look_for_others(self, query: StreamingQuery, claimed: Iterable[FileClaim | None]) -> None:
        """Before the first batch of a query runs: what comes into its files until then is another start's."""
        for one in claimed:
            # In this order: a batch of this one's may begin and end between the two.
            if one is not None and one.has_more() and query.isActive and not has_jobs(self.spark, query):
                query.stop()
                raise one.written_by_another()

    def _flooded(self, name: str, flood: Flood) -> None:
        self._flooding[flood.query] = flood.batch or 0
        logger.warning("%s: %s", name, flood)

    def _trigger(self) -> dict[str, Any]:
        if self.settings.available_now:
            return {"availableNow": True}
        return {"processingTime": f"{round(1000 * (self.settings.trigger_s or 0))} milliseconds"}

    def _watch(self, started: Sequence[StartedQuery], tell: OnBatch) -> None:
        ending: dict[int, int] = {}
        while any(one.query.isActive for one in started):
            self._check_held()
            for number, one in enumerate(started):
                if one.tally.batches == 0:
                    self._look_for_others(one.query, one.claimed)
                _tell_batches(one, tell)
                if self._stop and one.query.isActive:
                    ending.setdefault(number, one.tally.batches)
                    if one.tally.batches > ending[number] or not one.query.status["isTriggerActive"]:
                        one.query.stop()
                    elif self._is_flooding(one) or time.monotonic() > self._stop_by_s:
                        self._leave_in_the_middle(one)
                self._raise_failure(one)
            time.sleep(POLL_SECONDS)
        for one in started:
            _tell_batches(one, tell)
            self._raise_failure(one)

    def _raise_failure(self, one: StartedQuery) -> None:
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

    def _is_flooding(self, one: StartedQuery) -> bool:
        ended = -1 if one.tally.last is None else one.tally.last.number
        return self._flooding.get(str(one.query.id), -1) > ended

    def _leave_in_the_middle(self, one: StartedQuery) -> None:
        one.query.stop()
        repeated = self._repeated(one)
        if repeated is not None:
            left = "the batch in hand was left in the middle of its answers, and the next start repeats it"
            logger.warning("%s: %s; %s", one.name, left, way_past(repeated, "dataframe"))

    def _repeated(self, one: StartedQuery) -> int | None:
        """The batch that the next start repeats, if there is one."""
        return None if self.settings.checkpoint is None else Checkpoint(self.spark, one.checkpoint).repeated_batch()

    @contextmanager
    def _checkpoint(self) -> Iterator[str]:
        """The folder of checkpoints: the given one, or a temporary one."""
        if self.settings.checkpoint is not None:
            yield str(self.settings.checkpoint)
            return
        if is_connect(self.spark):
            raise SetupError("on Spark Connect a query needs a checkpoint that its server can reach; add --checkpoint")
        with temporary_folder("checkpoint-") as made:
            yield str(made)


@dataclass
class Starting:
    """Queries that Spark runs as one, before it does: their sinks, those beside the answers, and how both know the
    run."""

    group: Group
    sinks: list[SparkSink]
    run: SinkRun | None = None
    sides: SideSinks | None = None

    def close(self) -> None:
        for sink in (*self.sinks, *(() if self.sides is None else (self.sides,))):
            sink.close()


@contextmanager
def _until_the_first_batch(tell: OnBatch) -> Iterator[OnBatch]:
    """Say that the first batch has not ended yet: until then Spark plans and starts its Pythons, and shows nothing."""
    with ExitStack() as waiting:
        waiting.enter_context(phase("waiting for the first batch"))

        def on_batch(running: RunningQuery, batch: Batch) -> None:
            waiting.close()
            tell(running, batch)

        yield on_batch


def _raise_failure(one: StartedQuery, stopping: bool) -> None:
    error = None if one.query.isActive else one.query.exception()
    if error is None:
        return
    text = str(error)
    found = ours_in(text)
    if found is not None:
        raise found from None
    if RACE in text and one.claimed:
        raise next((claimed for claimed in one.claimed if claimed.has_more()), one.claimed[0]).written_by_another()
    if stopping:  # Spark's own words are then about the stop
        return
    hint = _kept(one.name, text)
    raise QueryError(f"{one.name} failed: {first_useful_line(text)}", hint=hint)


def _kept(name: str, text: str) -> str:
    """Where the whole text of a failure is; it may quote rows, so only its user can read it."""
    try:
        log = kept_file(f"{name}\n{text}\n", "failure-", ".log")
    except (OSError, UnsafeFolderError) as error:
        return f"all that Spark says could not be kept: {error}"
    return f"all that Spark says is in {log}"


def _close(starting: Sequence[Starting]) -> None:
    """All that was taken is there for good by now, so a sink that cannot close has lost nothing."""
    for one in starting:
        try:
            one.close()
        except Exception as error:
            logger.warning("%s: %s", one.group.name, first_useful_line(error))


def _tell_batches(one: StartedQuery, tell: OnBatch) -> None:
    batches = list(one.new_batches())
    for running, batch in batches:
        tell(running, batch)
    one.check_owner(has_written=bool(batches))


def _end(one: StartedQuery) -> None:
    with suppress(Exception):
        one.query.stop()
    with suppress(Exception):
        discard(str(one.query.id))
    for running in one.running:
        with suppress(Exception):
            follow(running.job.plan, str(one.query.id), one.checkpoint, ended=True)
