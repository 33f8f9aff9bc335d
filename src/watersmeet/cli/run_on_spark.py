"""`watersmeet run` on Spark: a script from its text to its end, told on stderr."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping

from pyspark.sql import SparkSession

from watersmeet.cli.view import viewing
from watersmeet.cli.voice import voice
from watersmeet.explain.explaining import explained
from watersmeet.hosts.spark.host import SparkHost
from watersmeet.hosts.spark.progress.messages import QueryWarnings
from watersmeet.hosts.spark.progress.running_query import RunningQuery
from watersmeet.hosts.spark.progress.skew import skew_text
from watersmeet.hosts.spark.progress.tally import Batch, sharing_text
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.interrupt import Interrupts
from watersmeet.runtime.progress import EventClock, describe, waiting
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import CONSOLE
from watersmeet.runtime.sharing import fixed_parts_words
from watersmeet.runtime.watched import Board

log = logging.getLogger("watersmeet")


def run_command(spark: SparkSession, text: str, settings: RunSettings, view: str | None = None) -> bool:
    """Run a script and tell how it goes. Whether it was stopped by Ctrl-C."""
    run = SparkRun(spark, text, settings)
    run.remark = voice().remark
    for words in fixed_parts_words(run.jobs):
        voice().remark(words)
    host = SparkHost(spark, run.buckets)
    for job in run.explained:
        assert job.explaining is not None
        print(explained(job.plan, job.explaining, host), flush=True)
    if not run.jobs:
        return False
    if settings.checkpoint is None:
        voice().remark("no --checkpoint is given, so a later run starts anew")
    strict = _without_lateness(run)
    if strict:
        voice().remark(
            f"no lateness is said for {strict}, so it is 0: a row is late once all streams have come further"
        )
    interrupts = Interrupts(voice().tell)
    boards = {} if view is None else {job.name: Board(job.plan, adds_up=False) for job in run.jobs}
    with viewing(view, run.jobs, boards, host) as page:
        _run(run, settings, interrupts, boards)
        if page is not None and not interrupts.requested:
            page.stay()
    return interrupts.requested


def _run(run: SparkRun, settings: RunSettings, interrupts: Interrupts, boards: Mapping[str, Board]) -> None:
    started = time.monotonic()
    # Rows printed on the terminal and a line that changes in place would overwrite each other.
    live = not (any(job.sink == CONSOLE for job in run.jobs) and sys.stdout.isatty())
    latest: dict[str, Batch] = {}  # of each query, as all are shown at once
    warnings = {job.name: QueryWarnings(streams_below(job.plan.root), voice().warn) for job in run.jobs}
    begun: dict[str, RunningQuery] = {}
    clock = EventClock()

    def show(running: RunningQuery, batch: Batch) -> None:
        begun[running.job.name] = running
        if not settings.available_now:  # what ends by itself is told once, as in-process
            warnings[running.job.name].look(running.job.name, running.metrics)
        latest[running.job.name] = batch
        several = len(run.jobs) > 1
        lines = {name: one.line(clock) for name, one in latest.items()}
        progress.show("\n".join(f"{name}, {line}" if several else line for name, line in lines.items()))
        m = batch.metrics
        voice().batch(
            running.job.name,
            running.metrics,
            number=batch.number,
            seconds=batch.seconds,
            rows_in=m.rows_in,
            results=m.results,
        )

    try:
        with (
            voice().progress(", ".join(job.name for job in run.jobs), live=live) as progress,
            interrupts.stopping(run.request_stop),
        ):
            ended = run.run(show, boards)
    finally:  # also of what was answered before a failure
        for name, one in begun.items():
            warnings[name].look(name, one.metrics, at_end=True)
    seconds, how = time.monotonic() - started, "stopped" if interrupts.requested else "done"
    for one in ended:
        voice().ended(one.job.name, how, one.metrics, seconds, _summary(one, seconds, settings, interrupts.requested))


def _without_lateness(run: SparkRun) -> str:
    """The streams that do not say how far out of order their rows may come."""
    streams = [one for job in run.jobs for one in streams_below(job.plan.root)]
    names = [one.name for one in streams if not one.arrival.says_lateness]
    return ", ".join(dict.fromkeys(names))


def _summary(one: RunningQuery, seconds: float, settings: RunSettings, stopped: bool) -> str:
    last = one.tally.last
    where = "before its first batch" if last is None else f"after batch {last.number}"
    if stopped and settings.checkpoint is not None:
        where += f"; the next start goes on from {one.checkpoint}"
    text = f"{one.job.name} {f'stopped {where}' if stopped else 'done'}: {describe(one.metrics, seconds)}"
    waits = waiting(one.metrics)
    if waits:
        text += f"\n  {waits}" + ("; --flush answers them" if settings.available_now else "")
    if one.metrics.cold_because:
        text += f"\n  not kept warm: {one.metrics.cold_because}"
    uneven = None if one.job.plan.options.spread is not None else skew_text(one.job.plan, one.metrics)
    text += "" if uneven is None else f"\n  {uneven}"
    return f"{text}\n  {sharing_text(one.metrics)}" if one.metrics.buckets else text
