"""The queries of a script as runs that go on, side by side, each with a checkpoint of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from watersmeet.errors import RunError, UnsupportedError
from watersmeet.hosts.local.durable.checkpoint import Checkpoint
from watersmeet.hosts.local.durable.checkpoint_in_store import place_of
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.notes import FILE
from watersmeet.hosts.local.durable.outputs import sink_of
from watersmeet.hosts.local.durable.place import Place
from watersmeet.io.connectors.contract import NumberedSink, Reader, Start
from watersmeet.io.connectors.numbered_sinks import NoSink
from watersmeet.io.connectors.readers import reader_of
from watersmeet.io.connectors.shared_reader import SharedSource
from watersmeet.model.catalog import Stream
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.checkpoints import query_folders
from watersmeet.runtime.left_out import Tell, named
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import CONSOLE, Job
from watersmeet.runtime.sharing import is_same_stream, may_share
from watersmeet.warning import warn


class DurableJobs:
    """Makes a run of every job, and starts and stops them together."""

    def __init__(
        self,
        jobs: Sequence[Job],
        checkpoint: Path | str,
        settings: RunSettings,
        *,
        tell: Tell = warn,
        pushed: bool = False,
        skipped: Mapping[str, frozenset[int]] | None = None,
    ) -> None:
        """pushed: streams without a source are pushed, and a bare SELECT is for those who listen; if not, such streams
        are refused, and it prints. skipped: of queries, by name, the batches that are not repeated."""
        self.runs: dict[str, DurableExecution] = {}
        shared = _shared_sources(jobs)
        with place_of(checkpoint) as place:
            try:
                for job, its in zip(jobs, _places(place, jobs), strict=True):
                    own = replace(settings, skipped=(skipped or {}).get(job.name, frozenset()))
                    tell_of = named(tell, job.name) if len(jobs) > 1 else tell
                    self.runs[job.name] = _made(job, its, own, tell_of, pushed, shared)
            except BaseException:
                for run in self.runs.values():
                    run.abandon()
                raise

    def start(self) -> None:
        started: list[DurableExecution] = []
        try:
            for run in self.runs.values():
                run.start()
                started.append(run)
        except BaseException:
            for run in self.runs.values():
                with suppress(Exception):  # what went wrong at first is told
                    run.stop() if run in started else run.abandon()
            raise

    def request_stop(self) -> None:
        for run in self.runs.values():
            run.request_stop()

    def wait(self, look: Callable[[], None] = lambda: None, every_s: float = 0.2) -> None:
        """Until all have ended; if one fails, the others are stopped, unless it writes on, and that is raised. `look`
        is called meanwhile."""
        waiting = list(self.runs.values())
        failure: BaseException | None = None
        while waiting:
            try:
                if waiting[0].wait(every_s):
                    waiting.pop(0)
            except Exception as error:
                failure = failure or error
                waiting.pop(0)
            # Of all: one that is not waited for any more has failed, too.
            if any(run.failed and not run.settings.writes_on for run in self.runs.values()):
                self.request_stop()
            look()
        if failure is not None:
            raise failure

    def stop(self) -> None:
        self.request_stop()
        self.wait()


Sources = list[tuple[Stream, SharedSource]]


def _shared_sources(jobs: Sequence[Job]) -> Sources:
    """The streams that several of the jobs read, and what gives each of these its rows. Each has a checkpoint of its
    own, and so its own place there."""
    seen: list[Stream] = []
    shared: Sources = []
    for job in jobs:
        for stream in streams_of(job.plan).values() if may_share(job) else ():
            if stream.source is None or any(is_same_stream(stream, one) for one, _ in shared):
                continue
            if any(is_same_stream(stream, one) for one in seen):
                shared.append((stream, SharedSource(partial(reader_of, stream))))
            else:
                seen.append(stream)
    return shared


def _reader(job: Job, stream: Stream, shared: Sources) -> Reader:
    sources = (source for one, source in shared if may_share(job) and is_same_stream(stream, one))
    source = next(sources, None)
    return reader_of(stream) if source is None else source.reader()


def _made(job: Job, place: Place, settings: RunSettings, tell: Tell, pushed: bool, shared: Sources) -> DurableExecution:
    check_durable(job.plan)
    streams = streams_of(job.plan)
    readers = {name: _reader(job, one, shared) for name, one in streams.items() if one.source is not None or not pushed}

    def sink(checkpoint: Checkpoint, start: Start) -> NumberedSink:
        if pushed and job.sink is CONSOLE:
            return NoSink()
        return sink_of(job.plan, job.name, job.sink, checkpoint, start, tell)

    return DurableExecution(job.plan, place, sink, readers, settings, tell=tell)


def streams_of(plan: Plan) -> dict[str, Stream]:
    return {one.name: one for one in streams_below(plan.root)}


def check_durable(plan: Plan) -> None:
    """Refuse what no run can go on with."""
    if plan.options.archive is not None:
        raise UnsupportedError(
            "archive and a checkpoint do not go together in-process: what was shed before a crash would be archived "
            "twice",
            hint="leave one of them out, or run on Spark",
        )


def _places(place: Place, jobs: Sequence[Job]) -> list[Place]:
    """The given one, or one below it for each of several jobs."""
    if len(jobs) == 1:
        below = sorted(one.parent.name for one in place.folder.glob(f"*/{FILE}"))
        if below:
            raise RunError(
                f"{place.shown()} holds the checkpoints of several queries ({', '.join(below)}), and this is one",
                hint="give the folder of that query, or another one",
            )
        return [place]
    if place.names(FILE):
        raise RunError(
            f"{place.shown()} is the checkpoint of one query, and these are {len(jobs)}", hint="give another checkpoint"
        )
    return [place.below(name) for name in query_folders([job.name for job in jobs])]
