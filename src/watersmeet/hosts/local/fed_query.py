"""A query that is handed its rows: what happens at each push, without threads and without waiting."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from difflib import get_close_matches

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.errors import CatalogError, RunError, SourceError
from watersmeet.hosts.local.pushed_rows import PushedRows
from watersmeet.hosts.local.recorded_run import archiving
from watersmeet.hosts.local.run import BATCH_ROWS
from watersmeet.io.bad_rows import without_bad_rows
from watersmeet.io.event_times import without_nulls
from watersmeet.io.time_ordered import batches_of
from watersmeet.model.catalog import Table
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.answers import Answer, as_batch
from watersmeet.operators.contract import Operator, Results, Rows
from watersmeet.operators.going_on import answered_all
from watersmeet.plan.nodes import Plan
from watersmeet.runtime.build import LoadTable, build_query
from watersmeet.runtime.clock import QueryClock
from watersmeet.runtime.floods import Floods
from watersmeet.runtime.late_rows import LateReports, Tell, warn
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.present import PresentAnswer
from watersmeet.runtime.reloading import Load, Reloads, loaded, reloaded_tables
from watersmeet.runtime.telling import bring_up_to_date
from watersmeet.runtime.wall_clock import SystemClock, WallClock

PUSHED = "pushed rows"
LOGGER = logging.getLogger("watersmeet")
# Takes the name of a stream and those of its rows that came too late.
OnLate = Callable[[str, pa.RecordBatch], None]
Answers = list[Answer]


class FedQuery:
    """One execution of a plan whose streams are pushed. One call at a time; every call gives the answers it made
    certain."""

    STATE = ("clock", "operator", "_present", "_ended", "_watermark_us")

    def __init__(
        self,
        plan: Plan,
        *,
        wall: WallClock | None = None,
        tell: Tell = warn,
        sourced: Collection[str] = (),
        kept: Mapping[str, Load | None] | None = None,
    ) -> None:
        """sourced: the streams that have data of their own, whose rows somebody reads and pushes. kept: the tables
        whose rows are to be had from `table_now`; those that are given are not loaded."""
        self.plan = plan
        self.metrics = Metrics()
        self.wall = wall or SystemClock()
        self.on_late: OnLate | None = None
        # Is called between two blocks of the answers of a call, with those that it has so far; may take them out of
        # there, or raise, and then the query has come to its end.
        self.on_block: Callable[[Answers], None] | None = None
        # What `archiving` asks for.
        self.on_step: Callable[[], None] | None = None
        self.on_table: Callable[[Table, pa.RecordBatch], None] | None = None
        self.reloaded = reloaded_tables(plan)
        self._reloads: Reloads | None = None
        self._holds = {*self.reloaded, *(kept or {})}
        # The rows of those that are joined now.
        self._now: dict[str, Load] = {name: rows for name, rows in (kept or {}).items() if rows is not None}
        self._tables: list[tuple[Table, LoadTable]] = []
        built = build_query(plan)
        self.operator = built.operator
        # Whoever reads them, here they come when they come.
        streams = {
            stream.name: replace(stream, source=None) if stream.name in sourced else stream
            for stream in built.streams.values()
        }
        _check_pushable(stream.name for stream in streams.values() if stream.source is not None)
        self.clock = QueryClock(streams.values(), self.wall)
        self._incoming = {name: PushedRows(stream) for name, stream in streams.items()}
        self._aliases = {name: [a for a, one in built.streams.items() if one.name == name] for name in streams}
        self._all_aliases = list(built.streams)
        self._ended: list[str] = []
        self._names = {name.lower(): name for name in streams}
        self._watermark_us = BEGINNING_US
        self._late_reports = LateReports(self._told)
        self.floods = Floods(self._told)
        self._tell = tell
        self._present = PresentAnswer(plan) if plan.kind == "changes" else None
        self._archiving = ExitStack()
        self._archiving.enter_context(archiving(self))
        for clock in self.clock.clocks.values():
            clock.on_late_rows = self._came_late
        try:
            self._load(built.tables)
        except BaseException as error:
            self.abort(error)
            raise

    def _load(self, tables: Sequence[tuple[Table, LoadTable]]) -> None:
        self._tables = list(tables)
        for table, load in tables:
            if table.name in self._holds and table.name not in self._now:
                self._now[table.name] = loaded(table)
            for batch in self._now[table.name] if table.name in self._now else batches_of(table, BATCH_ROWS):
                load(batch)
                if self.on_table is not None:
                    self.on_table(table, batch)

    def load_again(self) -> None:
        """Load tables that say so again from now on; `take_loads` joins what has come."""
        if self.reloaded:
            self._reloads = Reloads(self.reloaded, self._told)
            self._reloads.start(self._now)

    def take_loads(self) -> None:
        if self._reloads is not None:
            for name, rows in self._reloads.take().items():
                self.replace_table(name, rows)

    def table_now(self, name: str) -> Load:
        """The rows of a table that may be loaded again, or is kept, as they are joined now."""
        return self._now[name]

    def replace_table(self, name: str, rows: Load) -> None:
        """Join other rows of a table from now on."""
        self._now[name] = rows
        for table, load in self._tables:
            if table.name == name:
                load.forget()
                for batch in rows:
                    load(batch)

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

    def rows_of(self, name: str, given: object) -> list[Rows]:
        """What was given as rows of a stream, checked, in pieces that are pushed one by one. Nothing has changed yet,
        so what is refused here leaves no trace."""
        clock, most = self.clock.clocks[name], self.operator.piece_rows or BATCH_ROWS
        if clock.ended:
            raise RunError(f"stream {name!r} has ended, so no more rows of it can be pushed")
        batches = self.incoming(name, given)
        if clock.stream.arrival.keeps_going:
            batches = [self.readable(name, batch) for batch in batches]
        if clock.stream.arrival.skips_nulls:
            batches = [without_nulls(clock.stream, batch, clock.skip) for batch in batches]
        rows = [clock.timed(batch) for batch in batches if batch.num_rows]
        for piece in rows:
            if len(piece) > most:
                break
        else:
            return rows
        return [piece.slice(at, min(at + most, len(piece))) for piece in rows for at in range(0, len(piece), most)]

    def readable(self, name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a push that have an event time; the others are bad records."""
        clock = self.clock.clocks[name]
        batch, bad = without_bad_rows(clock.stream, batch, clock.came, PUSHED)
        if bad is not None:
            self.leave_out(name, bad)
        return batch

    def leave_out(self, name: str, bad: pa.RecordBatch) -> None:
        """Records that could not be read are counted, told, and kept beside the answer if the stream says so."""
        clock = self.clock.clocks[name]
        clock.leave_out(bad)
        self._late_reports.look_bad(clock.bad, at_end=False)

    def incoming(self, name: str, given: object) -> list[pa.RecordBatch]:
        """What was given as rows of a stream, with its columns; their times are not looked at."""
        return self._incoming[name].batches(given)

    def schema_of(self, name: str) -> pa.Schema:
        """The columns of rows that are pushed."""
        return self.clock.clocks[name].stream.given_schema

    def push(self, name: str, rows: Rows, lane: str = "") -> Answers:
        clock = self.clock.clocks[name]
        rows = clock.in_turn(rows)
        self._pushed, self._pushed_from = rows, clock.rows_in
        in_time = self.clock.let_in(name, rows, lane)
        if clock.late.count or clock.future_rows or clock.skipped_rows:
            self._late_reports.look(clock.late, clock.future_rows, clock.skipped_rows, at_end=False)
        found: Answers = []
        if len(in_time):
            for alias in self._aliases[name]:
                self._gather(found, self.operator.answers_to(alias, in_time))
        return self._after(found)

    def check_promise(self, name: str) -> None:
        """Refuse to be told how far a stream has come that goes by the clock on the wall."""
        if self.clock.clocks[name].stream.by_arrival:
            raise RunError(
                f"stream {name!r} goes by the clock on the wall (time = 'arrival'), so nobody can say how far it is",
                hint="leave advance() out: its time goes on by itself; in a test, trial.wait('10 seconds') moves it",
            )

    def promise(self, name: str, until_us: int) -> Answers:
        """No row of this stream before this time will come."""
        self.clock.promise(name, until_us)
        return self._after([])

    def end(self, names: Sequence[str]) -> Answers:
        """No row of these streams will come any more."""
        reached_us = max(self.last_event_us, self.clock.watermark_us)
        for name in names:
            self.clock.end(name)
            self._ended.append(name)
        found: Answers = []
        until_us = FOREVER_US if self.clock.running else reached_us
        self._gather(found, self.operator.advance(self._watermarks()), until_us)
        self._watermark_us = self.clock.watermark_us
        return self._done(found)

    def tick(self) -> Answers:
        """Look at the clock on the wall: whether time goes on without rows."""
        return self._after([]) if self.clock.tick() else []

    def due_in_s(self) -> float | None:
        """When `tick` will have something to do if no row comes; None if never."""
        waits = [self.clock.silent_in_s]
        if self.clock.goes_on_by_itself:
            if self.operator.wake_us is not None:
                waits.append(self.clock.reached_in_s(self.operator.wake_us))
            elif self.operator.lag_us:
                waits.append(1.0)  # it joins at moments of its own
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def finish(self) -> Answers:
        """Everything that waits is answered."""
        found = self.end([clock.stream.name for clock in self.clock.running])
        for clock in self.clock.clocks.values():
            self._late_reports.look(clock.late, clock.future_rows, clock.skipped_rows, at_end=True)
            self._late_reports.look_bad(clock.bad, at_end=True)
        self.report()
        self.close()
        return found

    def flush(self) -> Answers:
        """Everything that waits is answered, and more may come; what is not newer than that is late then."""
        found: Answers = []
        self._gather(found, self._flushed())
        self._watermark_us = self.clock.watermark_us
        return self._done(found)

    def _flushed(self) -> Results:
        answers = answered_all(self.operator, self._all_aliases, self.last_event_us, self._anew)
        end, self.operator = yield from answers
        self.clock.answered(end.answered_us)

    def _anew(self) -> Operator:
        built = build_query(self.plan)
        self._load(built.tables)
        return built.operator

    def close(self) -> None:
        """What was archived counts."""
        self._end_loads()
        self._archiving.close()

    def abort(self, error: BaseException) -> None:
        """What was archived is gone."""
        self._end_loads()
        self._archiving.__exit__(type(error), error, error.__traceback__)

    def _end_loads(self) -> None:
        if self._reloads is not None:
            self._reloads.close()

    def answer(self) -> pa.Table | None:
        return None if self._present is None else self._present.table()

    @property
    def last_event_us(self) -> int:
        return max((clock.last_us for clock in self.clock.clocks.values()), default=BEGINNING_US)

    def report(self) -> Metrics:
        bring_up_to_date(self.metrics, self.clock, self.operator)
        return self.metrics

    def report_waiting(self) -> Metrics:
        """The same, with the rows that wait for time to go on."""
        told = {name: rows for name, rows in self.operator.waiting_rows().items() if rows.rows}
        self.metrics.waiting_by_stream = {name: one.rows for name, one in told.items()}
        self.metrics.waiting_until_us = max((one.newest_us for one in told.values()), default=None)
        return self.report()

    def _after(self, found: Answers) -> Answers:
        """Tell the operators how far time has come, if it has."""
        if self.clock.watermark_us != self._watermark_us:
            self._watermark_us = self.clock.watermark_us
            self._gather(found, self.operator.advance(self._watermarks()))
        # What comes next is not known here, so nothing waits for it.
        self._gather(found, self.operator.settle())
        return self._done(found)

    def _gather(self, found: Answers, answers: Iterable[Answer], until_us: int = FOREVER_US) -> None:
        """until_us: what a changing answer does after this only tells that nothing more came."""
        for one in answers:
            self.floods.look(self.operator, self.clock)
            if one.num_rows:
                found.append(one)
                if self._present is not None:
                    self._present.add(as_batch(one), until_us)
            if self.on_block is not None:
                self.on_block(found)

    def _done(self, found: Answers) -> Answers:
        if self.on_step is not None:
            self.on_step()
        return found

    def _watermarks(self) -> dict[str, int]:
        marks = dict.fromkeys(self._all_aliases, self.clock.watermark_us)
        for name in self._ended:
            marks.update(dict.fromkeys(self._aliases[name], FOREVER_US))
        return marks

    def _came_late(self, name: str, numbers: npt.NDArray[np.int64]) -> None:
        if self.on_late is not None:
            self.on_late(name, self._pushed.data.take(pa.array(numbers - self._pushed_from)))

    def _told(self, what: Warning) -> None:
        LOGGER.info("%s", what)
        self._tell(what)


def _check_pushable(with_data: Iterable[str]) -> None:
    for name in with_data:
        raise SourceError(
            f"stream {name!r} has data of its own, so it cannot be pushed",
            hint=f"declare it by its columns alone: session.stream({name!r}, schema=…, time=…), "
            "or run the query with to_arrow() or batches(); start(checkpoint=…) reads it and goes on",
        )
