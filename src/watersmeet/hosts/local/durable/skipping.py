"""Batches that a start was asked to leave out, as their rows make the query fail or their answers do not end.

Of a batch with many answers some parts may be in the sink already. Rows that stay are told of. Changes are taken back:
the batch is answered once more, apart from the run, as far as it was given, and what that comes to is given the other
way round, as a batch of its own. Until that is in the journal every start does it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import RunError, SkippedRowsWarning
from watersmeet.hosts.local.durable.answering import Answering, Give
from watersmeet.hosts.local.durable.batches import BatchRecord, Ready, Step
from watersmeet.hosts.local.durable.noted import note, noted
from watersmeet.hosts.local.durable.progress import Progress
from watersmeet.io.connectors.contract import SourceBatch
from watersmeet.io.connectors.databases.netting import COUNT, by_row, netted
from watersmeet.operators.answers import Answer, as_batches
from watersmeet.operators.saving import Saved, load_state, state_of
from watersmeet.plan.nodes import AT, OP
from watersmeet.runtime.late_rows import Tell
from watersmeet.runtime.skipped_batches import not_repeated

_NONE_GIVEN = -1
# Makes what answers a batch apart from the run: how far it is, and who takes the answers, are its own.
Apart = Callable[[BatchRecord, Progress, Give], Answering]


@dataclass(frozen=True)
class _Part:
    """A batch of which parts were given, with the state before it."""

    record: BatchRecord
    steps: Sequence[Ready]
    more: Sequence[BatchRecord]
    given: int
    before: Saved


class _EnoughError(Exception):
    """All that was given was answered again."""


class Skips:
    def __init__(self, path: Path, asked: frozenset[int], answering: Answering, apart: Apart, tell: Tell) -> None:
        """asked: what this start is to leave out."""
        self._path, self._asked, self._tell = path, asked, tell
        self._answering, self._apart = answering, apart
        # What a life has left out, and so do later ones that repeat it, with the last number it was given under.
        self._left_out = {int(number): given for number, given in noted(path).get("skipped", {}).items()}
        self._given_in_part: dict[int, _Part] = {}

    def holds(self, number: int) -> bool:
        return number in self._asked or number in self._left_out

    def skip(self, record: BatchRecord, steps: Sequence[Ready], given: int) -> None:
        """given: the last batch, or part of one, whose answers were given."""
        number, more = record.number, self._answering.parts_behind()
        if number not in self._left_out:
            if given >= number + len(more):
                raise RunError(
                    f"batch {number:,} cannot be left out: all its answers were given already",
                    hint="start without --skip-batch, or start anew with another checkpoint",
                )
            self._left_out[number] = given if given >= number else _NONE_GIVEN
            note(self._path, skipped={str(one): given for one, given in self._left_out.items()})
        rows = sum(ready.step.num_rows for ready in steps)
        parts = max(self._left_out[number] - number + 1, 0)
        said = f"batch {number:,} with its {rows:,} rows was left out, as asked for"
        self._tell(SkippedRowsWarning(said + self._said(parts, record)))
        self._answering.execution.metrics.skipped_batch_rows += rows
        if parts and self._takes_back:
            before = Saved.from_bytes(state_of(self._answering.execution, tables=False).to_bytes())
            self._given_in_part[number] = _Part(record, steps, more, self._left_out[number], before)

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
            self._tell(SkippedRowsWarning(not_repeated(number)))

    def taken_back(self, number: int) -> None:
        """That is in the journal."""
        self._given_in_part.pop(number, None)

    def to_take_back(self) -> Iterator[Step]:
        """What was given of batches that are left out, the other way round."""
        for number, part in self._given_in_part.items():
            yield Step("given", "", SourceBatch(_opposite(self._given_of(part))), number=number)

    def _given_of(self, part: _Part) -> pa.Table:
        found: list[Answer] = []
        progress = Progress()

        def take(answers: list[Answer]) -> None:
            found.extend(answers)
            if progress.number >= part.given:
                raise _EnoughError

        answering = self._apart(part.record, progress, take)
        load_state(answering.execution, part.before)
        answering.expect(iter(part.more))
        with suppress(_EnoughError):
            answering.answer(part.record.number, part.steps, part.record.part_rows)
        return pa.Table.from_batches(as_batches(found), answering.execution.plan.output_schema)


def _opposite(log: pa.Table) -> pa.RecordBatch:
    """What takes changes back, at the instant of the last of them."""
    names = [name for name in log.column_names if name not in (OP, AT)]
    entered, left = by_row(netted(log, OP, names))
    left = left.take(np.repeat(np.arange(left.num_rows), left[COUNT].to_numpy())).drop_columns([COUNT])
    count = entered.num_rows + left.num_rows
    columns = {
        **dict(zip(names, pa.concat_tables([entered, left]).columns, strict=True)),
        OP: pa.array(["-"] * entered.num_rows + ["+"] * left.num_rows, log.schema.field(OP).type),
        AT: pa.repeat(pc.max(log[AT]), count),
    }
    whole = pa.table([columns[name] for name in log.column_names], schema=log.schema).combine_chunks()
    return next(iter(whole.to_batches()), pa.RecordBatch.from_pylist([], schema=log.schema))
