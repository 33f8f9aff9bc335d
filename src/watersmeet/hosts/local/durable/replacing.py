"""One query takes the place of another while both run, at one batch: the answers to all that comes later are its own.

It is built beside the other one, in a checkpoint of its own, and its answers go nowhere. When it is whole and is given
the same rows as the other, both may be compared. Then nothing more is read, until both have answered the same rows; the
sink gets the last answers of the one, the checkpoint of the other notes that it has taken the place, and that write is
the instant: a start that finds it goes on with the one, a start that does not with the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from threading import Event
from time import monotonic
from typing import Any

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.queue_sink import NotTaken
from watersmeet.io.connectors.shared_reader import SharedSource
from watersmeet.io.consolidation import by_row, consolidated
from watersmeet.model.time import BEGINNING_US, FOREVER_US, format_instant
from watersmeet.model.wording import counted, listed
from watersmeet.operators.answers import Answer, as_batches
from watersmeet.plan.nodes import AT, OP
from watersmeet.plan.query import Plan

MOST_COMPARED = 1 << 20  # answers of each
_SIGN = "watersmeet_sign"
_LOOK_S = 0.05
_MEET_S = 30.0  # for how long nothing is read at most, until both have answered the same rows


@dataclass(frozen=True)
class Compared:
    """What two queries gave of the same rows, by the columns that both have: how many answers are the same, and those
    that only one has."""

    columns: tuple[str, ...]
    same: int
    only_before: pa.Table
    only_now: pa.Table

    @property
    def is_same(self) -> bool:
        return not (self.only_before.num_rows or self.only_now.num_rows)

    def words(self) -> str:
        if not self.columns:
            return "their answers were not compared"
        if not (self.same or self.only_before.num_rows or self.only_now.num_rows):
            return "neither gave an answer while they were compared"
        if self.is_same:
            return f"compared: {counted(self.same, 'answer')}, the same of both"
        parts = [f"compared: {counted(self.same, 'answer')} the same of both"]
        for rows, whose in ((self.only_before, "the one before"), (self.only_now, "the new one")):
            if rows.num_rows:
                parts.append(f"{rows.num_rows:,} only of {whose}, such as {rows.slice(0, 1).to_pylist()[0]}")
        return "; ".join(parts)


@dataclass(frozen=True)
class Replaced:
    """That a query has taken the place of another: `batch` is the last that the one before has answered."""

    name: str
    batch: int
    watermark_us: int
    compared: Compared

    def words(self) -> list[str]:
        far = (
            f", watermark {format_instant(self.watermark_us)}" if BEGINNING_US < self.watermark_us < FOREVER_US else ""
        )
        return [
            self.compared.words(),
            f"{self.name} is another query now: batches up to {self.batch:,}{far} were answered by the one before, all "
            "rows that came after them by the new one",
        ]


class Replacing:
    def __init__(
        self,
        name: str,
        before: DurableExecution,
        now: DurableExecution,
        sources: Sequence[SharedSource],
        without_pushes: Callable[[], AbstractContextManager[Any]],
        let_go: Callable[[], None],
    ) -> None:
        """sources: what is read for both. without_pushes: while what it gives is open, nobody pushes. let_go: the
        answers of the one before are not waited for to be taken."""
        self._name, self._before, self._now = name, before, now
        self._sources, self._without_pushes, self._let_go = sources, without_pushes, let_go
        self.given_up = Event()

    def check(self) -> None:
        """Refuse what can never take the place, before anything is built."""
        check_alike(self._name, self._before.plan, self._now.plan)
        alone = self._now.reads_alone(self._before)
        if alone:
            raise RunError(
                f"the new {self._name} would not be given the same rows of {listed(alone)} as the one before",
                hint="both must read a stream as it is declared for the one that runs, without share = 'no'; else stop "
                "the run and begin with the changed script and a new checkpoint",
            )

    def come_to_be_whole(self) -> None:
        """Return when the new query is whole and is given the same rows as the one before."""
        if self._now.execution.is_never_whole:
            raise RunError(
                f"the new {self._name} would never be whole: it looks at all rows ever of a stream, or counts them, "
                "and those that came before are not kept and cannot be read again",
                hint="begin it with a new checkpoint and the rows from the beginning",
            )
        while self._now.execution.waits_to_be_whole or not self._now.is_beside(self._before):
            self._wait(_LOOK_S)

    def compare(self, seconds: float) -> Compared:
        """What both give of the same rows from now on, for so long; of answers that change, what they are then."""
        plans = self._before.plan, self._now.plan
        if plans[0].kind != "rows" or seconds <= 0:
            return Compared((), 0, _NOTHING, _NOTHING)
        heard = _Heard(), _Heard()
        with self._at_the_same_place():
            self._before.outputs.on_found, self._now.outputs.on_found = heard
        until_s = monotonic() + seconds
        while monotonic() < until_s and not any(one.is_full for one in heard):
            self._wait(_LOOK_S)
        with self._at_the_same_place():
            self._before.outputs.on_found = self._now.outputs.on_found = None
        tables = (one.table(plan) for one, plan in zip(heard, plans, strict=True))
        return compared(*tables)

    def take_over(self, seen: Compared, *, if_same: bool) -> Replaced:
        """The new query takes the place, at once."""
        with self._at_the_same_place() as leaving:
            batch, given = self._before.progress.number, None
            if self._before.plan.kind == "changes":
                rows = _answer_of(self._before), _answer_of(self._now)
                seen = compared(*rows)
                all_compared = len(seen.columns) == len(self._now.plan.schema)
                leave, enter = (seen.only_before, seen.only_now) if all_compared else rows
                given = _as_changes(leave, enter, self._now.plan, self._now.execution.last_event_us)
            if if_same and not seen.is_same:
                raise RunError(
                    f"{self._name} is what it was, as the new query gave other answers; {seen.words()}",
                    hint="leave out --if-same, or if_same=True, if it is meant to",
                )
            self._before.outputs.settle(batch)
            self._now.take_over(given)
            # From here on there is no way back: whoever starts it again finds the new one.
            self._before.end_here()
            self._let_go()
            leaving()
            try:
                with suppress(NotTaken):
                    self._before.wait()
            finally:
                self._now.begin_to_answer()
        return Replaced(self._name, batch, self._now.execution.clock.watermark_us, seen)

    @contextmanager
    def _at_the_same_place(self) -> Iterator[Callable[[], None]]:
        """Both are between two batches and have answered the same rows. Gives what lets the one before go on alone."""
        with ExitStack() as holding:
            holding.enter_context(self._without_pushes())
            for source in self._sources:
                holding.enter_context(source.held())
            until_s = monotonic() + _MEET_S
            while True:
                with self._now.paused(), ExitStack() as pausing:
                    pausing.enter_context(self._before.paused())
                    if self._now.is_where(self._before):
                        yield pausing.close
                        return
                if monotonic() > until_s:
                    raise RunError(
                        f"the new {self._name} did not come to where the one before is in {_MEET_S:g} s, so that "
                        "nothing has changed",
                        hint="try again when less is waiting to be answered",
                    )
                self._wait(_LOOK_S)

    def _wait(self, seconds: float) -> None:
        for run, which in ((self._before, "before"), (self._now, "new")):
            if run.error is not None:
                raise run.error
            if run.has_ended or not run.is_open:
                raise RunError(f"the {which} {self._name} ended before the place was taken", hint="try again")
        if self.given_up.wait(seconds):
            raise RunError(f"the run was stopped before the new {self._name} took the place", hint="try again")


_NOTHING = pa.table({})


def check_alike(name: str, before: Plan, now: Plan) -> None:
    if before.kind != now.kind:
        said = {"rows": "rows that stay", "changes": "changes of an answer"}
        was, is_now = (said.get(one.kind, f"the {one.kind} of an answer") for one in (before, now))
        raise RunError(
            f"{name} gives {was}, and the new query {is_now}: in one sink they would mean different things",
            hint="give the new query a sink of its own, as one more query of the script",
        )
    if before.kind == "changes" and not before.schema.equals(now.schema):
        raise RunError(
            f"the rows of {name} have the columns {_columns(before.schema)}, and of the new query "
            f"{_columns(now.schema)}: rows that are in the sink could not be taken back as they are",
            hint="give the new query a sink of its own, as one more query of the script",
        )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{one.name} {one.type}" for one in schema)


class _Heard:
    """The answers of a query from a batch on."""

    def __init__(self) -> None:
        self._answers: list[Answer] = []
        self._rows = 0

    def __call__(self, answers: list[Answer]) -> None:
        self._answers += answers
        self._rows += sum(one.num_rows for one in answers)

    @property
    def is_full(self) -> bool:
        return self._rows > MOST_COMPARED

    def table(self, plan: Plan) -> pa.Table:
        return pa.Table.from_batches(as_batches(self._answers), schema=plan.output_schema)


def _answer_of(run: DurableExecution) -> pa.Table:
    found = run.execution.answer()
    assert found is not None
    return found


def compared(before: pa.Table, now: pa.Table) -> Compared:
    """Two bags of rows, by the columns of one name and type."""
    kinds = {field.name: field.type for field in before.schema}
    names = [one.name for one in now.schema if kinds.get(one.name) == one.type and not pa.types.is_nested(one.type)]
    if not names:
        return Compared((), 0, _NOTHING, _NOTHING)
    kept = before.select(names), now.select(names)
    gone, come = (
        by_row(consolidated(pa.concat_tables([_signed(kept[one], "+"), _signed(kept[1 - one], "-")]), _SIGN, names))[0]
        for one in (0, 1)
    )
    return Compared(tuple(names), before.num_rows - gone.num_rows, gone, come)


def _signed(rows: pa.Table, sign: str) -> pa.Table:
    return rows.append_column(_SIGN, pa.repeat(pa.scalar(sign), rows.num_rows))


def _as_changes(leave: pa.Table, enter: pa.Table, plan: Plan, at_us: int) -> pa.RecordBatch | None:
    """What makes the answer of the one before that of the new one, as changes at one instant."""
    schema = plan.output_schema
    parts = []
    for rows, sign in ((leave, "-"), (enter, "+")):
        instants = pa.repeat(pa.scalar(at_us, schema.field(AT).type), rows.num_rows)
        signs = pa.repeat(pa.scalar(sign, schema.field(OP).type), rows.num_rows)
        parts.append(pa.table([signs, instants, *rows.columns], schema=schema))
    found = pa.concat_tables(parts).combine_chunks().to_batches()
    return found[0] if found else None
