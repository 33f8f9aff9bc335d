"""The queries of a script as runs that go on, side by side, each with a checkpoint of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

from watersmeet.errors import RunError, UnsupportedError
from watersmeet.hosts.local.durable.batches import Begins
from watersmeet.hosts.local.durable.beginning import Beginning as WithSavepoint
from watersmeet.hosts.local.durable.beginning import beginning_of
from watersmeet.hosts.local.durable.checkpoint import Checkpoint
from watersmeet.hosts.local.durable.checkpoint_in_store import place_of
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.notes import RunNotes
from watersmeet.hosts.local.durable.outputs import sink_of
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.places import Dropped, Places, free_folder, successor_folder
from watersmeet.hosts.local.durable.query_before import Untaken, query_before, what_it_knows
from watersmeet.hosts.local.durable.queue_sink import QueueSink
from watersmeet.hosts.local.durable.replacing import Replaced, Replacing, check_alike
from watersmeet.hosts.local.durable.requests import REPLACE, SAVEPOINT, Requests
from watersmeet.hosts.local.durable.succession import Succession
from watersmeet.io.connectors.contract import NumberedSink, Reader, Start
from watersmeet.io.connectors.numbered_sinks import NoSink
from watersmeet.io.connectors.readers import reader_of
from watersmeet.io.connectors.shared_reader import SharedSource
from watersmeet.model.catalog import Stream
from watersmeet.model.wording import listed
from watersmeet.operators.saving import state_of
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.beginning import Beginning, Left, beginning_beside, whole_words
from watersmeet.runtime.changes import Held
from watersmeet.runtime.checkpoints import query_folders
from watersmeet.runtime.declaring import Opener, open_to_go_on
from watersmeet.runtime.left_out import Tell, named
from watersmeet.runtime.run_settings import COMPARE_S, RunSettings
from watersmeet.runtime.savepoints.contents import QueryContents
from watersmeet.runtime.savepoints.folder import Savepoint, is_savepoint, writing_savepoint
from watersmeet.runtime.savepoints.matching import queries_of, words_of_left
from watersmeet.runtime.script import CONSOLE, Job, read_script
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
        opener: Opener = open_to_go_on,
        as_it_was: bool = False,
    ) -> None:
        """pushed: streams without a source are pushed, and a bare SELECT is for those who listen; if not, such streams
        are refused, and it prints. skipped: of queries, by name, the batches that are not repeated. queues: where
        answers wait to be taken, of queries by name; with them, even if there are none, queries come and go. opener:
        what has opened the streams, and opens them for queries that take the place of these. as_it_was: whether the
        script is to be the one that was running: one that has changed is refused, also where it could go on."""
        self.runs: dict[str, DurableExecution] = {}
        self.words: list[str] = []  # what there is to say of those that were added or dropped, once they have started
        self._requests: Requests | None = None
        self._beside: set[str] = set()  # the sinks beside answers into which queries have written
        self._settings, self._tell, self._pushed = settings, tell, pushed
        self._skipped, self._queues, self._as_it_was = skipped or {}, queues or {}, as_it_was
        # A query that takes the place of another must be given the same rows.
        may_change = queues is not None or not settings.available_now
        self._shared = _shared_sources(jobs, all_of_them=may_change)
        self._opener = opener
        self._jobs = {job.name: job for job in jobs}
        self._replacing: Replacing | None = None
        with place_of(checkpoint) as place:
            self._folder = place.folder
            try:
                self._place, places = place, Places(place, jobs)
                self._dropped, self._beside = places.dropped, places.beside
                self._begins_as = self._in_savepoint(jobs, places)
                for job, its in zip(jobs, places.of_jobs, strict=True):
                    added = places.are_known if self._begins_as is None else job.name not in self._begins_as
                    self._make(job, its, added=added, one_of=len(jobs))
            except BaseException:
                for run in self.runs.values():
                    run.abandon()
                raise

    def _in_savepoint(self, jobs: Sequence[Job], places: Places) -> Mapping[str, str] | None:
        """As which queries of a savepoint those of the script begin; the others are added. None without one, also if it
        was removed since they have begun."""
        named = self._settings.savepoint
        if named is None or (places.are_known and not is_savepoint(named)):
            return None
        savepoint = Savepoint(named)
        found = queries_of(savepoint, jobs)
        self.words += [] if places.are_known else words_of_left(savepoint, found)
        return found

    def _beginning_of(self, job: Job, place: Place, settings: RunSettings) -> WithSavepoint | None:
        if self._begins_as is None or job.name not in self._begins_as:
            return None
        return beginning_of(settings, self._begins_as[job.name], place)

    def _make(self, job: Job, place: Place, *, added: bool, one_of: int) -> None:
        self.runs[job.name] = self._made(job, place, added=added, one_of=one_of)

    def _made(
        self, job: Job, place: Place, *, added: bool, one_of: int, succession: Succession | None = None
    ) -> DurableExecution:
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
        may_change = succession is None and not self._as_it_was
        before = query_before(place, job.plan) if may_change else None
        return DurableExecution(
            job.plan,
            place,
            sink,
            readers,
            own,
            tell=tell,
            added=added,
            others_beside=self._beside,
            beginning=None if succession is not None else self._beginning_of(job, place, own),
            succession=succession,
            changed=None if before is None else self._known_before(job, before, place, own, tell),
        )

    def _known_before(self, job: Job, before: Plan, place: Place, own: RunSettings, tell: Tell) -> QueryContents:
        """What the query knows that a job was, where that goes on with it."""

        def sink(checkpoint: Checkpoint, start: Start) -> NumberedSink:
            if self._pushed and job.sink is CONSOLE:
                return Untaken(place) if job.name in self._queues else NoSink()
            return sink_of(before, job.name, job.sink, checkpoint, start, tell)

        streams = streams_of(before).items()
        readers = {name: reader_of(one) for name, one in streams if one.source is not None or not self._pushed}
        return what_it_knows(before, place, sink, readers, own, tell)

    # ---- queries come and go ----------------------------------------------------------------------------------------

    def make(self, job: Job) -> DurableExecution:
        """A run of one more query, that `begin` starts."""
        self._shared += _shared_sources([job], all_of_them=True, beside=self._shared)
        self._beside |= {name for run in self.runs.values() for name in RunNotes(run.place).get("sides", [])}
        self._make(job, self._place.below(free_folder(self._place, job)), added=True, one_of=2)
        self._jobs[job.name] = job
        return self.runs[job.name]

    def begin(self, name: str) -> None:
        """Start a query that was made beside the others, which wait meanwhile: between two batches of theirs."""
        try:
            self._begin(name, self.runs[name])
        except BaseException:
            del self.runs[name]
            raise

    def _begin(self, name: str, run: DurableExecution) -> None:
        others = [one for one in self.runs.values() if one is not run]
        with ExitStack() as pausing:
            for one in others:
                pausing.enter_context(one.paused())
            run.recover(partial(self._beginning, name, run, others))
        run.go_on()

    def replace(
        self,
        job: Job,
        *,
        compare_s: float = COMPARE_S,
        if_same: bool = False,
        without_pushes: Callable[[], AbstractContextManager[Any]] = nullcontext,
        building: Callable[[DurableExecution], None] = lambda run: None,
        let_go: Callable[[], None] = lambda: None,
    ) -> Replaced:
        """Have a query take the place of the one that runs under its name, and its sink, at one instant. Returns when
        it has, and says what came of it. building: is given the new run before it begins, from when on it has what is
        pushed; see `Replacing`."""
        before = self._to_be_replaced(job)
        check_alike(job.name, before.plan, job.plan)
        self._shared += _shared_sources([job], all_of_them=True, beside=self._shared)
        (stands_for,) = query_folders([job.name])
        succession = Succession(_folder_of(before, self._folder), stands_for)
        place = self._place.below(successor_folder(self._place, stands_for))
        now = self._made(job, place, added=True, one_of=2, succession=succession)
        sources = [source for _, source in self._shared]
        self._replacing = replacing = Replacing(job.name, before, now, sources, without_pushes, let_go)
        try:
            self._begin_instead(job.name, now, replacing, without_pushes, building)
            replacing.come_to_be_whole()
            return replacing.take_over(replacing.compare(compare_s), if_same=if_same)
        finally:
            if now.has_taken_over:
                self.runs[job.name], self._jobs[job.name] = now, job
            elif now.has_begun:
                with suppress(Exception):  # what went wrong is told
                    now.stop()
            Dropped((before if now.has_taken_over else now).place, job.name).release()
            if replacing.given_up.is_set():
                now.request_stop()
            self._replacing = None

    def _begin_instead(
        self,
        name: str,
        now: DurableExecution,
        replacing: Replacing,
        without_pushes: Callable[[], AbstractContextManager[Any]],
        building: Callable[[DurableExecution], None],
    ) -> None:
        try:
            replacing.check()
        except BaseException:
            now.abandon()
            raise
        with without_pushes():  # else it had rows twice that come while it begins
            building(now)
            self._begin(name, now)

    def _to_be_replaced(self, job: Job) -> DurableExecution:
        if self._replacing is not None:
            raise RunError("another query is being replaced", hint="wait until that is done")
        before = self.runs.get(job.name)
        if before is None or not before.is_open:
            raise RunError(
                f"no query {job.name!r} is running", hint=f"those that run are {listed(list(self.runs)) or 'none'}"
            )
        if self._settings.available_now:
            raise RunError(
                f"{job.name} belongs to a run that ends when all is read", hint="run it without --available-now"
            )
        return before

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
                self.words += run.goes_on_words(name)
            for run in self.runs.values():
                run.go_on()
                started.append(run)
            self._release()
            if self._folder.is_dir():
                self._requests = Requests(
                    self._folder, {SAVEPOINT: self._asked_savepoint, REPLACE: self._asked_replace}
                )
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
        if not _is_kept(run, found) or (run.is_successor and _would_wait(run, found, beside)):
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

    def _asked_savepoint(self, asked: Mapping[str, Any]) -> list[str]:
        self.savepoint(asked["out"])
        return []

    def _asked_replace(self, asked: Mapping[str, Any]) -> list[str]:
        if self._pushed:
            raise RunError(
                "these queries are held by a program, or served, and whoever pushes to them would not know of another",
                hint="in Python, runs.replace(name, query); of a server, stop it and start it with the other script",
            )
        text = Path(asked["script"]).read_text(encoding="utf-8")
        return self.replace_by(text, asked["script"], asked["query"], asked["compare_s"], if_same=asked["if_same"])

    def replace_by(self, text: str, script: str, only: str | None, compare_s: float, *, if_same: bool) -> list[str]:
        """Have those of another script take the places of those that run under their names, one after the other.
        script: where it lies."""
        asked = {job.name: job for job in read_script(text, opener=self._opener)}
        if only is not None and only not in asked:
            raise RunError(f"{script} has no query {only!r}", hint=f"it has {listed(list(asked))}")
        known = [job for name, job in asked.items() if only in (None, name) and (only or name in self.runs)]
        changed = [job for job in known if Held.of(job.plan) != Held.of(self._jobs[job.name].plan)]
        if not changed:
            return [f"no query of {script} differs from the one that runs under its name: nothing has changed"]
        words = []
        for job in changed:
            words += self.replace(job, compare_s=compare_s, if_same=if_same).words()
            RunNotes(self.runs[job.name].place).note(script=script)
        return words

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
        if self._replacing is not None:
            self._replacing.given_up.set()
        for run in self.runs.values():
            run.request_stop()

    def wait(self, look: Callable[[], None] = lambda: None, every_s: float = 0.2) -> None:
        """Until all have ended; if one fails, the others are stopped, unless it writes on, and that is raised. `look`
        is called meanwhile."""
        ended: set[DurableExecution] = set()
        failure: BaseException | None = None
        while (waiting := [run for run in self.runs.values() if run not in ended]) or self._replacing is not None:
            try:
                if not waiting:  # another takes the place of the last one
                    sleep(every_s)
                elif waiting[0].wait(every_s):
                    ended.add(waiting[0])
            except Exception as error:
                failure = failure or error
                ended.add(waiting[0])
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


def _folder_of(run: DurableExecution, root: Path) -> str:
    return "" if run.folder == root else run.folder.name


def _would_wait(run: DurableExecution, found: Beginning, beside: Sequence[DurableExecution]) -> bool:
    """Whether rows have to come before it is whole with what is kept, where all that came can be read again."""
    reached_us = min(one.execution.clock.watermark_us for one in beside)
    return found.whole_us > reached_us and all(run.is_read(stream) for stream in found.clocks)


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
