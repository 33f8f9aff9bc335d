"""`watersmeet serve`: queries that go on, and HTTP around them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from watersmeet.cli.own_process import preferring_latency
from watersmeet.cli.run_durable import summary, tell_of_progress, tell_of_restart
from watersmeet.cli.voice import voice
from watersmeet.dataclass import dataclass
from watersmeet.errors import RunError, WatersmeetError
from watersmeet.explain.explaining import explained
from watersmeet.hosts.local.durable.jobs import DurableJobs
from watersmeet.hosts.local.durable.watched import WatchedDurable
from watersmeet.hosts.local.host import LocalHost
from watersmeet.private_folders import temporary_root
from watersmeet.runtime.declaring import open_to_go_on
from watersmeet.runtime.interrupt import Interrupts
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import Job, read_script
from watersmeet.runtime.skipped_batches import skipped_batches
from watersmeet.runtime.watched import Failure
from watersmeet.serve.limits import Limits
from watersmeet.serve.served import Served
from watersmeet.serve.server import HttpServer, bound, url_of
from watersmeet.temporary_folders import temporary_folder


@dataclass(frozen=True)
class Address:
    host: str
    port: int
    token: str | None


def serve_script(
    text: str,
    settings: RunSettings,
    address: Address,
    limits: Limits,
    skipped: Sequence[str] = (),
) -> None:
    """Run a script until it is stopped."""
    declared = read_script(text, explain=True, opener=open_to_go_on, pushed=True, only_on="local")
    for job in declared:
        if job.explaining is not None:
            print(explained(job.plan, job.explaining, LocalHost()), flush=True)
    jobs = [job for job in declared if job.explaining is None]
    if not jobs:
        return
    # Before anything else, so that a port that is in use is told at once.
    with bound(address.host, address.port, address.token) as at, _kept_in(settings.checkpoint) as folder:
        interrupts = Interrupts(voice().tell)
        durable = DurableJobs(
            jobs,
            folder,
            replace(settings, writes_on=True),
            tell=voice().warn,
            pushed=True,
            skipped=skipped_batches(skipped, jobs),
        )
        with interrupts.stopping(durable.request_stop), preferring_latency():
            served = Served.posted(jobs, durable.runs, limits)
            durable.start()
            served.started()
            for words in durable.words:
                voice().remark(words)
            _check_some_run(durable)
            server = HttpServer(served, at, limits, address.token)
            _tell_of_fewer(limits, server.limits)
            server.start()
            try:
                seconds = _run(jobs, durable, url_of(at), server)
                _tell_of_end(durable, seconds, settings, is_kept=settings.checkpoint is not None)
            finally:
                server.stop()


def _tell_of_fewer(asked: Limits, given: Limits) -> None:
    if given.subscribers < asked.subscribers:
        voice().warn(
            f"this process may not have enough files open for {asked.subscribers:,} subscribers, so it takes "
            f"{given.subscribers:,}, and {given.connections:,} other connections; a larger `ulimit -Hn` allows more"
        )


def _failures(durable: DurableJobs) -> dict[str, Failure]:
    found = {name: WatchedDurable(run).failure for name, run in durable.runs.items()}
    return {name: one.of_query(name) for name, one in found.items() if one is not None}


def _check_some_run(durable: DurableJobs) -> None:
    """A start that could answer nothing ends with its reason."""
    failures = _failures(durable)
    if len(failures) == len(durable.runs):
        durable.request_stop()
        _raise(failures)


def _raise(failures: Mapping[str, Failure]) -> NoReturn:
    first = next(iter(failures.values()))
    raise RunError(first.error, hint=first.hint)


@contextmanager
def _kept_in(checkpoint: Path | str | None) -> Iterator[Path | str]:
    if checkpoint is not None:
        yield checkpoint
        return
    with temporary_folder("watersmeet-serve-", temporary_root()) as folder:
        voice().remark("nothing is kept when this ends; with --checkpoint DIR the next start goes on from here")
        yield folder


def _run(jobs: list[Job], durable: DurableJobs, url: str, server: HttpServer) -> float:
    """How many seconds it ran."""
    for name, run in durable.runs.items():
        tell_of_restart(name, run)
    voice().serving(url, [job.name for job in jobs])
    started = time.monotonic()
    with voice().progress(", ".join(job.name for job in jobs), live=True) as progress:
        warned: set[str] = set()

        def look() -> None:
            for name, failure in _failures(durable).items():
                if name not in warned:
                    warned.add(name)
                    voice().warn(f"{failure.error}; the others go on, and what is posted is kept. {failure.hint}")
            if voice().for_programs or sys.stderr.isatty():  # a log of a service would fill up with lines
                tell_of_progress(progress, durable)

        # What failed is told below, when the others have ended.
        with suppress(WatersmeetError):
            durable.wait(look)
    # Those who listen hear of the end when all answers are given.
    server.stop()
    return time.monotonic() - started


def _tell_of_end(durable: DurableJobs, seconds: float, settings: RunSettings, *, is_kept: bool) -> None:
    for name, run in durable.runs.items():
        words = summary(name, "stopped", run, seconds, settings, is_kept=is_kept)
        if not run.failed:
            voice().ended(name, "stopped", run.execution.metrics, seconds, words)
    failures = _failures(durable)
    if failures:
        _raise(failures)
