"""Brings a durable run to where it was: the newest state, then the batches behind it, as they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from watersmeet.errors import RunError, WatersmeetError
from watersmeet.hosts.local.durable.answering import PART_ROWS, LeftInTheMiddle
from watersmeet.hosts.local.durable.arrival_note import ArrivalNote
from watersmeet.hosts.local.durable.batches import BatchRecord, Begins, Ready, Step, remember_pushes, together
from watersmeet.hosts.local.durable.run_parts import RunParts
from watersmeet.hosts.local.durable.savepoints import begin_with, go_on_changed
from watersmeet.hosts.local.durable.skipping import CannotSkipError, Skips
from watersmeet.hosts.local.durable.snapshots import Snapshot
from watersmeet.runtime.skipped_batches import way_past


class Recovery:
    def __init__(self, parts: RunParts) -> None:
        self._parts, self._progress, self._answering = parts, parts.progress, parts.answering
        self._unanswered, self._settings, self._tell = parts.unanswered, parts.settings, parts.tell
        self._given = -1  # the last batch, or part of one, of which somebody has answers
        self._skips = Skips(
            parts.checkpoint.notes, parts.settings.skipped, parts.answering, parts.answering_apart, parts.tell
        )

    def recover(self, in_sinks: int, beginning: Callable[[], Begins | None] = lambda: None) -> None:
        """in_sinks: the last batch of which a sink has something. beginning: what the query begins with beside others,
        if it begins now and was not there when they did."""
        checkpoint, progress = self._parts.checkpoint, self._progress
        snapshot = checkpoint.latest_state(self._tell)
        before = -1 if snapshot is None else snapshot.number
        progress.given_before = max(checkpoint.reached.given, before, checkpoint.took_over_at)
        self._given = max(self._parts.outputs.in_sink, progress.given_before)
        execution, readers = self._answering.execution, self._parts.readers.of
        placing = execution.placing
        arriving = ArrivalNote(checkpoint.notes, [one.stream for one in execution.clock.clocks.values()], readers)
        arriving.check_sources()
        arriving.begin_readers()
        if self._parts.changed is not None:
            go_on_changed(self._parts, self._parts.changed, snapshot)
        elif snapshot is not None:
            self._load(snapshot)
        elif self._parts.beginning is not None:
            begin_with(self._parts, self._parts.beginning)
        self._parts.loads.recover({} if snapshot is None else snapshot.notes.get("tables", {}))
        self._repeat_all(arriving)
        execution.placed_by(placing)
        self._skips.tell_of_others()
        checkpoint.check_end(progress.written, in_sinks, self._tell)
        self._parts.checkpoint.note_asked(execution.plan)
        arriving.write(progress.written + 1)
        logged = progress.written if self._settings.sync else -1
        checkpoint.reached.begin(logged, progress.given_before, progress.saved)
        self._parts.loads.begin()
        self._answering.wall.restarted()
        self._begin_beside(beginning)
        self._have_memory()
        progress.first, progress.rows_before = progress.written + 1, execution.report().rows_in

    def _begin_beside(self, beginning: Callable[[], Begins | None]) -> None:
        """Where nothing was written yet, the first batch is what others have kept."""
        if self._progress.written < 0 and self._parts.checkpoint.notes.get("added", otherwise=False):
            begins = beginning()
            if begins is not None:
                self._add(Step("begin", "", begins=begins))

    def _have_memory(self) -> None:
        """The part that is its now, of a memory that several share; batches before had the part of then."""
        amount = self._parts.memory
        if amount is not None and amount != self._answering.execution.memory_amount and self._progress.error is None:
            self._add(Step("memory", "", number=amount))

    def _add(self, step: Step) -> None:
        """A batch of its own. It is on the disk before it is answered, so a later start repeats it as it was."""
        number, wall, execution = self._progress.written + 1, self._answering.wall, self._answering.execution
        wall.go_on()
        record = BatchRecord(number, wall.now, wall.today, [step], PART_ROWS, execution.placing)
        self._parts.checkpoint.journal.append(number, record.parts())
        self._progress.written = number
        self._repeat_or_fail(record)
        self._progress.repeated -= 1

    def _load(self, snapshot: Snapshot) -> None:
        progress, notes = self._progress, snapshot.notes
        if "memory" in notes:
            self._answering.execution.have_memory(notes["memory"])
        self._answering.execution.load_from(snapshot.state)
        progress.number = progress.given = progress.saved = snapshot.number
        self._parts.readers.resume(notes["positions"])
        progress.answered = progress.answered_before = notes.get("answered", snapshot.number)
        self._answering.wall.put(*notes["wall"])
        if "pushed" in notes:
            self._parts.taken_pushes.load(notes["pushed"])

    def _repeat_all(self, arriving: ArrivalNote) -> None:
        progress, execution = self._progress, self._answering.execution
        schemas = {name: clock.stream.given_schema for name, clock in execution.clock.clocks.items()}
        schemas[""] = execution.plan.output_schema
        progress.written = progress.number
        written = self._parts.checkpoint.journal.records(progress.number)
        reshaped = self._parts.checkpoint.reshaped
        records = (BatchRecord.from_bytes(number, data, schemas, reshaped) for number, data in written)
        self._answering.expect(records)
        while (record := self._answering.next_record()) is not None:
            arriving.check(record.number)
            progress.written = record.number
            self._repeat_or_fail(record)
            if self._answering.stop.is_set():
                raise LeftInTheMiddle

    def _repeat_or_fail(self, record: BatchRecord) -> None:
        """Behind a batch that fails the others are left for a later start; by what posts are known again is not."""
        if self._progress.error is not None:
            remember_pushes(self._parts.taken_pushes, record.steps, record.number)
            self._unanswered.leave(record.steps)
            return
        if self._settings.writes_on:
            self._unanswered.remember()
        try:
            self._repeat(record)
        except CannotSkipError:
            raise
        except WatersmeetError as error:
            if not self._settings.writes_on:
                raise
            if self._progress.error is None:  # else a sink has failed, and not the batch
                self._progress.error, self._progress.failed = error, record.number
            self._unanswered.leave(record.steps)

    def _repeat(self, record: BatchRecord) -> None:
        self._answering.wall.put(record.now_s, record.today_us)
        self._answering.execution.placed_by(record.placing)
        steps: Sequence[Step] = [self._parts.readers.read_again(step) for step in record.steps]
        self._parts.note_begins(steps)
        remember_pushes(self._parts.taken_pushes, steps, record.number)
        if self._skips.holds(record.number):
            self._skips.skip(record, steps, self._given, self._ready)
            steps = [step for step in steps if step.kind in ("table", "memory")]
        goes_on = not self._skips.was_given(record.number)
        try:
            answers = self._answering.answer(record.number, self._ready(steps), record.part_rows, goes_on=goes_on)
        except WatersmeetError as error:
            raise RunError(
                f"batch {record.number:,} fails whenever it is repeated: {error.message}",
                hint=f"{way_past(record.number)} with its rows; or start anew, with another checkpoint and a "
                "query that takes such rows",
            ) from error
        self._progress.repeated += 1
        self._answering.give([*self._skips.taken_back(record.number), *answers])

    def _ready(self, steps: Sequence[Step]) -> list[Ready]:
        return [self._parts.admission.ready(step) for step in together(steps)]
