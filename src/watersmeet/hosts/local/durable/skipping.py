"""Batches that a start was asked to leave out, as their rows make the query fail or their answers do not end.

Of a batch with many answers some parts may be in the sink already. Rows that stay are told of. Changes are taken back:
the batch is answered once more, apart from the run, as far as it was given, and what that comes to is given the other
way round, under the number of its first part that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.answering import Answering, Give
from watersmeet.hosts.local.durable.batches import BatchRecord, Ready, Step
from watersmeet.hosts.local.durable.notes import RunNotes
from watersmeet.hosts.local.durable.progress import Progress
from watersmeet.io.consolidation import COUNT, by_row, consolidated
from watersmeet.model.wording import counted
from watersmeet.operators.answers import Answer, as_batches
from watersmeet.operators.saving import Saved, state_of
from watersmeet.plan.nodes import AT, OP
from watersmeet.runtime.left_out import Tell
from watersmeet.runtime.skipped_batches import not_repeated
from watersmeet.warning import DataWarning

_NONE_GIVEN = -1
# Makes what answers a batch apart from the run: how far it is, and who takes the answers, are its own.
Apart = Callable[[BatchRecord, Progress, Give], Answering]
MakeReady = Callable[[Sequence[Step]], list[Ready]]


class CannotSkipError(RunError):
    pass


class _EnoughError(Exception):
    """All that was given was answered again."""


class Skips:
    def __init__(self, notes: RunNotes, asked: frozenset[int], answering: Answering, apart: Apart, tell: Tell) -> None:
        """asked: what this start is to leave out."""
        self._notes, self._asked, self._tell = notes, asked, tell
        self._answering, self._apart = answering, apart
        # What a life has left out, and so do later ones that repeat it, with the last number it was given under.
        self._left_out = {int(number): given for number, given in notes.get("skipped", {}).items()}
        self._taken_back: dict[int, pa.Table] = {}  # under which number

    def holds(self, number: int) -> bool:
        return number in self._asked or number in self._left_out

    def was_given(self, number: int) -> bool:
        """Whether it is a batch that is left out, or a part of one, that the sink has: nothing is given under its
        number any more, so time does not go on with it."""
        return any(first <= number <= last for first, last in self._left_out.items())

    def skip(self, record: BatchRecord, steps: Sequence[Step], given: int, ready: MakeReady) -> None:
        """given: the last batch, or part of one, whose answers were given. ready: looks at the rows of the steps."""
        number, more = record.number, self._answering.parts_behind()
        if any(step.begins is not None for step in steps):
            raise CannotSkipError(
                f"batch {number:,} cannot be left out: it is what the query began with beside others",
                hint="start without --skip-batch, or drop the query and add it with another name",
            )
        if number not in self._left_out:
            if given >= number + len(more):
                raise CannotSkipError(
                    f"batch {number:,} cannot be left out: all its answers were given already",
                    hint="start without --skip-batch, or start anew with another checkpoint",
                )
            self._left_out[number] = given if given >= number else _NONE_GIVEN
            self._notes.note(skipped={str(one): given for one, given in self._left_out.items()})
        rows = sum(step.num_rows for step in steps)
        parts = max(self._left_out[number] - number + 1, 0)
        said = f"batch {number:,} with its {counted(rows, 'row')} was left out, as asked for"
        self._tell(DataWarning("skipped_batch", said + self._said(parts, record)))
        self._answering.execution.metrics.skipped_batch_rows += rows
        if parts and self._takes_back:
            log = self._given_of(record, ready(steps), more, self._left_out[number])
            self._taken_back[self._left_out[number] + 1] = _opposite(log)

    @property
    def _takes_back(self) -> bool:
        return self._answering.execution.plan.kind == "changes"

    def _said(self, parts: int, record: BatchRecord) -> str:
        if not parts:
            return ""
        what = "are taken back" if self._takes_back else "stay where they are"
        return f"; its first answers, about {parts * record.part_rows:,}, were given before, and {what}"

    def tell_of_others(self) -> None:
        """Once all batches were repeated: which of those that this start is to leave out were not among them."""
        for number in sorted(self._asked - set(self._left_out)):
            self._tell(DataWarning("batch_not_skipped", not_repeated(number)))

    def taken_back(self, number: int) -> list[pa.RecordBatch]:
        """What is given under a number to take back what was given of a batch that is left out."""
        found = self._taken_back.pop(number, None)
        return [] if found is None else found.to_batches()

    def _given_of(
        self, record: BatchRecord, steps: Sequence[Ready], more: Sequence[BatchRecord], given: int
    ) -> pa.Table:
        found: list[Answer] = []
        progress = Progress()

        def take(answers: list[Answer]) -> None:
            found.extend(answers)
            if progress.number >= given:
                raise _EnoughError

        answering = self._apart(record, progress, take)
        answering.stop = self._answering.stop
        before = state_of(self._answering.execution, tables=False)
        answering.execution.load_from(Saved.from_bytes(before.to_bytes()))
        answering.expect(iter(more))
        with suppress(_EnoughError):
            answering.answer(record.number, steps, record.part_rows)
        return pa.Table.from_batches(as_batches(found), answering.execution.plan.output_schema)


def _opposite(log: pa.Table) -> pa.Table:
    """What takes changes back, at the instant of the last of them."""
    names = [name for name in log.column_names if name not in (OP, AT)]
    entered, left = by_row(consolidated(log, OP, names))
    left = left.take(np.repeat(np.arange(left.num_rows), left[COUNT].to_numpy())).drop_columns([COUNT])
    count = entered.num_rows + left.num_rows
    columns = {
        **dict(zip(names, pa.concat_tables([entered, left]).columns, strict=True)),
        OP: pa.array(["-"] * entered.num_rows + ["+"] * left.num_rows, log.schema.field(OP).type),
        AT: pa.repeat(pc.max(log[AT]), count),
    }
    return pa.table([columns[name] for name in log.column_names], schema=log.schema)
