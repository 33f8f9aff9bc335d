"""One query that outlives its process: batches are written down, answered, and committed; its state is saved.

The order decides that nothing is lost and nothing comes twice. A batch is in the journal before it is answered, and
that is on the disk before whoever pushed it is told so, and before an answer is seen or committed. Answers carry the
number of their batch into the sink, which takes each number once. A snapshot counts when the sink has all answers up to
it; only then is the journal before the snapshot before it forgotten. After a crash the last snapshot is loaded, the
batches behind it are repeated as they were, and of their answers those go to the sink that it does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from threading import Event, Thread, current_thread
from time import monotonic
from typing import Any

import pyarrow as pa

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.answering import PART_ROWS, LeftInTheMiddle
from watersmeet.hosts.local.durable.batch_loop import BatchLoop, answer_waiting
from watersmeet.hosts.local.durable.batches import Arrived, BatchRecord, Begins, LeftOut, Ready, Step
from watersmeet.hosts.local.durable.beginning import Beginning
from watersmeet.hosts.local.durable.idempotency import IdempotencyKey
from watersmeet.hosts.local.durable.input_queue import PIECE_ROWS, InputQueue
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.recovery import Recovery
from watersmeet.hosts.local.durable.run_parts import MakeSink, open_parts
from watersmeet.hosts.local.durable.savepoints import contents_of
from watersmeet.hosts.local.durable.saver import Saver
from watersmeet.hosts.local.durable.succession import Succession
from watersmeet.hosts.local.pull import FINISHING_S
from watersmeet.hosts.local.pushed_execution import PUSHED
from watersmeet.io.connectors.contract import Reader, SourceBatch
from watersmeet.io.connectors.shared_reader import SharedReader
from watersmeet.plan.query import Plan
from watersmeet.runtime.left_out import Tell
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.savepoints.contents import QueryContents
from watersmeet.runtime.savepoints.fitting import goes_on_words
from watersmeet.warning import warn


class DurableExecution:
    """Runs in threads of its own from `start` on. Rows come from readers, or from `push`, which returns when they are
    on the disk."""

    def __init__(
        self,
        plan: Plan,
        place: Place,
        make_sink: MakeSink,
        readers: Mapping[str, Reader],
        settings: RunSettings | None = None,
        *,
        tell: Tell = warn,
        added: bool = False,
        others_beside: Collection[str] = (),
        beginning: Beginning | None = None,
        succession: Succession | None = None,
        changed: QueryContents | None = None,
    ) -> None:
        """make_sink: is given the checkpoint and this start of it. added: whether other queries were there before this
        one, if it begins now. others_beside: the sinks for bad records and late rows into which other queries of the
        script have written. beginning: with what a new run goes on. succession: whose place it is to take, if it begins
        now: its answers go nowhere until it does. changed: what the query before knew, of whose checkpoint this is."""
        self.plan = plan
        self.settings = settings or RunSettings()
        self.on_abandoned: Callable[[], None] | None = None  # what was not committed is left for a later run
        self.on_end: Callable[[], None] | None = None
        self._parts = open_parts(
            plan,
            self.settings,
            place,
            make_sink,
            readers,
            tell,
            added=added,
            others_beside=others_beside,
            beginning=beginning,
            succession=succession,
            changed=changed,
        )
        if self.settings.script is not None:
            self._parts.checkpoint.notes.note(script=self.settings.script)
        self.execution, self.progress = self._parts.answering.execution, self._parts.progress
        # The name is new for a new checkpoint, and the same in all lives.
        self.place, self.folder, self.name = place, place.folder, self._parts.checkpoint.run
        self.outputs, self.taken_pushes = self._parts.outputs, self._parts.taken_pushes
        self._answering = self._parts.answering
        self._saver = Saver(self._parts)
        # What bounded memory is given of one stream before the others have come as far takes room from them.
        in_step = self.execution.operator.bounded is not None
        suits = self.execution.operator.piece_rows if in_step else None
        piece_rows = min(PIECE_ROWS, self.settings.batch_rows, suits or PIECE_ROWS)
        self._intake = InputQueue(
            self._parts.readers.of, self.execution.clock.clocks, piece_rows=piece_rows, in_step=in_step
        )
        self.execution.is_at_hand = self._intake.is_at_hand
        self._loop = BatchLoop(self._parts, self._intake, self._saver)
        self._first: BatchRecord | None = None  # what it gives first, once it takes the place of another
        self._ended = Event()
        self._thread = Thread(target=self._work, name="watersmeet runs", daemon=True)

    # ---- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Recover what was there before, then begin to read."""
        self.recover()
        self.go_on()

    def recover(self, beginning: Callable[[], Begins | None] = lambda: None) -> None:
        """beginning: what it begins with beside others; see `Recovery`."""
        try:
            self.outputs.start(self.settings, self._loop.fail, self._parts.checkpoint.journal.sync)
            Recovery(self._parts).recover(self.outputs.committed(), beginning)
        except LeftInTheMiddle:
            self._close(commit=False)
            self._end()
        except BaseException:
            self._close(commit=False)
            raise

    def go_on(self) -> None:
        """Begin to read."""
        if not self.has_ended:
            self._intake.start()
            self._thread.start()

    def paused(self) -> AbstractContextManager[None]:
        """Between two batches, until this is left; at once if it has ended."""
        return self._loop.pause.held()

    @property
    def is_added(self) -> bool:
        """Whether other queries were there before it."""
        return bool(self._parts.checkpoint.notes.get("added", otherwise=False))

    @property
    def place_of(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Where its readers are, and which pushes are in: behind the batch that was answered last, between two."""
        positions = {**self._parts.checkpoint.notes.get("beginnings", {}), **self._parts.readers.positions()}
        return positions, self._parts.taken_pushes.as_json()

    def request_stop(self, patience_s: float = FINISHING_S) -> None:
        """Finish the batch in hand, save the state, and end; a batch whose answers go on for longer is left to the next
        start. May be called by a signal handler."""
        self._answering.stop_by_s = monotonic() + patience_s
        self._answering.stop.set()
        self._intake.wake()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until the run has ended; raises what ended it. Whether it has."""
        ended = self._ended.wait(timeout_s)
        if ended and self.error is not None:
            raise self.error
        return ended

    def stop(self) -> None:
        self.request_stop()
        self.wait()

    def fail(self, error: BaseException) -> None:
        """End with an error."""
        self._loop.fail(error)

    def abandon(self) -> None:
        """Let go of a run that was not started."""
        self._close(commit=False)

    @property
    def failed(self) -> bool:
        return self.error is not None

    @property
    def error(self) -> BaseException | None:
        """What ended it, if something went wrong."""
        return self.progress.error

    @property
    def has_begun(self) -> bool:
        return self._thread.ident is not None

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller is the thread that answers, which must not wait for itself."""
        return current_thread() is self._thread

    def is_read(self, stream: str) -> bool:
        """Whether a reader brings the rows of a stream."""
        return stream in self._parts.readers.of

    @property
    def is_open(self) -> bool:
        return not self._ended.is_set() and not self._answering.stop.is_set()

    # ---- rows come in -----------------------------------------------------------------------------------------------

    def push(self, stream: str, rows: Any, *, timeout_s: float | None = 60.0) -> int:
        """Take rows of a stream that has no reader. Returns the number of their batch when they are on the disk."""
        futures = self.push_soon(stream, rows, timeout_s=timeout_s)
        return max((future.result(timeout_s) for future in futures), default=self.progress.number)

    def push_soon(self, stream: str, rows: Any, *, timeout_s: float | None = 60.0) -> list[Future[int]]:
        """The same without waiting for the disk."""
        return [self.put(stream, batch, timeout_s=timeout_s)[0] for batch in self.checked(stream, rows)]

    def checked(self, stream: str, rows: Any) -> list[pa.RecordBatch]:
        """Rows in any form as batches of a stream; what does not fit is refused, and nothing has changed then."""
        name = self.execution.named(stream)
        batches, clock = self.execution.incoming[name].batches(rows), self.execution.clock.clocks[name]
        if not clock.by_arrival:
            for batch in batches:
                clock.timed_batch(batch, place=PUSHED)
        return batches

    def has_room(self, rows: int) -> bool:
        """Whether `put` would take so many rows without waiting; raises if the run has ended."""
        return self._intake.has_room(rows)

    def put(
        self, stream: str, rows: pa.RecordBatch, *, timeout_s: float | None = 60.0, key: IdempotencyKey | None = None
    ) -> tuple[Future[int], Future[LeftOut | None]]:
        """Rows that were `checked`; the number of their batch when they are on the disk, and when it was answered how
        many of them were left out. `key` is among `taken_pushes` from when they are logged, in this life and later
        ones."""
        name = self.execution.named(stream)
        keys = () if key is None else ((key, rows.num_rows),)
        return self._put(Step("pushed", name, SourceBatch(rows), keys=keys), rows.num_rows, timeout_s)

    def advance(self, stream: str, until_us: int) -> int:
        """No row of this stream before this time will come."""
        name = self.execution.named(stream)
        self.execution.check_promise(name)
        return self._put(Step("promise", name, until_us=until_us))[0].result()

    def end(self, stream: str) -> int:
        """No row of this stream will come any more."""
        return self._put(Step("end", self.execution.named(stream)))[0].result()

    def flush(self) -> int:
        """Answer all that waits; what comes later up to there is late."""
        return self._put(Step("flush", ""))[0].result()

    def _put(
        self, step: Step, rows: int = 0, timeout_s: float | None = None
    ) -> tuple[Future[int], Future[LeftOut | None]]:
        logged: Future[int] = Future()
        left_out: Future[LeftOut | None] = Future()
        self._intake.push(Arrived(step, rows, logged, left_out), timeout_s)
        return logged, left_out

    # ---- to take the place of another --------------------------------------------------------------------------------

    def is_where(self, other: DurableExecution) -> bool:
        """Whether both have answered the same rows of the streams of this one. Both are between two batches."""
        own, its = self.place_of[0], other.place_of[0]
        for name in self.execution.streams:
            reader = self._parts.readers.of.get(name)
            if reader is None:
                if self.taken(name) != other.taken(name):
                    return False
            elif reader.where(own.get(name)) != reader.where(its.get(name)):
                return False
        return True

    def is_beside(self, other: DurableExecution) -> bool:
        """Whether both are given the same from now on, of all streams of this one that are read."""
        own, its = self._parts.readers.of, other._parts.readers.of
        return all(isinstance(one, SharedReader) and one.is_beside(its[name]) for name, one in own.items())

    def reads_alone(self, other: DurableExecution) -> list[str]:
        """The streams of this one that the other is not given by the same reading."""
        own, its = self._parts.readers.of, other._parts.readers.of
        known = {id(one.source) for one in its.values() if isinstance(one, SharedReader)}
        alone = [name for name, one in own.items() if not isinstance(one, SharedReader) or id(one.source) not in known]
        return alone + [name for name in self.execution.streams if name not in own and name in its]

    def take_over(self, given: pa.RecordBatch | None) -> None:
        """From here on the answers are this query's, whatever happens; `begin_to_answer` is next. given: what it gives
        first, all at once. It is between two batches."""
        at = self.progress.number
        if given is not None:
            wall = self._answering.wall
            wall.go_on()
            placing = self.execution.placing
            self._first = BatchRecord(
                at + 1, wall.now, wall.today, [Step("given", "", given=given)], PART_ROWS, placing
            )
            self._parts.checkpoint.journal.append(at + 1, self._first.parts())
            self.progress.written = at + 1
        self._parts.checkpoint.take_over(at)

    @property
    def is_successor(self) -> bool:
        """Whether it takes the place of another."""
        return self._parts.checkpoint.succession is not None

    @property
    def has_taken_over(self) -> bool:
        return self._parts.checkpoint.has_taken_over

    def begin_to_answer(self) -> None:
        """The other one has let go of the sink."""
        at = self._parts.checkpoint.took_over_at
        self.outputs.take_over(self._parts.open_sink(), at)
        self.progress.given_before = max(self.progress.given_before, at)
        if self._first is not None:
            steps = [Ready(step) for step in self._first.steps]
            self.outputs.give(self._answering.answer(self._first.number, steps, PART_ROWS))
            self._first = None

    def end_here(self) -> None:
        """Between two batches: another takes the place of this one, whose answers are in its sink."""
        self._loop.end_here()

    # ---- for a savepoint ---------------------------------------------------------------------------------------------

    def contents(self, timeout_s: float | None = None) -> QueryContents:
        """What a savepoint says of this run, after the next batch that ends; its sinks have all up to there. Of a run
        that has ended, or was only recovered, as it is."""
        if self.is_own_thread:
            raise RunError(
                "a savepoint cannot be taken by who is called with answers: the batch in hand is not done",
                hint="call savepoint() from another thread, or after the run has stopped",
            )
        found = self._loop.between_batches(lambda: contents_of(self._parts)).result(timeout_s)
        if not self.has_ended:
            self.outputs.settle(found.batch)
        return found

    def recover_only(self) -> QueryContents:
        """In the place of `start`: bring back what was there before, commit its answers, and end."""
        try:
            self.outputs.start(self.settings, self._loop.fail, self._parts.checkpoint.journal.sync)
            Recovery(self._parts).recover(self.outputs.committed())
            if self.error is not None:
                raise self.error
            self.outputs.hurry()
            self._saver.save(wait=True)
            found = contents_of(self._parts)
        except BaseException:
            self._close(commit=False)
            raise
        self._close(commit=True)
        return found

    def goes_on_words(self, name: str) -> list[str]:
        """What there is to say of a query that has changed since what it goes on from, in this start."""
        beginning, changed = self._parts.beginning, self._parts.changed
        contents = changed if beginning is None else beginning.contents
        return [] if contents is None else goes_on_words(name, contents, self.plan)

    # ---- what it is now ---------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, Any]:
        with self._answering.lock:
            return self._report().as_dict()

    def latest(self) -> Metrics:
        """The numbers of this run, brought up to date."""
        with self._answering.lock:
            return self._report()

    def latest_json(self) -> dict[str, Any]:
        """The same for programs elsewhere."""
        with self._answering.lock:
            return self._report().as_json()

    def _report(self) -> Metrics:
        self._parts.readers.report(self.execution.metrics)
        return self.execution.report()

    def with_waiting(self) -> Metrics:
        """The same with the rows that wait for time to go on."""
        with self._answering.lock:
            return self.execution.report_waiting()

    def answer(self) -> pa.Table | None:
        """What a changing answer is now."""
        with self._answering.lock:
            return self.execution.answer()

    def present(self) -> tuple[pa.Table | None, int]:
        """What a changing answer is now, and after which batch."""
        with self._answering.lock:
            return self.execution.answer(), self.progress.number

    def taken(self, stream: str) -> int:
        """How many rows of a stream have come so far, in all lives: whoever pushes goes on behind them."""
        name = self.execution.named(stream)
        with self._answering.lock:
            return self._parts.unanswered.came(name, failed=self.failed)

    @property
    def snapshot_pause_s(self) -> float:
        """The longest."""
        return self._saver.longest_pause_s

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._loop.run()
            self._close(commit=self.error is None)
        except BaseException as error:
            self._loop.fail(error)
            self._close(commit=False)
        finally:
            self._end()

    def _end(self) -> None:
        self._ended.set()
        if self.on_end is not None:
            self.on_end()

    def _close(self, *, commit: bool) -> None:
        reason = self.error or RunError(
            "the run has ended, so no more rows can be pushed", hint="the same start() goes on with it"
        )
        answer_waiting(self._intake.close(reason), error=reason)
        if not commit and self.on_abandoned is not None:
            self.on_abandoned()
        try:
            try:
                self.outputs.close(commit=commit)
            finally:
                self._parts.checkpoint.note_given(self.outputs.taken_number)
        except BaseException as error:
            self.progress.error = self.error or error
        finally:
            self._saver.close()
            self._parts.loads.close()
            self._parts.checkpoint.close()
            self.execution.report()
            self.execution.close()
            self._parts.checkpoint.release()
