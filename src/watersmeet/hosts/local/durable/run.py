"""One query that outlives its process: batches are written down, answered, and committed; its state is saved.

The order decides that nothing is lost and nothing comes twice. A batch is in the journal before it is answered, and
that is on the disk before whoever pushed it is told so, and before an answer is seen or committed. Answers carry the
number of their batch into the sink, which takes each number once. A snapshot counts when the sink has all answers up to
it; only then is the journal before the snapshot before it forgotten. After a crash the last snapshot is loaded, the
batches behind it are repeated as they were, and of their answers those go to the sink that it does not have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from pathlib import Path
from threading import Event, Lock, Thread, current_thread
from time import monotonic
from typing import Any

import pyarrow as pa

from watersmeet.errors import DamagedCheckpointWarning, FloodWarning, RunError, SkippedRowsWarning, WatersmeetError
from watersmeet.hosts.local.durable import starts
from watersmeet.hosts.local.durable.arrival_note import ArrivalNote
from watersmeet.hosts.local.durable.batches import (
    BatchRecord,
    Ready,
    Step,
    as_one,
    mergeable,
    together,
    together_bad,
)
from watersmeet.hosts.local.durable.beginnings import begin_readers
from watersmeet.hosts.local.durable.beside import Beside
from watersmeet.hosts.local.durable.copies import Copies
from watersmeet.hosts.local.durable.files import damaged
from watersmeet.hosts.local.durable.folder import CheckpointFolder
from watersmeet.hosts.local.durable.intake import PIECE_ROWS, Arrived, Intake, rows_in
from watersmeet.hosts.local.durable.journal import Journal
from watersmeet.hosts.local.durable.noted import note, noted
from watersmeet.hosts.local.durable.notes import Note, Notes
from watersmeet.hosts.local.durable.outflow import Commits, Outflow
from watersmeet.hosts.local.durable.parts import PART_ROWS, LeftInTheMiddle, cut
from watersmeet.hosts.local.durable.reached import Reached
from watersmeet.hosts.local.durable.side_flows import SideFlows
from watersmeet.hosts.local.durable.snapshots import Snapshot, Snapshots, snapshot_name
from watersmeet.hosts.local.durable.table_loads import TableLoads, kept_tables
from watersmeet.hosts.local.durable.wall import BatchClock
from watersmeet.hosts.local.fed_query import PUSHED, FedQuery
from watersmeet.hosts.local.run import BATCH_ROWS, FINISHING_S
from watersmeet.io.bad_rows import without_bad_rows
from watersmeet.io.connectors.contract import NumberedSink, Range, Reader, Start, as_piece, changed_files_of, lag_of
from watersmeet.io.event_times import timed_rows, without_nulls
from watersmeet.io.too_many_files import tried_again
from watersmeet.operators.answers import Answer, as_batches
from watersmeet.operators.contract import Rows
from watersmeet.operators.saving import load_state, state_of
from watersmeet.plan.nodes import Plan
from watersmeet.runtime.bad_records import refusal
from watersmeet.runtime.late_rows import Tell, warn
from watersmeet.runtime.metrics import Metrics

_LOOK_S = 0.005  # how soon to look again whether there is memory for a copy
MakeSink = Callable[[str, Start], NumberedSink]
OnAnswers = Callable[[int, Sequence[pa.RecordBatch]], None]


@dataclass(frozen=True)
class Settings:
    """How a durable run goes. A batch closes at so many rows, or so long after its first row. `snapshot_s`: how often
    the state is saved. `sync`: a batch counts as written when it is on the disk; if not, a crash of the process is
    survived, one of the machine may lose the last moments. `writes_on`: when the query fails, what is pushed is still
    written down, for a later start that can go on; without it the run ends."""

    batch_rows: int = 1 << 16
    gather_s: float = 0.0
    snapshot_s: float = 10.0
    sync: bool = True
    commits: Commits = field(default_factory=Commits)
    available_now: bool = False
    flush: bool = False
    writes_on: bool = False
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
        """make_sink: is given the name of the run, which is new for a new checkpoint, and this start of it."""
        self.plan = plan
        self.settings = settings or Settings()
        self.on_answers: OnAnswers | None = None
        self.on_batch: Callable[[Metrics], None] | None = None
        self.on_abandoned: Callable[[], None] | None = None  # what was not committed is left for a later run
        self.wall = BatchClock()
        self._tell = tell
        self._readers = dict(readers)
        for reader in self._readers.values():
            reader.tell = tell
        self._ranges: dict[str, Range] = {}  # what every reader has given to batches last
        self._positions: dict[str, Any] = {}
        self._number = -1  # of the last batch
        self._in_hand = -1  # of the one that is being answered, or of its part
        self._part_rows = PART_ROWS
        self._found: list[Answer] = []  # its answers that were not handed on yet
        self._records: Iterator[BatchRecord] = iter(())  # what is still to be repeated
        self._written = -1  # the last batch in the journal
        self._skipped: set[int] = set()  # batches that a life has left out, and so do later ones that repeat them
        self._can_write = True
        self.failed_number: int | None = None  # the batch that could not be answered
        self._taken_before: dict[str, int] = {}  # the batch in hand, by stream; kept where it may fail
        self._unanswered: Counter[str] = Counter()  # rows in the journal that a failed query has not seen, by stream
        self._folder = CheckpointFolder(folder, plan)
        try:
            # What is known of the inputs changes from start to start, and another way might be chosen by it.
            chosen = replace(plan.options, pipeline=self._folder.identity.pipeline)
            sourced = frozenset(readers)
            kept = kept_tables(self._folder.path, plan)
            name = self._folder.identity.run
            asked = replace(plan, options=chosen)
            self.fed = FedQuery(asked, wall=self.wall, tell=tell, sourced=sourced, kept=kept)
            self.fed.on_block = self._between
            self._reached = Reached(self._folder.path, name, has_begun=self._folder.has_begun)
            self._journal = Journal(self._folder.path, name, sync=self.settings.sync, reached=self._reached)
            self._snapshots = Snapshots(self._folder.path, name)
            self._loads = TableLoads(self._folder.path, name, self.fed, tell, kept)
            start = starts.begun(self._folder.path)
            self._sink = make_sink(name, start)
            self._sides = SideFlows(self.fed.clock.side, name, self._folder.path, start, tell)
            starts.opened(self._folder.path, start, [self._sink, *self._sides.sinks])
            # Asked once: what it has of later batches, if this life has not given it, is another start's.
            self._there = self._sink.last_number
        except BaseException:
            self._folder.close()
            raise
        self.folder = self._folder.path
        self.name = name  # new for a new checkpoint, the same in all lives
        self.notes = Notes()
        self.repeated_batches = 0
        self.first_number = 0  # of the first batch of this life
        self.rows_before = 0  # that came before it
        self.snapshot_number = -1
        self.given_number = -1  # the last batch whose answers, if any, were handed on
        self.given_before = -1  # the last of those that were taken by who gets them in a life before
        self.answered_number = -1  # the last batch that gave answers
        self.answered_before = -1  # the last of those that no life repeats any more
        self.snapshot_pause_s = 0.0  # the longest
        self.batch_seconds = 0.0  # that batches of this life took, from what came to its answers
        self._saving: Future[None] | None = None
        self._copies = Copies()
        self._fetching = False  # memory for the next copy, before it is made
        self._saver = Beside("watersmeet saves")
        clocks = {name: clock for name, clock in self.fed.clock.clocks.items() if name in self._readers}
        drifts_us = {name: clock.stream.arrival.max_drift_us for name, clock in clocks.items()}
        self._intake = Intake(
            self._readers,
            piece_rows=min(PIECE_ROWS, self.settings.batch_rows),
            drifts_us={name: drift_us for name, drift_us in drifts_us.items() if drift_us is not None},
            is_idle=lambda name: clocks[name].idle,
        )
        self._lock = Lock()  # of the operators and clocks
        self._stop = Event()
        self._stop_by_s = inf
        self._ended = Event()
        self._error: BaseException | None = None
        self._outflow: Outflow | None = None
        self._thread = Thread(target=self._work, name="watersmeet runs", daemon=True)

    # ---- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Recover what was there before, then begin to read."""
        try:
            self._outflow = Outflow(self._sink, self.settings.commits, self._fail, self._journal.sync)
            self._sides.start(self.settings.commits, self._fail, self._journal.sync)
            self._recover()
        except LeftInTheMiddle:
            self._close(commit=False)
            self._ended.set()
            return
        except BaseException:
            self._close(commit=False)
            raise
        self._intake.start()
        self._thread.start()

    def request_stop(self) -> None:
        """Finish the batch in hand, save the state, and end; a batch that takes longer is left to the next start. May
        be called by a signal handler."""
        self._stop_by_s = monotonic() + FINISHING_S
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
                readable, _ = without_bad_rows(clock.stream, batch, clock.came, PUSHED)
                timed_rows(clock.stream, without_nulls(clock.stream, readable), clock.rows_in)
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
        notes = () if note is None else ((note, rows.num_rows),)
        arrived = Arrived(Step("pushed", name, rows, notes=notes), rows.num_rows, Future())
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
            return self._report().as_dict()

    def latest(self) -> Metrics:
        """The numbers of this run, brought up to date."""
        with self._lock:
            return self._report()

    def latest_json(self) -> dict[str, Any]:
        """The same for programs elsewhere."""
        with self._lock:
            return self._report().as_json()

    def _report(self) -> Metrics:
        lags = {name: lag_of(reader) for name, reader in self._readers.items()}
        self.fed.metrics.lag_by_stream = {name: sum(lag.values()) for name, lag in lags.items() if lag}
        changed = {name: changed_files_of(reader) for name, reader in self._readers.items()}
        self.fed.metrics.changed_files = {name: files for name, files in changed.items() if files}
        return self.fed.report()

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
        name = self.fed.named(stream)
        with self._lock:
            if self._error is not None and self._taken_before:
                return self._taken_before[name] + self._unanswered[name]
            return self._came_of(name)

    def _came_of(self, name: str) -> int:
        return self.fed.clock.clocks[name].came

    @property
    def number(self) -> int:
        """Of the last batch."""
        return self._number

    # ---- after a restart --------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        self._snapshots.drop_drafts()
        self._skipped = set(noted(self.folder).get("skipped", []))
        snapshot = self._snapshots.latest()
        self._check_snapshot(-1 if snapshot is None else snapshot.number)
        streams = (clock.stream for clock in self.fed.clock.clocks.values())
        arriving = ArrivalNote(self.folder, streams, self._readers)
        arriving.check_sources()
        begin_readers(self.folder, self._readers)
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
        self._loads.recover({} if snapshot is None else snapshot.notes.get("tables", {}))
        schemas = {name: self.fed.schema_of(name) for name in self.fed.streams}
        self._written = self._number
        written = self._journal.records(self._number)
        self._records = (BatchRecord.from_bytes(number, data, schemas) for number, data in written)
        while (record := self._next_record()) is not None:
            arriving.check(record.number)
            self._written = record.number
            self._repeat_or_fail(record)
            if self._stop.is_set():
                raise LeftInTheMiddle
        self._check_end()
        if not self._reached.is_known:
            self._tell(DamagedCheckpointWarning(f"{self._reached.damage().message}; all is there"))
        arriving.write(self._written + 1)
        self._reached.begin(self._written if self.settings.sync else -1, self.given_before, self.snapshot_number)
        self._loads.begin()
        self.wall.restarted()
        self.first_number = self._written + 1
        self.rows_before = self.fed.report().rows_in

    def _check_snapshot(self, number: int) -> None:
        """An older state does as well, if the journal goes back to it: that costs time, and is told."""
        newest, lost = self._reached.saved, list(self._snapshots.damaged)
        self.given_before = max(self._reached.given, number)
        if not lost and newest <= number:
            return
        if not lost:
            lost = [damaged(self._folder.path / snapshot_name(newest), "it is not there")]
        first = self._journal.first
        if not self._reached.is_known or first is None or first > number + 1:
            raise lost[0]
        where = "the beginning" if number < 0 else f"the state of batch {number:,}"
        self._tell(
            DamagedCheckpointWarning(f"{lost[0].message}; the run goes on from {where}, with all that came since")
        )

    def _check_end(self) -> None:
        """What was cut off at the end of the journal was never committed; if it was, the disk has lost it since. Nor is
        anything committed that is not in the journal; new batches under numbers that a sink has would be passed
        over."""
        found = max(self._there, self._sides.last_number)
        if found <= self._written:
            return
        what = "is damaged" if self._journal.is_torn else "is older than what was written with it"
        raise RunError(
            f"{self.folder} {what}: the sink has the answers of batches up to {found:,}, but the journal ends with "
            f"batch {self._written:,}",
            hint="restore the checkpoint from a copy that is as new as the sink, or start anew with a new one",
        )

    def _repeat_or_fail(self, record: BatchRecord) -> None:
        """Behind a batch that fails the others are left for a later start; by what posts are known again is not."""
        if self._error is not None:
            self._note(record.steps, record.number)
            self._leave(record.steps)
            return
        if self.settings.writes_on:
            self._taken_before = {name: self._came_of(name) for name in self.fed.streams}
        try:
            self._repeat(record)
        except WatersmeetError as error:
            if not self.settings.writes_on:
                raise
            self._error, self.failed_number = error, record.number
            self._leave(record.steps)

    def _leave(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._unanswered[step.stream] += rows_in(step.rows)

    def _repeat(self, record: BatchRecord) -> None:
        self.wall.put(record.now_s, record.today_us)
        steps = [self._read_again(step) for step in record.steps]
        self._note(steps, record.number)
        if record.number in self.settings.skipped | self._skipped:
            self._skipped.add(record.number)
            note(self.folder, skipped=sorted(self._skipped))
            rows = sum(rows_in(step.rows) for step in steps)
            self._tell(SkippedRowsWarning(f"batch {record.number:,} with its {rows:,} rows was left out, as asked for"))
            steps = []
        self._part_rows = record.part_rows
        try:
            answers = self._apply(record.number, [self._ready(step) for step in together(steps)])
        except WatersmeetError as error:
            raise RunError(
                f"batch {record.number:,} fails whenever it is repeated: {error.message}",
                hint=f"{self._way_past(record.number)} with its rows; or start anew, with another checkpoint and a "
                "query that takes such rows",
            ) from error
        self.repeated_batches += 1
        self._give(answers)

    def _read_again(self, step: Step) -> Step:
        if step.kind != "read":
            return step
        self._ranges[step.stream] = step.range
        if step.stream not in self._readers:
            raise RunError(
                f"stream {step.stream!r} was read by this run, and has to be read again for the batches that are "
                "repeated, but now it is pushed",
                hint="start it once more as it was, stop it, then change it",
            )
        piece = as_piece(self._readers[step.stream].again(step.range), step.range)
        return replace(step, rows=piece.rows, bad=piece.bad, left_out=piece.left_out)

    # ---- batch after batch ------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._answer_until_it_fails()
            if self._error is None:
                self._close(commit=True)
            else:
                self._only_write()
                self._close(commit=False)
        except BaseException as error:
            self._fail(error)
            self._close(commit=False)
        finally:
            self._ended.set()

    def _answer_until_it_fails(self) -> None:
        try:
            if self._error is None:
                self._answer_batches()
        except Exception as error:
            if not (self.settings.writes_on and self._can_write):
                raise
            if self.failed_number is None:  # it has nothing to do with a batch: a sink that cannot be written
                self._taken_before = {name: self._came_of(name) for name in self.fed.streams}
            self._fail(error)

    def _only_write(self) -> None:
        """The query has failed: what is pushed is written down, and sources are read no more."""
        self._intake.stop_reading()
        while not self._stop.is_set():
            arrived = self._intake.take(self.settings.batch_rows, self.settings.gather_s, None, self._newest_us)
            if arrived:
                self._batch(arrived)

    def _answer_batches(self) -> None:
        try:
            self._answer_until_stopped()
            if self._error is not None:
                raise self._error
            if self.settings.flush and not self._stop.is_set():
                self._flush()
        except LeftInTheMiddle as left:
            self._tell(FloodWarning(str(left)))
            self._hurry()
            self._is_saved(wait=True)
            return
        self._hurry()
        self._save(wait=True)

    def _hurry(self) -> None:
        assert self._outflow is not None
        self._outflow.hurry()
        self._sides.hurry()

    def _answer_until_stopped(self) -> None:
        saved_s = monotonic()
        while not self._stop.is_set() and self._error is None:
            arrived = self._intake.take(
                self.settings.batch_rows, self.settings.gather_s, self._patience_s(saved_s), self._newest_us
            )
            if arrived or self._is_due():
                self._batch(arrived)
            if self.settings.available_now and not arrived and self._intake.is_exhausted:
                break
            if monotonic() >= saved_s + self.settings.snapshot_s and not self._is_fetching():
                self._save()
                saved_s = monotonic()

    def _patience_s(self, saved_s: float) -> float | None:
        """How long to wait for rows: until time goes on without them, or the state is to be saved."""
        waits = [self.fed.due_in_s()]
        if waits[0] is not None:
            waits[0] = max(waits[0] - (self.wall.real_s - self.wall.now), 0.0)
        if self._number > self.snapshot_number:
            waits.append(max(saved_s + self.settings.snapshot_s - monotonic(), _LOOK_S if self._fetching else 0.0))
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
        if self.settings.writes_on and self._error is None:
            self._taken_before = {name: self._came_of(name) for name in self.fed.streams}
        loads = [] if self._error is not None else self._loads.steps()
        steps = [*map(Ready, loads), *self._accepted(arrived)]
        number = self._written + 1
        self._part_rows = PART_ROWS
        record = BatchRecord(number, self.wall.now, self.wall.today, [ready.step for ready in steps], PART_ROWS)
        try:
            self._journal.append(number, record.parts(), soon=self._may_wait(record.steps))
            self._written = number
        except BaseException as error:
            self._can_write = False
            _tell_all(arrived, error=error)
            raise
        for step in record.steps:
            if step.kind == "read":
                self._ranges[step.stream] = step.range
        self._note(record.steps, number)  # before whoever waits is told, who may ask for it
        _tell_all(arrived, number=number)
        if self._error is not None:
            self._leave(record.steps)
            return
        try:
            answers = self._apply(number, steps)
        except LeftInTheMiddle:
            raise
        except BaseException:
            self.failed_number = number
            self._leave(record.steps)
            raise
        self._give(answers)
        self.batch_seconds += monotonic() - began_s
        if self.on_batch is not None:
            self.on_batch(self.fed.metrics)

    def _may_wait(self, steps: Sequence[Step]) -> bool:
        """Whether a batch need not be on the disk before it is answered: if nobody waits to hear so, and its answers
        are seen by nobody before the journal is brought there, which happens before they are committed."""
        return self.on_answers is None and all(step.kind == "read" for step in steps)

    def _accepted(self, arrived: Sequence[Arrived]) -> list[Ready]:
        """The steps of a batch with their rows: what was pushed into one stream is one step. Whoever pushed what does
        not fit is told so, and it is in no step."""
        found: list[Ready] = []
        for places in mergeable([one.step for one in arrived]):
            some = [arrived[i] for i in places]
            try:
                step = as_one([one.step for one in some])
                found.append(self._checked(step))
            except Exception:
                fitting = [one.step for one in some if self._fits(one)]
                if fitting:
                    found.append(self._checked(as_one(fitting)))
        return found

    def _checked(self, step: Step) -> Ready:
        """Raises what ends the run before the step is written down: bad records, where the stream does not go on."""
        ready = self._ready(step)
        stream = self.fed.clock.clocks[step.stream].stream if ready.bad is not None else None
        if ready.bad is not None and stream is not None and not stream.arrival.keeps_going:
            raise refusal(stream, ready.bad)
        return ready

    def _fits(self, one: Arrived) -> bool:
        try:
            self._checked(one.step)
        except Exception as error:
            if one.logged is None:
                raise
            one.logged.set_exception(error)  # only what was pushed can be refused
            return False
        return True

    def _ready(self, step: Step) -> Ready:
        """A step with its rows and their times, checked, apart from what could not be read."""
        if step.rows is None:
            return Ready(step)
        clock = self.fed.clock.clocks[step.stream]
        if clock.ended:
            raise RunError(f"stream {step.stream!r} has ended, so no more rows of it can come")
        place = PUSHED if step.kind == "pushed" else f"stream {step.stream}"
        rows, bad = without_bad_rows(clock.stream, step.rows, clock.came, place)
        timed = clock.timed(without_nulls(clock.stream, rows))
        return Ready(step, timed, together_bad(step.bad, bad), rows.num_rows - len(timed))

    def _note(self, steps: Sequence[Step], number: int) -> None:
        for step in steps:
            for one, rows in step.notes:
                self.notes.add(step.stream, one, number, rows)

    def _apply(self, number: int, steps: Sequence[Ready]) -> list[Answer]:
        self._in_hand, self._found = number, []
        self.fed.floods.way_out = self._way_past(number)
        with self._lock:
            for ready in steps:
                step = ready.step
                if ready.rows is not None:
                    self._taken_in(ready)
                elif step.kind == "table":
                    self._loads.take(step)
                elif step.kind == "flush":
                    self._found += self.fed.flush()
                elif step.kind == "end":
                    self._found += self.fed.end([step.stream]) if not self.fed.clock.clocks[step.stream].ended else []
                elif step.kind == "promise":
                    self._found += self.fed.promise(step.stream, step.until_us)
            self._found += self.fed.tick()
            self._number = self._in_hand
        return self._found

    def _between(self, found: list[Answer]) -> None:
        """Between two blocks of the answers of a step; `found` are those of this step."""
        if self._stop.is_set() and monotonic() > self._stop_by_s:
            left = "the batch in hand was left in the middle of its answers, and the next start repeats it"
            raise LeftInTheMiddle(f"{left}; {self.fed.floods.way_out}")
        while (parts := cut(found, self._part_rows)) is not None:
            if not self._begin_part(self._in_hand + 1):
                return
            self._number, answers = self._in_hand, [*self._found, *parts[0]]
            self._found, found[:] = [], parts[1]
            self._in_hand += 1
            self._lock.release()
            try:
                self._give(answers)
            finally:
                self._lock.acquire()

    def _way_past(self, number: int) -> str:
        return f"--skip-batch {number} at a start, or start(skip_batches=[{number}]), leaves out batch {number:,}"

    def _begin_part(self, number: int) -> bool:
        """Write down that the answers in hand go on under another number; False if they were not divided there."""
        following = self._next_record()
        if following is not None and not following.goes_on:
            self._records = chain([following], self._records)
            return False
        if following is None:
            record = BatchRecord(number, self.wall.now, self.wall.today, [Step("more", "")], self._part_rows)
            self._journal.append(number, record.parts(), soon=self._may_wait(()))
        self._written = number
        return True

    def _next_record(self) -> BatchRecord | None:
        """What is to be repeated next, if anything still is."""
        return next(self._records, None)

    def _taken_in(self, ready: Ready) -> None:
        step, clock = ready.step, self.fed.clock.clocks[ready.step.stream]
        clock.know_lanes(step.lanes)
        clock.left_out += step.left_out
        clock.skip(ready.skipped)
        if ready.bad is not None:
            self.fed.leave_out(step.stream, ready.bad)
        assert ready.rows is not None
        self._pushed(step.stream, ready.rows, step.lane)

    def _pushed(self, stream: str, rows: Rows, lane: str) -> None:
        """In pieces as large as the operator takes them; that follows from its state, so a repeat has the same."""
        at = 0
        while at < len(rows):
            until = min(at + (self.fed.operator.piece_rows or BATCH_ROWS), len(rows))
            self._found += self.fed.push(stream, rows if until - at == len(rows) else rows.slice(at, until), lane)
            at = until

    def _give(self, answers: list[Answer]) -> None:
        assert self._outflow is not None
        is_there = self._number <= max(self._there, self.given_before)  # committed before a crash
        self._outflow.put(self._number, [] if is_there else answers)
        self._sides.put(self._number)
        if any(one.num_rows for one in answers):
            self.answered_number = self._number
        if self.on_answers is not None and answers:
            self.on_answers(self._number, as_batches(answers))
        self.given_number = self._number

    # ---- the state --------------------------------------------------------------------------------------------------

    def _is_fetching(self) -> bool:
        """Whether memory for a copy is still to be had. It is fetched beside the next batches, and then copied to."""
        if not self._fetching and self._is_saved() and self._number > self.snapshot_number:
            with self._lock:
                lacking = self._copies.lacks(state_of(self.fed, tables=False))
            if lacking:
                self._fetching, self._saving = True, self._saver.submit(self._copies.fetch, lacking)
        return self._fetching and not self._is_saved()

    def _is_saved(self, *, wait: bool = False) -> bool:
        """Whether all that was begun is done; raises what went wrong."""
        if self._saving is not None and (wait or self._saving.done()):
            self._saving.result()
            self._saving = None
        return self._saving is None

    def _save(self, *, wait: bool = False) -> None:
        """Copy the state as it is now; the rest is done beside the next batches."""
        if self._is_saved(wait=wait) and self._number > self.snapshot_number:
            began_s = monotonic()
            self._fetching = False
            with self._lock:
                state = state_of(self.fed, tables=False)
                if not wait:  # else nothing changes any more
                    state = self._copies.of(state)
            for name, range in self._ranges.items():
                self._positions[name] = self._readers[name].position_after(range)
            self._ranges.clear()
            notes = {
                "positions": dict(self._positions),
                "wall": [self.wall.now, self.wall.today],
                "pushed": self.notes.as_json(),
                "answered": self.answered_number,
                "sides": dict(self._sides.taken),
                "tables": dict(self._loads.numbers),
            }
            self.snapshot_pause_s = max(self.snapshot_pause_s, monotonic() - began_s)
            self._journal.roll()
            self.snapshot_number = self._number
            self._saving = self._saver.submit(self._write, Snapshot(self._number, state, notes))
            self._is_saved(wait=wait)

    def _write(self, snapshot: Snapshot) -> None:
        assert self._outflow is not None
        draft = tried_again(lambda: self._snapshots.write(snapshot))
        self._outflow.flush(snapshot.number)
        self._sides.flush(snapshot.number)
        self._reached.give(snapshot.number)
        self._snapshots.publish(draft)
        self._reached.save(snapshot.number)
        oldest = self._snapshots.oldest
        if oldest is not None:
            self._journal.forget(oldest.number)
            self._loads.forget(oldest.notes["tables"])

    # ---- ends -------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Answer all that waits; what comes later up to there is late."""
        self._batch([Arrived(Step("flush", ""), 0)])

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        if not (self.settings.writes_on and self._can_write):
            self._stop.set()
        self._intake.wake()

    def _close(self, *, commit: bool) -> None:
        reason = self._error or RunError("the run has ended, so no more rows can be pushed")
        _tell_all(self._intake.close(reason), error=reason)
        if not commit and self.on_abandoned is not None:
            self.on_abandoned()
        try:
            try:
                if self._outflow is not None:
                    self._outflow.close(commit=commit)
            finally:
                self._sides.close(commit=commit)
                self._note_taken()
        except BaseException as error:
            self._error = self._error or error
        finally:
            self._saver.shutdown()
            self._loads.close()
            self._journal.close()
            self._reached.close()
            self.fed.report()
            self.fed.close()
            self._folder.close()

    def _note_taken(self) -> None:
        """Behind answers that nobody has taken no state is saved; those before them that were taken are not given
        again all the same."""
        taken: int = getattr(self._sink, "taken_number", -1)
        if taken > self._reached.given:
            self._reached.give(taken)


def _tell_all(arrived: Sequence[Arrived], *, number: int = -1, error: BaseException | None = None) -> None:
    for one in arrived:
        if one.logged is not None and not one.logged.done():
            if error is None:
                one.logged.set_result(number)
            else:
                one.logged.set_exception(error)
