"""One query that outlives its process: batches are written down, answered, and committed; its state is saved.

The order decides that nothing is lost and nothing comes twice. A batch is in the journal before it is answered. Answers
carry the number of their batch into the sink, which takes each number once. A snapshot counts when the sink has all
answers up to it; only then is the journal before it forgotten. After a crash the last snapshot is loaded, the batches
behind it are repeated as they were, and of their answers those go to the sink that it does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Lock, Thread, current_thread
from time import monotonic
from typing import Any

import pyarrow as pa

from watersmeet.errors import RunError, SkippedRowsWarning, WatersmeetError
from watersmeet.hosts.local.durable.arrival_note import ArrivalNote
from watersmeet.hosts.local.durable.batches import BatchRecord, Step
from watersmeet.hosts.local.durable.beside import Beside
from watersmeet.hosts.local.durable.folder import CheckpointFolder
from watersmeet.hosts.local.durable.intake import PIECE_ROWS, Arrived, Intake, rows_in
from watersmeet.hosts.local.durable.journal import Journal
from watersmeet.hosts.local.durable.notes import Note, Notes
from watersmeet.hosts.local.durable.outflow import Commits, Outflow
from watersmeet.hosts.local.durable.snapshots import Snapshot, Snapshots, copied
from watersmeet.hosts.local.durable.wall import BatchClock
from watersmeet.hosts.local.fed_query import FedQuery
from watersmeet.hosts.local.run import BATCH_ROWS
from watersmeet.io.connectors.contract import NumberedSink, Range, Reader
from watersmeet.io.event_times import timed_rows, without_nulls
from watersmeet.operators.answers import Answer, as_batches
from watersmeet.operators.contract import Rows
from watersmeet.operators.saving import load_state, state_of
from watersmeet.plan.nodes import Plan
from watersmeet.runtime.late_rows import Tell, warn
from watersmeet.runtime.metrics import Metrics

MakeSink = Callable[[str], NumberedSink]
OnAnswers = Callable[[int, Sequence[pa.RecordBatch]], None]


@dataclass(frozen=True)
class Settings:
    """How a durable run goes. A batch closes at so many rows, or so long after its first row. `snapshot_s`: how often
    the state is saved. `sync`: a batch counts as written when it is on the disk; if not, a crash of the process is
    survived, one of the machine may lose the last moments."""

    batch_rows: int = 1 << 16
    gather_s: float = 0.0
    snapshot_s: float = 10.0
    sync: bool = True
    commits: Commits = field(default_factory=Commits)
    available_now: bool = False
    flush: bool = False
    skipped: frozenset[int] = frozenset()  # batches that are not repeated, as their rows make the query fail


class DurableRun:
    """Runs in threads of its own from `start` on. Rows come from readers, or from `push`, which returns when they are
    on the disk."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        make_sink: MakeSink,
        readers: Mapping[str, Reader],
        settings: Settings | None = None,
        *,
        tell: Tell = warn,
    ) -> None:
        """make_sink: is given the name of the run, which is new for a new checkpoint."""
        self.plan = plan
        self.settings = settings or Settings()
        self.on_answers: OnAnswers | None = None
        self.on_batch: Callable[[Metrics], None] | None = None
        self.wall = BatchClock()
        self._tell = tell
        self._readers = dict(readers)
        for reader in self._readers.values():
            reader.tell = tell
        self._ranges: dict[str, Range] = {}  # what every reader has given to batches last
        self._positions: dict[str, Any] = {}
        self._number = -1  # of the last batch
        self._folder = CheckpointFolder(folder, plan)
        try:
            # What is known of the inputs changes from start to start, and another way might be chosen by it.
            chosen = replace(plan.options, pipeline=self._folder.identity.pipeline)
            sourced = frozenset(readers)
            self.fed = FedQuery(replace(plan, options=chosen), wall=self.wall, tell=tell, sourced=sourced)
            self._journal = Journal(self._folder.path, sync=self.settings.sync)
            self._snapshots = Snapshots(self._folder.path)
            self._sink = make_sink(self._folder.identity.run)
        except BaseException:
            self._folder.close()
            raise
        self.folder = self._folder.path
        self.name = self._folder.identity.run  # new for a new checkpoint, the same in all lives
        self.notes = Notes()
        self.repeated_batches = 0
        self.first_number = 0  # of the first batch of this life
        self.snapshot_number = -1
        self.given_number = -1  # the last batch whose answers, if any, were handed on
        self.answered_number = -1  # the last batch that gave answers
        self.answered_before = -1  # the last of those that no life repeats any more
        self.snapshot_pause_s = 0.0  # the longest
        self.batch_seconds = 0.0  # that batches of this life took, from what came to its answers
        self._saving: Future[None] | None = None
        self._saver = Beside("watersmeet saves")
        self._intake = Intake(self._readers, piece_rows=min(PIECE_ROWS, self.settings.batch_rows))
        self._lock = Lock()  # of the operators and clocks
        self._stop = Event()
        self._ended = Event()
        self._error: BaseException | None = None
        self._outflow: Outflow | None = None
        self._thread = Thread(target=self._work, name="watersmeet runs", daemon=True)

    # ---- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Recover what was there before, then begin to read."""
        try:
            self._outflow = Outflow(self._sink, self.settings.commits, self._fail)
            self._recover()
        except BaseException:
            self._close(commit=False)
            raise
        self._intake.start()
        self._thread.start()

    def request_stop(self) -> None:
        """Finish the batch in hand, save the state, and end. May be called by a signal handler."""
        self._stop.set()
        self._intake.wake()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until the run has ended; raises what ended it. Whether it has."""
        ended = self._ended.wait(timeout_s)
        if ended and self._error is not None:
            raise self._error
        return ended

    def stop(self) -> None:
        self.request_stop()
        self.wait()

    def abandon(self) -> None:
        """Let go of a run that was not started."""
        self._close(commit=False)

    @property
    def failed(self) -> bool:
        return self._error is not None

    @property
    def error(self) -> BaseException | None:
        """What ended it, if something went wrong."""
        return self._error

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller is the thread that answers, which must not wait for itself."""
        return current_thread() is self._thread

    def is_read(self, stream: str) -> bool:
        """Whether a reader brings the rows of a stream."""
        return stream in self._readers

    @property
    def is_open(self) -> bool:
        return not self._ended.is_set() and not self._stop.is_set()

    # ---- rows come in -----------------------------------------------------------------------------------------------

    def push(self, stream: str, rows: Any, *, timeout_s: float | None = 60.0) -> int:
        """Take rows of a stream that has no reader. Returns the number of their batch when they are on the disk."""
        futures = [self.push_soon(stream, batch, timeout_s=timeout_s) for batch in self.checked(stream, rows)]
        number = self._number
        for future in futures:
            number = future.result(timeout_s)
        return number

    def checked(self, stream: str, rows: Any) -> list[pa.RecordBatch]:
        """Rows in any form as batches of a stream; what does not fit is refused, and nothing has changed then."""
        name = self.fed.named(stream)
        batches, clock = self.fed.incoming(name, rows), self.fed.clock.clocks[name]
        if not clock.stream.by_arrival:
            for batch in batches:
                timed_rows(clock.stream, without_nulls(clock.stream, batch), clock.rows_in)
        return batches

    def has_room(self, rows: int) -> bool:
        """Whether `push_soon` would take so many rows without waiting; raises if the run has ended."""
        return self._intake.has_room(rows)

    def push_soon(
        self, stream: str, rows: pa.RecordBatch, *, timeout_s: float | None = 60.0, note: Note | None = None
    ) -> Future[int]:
        """The same without waiting for the disk: rows that were `checked`. `note` is kept in `notes` from when they are
        logged, in this life and later ones."""
        name = self.fed.named(stream)
        arrived = Arrived(Step("pushed", name, rows, note=note), rows.num_rows, Future())
        self._intake.push(arrived, timeout_s)
        assert arrived.logged is not None
        return arrived.logged

    def advance(self, stream: str, until_us: int) -> int:
        """No row of this stream before this time will come."""
        name = self.fed.named(stream)
        self.fed.check_promise(name)
        return self._told(Step("promise", name, until_us=until_us))

    def end(self, stream: str) -> int:
        """No row of this stream will come any more."""
        return self._told(Step("end", self.fed.named(stream)))

    def flush(self) -> int:
        """Answer all that waits; what comes later up to there is late."""
        return self._told(Step("flush", ""))

    def _told(self, step: Step) -> int:
        arrived = Arrived(step, 0, Future())
        self._intake.push(arrived, None)
        assert arrived.logged is not None
        return arrived.logged.result()

    # ---- what it is now ---------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, Any]:
        with self._lock:
            return self.fed.report().as_dict()

    def latest(self) -> Metrics:
        """The numbers of this run, brought up to date."""
        with self._lock:
            return self.fed.report()

    def latest_json(self) -> dict[str, Any]:
        """The same for programs elsewhere."""
        with self._lock:
            return self.fed.report().as_json()

    def with_waiting(self) -> Metrics:
        """The same with the rows that wait for time to go on."""
        with self._lock:
            return self.fed.report_waiting()

    def answer(self) -> pa.Table | None:
        """What a changing answer is now."""
        with self._lock:
            return self.fed.answer()

    def present(self) -> tuple[pa.Table | None, int]:
        """What a changing answer is now, and after which batch."""
        with self._lock:
            return self.fed.answer(), self._number

    def taken(self, stream: str) -> int:
        """How many rows of a stream have come so far, in all lives: whoever pushes goes on behind them."""
        clock = self.fed.clock.clocks[self.fed.named(stream)]
        with self._lock:
            return clock.rows_in + clock.skipped_rows

    @property
    def number(self) -> int:
        """Of the last batch."""
        return self._number

    # ---- after a restart --------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        self._snapshots.drop_drafts()
        snapshot = self._snapshots.latest()
        if snapshot is not None:
            load_state(self.fed, snapshot.state)
            self._number = self.given_number = self.snapshot_number = snapshot.number
            for name, position in snapshot.notes["positions"].items():
                if name in self._readers:
                    self._readers[name].resume(position)
            self._positions = dict(snapshot.notes["positions"])
            self.answered_number = self.answered_before = snapshot.notes.get("answered", snapshot.number)
            self.wall.put(*snapshot.notes["wall"])
            if "pushed" in snapshot.notes:
                self.notes.load(snapshot.notes["pushed"])
        schemas = {name: self.fed.schema_of(name) for name in self.fed.streams}
        arriving = ArrivalNote(self.folder, (clock.stream for clock in self.fed.clock.clocks.values()))
        for number, data in self._journal.records(self._number):
            arriving.check()
            self._repeat(BatchRecord.from_bytes(number, data, schemas))
        arriving.write()
        self.wall.restarted()
        self.first_number = self._number + 1

    def _repeat(self, record: BatchRecord) -> None:
        self.wall.put(record.now_s, record.today_us)
        steps = [self._read_again(step) for step in record.steps]
        self._note(steps, record.number)
        if record.number in self.settings.skipped:
            rows = sum(rows_in(step.rows) for step in steps)
            self._tell(SkippedRowsWarning(f"batch {record.number:,} with its {rows:,} rows was left out, as asked for"))
            steps = []
        try:
            answers = self._apply(record.number, _together([(step, self._rows_of(step)) for step in steps]))
        except WatersmeetError as error:
            raise RunError(
                f"batch {record.number:,} fails whenever it is repeated: {error.message}",
                hint=f"--skip-batch {record.number} of watersmeet serve leaves its rows out; or start anew, with "
                "another --checkpoint and a query that takes such rows",
            ) from error
        self.repeated_batches += 1
        self._give(answers)

    def _read_again(self, step: Step) -> Step:
        if step.kind != "read":
            return step
        self._ranges[step.stream] = step.range
        return Step("read", step.stream, self._readers[step.stream].again(step.range), step.range)

    # ---- batch after batch ------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            saved_s = monotonic()
            while not self._stop.is_set():
                arrived = self._intake.take(
                    self.settings.batch_rows, self.settings.gather_s, self._patience_s(saved_s), self._newest_us
                )
                if arrived or self._is_due():
                    self._batch(arrived)
                if self.settings.available_now and not arrived and self._intake.is_exhausted:
                    break
                if monotonic() >= saved_s + self.settings.snapshot_s:
                    self._save()
                    saved_s = monotonic()
            if self.settings.flush and not self._stop.is_set():
                self._flush()
            self._save(wait=True)
            self._close(commit=True)
        except BaseException as error:
            self._fail(error)
            self._close(commit=False)
        finally:
            self._ended.set()

    def _patience_s(self, saved_s: float) -> float | None:
        """How long to wait for rows: until time goes on without them, or the state is to be saved."""
        waits = [self.fed.due_in_s()]
        if waits[0] is not None:
            waits[0] = max(waits[0] - (self.wall.real_s - self.wall.now), 0.0)
        if self._number > self.snapshot_number:
            waits.append(max(saved_s + self.settings.snapshot_s - monotonic(), 0.0))
        if self.settings.available_now:
            waits.append(0.02)
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def _is_due(self) -> bool:
        due_s = self.fed.due_in_s()
        return due_s is not None and self.wall.now + due_s <= self.wall.real_s

    def _newest_us(self, stream: str) -> int:
        return self.fed.clock.clocks[stream].newest_us

    def _batch(self, arrived: Sequence[Arrived]) -> None:
        """Write down what came, answer it, and hand the answers on."""
        began_s = monotonic()
        self.wall.go_on()
        taken: list[Arrived] = []
        steps: list[tuple[Step, Rows | None]] = []
        for one in arrived:
            try:
                steps.append((one.step, self._rows_of(one.step)))
                taken.append(one)
            except Exception as error:
                if one.logged is None:
                    raise
                one.logged.set_exception(error)  # only what was pushed can be refused
        number = self._number + 1
        record = BatchRecord(number, self.wall.now, self.wall.today, [step for step, _ in steps])
        try:
            self._journal.append(number, record.parts())
        except BaseException as error:
            _tell_all(taken, error=error)
            raise
        for step, _ in steps:
            if step.kind == "read":
                self._ranges[step.stream] = step.range
        self._note([step for step, _ in steps], number)  # before whoever waits is told, who may ask for it
        _tell_all(taken, number=number)
        answers = self._apply(number, _together(steps))
        self._give(answers)
        self.batch_seconds += monotonic() - began_s
        if self.on_batch is not None:
            self.on_batch(self.fed.metrics)

    def _rows_of(self, step: Step) -> Rows | None:
        """The rows of a step with their times, checked."""
        if step.rows is None:
            return None
        clock = self.fed.clock.clocks[step.stream]
        if clock.ended:
            raise RunError(f"stream {step.stream!r} has ended, so no more rows of it can come")
        rows = step.rows
        if clock.stream.arrival.skips_nulls:
            rows = without_nulls(clock.stream, rows, clock.skip)
        return clock.timed(rows)

    def _note(self, steps: Sequence[Step], number: int) -> None:
        for step in steps:
            if step.note is not None:
                self.notes.add(step.stream, step.note, number, 0 if step.rows is None else step.rows.num_rows)

    def _apply(self, number: int, steps: Sequence[tuple[Step, Rows | None]]) -> list[Answer]:
        found: list[Answer] = []
        with self._lock:
            for step, rows in steps:
                if rows is not None:
                    found += self._pushed(step.stream, rows)
                elif step.kind == "flush":
                    found += self.fed.flush()
                elif step.kind == "end":
                    found += self.fed.end([step.stream]) if not self.fed.clock.clocks[step.stream].ended else []
                else:
                    found += self.fed.promise(step.stream, step.until_us)
            found += self.fed.tick()
            self._number = number
        return found

    def _pushed(self, stream: str, rows: Rows) -> list[Answer]:
        """In pieces as large as the operator takes them; that follows from its state, so a repeat has the same."""
        found: list[Answer] = []
        at = 0
        while at < len(rows):
            until = min(at + (self.fed.operator.piece_rows or BATCH_ROWS), len(rows))
            found += self.fed.push(stream, rows if until - at == len(rows) else rows.slice(at, until))
            at = until
        return found

    def _give(self, answers: list[Answer]) -> None:
        assert self._outflow is not None
        is_there = self._number <= self._sink.last_number  # it was committed before a crash
        self._outflow.put(self._number, [] if is_there else answers)
        if any(one.num_rows for one in answers):
            self.answered_number = self._number
        if self.on_answers is not None and answers:
            self.on_answers(self._number, as_batches(answers))
        self.given_number = self._number

    # ---- the state --------------------------------------------------------------------------------------------------

    def _save(self, *, wait: bool = False) -> None:
        """Copy the state as it is now; the rest is done beside the next batches."""
        if self._saving is not None and (wait or self._saving.done()):
            self._saving.result()
            self._saving = None
        if self._saving is None and self._number > self.snapshot_number:
            began_s = monotonic()
            with self._lock:
                state = copied(state_of(self.fed, tables=False))
            for name, range in self._ranges.items():
                self._positions[name] = self._readers[name].position_after(range)
            self._ranges.clear()
            notes = {
                "positions": dict(self._positions),
                "wall": [self.wall.now, self.wall.today],
                "pushed": self.notes.as_json(),
                "answered": self.answered_number,
            }
            self.snapshot_pause_s = max(self.snapshot_pause_s, monotonic() - began_s)
            self._journal.roll()
            self.snapshot_number = self._number
            self._saving = self._saver.submit(self._write, Snapshot(self._number, state, notes))
        if wait and self._saving is not None:
            self._saving.result()
            self._saving = None

    def _write(self, snapshot: Snapshot) -> None:
        assert self._outflow is not None
        draft = self._snapshots.write(snapshot)
        self._outflow.flush(snapshot.number)
        self._snapshots.publish(draft)
        self._journal.forget(snapshot.number)

    # ---- ends -------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Answer all that waits; what comes later up to there is late."""
        self._batch([Arrived(Step("flush", ""), 0)])

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._stop.set()
        self._intake.wake()

    def _close(self, *, commit: bool) -> None:
        reason = self._error or RunError("the run has ended, so no more rows can be pushed")
        _tell_all(self._intake.close(reason), error=reason)
        try:
            if self._outflow is not None:
                self._outflow.close(commit=commit)
        except BaseException as error:
            self._error = self._error or error
        finally:
            self._saver.shutdown()
            self._journal.close()
            self.fed.report()
            self.fed.close()
            self._folder.close()


def _together(steps: list[tuple[Step, Rows | None]]) -> list[tuple[Step, Rows | None]]:
    """What was pushed into one stream by many calls, to be answered as one step: a stream does not make another late by
    coming first. Nothing moves past what is said of a stream's time."""
    found: list[list[tuple[Step, Rows | None]]] = []
    places: dict[str, int] = {}
    for step, rows in steps:
        if step.kind == "pushed" and step.stream in places:
            found[places[step.stream]].append((step, rows))
            continue
        if step.kind == "pushed":
            places[step.stream] = len(found)
        else:
            places.clear()
        found.append([(step, rows)])
    return [_as_one(some) if len(some) > 1 else some[0] for some in found]


def _as_one(steps: Sequence[tuple[Step, Rows | None]]) -> tuple[Step, Rows | None]:
    return steps[0][0], Rows.together([rows for _, rows in steps if rows is not None])


def _tell_all(arrived: Sequence[Arrived], *, number: int = -1, error: BaseException | None = None) -> None:
    for one in arrived:
        if one.logged is not None and not one.logged.done():
            if error is None:
                one.logged.set_result(number)
            else:
                one.logged.set_exception(error)
