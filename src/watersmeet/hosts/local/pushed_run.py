"""A run that an application feeds: rows are pushed by any thread, answers are taken by any other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from html import escape
from time import monotonic
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from watersmeet.errors import RunError, UnsupportedError
from watersmeet.hosts.local.execution import Blocks
from watersmeet.hosts.local.instants import instant_us
from watersmeet.hosts.local.pushed_execution import OnLate, PushedExecution
from watersmeet.hosts.local.side_files import SideFiles
from watersmeet.hosts.local.silence_watch import watch_silence
from watersmeet.operators.answers import Answer, as_batch, as_batches
from watersmeet.operators.contract import Rows
from watersmeet.runtime.floods import MANY

OnAnswer = Callable[[pa.RecordBatch], Any]
MAX_WAITING = 1_000_000
MOST_OUTGOING = 16  # blocks of answers for on_answer that wait for a step to end
TIMEOUT_S = 60.0
BREATH_S, SHORTEST_S = 0.1, 0.0005  # how long a step may keep the lock, and for how long it lets go of it


class Run:
    """A query that rows are pushed into. `query.start()` makes one.

    Rows are joined in the thread that pushes them, one push at a time, so a push returns when its answers are there.
    All methods may be called from any thread. Leaving a `with` block finishes the run; leaving it by an error closes
    it and answers nothing more.

    >>> import datetime as dt
    >>> import watersmeet as wm
    >>> session = wm.Session()
    >>> session.stream("orders", schema={"id": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    >>> session.stream("paid", schema={"id": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    >>> query = session.sql("SELECT o.id FROM orders o, paid p WHERE o.id = p.id WINDOW = 1 HOUR")
    >>> noon = dt.datetime(2026, 1, 1, 12)
    >>> with query.start() as run:
    ...     run.push("orders", [{"id": 1, "ts": noon}, {"id": 2, "ts": noon}])
    ...     run.push("paid", {"id": [2], "ts": [noon + dt.timedelta(minutes=5)]})
    ...     run.take().to_pylist()
    [{'id': 2}]
    """

    def __init__(
        self,
        execution: PushedExecution,
        *,
        on_answer: OnAnswer | None = None,
        on_late: OnLate | None = None,
        max_waiting: int = MAX_WAITING,
        timeout: float | None = TIMEOUT_S,
        watched: bool = True,
        writes_beside: bool = False,
    ) -> None:
        """watched: whether a thread looks at the clock on the wall; if not, whoever moves that clock calls `tick`.
        writes_beside: whether bad records and late rows go to the sinks that streams name, or are only counted."""
        self._execution = execution
        self._side = SideFiles(execution.clock.side) if writes_beside else None
        execution.load_again()
        self._on_answer, self._on_late = on_answer, on_late
        self._max_waiting, self._timeout = max_waiting, timeout
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # answers came or went, or the run ended
        self._ready: deque[Answer] = deque()
        self._ready_rows = 0
        self._ended: str | None = None
        self._error: BaseException | None = None
        self._blocked: list[str] = []  # the streams whose rows wait for room: they are not silent
        self._stepping: int | None = None  # the thread that is in the middle of a step, also while others have the lock
        self._breath_s = 0.0  # when others last had it
        self.on_ready: Callable[[], None] | None = None  # is called whenever there may be something to take
        # What goes to the user's own functions, in order; they are called without the lock, one at a time.
        self._outgoing: deque[Callable[[], Any]] = deque()
        self._delivery = threading.Lock()
        self._deliverer: int | None = None
        if on_late is not None:
            outgoing = self._outgoing
            execution.on_late = lambda name, rows: outgoing.append(partial(on_late, name, rows))
        if watched and execution.clock.watches_the_wall:
            watch_silence(self)

    # ---- rows and time go in ----------------------------------------------------------------------------------------

    def push(self, stream: str, rows: Any, *, timeout: float | None = None) -> None:
        """Take new rows of a stream, in the order in which they came.

        rows: a pyarrow Table or RecordBatch, a pandas or polars frame, a list of dicts (one per row; a name that is
        left out is NULL), a dict of columns, or a dict of values, which is one row. Rows that do not fit the stream
        are refused as a whole, and the run goes on without them.
        timeout: how many seconds to wait, at most, while `max_waiting` answers wait to be taken; by default what
        `start` was told.
        """
        name = self._execution.named(stream)
        with self._lock:
            self._check_open()
            pieces = self._execution.rows_of(name, rows)
            self._execution.take_loads()
            for number, piece in enumerate(pieces):
                if self._ready_rows >= self._max_waiting:
                    self._blocked.append(name)
                    try:
                        self._wait_for_room(partial(_taken_of, name, pieces, number), timeout)
                    finally:
                        self._blocked.remove(name)
                self._do(self._execution.push(name, piece))
        self._deliver()

    def advance(self, stream: str, time: Any) -> None:
        """No row of this stream before this time will come any more: answers need not wait for it.

        time: a datetime (UTC if it has no zone), or a text such as '2026-01-31 12:00:00'. Rows before it that come
        all the same may be late, whatever the stream's lateness.
        """
        name, until_us = self._execution.named(stream), instant_us(time)
        self._execution.check_promise(name)
        with self._lock:
            self._check_open()
            self._do(self._execution.promise(name, until_us))
        self._deliver()

    def end(self, stream: str) -> None:
        """No row of this stream will come any more at all; the others go on."""
        name = self._execution.named(stream)
        with self._lock:
            self._check_open()
            if self._execution.clock.clocks[name].ended:
                return
            self._do(self._execution.end([name]))
        self._deliver()

    def finish(self) -> None:
        """No row will come any more: everything that waits is answered. What was not taken yet can still be."""
        with self._lock:
            if self._error is not None:
                raise self._error
            self._wait_for_turn()
            if self._ended is None:
                self._do(self._execution.finish())
                self._end("finished")
                self._keep_beside()
        self._deliver()

    def close(self) -> None:
        """End the run where it is, without answering what waits for time to go on."""
        with self._lock:
            if self._ended is None:
                self._execution.report()
                self._execution.close()
                self._end("closed")
                self._keep_beside()

    def fail(self, error: BaseException) -> None:
        """End the run with an error, which is raised where somebody pushes or waits."""
        with self._lock:
            self._fail(error)

    def due_in_s(self) -> float | None:
        """In how many seconds the clock on the wall is to be looked at if no row comes; None if it need not be."""
        with self._lock:
            return None if self._ended is not None else self._execution.due_in_s()

    def tick(self) -> None:
        """Look at the clock on the wall, by which streams fall silent. A run with `idle` streams does so by itself."""
        with self._lock:
            if self._ended is not None or self._stepping is not None:
                return
            now_s = self._execution.wall.now_s()
            for name in self._blocked:
                self._execution.clock.clocks[name].mark_active(now_s)
            self._do(self._execution.tick())
        self._deliver()

    # ---- answers come out -------------------------------------------------------------------------------------------

    def take(self, *, timeout: float = 0.0) -> pa.Table:
        """The answers that are ready and were not taken yet; none is an empty table.

        timeout: wait for so many seconds, at most, until there are some.
        """
        self._check_takable("take()")
        with self._lock:
            if timeout > 0:
                self._changed.wait_for(lambda: self._ready or self._ended, timeout)
            if not self._ready and self._error is not None:
                raise self._error
            found, self._ready = self._ready, deque()
            self._ready_rows = 0
            self._changed.notify_all()
        return pa.Table.from_batches(as_batches(found), schema=self._execution.plan.output_schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The answers as they come, until the run is finished or closed. Waits for them, so somebody else pushes."""
        self._check_takable("iteration")
        while True:
            batch = self.next_batch()
            if batch is None:
                return
            yield batch

    def next_batch(self, *, wait: bool = True) -> pa.RecordBatch | None:
        """The next answers; None at the end, or without `wait` if there are none now. Raises what ended the run."""
        with self._lock:
            if wait:
                self._changed.wait_for(lambda: self._ready or self._ended)
            if self._ready:
                answer = self._ready.popleft()
                self._ready_rows -= answer.num_rows
                self._changed.notify_all()
            elif self._error is not None:
                raise self._error
            else:
                return None
        return as_batch(answer)

    def answer(self) -> pa.Table:
        """What an answer that changes is now: at the watermark, or after `finish` at the last event."""
        with self._lock:
            if self._error is not None:
                raise self._error
            present = self._execution.answer()
        if present is None:
            raise UnsupportedError(
                "this query gives rows that stay, so it has no present answer",
                hint="take() gives the rows that are ready; answers change with GROUP BY, DISTINCT, set operations and "
                "ORDER BY … LIMIT",
            )
        return present

    def metrics(self) -> dict[str, Any]:
        """The numbers of this run so far; late rows by stream are under `late_by_stream`."""
        with self._lock:
            waiting = self._ready_rows
            return {**self._execution.report().as_dict(), "waiting_answers": waiting}

    def is_latest_of(self, metrics: object) -> bool:
        """Whether these are the numbers of this run, which are brought up to date when they are asked for."""
        return self._execution.metrics is metrics

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answers."""
        return self._execution.plan.output_schema

    @property
    def is_open(self) -> bool:
        """Whether rows may still be pushed."""
        return self._ended is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None and self._ended is None:
            self.finish()
        else:
            self.close()

    def __repr__(self) -> str:
        state = self._ended or "open"
        return f"<Run over {', '.join(self._execution.streams)}: {state}, {self._ready_rows:,} answers to take>"

    def _repr_html_(self) -> str:
        """For notebooks: how far the run is."""
        from watersmeet.io.showing import html_table

        told = self.metrics()
        shown = ["rows_in", "results", "waiting_answers", "late_rows", "window_rows", "held_back_by"]
        cells = [[name, str(told[name])] for name in shown]
        return (
            f"<p><b>Run</b> over {escape(', '.join(self._execution.streams))}: {self._ended or 'open'}</p>"
            + html_table(["", ""], cells)
        )

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _do(self, blocks: Blocks) -> None:
        """One step of the query. An error inside it leaves the operators half way, so the run ends with it."""
        self._stepping, self._breath_s = threading.get_ident(), monotonic()
        found: list[Answer] = []
        try:
            for one in blocks:
                if one.num_rows:
                    found.append(one)
                if monotonic() > self._breath_s + BREATH_S:
                    self._let_others(found)
            self._write_beside()
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            self._stepping = None
        if found:
            self._hand_on(found)

    def _let_others(self, found: list[Answer]) -> None:
        """Between two blocks of the answers of a step that takes long: they are handed on, and others have the lock for
        a moment, who may end the run."""
        if found:
            self._hand_on(found)
            found.clear()
        if self._execution.operator.to_come >= MANY and self._ready_rows >= self._max_waiting:
            self._wait_for_room(lambda: "of the last rows not all answers were given", None)
        self._changed.wait(SHORTEST_S)
        self._check_still_open()
        self._breath_s = monotonic()

    def _hand_on(self, found: list[Answer]) -> None:
        if self._on_answer is not None:
            on_answer = self._on_answer
            self._outgoing.extend(partial(on_answer, as_batch(answer)) for answer in found)
            if self._stepping is not None and len(self._outgoing) > MOST_OUTGOING:
                self._lock.release()
                try:
                    self._deliver()
                finally:
                    self._lock.acquire()
            return
        self._ready.extend(found)
        for answer in found:
            self._ready_rows += answer.num_rows
        self._changed.notify_all()
        if self.on_ready is not None:
            self.on_ready()

    def _write_beside(self) -> None:
        if self._side is not None:
            self._side.write()
        else:
            self._execution.clock.side.take()  # they are counted

    def _keep_beside(self) -> None:
        if self._side is not None:
            self._side.close()

    def _deliver(self) -> None:
        """Call the user's functions. What they push is answered after the call they are in."""
        if not self._outgoing or self._deliverer == threading.get_ident():
            return
        with self._delivery:
            self._deliverer = threading.get_ident()
            try:
                while self._outgoing:
                    self._outgoing.popleft()()
            except BaseException as error:
                with self._lock:
                    self._fail(error)
                raise
            finally:
                self._deliverer = None

    def _wait_for_room(self, what_went_in: Callable[[], str], timeout: float | None) -> None:
        timeout = self._timeout if timeout is None else timeout
        until_s = None if timeout is None else monotonic() + timeout
        while self._ready_rows >= self._max_waiting and self._ended is None:
            left_s = None if until_s is None else until_s - monotonic()
            if left_s is not None and left_s <= 0:
                raise RunError(
                    f"{self._ready_rows:,} rows of the answer wait to be taken, which is as many as may wait, and "
                    f"nobody made room for {timeout:g} s; {what_went_in()}",
                    hint="take() them, iterate over the run in another thread, start(on_answer=…), or "
                    "start(max_waiting=…)",
                )
            self._changed.wait(left_s)
        self._check_still_open()

    def _wait_for_turn(self) -> None:
        """While another thread is in the middle of a step and lets others have the lock."""
        if self._stepping == threading.get_ident():
            raise RunError("on_answer cannot push while more answers of one step are being made than may wait")
        while self._stepping is not None and self._ended is None:
            self._changed.wait(BREATH_S)

    def _check_open(self) -> None:
        if self._stepping is not None:
            self._wait_for_turn()
        self._check_still_open()

    def _check_still_open(self) -> None:
        if self._error is not None:
            raise self._error
        if self._ended is not None:
            raise RunError(
                f"the run is {self._ended}, so no more rows can be pushed", hint="query.start() begins another"
            )

    def _check_takable(self, how: str) -> None:
        if self._on_answer is not None:
            raise RunError(
                f"the answers of this run go to on_answer, so there is nothing for {how}",
                hint="start() without on_answer keeps them to be taken",
            )

    def _fail(self, error: BaseException) -> None:
        if self._ended is not None:
            return
        if not isinstance(error, Exception):
            error = RunError(f"the run was interrupted ({type(error).__name__}) in the middle of a step")
        self._error = error
        self._execution.abort(error)
        if self._side is not None:
            self._side.abort()
        self._end("ended by an error")

    def _end(self, how: str) -> None:
        self._ended = how
        self._changed.notify_all()
        if self.on_ready is not None:
            self.on_ready()


def _taken_of(name: str, pieces: list[Rows], number: int) -> str:
    total, before = sum(map(len, pieces)), sum(map(len, pieces[:number]))
    taken = f"the first {before:,} of {total:,}" if before else "none"
    return f"of the rows pushed to {name!r} {taken} went in"
