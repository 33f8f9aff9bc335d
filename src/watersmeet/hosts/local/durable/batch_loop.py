"""Batch after batch of a durable run: what came is written down, answered and handed on, and now and then saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Lock
from time import monotonic
from typing import TypeVar

from watersmeet.dataclass import dataclass
from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.answering import PART_ROWS, LeftInTheMiddle
from watersmeet.hosts.local.durable.batches import Arrived, BatchRecord, Ready, Step, remember_pushes
from watersmeet.hosts.local.durable.input_queue import InputQueue
from watersmeet.hosts.local.durable.pause import Pause
from watersmeet.hosts.local.durable.push_account import PushAccount
from watersmeet.hosts.local.durable.run_parts import RunParts
from watersmeet.hosts.local.durable.saver import Saver
from watersmeet.warning import DataWarning

T = TypeVar("T")


@dataclass
class _Writing:
    """A batch on its way to the disk."""

    number: int
    steps: Sequence[Step]
    arrived: Sequence[Arrived]
    on_disk: bool  # or need not be there
    is_told: bool = False


class BatchLoop:
    def __init__(self, parts: RunParts, intake: InputQueue, saver: Saver) -> None:
        self.stop, self.pause = parts.answering.stop, Pause()
        self._parts, self._intake, self._saver = parts, intake, saver
        self._execution, self._wall = parts.answering.execution, parts.answering.wall
        self._settings, self._progress, self._unanswered = parts.settings, parts.progress, parts.unanswered
        self._journal = parts.checkpoint.journal
        self._can_write = True
        self._writing = _Writing(-1, [], [], on_disk=True, is_told=True)
        self._account = PushAccount(self._execution)
        self._asked: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._asking = Lock()
        self._has_ended = False
        self._is_replaced = False
        parts.answering.may_wait = self._may_wait
        parts.answering.come_to_disk, parts.answering.tell_written = self._come_to_disk, self._tell_written

    def run(self) -> None:
        """Until a stop is asked for, the input ends, or something fails, of which `progress` tells."""
        try:
            self._answer_until_it_fails()
            if self._progress.error is not None:
                self._only_write()
        finally:
            with self._asking:
                self._has_ended = True
            self._do_what_was_asked()

    def between_batches(self, work: Callable[[], T]) -> Future[T]:
        """Have something done after a batch, before the next; at once if there is none any more. For any thread."""
        future: Future[T] = Future()

        def done() -> None:
            try:
                if self._progress.error is not None:
                    raise self._progress.error
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        with self._asking:
            if not self._has_ended:
                self._asked.put(done)
                self._intake.wake()
                return future
        done()
        return future

    def end_here(self) -> None:
        """Between two batches: there is no next one, as another query answers in the place of this."""
        self._is_replaced = True
        self.stop.set()
        self._intake.wake()

    def _do_what_was_asked(self) -> None:
        while not self._asked.empty():
            self._asked.get()()

    def fail(self, error: BaseException) -> None:
        self._progress.error = self._progress.error or error
        if not (self._settings.writes_on and self._can_write):
            self.stop.set()
        self._intake.wake()

    def _answer_until_it_fails(self) -> None:
        try:
            if self._progress.error is None:
                self._answer_batches()
        except Exception as error:
            if not (self._settings.writes_on and self._can_write):
                raise
            if self._progress.failed is None:  # it has nothing to do with a batch: a sink that cannot be written
                self._unanswered.remember()
            self.fail(error)

    def _only_write(self) -> None:
        """The query has failed: what is pushed is written down, and sources are read no more."""
        self._intake.stop_reading()
        while not self.stop.is_set():
            arrived = self._intake.take(self._settings.batch_rows, self._settings.gather_s, None)
            if arrived:
                self._batch(arrived)
            self._do_what_was_asked()

    def _answer_batches(self) -> None:
        try:
            self._answer_until_stopped()
            if self._progress.error is not None:
                raise self._progress.error
            if self._settings.flush and not self.stop.is_set():  # all that waits; what comes later up to there is late
                self._batch([Arrived(Step("flush", ""), 0)])
        except LeftInTheMiddle as left:
            self._parts.tell(DataWarning("many_answers", str(left)))
            self._parts.outputs.hurry()
            self._saver.is_idle(wait=True)
            return
        self._parts.outputs.hurry()
        self._saver.save(wait=True)

    def _answer_until_stopped(self) -> None:
        self._saver.begin()
        while not self.stop.is_set() and self._progress.error is None:
            arrived = self._intake.take(self._settings.batch_rows, self._settings.gather_s, self._patience_s())
            with self.pause.not_now():
                if self._is_replaced:
                    answer_waiting(arrived, error=_replaced())
                    break
                if arrived or self._is_due():
                    self._batch(arrived)
                if self._settings.available_now and not arrived and self._intake.is_exhausted:
                    break
                self._saver.save_if_due()
            self._do_what_was_asked()

    def _patience_s(self) -> float | None:
        """How long to wait for rows: until time goes on without them, or the state is to be saved."""
        waits = [self._execution.due_in_s(), self._saver.due_in_s()]
        if waits[0] is not None:
            waits[0] = max(waits[0] - (self._wall.real_s - self._wall.now), 0.0)
        if self._settings.available_now:
            waits.append(0.02)
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def _is_due(self) -> bool:
        due_s = self._execution.due_in_s()
        return due_s is not None and self._wall.now + due_s <= self._wall.real_s

    def _batch(self, arrived: Sequence[Arrived]) -> None:
        """Write down what came, answer it, and hand the answers on."""
        began_s = monotonic()
        self._wall.go_on()
        if self._settings.writes_on and self._progress.error is None:
            self._unanswered.remember()
        loads = [] if self._progress.error is not None else self._parts.loads.steps()
        steps = [*map(Ready, loads), *self._parts.admission.accepted(arrived)]
        number = self._progress.written + 1
        self._account.begin(arrived)
        self._write_down(number, [ready.step for ready in steps], arrived)
        if self._progress.error is not None:
            self._account.fail()
            self._unanswered.leave([ready.step for ready in steps])
            return
        try:
            answers = self._parts.answering.answer(number, steps, PART_ROWS)
        except LeftInTheMiddle:
            self._tell_written()
            self._account.fail()
            raise
        except BaseException:
            self._account.fail()
            if self._can_write:
                self._tell_written()
                self._progress.failed = number
                self._unanswered.leave([ready.step for ready in steps])
            raise
        self._tell_written()
        self._account.tell()
        self._parts.outputs.give(answers)
        self._progress.seconds += monotonic() - began_s

    def _write_down(self, number: int, steps: Sequence[Step], arrived: Sequence[Arrived]) -> None:
        record = BatchRecord(number, self._wall.now, self._wall.today, steps, PART_ROWS, self._execution.placing)
        self._writing = _Writing(number, steps, arrived, on_disk=self._may_wait(steps))
        try:
            self._journal.append(number, record.parts(), soon=True)
            self._progress.written = number
            if not self._writing.on_disk:
                self._journal.begin_sync()
        except BaseException as error:
            self._tell_of_failure(error)
            raise
        self._parts.readers.note(steps)
        if self._writing.on_disk or self._progress.error is not None:
            self._come_to_disk()
            self._tell_written()

    def _come_to_disk(self) -> None:
        """Return when the batch in hand is on the disk, if it must be."""
        writing = self._writing
        if not writing.on_disk:
            try:
                self._journal.sync(writing.number)
            except BaseException as error:
                self._tell_of_failure(error)
                raise
            writing.on_disk = True

    def _tell_written(self) -> None:
        """It is on the disk, or need not be, and who waits for that is told, once."""
        writing = self._writing
        if not writing.is_told:
            writing.is_told = True
            # First what whoever is told may ask for.
            remember_pushes(self._parts.taken_pushes, writing.steps, writing.number)
            answer_waiting(writing.arrived, number=writing.number)

    def _tell_of_failure(self, error: BaseException) -> None:
        """It cannot be written down."""
        self._can_write = False
        self._writing.is_told = True
        answer_waiting(self._writing.arrived, error=error)

    def _may_wait(self, steps: Sequence[Step]) -> bool:
        """Whether a batch need not be on the disk before it is answered: if nobody waits to hear so, and its answers
        are seen by nobody before the journal is brought there, which happens before they are committed."""
        return self._parts.outputs.on_answers is None and all(step.kind == "read" for step in steps)


def _replaced() -> RunError:
    return RunError(
        "another query has taken the place of this one, so none of these rows went in", hint="push them into that one"
    )


def answer_waiting(arrived: Sequence[Arrived], *, number: int = -1, error: BaseException | None = None) -> None:
    """Those who wait to hear that what they pushed is written down."""
    for one in arrived:
        if one.logged is not None and not one.logged.done():
            if error is None:
                one.logged.set_result(number)
            else:
                one.logged.set_exception(error)
