"""Queries that begin with a savepoint, and the sinks that the run before has filled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import or_
from pathlib import Path

from pyspark.sql import SparkSession

from watersmeet.errors import RunError, SetupError, SinkError, UnsupportedError
from watersmeet.hosts.spark.checkpoints.beginning import Beginning, begin_with, noted_beginning
from watersmeet.hosts.spark.checkpoints.checkpoint import COMMITS, METADATA, Checkpoint
from watersmeet.hosts.spark.checkpoints.replacing import release_savepoint
from watersmeet.hosts.spark.jobs.kinds import in_stages
from watersmeet.hosts.spark.paths import has_scheme
from watersmeet.io.connectors.numbered_sinks import adding, numbered_sink
from watersmeet.io.modes import SPARK_LOG
from watersmeet.plan.answer_keys import answer_keys, change_column
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.savepoints.contents import QueryContents
from watersmeet.runtime.savepoints.fitting import check_not_ahead, goes_on_words
from watersmeet.runtime.savepoints.folder import Savepoint, is_savepoint
from watersmeet.runtime.savepoints.matching import queries_of, words_of_left
from watersmeet.runtime.script import Job
from watersmeet.runtime.side_output import SideOutput, side_run


def begun_queries(
    spark: SparkSession,
    jobs: Sequence[Job],
    checkpoints: Sequence[str],
    settings: RunSettings,
    buckets: int,
    remark: Callable[[str], None],
) -> dict[str, Beginning]:
    """What queries begin or have begun with, by their checkpoints."""
    savepoint = _savepoint(settings, [Checkpoint(spark, folder) for folder in checkpoints])
    found: dict[str, Beginning] = {}
    begins_as = {} if savepoint is None else queries_of(savepoint, jobs)
    for words in [] if savepoint is None else words_of_left(savepoint, begins_as):
        remark(words)
    for job, folder in zip(jobs, checkpoints, strict=True):
        checkpoint = Checkpoint(spark, folder)
        noted, contents = noted_beginning(checkpoint), None
        if savepoint is not None and job.name not in begins_as:
            noted = None
            if checkpoint.place.read(METADATA) is None:
                remark(
                    f"{job.name} is not in the savepoint: it reads its streams from their beginning, from where it is "
                    "whole"
                )
        elif savepoint is not None:
            check_in_one_stage(job)
            noted, contents = begin_with(
                checkpoint, savepoint, begins_as[job.name], job.plan, buckets, afresh=settings.afresh
            )
        elif noted is not None and checkpoint.place.read(METADATA) is None:
            noted, contents = _not_begun_yet(checkpoint, noted, job, buckets)
        elif noted is not None and checkpoint.place.is_here and checkpoint.newest(COMMITS) >= 0:
            release_savepoint(Path(folder))
        if noted is not None and contents is not None:
            for words in goes_on_words(job.name, contents, job.plan):
                remark(words)
            if not noted.afresh:
                check_sinks(job, contents)
        if noted is not None:
            found[folder] = noted
            if noted.buckets is not None:
                remark(f"{job.name} runs in one bucket, not in {buckets}: what it remembers does not divide by key")
    return found


def check_in_one_stage(job: Job) -> None:
    if in_stages(job.plan) is not None:
        raise UnsupportedError(
            f"{job.name} runs in two stages on Spark, and what it remembers in one process is not cut so",
            hint="go on with it in-process: --engine local",
        )


def _not_begun_yet(
    checkpoint: Checkpoint, noted: Beginning, job: Job, buckets: int
) -> tuple[Beginning, QueryContents | None]:
    """A start before was killed, or a query has taken the place of another."""
    savepoint = Savepoint(noted.place)
    savepoint.check_mark(noted.mark)
    try:
        return begin_with(checkpoint, savepoint, noted.query, job.plan, buckets, afresh=noted.afresh)
    except RunError as error:
        raise SetupError(
            f"{checkpoint.folder} is to begin with what a savepoint says of another query, or of the same one with "
            f"other columns:\n{savepoint.query(noted.query).sql}",
            hint="start the script that was named with the savepoint, or that took the place there; or give a new "
            "checkpoint",
        ) from error


def _savepoint(settings: RunSettings, checkpoints: Sequence[Checkpoint]) -> Savepoint | None:
    """The one that is named; None if it was removed since all have begun, with it or as others that were added."""
    if settings.savepoint is None:
        return None
    begun = [noted_beginning(one) is not None for one in checkpoints]
    run = [one.place.read(METADATA) is not None for one in checkpoints]
    if any(begun) and all(map(or_, begun, run)) and not is_savepoint(settings.savepoint):
        return None
    return Savepoint(settings.savepoint)


def check_sinks(job: Job, contents: QueryContents) -> None:
    path = job.sink.get("path")
    if path is not None and not has_scheme(path) and (Path(path).expanduser() / SPARK_LOG).is_dir():
        raise SinkError(
            f"{path} has a log of Spark's writer, by which its readers go, and another run cannot add to it",
            hint="write to another folder; sink = 'files' in the script that begins is what any run can go on with",
        )
    schema, keys, changes = job.plan.output_schema, answer_keys(job.plan), change_column(job.plan)
    sink = numbered_sink(job.name, adding(job.sink), schema, contents.run, keys=keys, changes=changes)
    check_not_ahead(job.name, contents, sink)
    output = SideOutput(streams_below(job.plan.root))
    for name, one in output.sinks.items():
        run = side_run(contents.run, name)
        check_not_ahead(name, contents, numbered_sink(name, adding(one.options), output.schemas[name], run))
