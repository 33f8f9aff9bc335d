"""`watersmeet run --engine local --checkpoint DIR`: queries in this process that go on where they were."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from watersmeet.cli.own_process import preferring_latency
from watersmeet.cli.voice import voice
from watersmeet.explain.explaining import explained
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.jobs import DurableJobs
from watersmeet.hosts.local.durable.watched import WatchedDurable
from watersmeet.hosts.local.host import LocalHost
from watersmeet.hosts.local.skew import skew_text
from watersmeet.model.wording import counted
from watersmeet.runtime.declaring import OpenOnce, open_to_go_on
from watersmeet.runtime.interrupt import Interrupts
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.progress import Progress, describe, waiting
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import CONSOLE, Job, read_script
from watersmeet.runtime.sharing import fixed_parts_words, may_share, read_once_words
from watersmeet.runtime.skipped_batches import skipped_batches

if TYPE_CHECKING:
    from watersmeet.cli.view import Page


def run_durable(text: str, settings: RunSettings, view: str | None = None) -> bool:
    """Run a script until it is stopped, or its input is read; whether it was stopped."""
    opener = OpenOnce(open_to_go_on)
    declared = read_script(text, explain=True, opener=opener)
    for job in declared:
        if job.explaining is not None:
            print(explained(job.plan, job.explaining, LocalHost()), flush=True)
    jobs = [job for job in declared if job.explaining is None]
    if not jobs:
        return False
    interrupts = Interrupts(voice().tell)
    assert settings.checkpoint is not None
    durable = DurableJobs(
        jobs,
        settings.checkpoint,
        settings,
        tell=voice().warn,
        skipped=skipped_batches(settings.skip_batches, jobs),
        opener=opener,
    )
    page = None if view is None else _page(view, jobs, durable)
    try:
        with interrupts.stopping(durable.request_stop), preferring_latency():
            _run(jobs, durable, interrupts, settings, page)
        if page is not None and not interrupts.requested:
            page.stay()
    finally:
        if page is not None:
            page.close()
    return interrupts.requested


def _page(view: str, jobs: list[Job], durable: DurableJobs) -> Page:
    from watersmeet.cli.view import Page

    watched = {name: WatchedDurable(run) for name, run in durable.runs.items()}
    try:
        return Page(view, jobs, watched, LocalHost())
    except BaseException:
        for run in durable.runs.values():
            run.abandon()
        raise


def _run(
    jobs: list[Job], durable: DurableJobs, interrupts: Interrupts, settings: RunSettings, page: Page | None
) -> None:
    # Rows printed on the terminal and a line that changes in place would overwrite each other.
    live = not (any(job.sink == CONSOLE for job in jobs) and sys.stdout.isatty())
    started = time.monotonic()
    with voice().progress(", ".join(job.name for job in jobs), live=live) as progress:
        shared = read_once_words([job for job in jobs if may_share(job)])
        for words in [*shared, *fixed_parts_words(jobs)]:
            voice().remark(words)
        durable.start()
        for words in durable.words:
            voice().remark(words)
        for name, run in durable.runs.items():
            tell_of_restart(name, run)
        if page is not None:
            page.open()

        durable.wait(lambda: tell_of_progress(progress, durable))
    seconds, how = time.monotonic() - started, "stopped" if interrupts.requested else "done"
    for name, run in durable.runs.items():
        voice().ended(name, how, run.execution.metrics, seconds, summary(name, how, run, seconds, settings))


def tell_of_progress(progress: Progress, durable: DurableJobs) -> None:
    runs = durable.runs
    progress.update_durable(
        {name: run.latest() for name, run in runs.items()},
        {name: run.progress.rows_before for name, run in runs.items()},
    )


def tell_of_restart(name: str, run: DurableExecution) -> None:
    if run.progress.first > 0:
        again = f", {run.progress.repeated:,} of them repeated" if run.progress.repeated else ""
        voice().remark(f"{name} goes on after {counted(run.progress.first, 'batch', 'batches')}{again}")


def summary(
    name: str, how: str, run: DurableExecution, seconds: float, settings: RunSettings, *, is_kept: bool = True
) -> str:
    """is_kept: whether the checkpoint is there for a next start."""
    metrics: Metrics = run.execution.metrics
    on = f"; the next start goes on from {run.folder}" if is_kept else ""
    after = f" after batch {run.progress.number:,}" if run.progress.number >= 0 else " before its first batch"
    where = f"{after}{on}" if how == "stopped" else ""
    text = f"{name} {how}{where}: {describe(metrics, seconds, run.progress.rows_before)}"
    held = run.with_waiting()
    waits = "" if settings.flush else waiting(held)
    if waits:
        what = "it" if sum(held.waiting_by_stream.values()) == 1 else "them"
        text += f"\n  {waits}" + (f"; --flush answers {what}" if settings.available_now else "")
    uneven = skew_text(run.execution.plan, metrics)
    return text if uneven is None else f"{text}\n  {uneven}"
