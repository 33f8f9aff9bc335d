"""The queries of a script as runs that go on, side by side, each with a checkpoint of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from watersmeet.errors import UnsupportedError
from watersmeet.hosts.local.durable.batches import Begins
from watersmeet.hosts.local.durable.beginning import beginning_of
from watersmeet.hosts.local.durable.checkpoint import Checkpoint
from watersmeet.hosts.local.durable.checkpoint_in_store import place_of
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.notes import RunNotes
from watersmeet.hosts.local.durable.outputs import sink_of
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.places import Dropped, Places, free_folder
from watersmeet.hosts.local.durable.queue_sink import QueueSink
from watersmeet.hosts.local.durable.savepoint_requests import Requests
from watersmeet.io.connectors.contract import NumberedSink, Reader, Start
from watersmeet.io.connectors.numbered_sinks import NoSink
from watersmeet.io.connectors.readers import reader_of
from watersmeet.io.connectors.shared_reader import SharedSource
from watersmeet.model.catalog import Stream
from watersmeet.operators.saving import state_of
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.beginning import Beginning, Left, beginning_beside, whole_words
from watersmeet.runtime.left_out import Tell, named
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.savepoints.folder import Savepoint, writing_savepoint
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
        queues: Mapping[str, QueueSink] | None = None,
    ) -> None:
        """pushed: streams without a source are pushed, and a bare SELECT is for those who listen; if not, such streams
        are refused, and it prints. skipped: of queries, by name, the batches that are not repeated. queues: where
        answers wait to be taken, of queries by name; with them, even if there are none, queries come and go."""
        self.runs: dict[str, DurableExecution] = {}
        self.words: list[str] = []  # what there is to say of those that were added or dropped, once they have started
        self._requests: Requests | None = None
        self._beside: set[str] = set()  # the sinks beside answers into which queries have written
        self._settings, self._tell, self._pushed = settings, tell, pushed
        self._skipped, self._queues = skipped or {}, queues or {}
        self._shared = _shared_sources(jobs, all_of_them=queues is not None)
        with place_of(checkpoint) as place:
            self._folder = place.folder
            try:
                self._place, places = place, Places(place, jobs)
                self._dropped, self._beside = places.dropped, places.beside
                if settings.savepoint is not None and not places.are_known:
                    self.words += Savepoint(settings.savepoint).words_of_left([job.name for job in jobs])
                for job, its in zip(jobs, places.of_jobs, strict=True):
                    self._make(job, its, added=places.are_known, one_of=len(jobs))
            except BaseException:
                for run in self.runs.values():
                    run.abandon()
                raise

    def _make(self, job: Job, place: Place, *, added: bool, one_of: int) -> DurableExecution:
        check_durable(job.plan)
        tell = named(self._tell, job.name) if one_of > 1 else self._tell
        streams = streams_of(job.plan).items()
        readers = {
            name: _reader(job, one, self._shared) for name, one in streams if one.source is not None or not self._pushed
        }

        def sink(checkpoint: Checkpoint, start: Start) -> NumberedSink:
            if self._pushed and job.sink is CONSOLE:
                return self._queues.get(job.name) or NoSink()
            return sink_of(job.plan, job.name, job.sink, checkpoint, start, tell)

        own = replace(self._settings, skipped=self._skipped.get(job.name, frozenset()))
        run = DurableExecution(
            job.plan,
            place,
            sink,
            readers,
            own,
            tell=tell,
            added=added,
            others_beside=self._beside,
            beginning=beginning_of(own, job.name, place),
        )
        self.runs[job.name] = run
        return run

    # ---- queries come and go ----------------------------------------------------------------------------------------

    def make(self, job: Job) -> DurableExecution:
        """A run of one more query, that `begin` starts."""
        self._shared += _shared_sources([job], all_of_them=True, beside=self._shared)
        self._beside |= {name for run in self.runs.values() for name in RunNotes(run.place).get("sides", [])}
        return self._make(job, self._place.below(free_folder(self._place, job)), added=True, one_of=2)

    def begin(self, name: str) -> None:
        """Start a query that was made beside the others, which wait meanwhile: between two batches of theirs."""
        run = self.runs[name]
        others = [one for one in self.runs.values() if one is not run]
        try:
            with ExitStack() as pausing:
                for one in others:
                    pausing.enter_context(one.paused())
                run.recover(partial(self._beginning, name, run, others))
        except BaseException:
            del self.runs[name]
            raise
        run.go_on()

    def drop(self, name: str) -> None:
        """End a query after the batch in hand, with its answers in its sink, and let go of its state. What had ended it
        before is told by its run."""
        run = self.runs.pop(name)
        has_failed = run.failed
        try:
            run.stop()
        except Exception:
            if not has_failed:
                raise
        finally:
            self.words.append(Dropped(run.place, name).release())

    def start(self) -> None:
        """All that were there before recover first; those that were added begin with what they have kept. What was
        dropped is let go of when all others are there."""
        recovered: list[DurableExecution] = []
        started: list[DurableExecution] = []
        try:
            for name, run in sorted(self.runs.items(), key=lambda one: one[1].is_added):
                run.recover(partial(self._beginning, name, run, list(recovered)))
                recovered.append(run)
            for run in self.runs.values():
                run.go_on()
                started.append(run)
            self._release()
            if self._folder.is_dir():
                self._requests = Requests(self._folder, self.savepoint)
        except BaseException:
            for run in self.runs.values():
                with suppress(Exception):  # what went wrong at first is told
                    run.stop() if run in started else run.abandon()
            raise

    def _beginning(self, name: str, run: DurableExecution, others: Sequence[DurableExecution]) -> Begins | None:
        """What an added query begins with: the rows that others keep, where they keep all that its windows look at or
        its streams cannot be read again. Else it reads these from their beginning."""
        beside = [one for one in others if not (one.has_ended or one.failed)]
        found = beginning_beside(run.execution, [one.execution for one in beside], Left({}))
        if not found.begun:
            return None
        if not _is_kept(run, found):
            self.words.append(f"{name} was added, and reads its streams from their beginning")
            return None
        self.words.append(whole_words(name, found))
        positions: dict[str, Any] = {}
        pushed: dict[str, Any] = {"keys": {}, "clients": {}}
        for stream in found.clocks:
            at = next((one for one in beside if one.execution is found.beside.get(stream)), None)
            if at is None:
                continue
            its_positions, its_pushed = at.place_of
            positions |= {stream: its_positions[stream]} if stream in its_positions else {}
            for kind, taken in its_pushed.items():
                pushed[kind] |= {stream: taken[stream]} if stream in taken else {}
        return Begins(state_of(found), positions, pushed)

    def _release(self) -> None:
        for dropped in self._dropped:
            self.words.append(dropped.release())

    def savepoint(self, out: Path | str) -> None:
        """Of all queries, each between two of its batches."""
        found = {name: run.contents() for name, run in self.runs.items()}
        with writing_savepoint(out) as savepoint:
            for name, contents in found.items():
                savepoint.add(name, contents)

    def recover_only(self, out: Path | str) -> None:
        """In the place of `start`: a savepoint of what is there, with the answers of batches that have to be repeated
        in their sinks."""
        runs = iter(self.runs.items())
        with writing_savepoint(out) as savepoint:
            for name, run in runs:
                try:
                    savepoint.add(name, run.recover_only())
                except BaseException:
                    for _, other in runs:
                        other.abandon()
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
        if self._requests is not None:
            self._requests.close()
        if failure is not None:
            raise failure

    def stop(self) -> None:
        self.request_stop()
        self.wait()


Sources = Sequence[tuple[Stream, SharedSource]]


def _shared_sources(
    jobs: Sequence[Job], *, all_of_them: bool, beside: Sources = ()
) -> list[tuple[Stream, SharedSource]]:
    """The streams that several of the jobs read, or all of them, and what gives each of these its rows. Each has a
    checkpoint of its own, and so its own place there. beside: those that are known."""
    seen: list[Stream] = []
    shared: list[tuple[Stream, SharedSource]] = []
    for job in jobs:
        for stream in streams_of(job.plan).values() if may_share(job) else ():
            if stream.source is None or any(is_same_stream(stream, one) for one, _ in [*beside, *shared]):
                continue
            if all_of_them or any(is_same_stream(stream, one) for one in seen):
                shared.append((stream, SharedSource(partial(reader_of, stream))))
            else:
                seen.append(stream)
    return shared


def _reader(job: Job, stream: Stream, shared: Sources) -> Reader:
    sources = (source for one, source in shared if may_share(job) and is_same_stream(stream, one))
    source = next(sources, None)
    return reader_of(stream) if source is None else source.reader()


def _is_kept(run: DurableExecution, found: Beginning) -> bool:
    """Whether others keep all that the windows of a query look at, of streams of which some cannot be read again."""
    if not all(run.is_read(stream) for stream in found.clocks):
        return True
    physical = run.execution.built.physical
    leaves = () if physical is None or run.plan.options.share == "no" else physical.leaves
    reached = {leaf.stream.name for leaf in leaves if leaf.reach_us > 0}
    return bool(reached) and not found.is_never_whole and not found.counted and reached <= found.kept


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
