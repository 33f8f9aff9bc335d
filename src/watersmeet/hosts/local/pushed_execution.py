"""A query that is handed its rows: what may be pushed, and what its answer is at any moment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.errors import CatalogError, RunError, SourceError
from watersmeet.hosts.local.archiving import archiving
from watersmeet.hosts.local.execution import BATCH_ROWS, LOGGER, Blocks, Execution
from watersmeet.io.event_times import TimedBatch
from watersmeet.io.pushed_rows import PushedRows
from watersmeet.model.catalog import Stream
from watersmeet.operators.answers import Answer
from watersmeet.operators.contract import End, Operator, Results, Rows
from watersmeet.operators.late_start import LateStart
from watersmeet.operators.partitioned import parts_in
from watersmeet.operators.saving import Saved, load_state
from watersmeet.plan.constants import SAID_AT
from watersmeet.plan.query import Plan
from watersmeet.runtime.build import Built, build_plan, build_query
from watersmeet.runtime.clock import OnLateRows
from watersmeet.runtime.left_out import Tell
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.placing import Placing
from watersmeet.runtime.present import PresentAnswer
from watersmeet.runtime.reloading import Load, loaded
from watersmeet.runtime.run_settings import OnLate
from watersmeet.runtime.wall_clock import SystemClock, WallClock
from watersmeet.warning import warn

if TYPE_CHECKING:
    from watersmeet.runtime.common_parts import CommonParts

PUSHED = "pushed rows"


class PushedExecution(Execution):
    STATE = (
        "clock",
        "operator",
        "_present",
        "_ended",
        "_watermark_us",
        "since_us",
        "left_out_us",
        "whole_us",
        "spread",
    )
    GROWS = True

    def __init__(
        self,
        plan: Plan,
        *,
        wall: WallClock | None = None,
        tell: Tell = warn,
        sourced: Collection[str] = (),
        kept: Mapping[str, Load | None] | None = None,
        built: Built | None = None,
        parts: CommonParts | None = None,
        loads: bool = True,
    ) -> None:
        """sourced: the streams that have data of their own, whose rows somebody reads and pushes. kept: the tables
        whose rows are to be had from `tables_now`; those that are given are not loaded. built: run these operators
        instead of those that are made of the plan, which may have parts in common with others. loads: whether it loads
        its tables, or whoever makes it does."""
        built = build_query(plan) if built is None else built
        self._parts = parts
        for said in built.notices(plan):
            LOGGER.info("%s", said)
        # Whoever reads them, here they come when they come.
        streams = {
            stream.name: replace(stream, source=None) if stream.name in sourced else stream
            for stream in built.streams.values()
        }
        _check_pushable(stream for stream in streams.values() if stream.source is not None)
        super().__init__(plan, built, streams, wall or SystemClock(), tell, Metrics())
        self.on_late: OnLate | None = None
        self.on_late_numbers: OnLateRows | None = None  # the same by which of all rows that were let in they are
        self.incoming = {name: PushedRows(stream) for name, stream in streams.items()}
        self._names = {name.lower(): name for name in streams}
        self._present = PresentAnswer(plan) if plan.kind == "changes" else None
        self._archiving = ExitStack()
        self._archiving.enter_context(archiving(self))
        for clock in self.clock.clocks.values():
            clock.on_late_rows = self._came_late
        try:
            for table, _ in built.tables:
                if kept is not None and table.name in kept:
                    rows = kept[table.name]
                    self._now[table.name] = loaded(table) if rows is None else rows
            if loads:
                self.load_tables()
        except BaseException as error:
            self.abort(error)
            raise

    def load_from(self, saved: Saved) -> None:
        """Be where another execution of the same plan was when it was saved."""
        self.placed_by(Placing(parts_in(saved, "operator"), saved.values.get("spread")))
        if LateStart.is_in(saved, "operator"):
            self.wait_to_be_whole()
        load_state(self, saved)

    @property
    def spread(self) -> str | None:
        """The keys that are spread over its threads."""
        return self.placing.spread

    @spread.setter
    def spread(self, said: str | None) -> None:
        """Its threads were placed so before their rows came."""
        assert said == self.spread

    @property
    def streams(self) -> list[str]:
        return list(self._names.values())

    def named(self, stream: object) -> str:
        """The stream of a name in any case."""
        name = self._names.get(stream.lower()) if isinstance(stream, str) else None
        if name is None:
            near = get_close_matches(str(stream).lower(), self._names, n=1)
            raise CatalogError(
                f"this query has no stream {stream!r}",
                hint=f"did you mean {self._names[near[0]]!r}?" if near else f"it reads {', '.join(self.streams)}",
            )
        return name

    def rows_of(self, name: str, given: object, others: Sequence[PushedExecution] = ()) -> list[Rows]:
        """What was given as rows of a stream, checked, in pieces that are pushed one by one. Nothing has changed yet,
        so what is refused here leaves no trace. others: queries that are given the same."""
        clock = self.clock.clocks[name]
        if clock.ended:
            raise RunError(f"stream {name!r} has ended, so no more rows of it can be pushed")
        batches = self.incoming[name].batches(given)
        if clock.leaves_out:
            rows = self._readable(name, batches, others)
        else:
            rows = []
            for batch in batches:
                if batch.num_rows:
                    rows.append(clock.timed(batch))
        most = min(one.operator.piece_rows or BATCH_ROWS for one in (self, *others))
        for piece in rows:
            if piece.times.size > most:
                break
        else:
            return rows
        return [piece.slice(at, min(at + most, len(piece))) for piece in rows for at in range(0, len(piece), most)]

    def _readable(self, name: str, batches: Sequence[pa.RecordBatch], others: Sequence[PushedExecution]) -> list[Rows]:
        """The rows of a push that can be read and have an event time."""
        clock = self.clock.clocks[name]
        timed: list[TimedBatch] = []
        before = 0
        for batch in batches:
            timed.append(clock.timed_batch(batch, place=PUSHED, before=before))
            before += batch.num_rows
        for one in timed:  # as none of them is refused
            if one.skipped or one.bad is not None:
                for execution in (self, *others):
                    execution.leave_out_of(name, one)
        return [one.rows for one in timed if len(one.rows)]

    def anew(self) -> Operator:
        if not self.has_parts:
            return super().anew()
        # Of the same parts, for itself.
        assert self._parts is not None
        assert self.built.physical is not None
        built = build_plan(self.built.physical, parts=self._parts.builder())
        self._tables = built.tables
        self.load_tables()
        return built.operator

    @property
    def has_parts(self) -> bool:
        """Whether its answer has parts that others have, too, or it several times."""
        if self._parts is None:
            return False
        from watersmeet.operators.continuous.common import has_parts

        return has_parts(self.operator)

    def go_alone(self) -> None:
        """Be given other rows, or another time, than the queries that it shares with: it goes on from where it is with
        what it needs of that."""
        from watersmeet.operators.continuous.common import leave_parts
        from watersmeet.operators.join.shared_keeping import keep_alone

        keep_alone(self.operator)
        if self.has_parts:
            before, saved = self.operator, Saved.from_bytes(self.operator.save(tables=False).to_bytes())
            self.operator = self.anew()
            self.operator.load(saved)
            leave_parts(before)

    def leave_others(self) -> None:
        """Nothing more is asked of it; those that it shares with go on."""
        from watersmeet.operators.continuous.common import leave_parts
        from watersmeet.operators.join.shared_keeping import leave_windows

        leave_windows(self.operator)
        leave_parts(self.operator)

    def push(self, name: str, rows: Rows, partition: str = "") -> Iterable[Answer]:
        clock = self.clock.clocks[name]
        if clock.by_arrival:
            rows = clock.in_turn(rows)
        self._pushed, self._pushed_from = rows, clock.rows_in
        return super().push(name, rows, partition)

    def check_promise(self, name: str) -> None:
        """Refuse to be told how far a stream has come that goes by the clock on the wall."""
        if self.clock.clocks[name].by_arrival:
            raise RunError(
                f"stream {name!r} goes by the clock on the wall (time = 'arrival'), so nobody can say how far it is",
                hint="leave advance() out: its time goes on by itself; in a test, trial.wait('10 seconds') moves it",
            )

    def promise(self, name: str, until_us: int) -> Blocks:
        """No row of this stream before this time will come."""
        self.clock.promise(name, until_us)
        yield from self._go_on([])

    def finish(self) -> Blocks:
        """Everything that waits is answered."""
        yield from self.end([clock.stream.name for clock in self.clock.running])
        self.tell_what_was_left_out(at_end=True)
        self.report()
        self.close()

    def flush(self) -> Blocks:
        """Everything that waits is answered, and more may come; what is not newer than that is late then."""
        yield from self._blocks(self._flushed())
        self._watermark_us = self.clock.watermark_us
        self._step()

    def _flushed(self) -> Results:
        if self._late is not None and self._late.starts_by(self.last_event_us):
            yield from self._late.start()
        answers = answered_all(self.operator, self._all_aliases, self.last_event_us, self.anew)
        end, self.operator = yield from answers
        self.clock.answered(end.answered_us)

    def close(self) -> None:
        """What was archived counts."""
        super().close()
        self._archiving.close()

    def abort(self, error: BaseException) -> None:
        """What was archived is gone."""
        super().close()
        self._archiving.__exit__(type(error), error, error.__traceback__)

    def answer(self) -> pa.Table | None:
        return None if self._present is None else self._present.table()

    def present_parts(self) -> tuple[pa.RecordBatch, pa.RecordBatch] | None:
        """What a changing answer was when it was last added up, and what has changed since."""
        return None if self._present is None else (self._present.held, self._present.since)

    def held_tables(self) -> dict[str, pa.Table]:
        """The rows of the tables that are not loaded anew by who goes on elsewhere."""
        return {name: pa.Table.from_batches(rows) for name, rows in self._now.items()}

    def go_on_from(self, present: tuple[pa.RecordBatch, pa.RecordBatch] | None) -> None:
        """Operators and clocks were brought to where others were, whose changing answer was this."""
        self._ended = [clock.stream.name for clock in self.clock.clocks.values() if clock.ended]
        self._watermark_us = self.clock.watermark_us
        if self._present is not None and present is not None:
            self._present.held, self._present.since = present

    def report_waiting(self) -> Metrics:
        """The numbers, with the rows that wait for time to go on."""
        waiting = {name: rows for name, rows in self.operator.waiting_rows().items() if rows.rows}
        self.metrics.waiting_by_stream = {name: one.rows for name, one in waiting.items()}
        self.metrics.waiting_until_us = max((one.newest_us for one in waiting.values()), default=None)
        return self.report()

    def _came_late(self, name: str, numbers: npt.NDArray[np.int64]) -> None:
        if self.on_late_numbers is not None:
            self.on_late_numbers(name, numbers)
        if self.on_late is not None:
            self.on_late(name, self._pushed.data.take(pa.array(numbers - self._pushed_from)))


def _check_pushable(with_data: Iterable[Stream]) -> None:
    for stream in with_data:
        if stream.time == SAID_AT:
            raise SourceError(
                "the query says all the rows that it reads itself, so there is nothing to push",
                hint="run it with to_arrow() or batches()",
            )
        raise SourceError(
            f"stream {stream.name!r} has data of its own, so it cannot be pushed",
            hint=f"declare it by its columns alone: session.stream({stream.name!r}, schema=…, time=…), "
            "or run the query with to_arrow() or batches(); start(checkpoint=…) reads it and goes on",
        )


def answered_all(
    operator: Operator, aliases: Iterable[str], newest_us: int, fresh: Callable[[], Operator]
) -> Generator[pa.RecordBatch, None, tuple[End, Operator]]:
    """What waits in an operator, answered; returns the operator to go on with. One that has come to its end for good is
    made anew as it was before it, and time goes on in it up to what was answered: what that gives was given."""
    before = None if operator.goes_on else Saved.from_bytes(operator.save(tables=False).to_bytes())
    end = yield from operator.finish(newest_us)
    if before is None:
        return end, operator
    again = fresh()
    again.load(before)
    again.pass_end(end, aliases)
    return end, again
