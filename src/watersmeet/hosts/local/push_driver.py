"""Rows that an application pushes, joined in the thread that pushes them, one push at a time."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from typing import Any, Protocol

import pyarrow as pa

from watersmeet.errors import RunError
from watersmeet.hosts.local.answer_queue import AnswerQueue
from watersmeet.hosts.local.driver import Driver
from watersmeet.hosts.local.news import News
from watersmeet.hosts.local.pushed_execution import PushedExecution
from watersmeet.hosts.local.side_files import SideFiles
from watersmeet.operators.answers import Answer, as_batch
from watersmeet.operators.contract import Rows
from watersmeet.runtime.beginning import Beginning
from watersmeet.runtime.floods import MANY
from watersmeet.runtime.run_settings import Answers

MOST_OUTGOING = 16  # blocks of answers for on_answer that wait for a step to end
BREATH_S, SHORTEST_S = 0.1, 0.0005  # how long a step may keep the lock, and for how long it lets go of it
# How long the thread sleeps that looks at the clock on the wall: rows may come meanwhile, and then the next look is due
# later, or for the first time.
LONGEST_SLEEP_S, SHORTEST_SLEEP_S = 0.5, 0.002


class Together(Protocol):
    """Queries that are given the same rows, one after the other, with one lock."""

    lock: threading.Lock
    turn: int | None  # the thread in which they are being given something

    def part_with(self, driver: PushDriver) -> None:
        """One is given something by itself from now on."""

    def has_ended(self, driver: PushDriver) -> None:
        """One is given nothing more."""


class PushDriver(Driver):
    def __init__(
        self,
        execution: PushedExecution,
        answers: Answers,
        *,
        watched: bool = True,
        writes_beside: bool = False,
        together: Together | None = None,
    ) -> None:
        """watched: whether a thread looks at the clock on the wall; if not, whoever moves that clock calls `tick`.
        writes_beside: whether bad records and late rows go to the sinks that streams name, or are only counted.
        together: the queries that are given the same rows; these come by them."""
        side = execution.clock.side
        side.collects = writes_beside
        self._side = SideFiles(side) if writes_beside and side.sinks else None
        execution.load_again()
        execution.is_at_hand = lambda name: self._stepping is not None or name in self._blocked
        self._on_answer, self._timeout = answers.on_answer, answers.timeout_s
        self._together = together
        self._lock = threading.Lock() if together is None else together.lock
        self._changed = News(self._lock)  # answers came or went, or the run ended
        self._ready = AnswerQueue(answers.max_waiting, self._changed)
        super().__init__(execution, self._ready if answers.on_answer is None else None)
        self._ended: str | None = None
        self._error: BaseException | None = None
        self._blocked: list[str] = []  # the streams whose rows wait for room: they are not silent
        self._stepping: int | None = None  # the thread that is in the middle of a step, also while others have the lock
        self._breath_s = 0.0  # when others last had it
        # What goes to the user's own functions, in order; they are called without the lock, one at a time.
        self._outgoing: deque[Callable[[], Any]] = deque()
        self._delivery = threading.Lock()
        self._deliverer: int | None = None
        on_late = answers.on_late
        if on_late is not None:
            outgoing = self._outgoing
            execution.on_late = lambda name, rows: outgoing.append(partial(on_late, name, rows))
        if watched and execution.clock.watches_the_wall:
            forgettable = weakref.ref(self)  # the thread ends when nobody has the run any more
            threading.Thread(target=_watch, args=[forgettable], name="watersmeet watches silence", daemon=True).start()

    # ---- rows and time go in ----------------------------------------------------------------------------------------

    def begin_late(self, beginning: Beginning) -> None:
        """Before the first row: from where others are."""
        self._step(self.execution.begin_late, beginning)

    def push(self, name: str, rows: Any, timeout: float | None) -> None:
        execution = self.execution
        with self._lock:
            if self._stepping is not None or self._ended is not None or self._together is not None:
                self._check_open()
                self._go_alone()
            pieces = execution.rows_of(name, rows)
            if execution.reloaded:
                execution.take_loads()
            for number, piece in enumerate(pieces):
                if self._ready.rows >= self._ready.most_rows:
                    self._blocked.append(name)
                    try:
                        self._wait_for_room(partial(taken_of, name, pieces, number), timeout)
                    finally:
                        self._blocked.remove(name)
                self._do(execution.push, name, piece)
        if self._outgoing:
            self._deliver()

    def advance(self, name: str, until_us: int) -> None:
        self.execution.check_promise(name)
        self._step(self.execution.promise, name, until_us)

    def end(self, name: str) -> None:
        clock = self.execution.clock.clocks[name]
        self._step(lambda: [] if clock.ended else self.execution.end([name]))

    def flush(self) -> None:
        self._step(self.execution.flush)

    def _step(self, step: Callable[..., Iterable[Answer]], *of: Any) -> None:
        with self._lock:
            self._check_open()
            self._go_alone()
            self._do(step, *of)
        self._deliver()

    # ---- rows and time that several are given together --------------------------------------------------------------

    def wait_for_room(self, what_went_in: Callable[[], str], timeout: float | None) -> None:
        """Until more may be answered, or nothing more is."""
        try:
            self._wait_for_room(what_went_in, timeout)
        except RunError:
            if self._ended is None:
                raise

    def take_part(self, step: Callable[[PushedExecution], Iterable[Answer]]) -> None:
        """One step of all that are given the same, who hold the lock."""
        if self._ended is None:
            self._do(step, self.execution)

    def finish_part(self) -> None:
        if self._ended is None:
            self._do(self.execution.finish)
            self._end("finished")
            self._keep_beside()

    def fail_in_turn(self, error: BaseException) -> None:
        self._fail(error)

    def deliver(self) -> None:
        self._deliver()

    # ---- life -------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        with self._lock:
            self.raise_failure()
            self._wait_for_turn()
            if self._ended is None:
                self._go_alone()
                self._do(self.execution.finish)
                self._end("finished")
                self._keep_beside()
        self._deliver()

    def stop(self) -> None:
        with self._lock:
            if self._ended is None:
                self.execution.report()
                self.execution.close()
                self._end("stopped")
                self._keep_beside()

    def close(self, error: BaseException | None) -> None:
        if error is None:
            self.finish()
        else:
            self.stop()

    def wait(self, timeout: float | None) -> bool:
        if self._deliverer == threading.get_ident():
            raise RunError("wait() would wait for ever inside on_answer or on_late", hint="call it from another thread")
        with self._lock:
            self._changed.wait_for(lambda: self._ended is not None, timeout)
            self.raise_failure()
            return self._ended is not None

    def fail(self, error: BaseException) -> None:
        with self._lock:
            self._fail(error)

    def due_in_s(self) -> float | None:
        """In how many seconds the clock on the wall is to be looked at if no row comes; None if it need not be."""
        with self._lock:
            return None if self._ended is not None else self.execution.due_in_s()

    def tick(self) -> None:
        """Look at the clock on the wall, by which streams fall silent. A run with `idle` streams does so by itself."""
        with self._lock:
            if self._ended is not None or self._stepping is not None:
                return
            now_us = self.execution.wall.now_us()
            for name in self._blocked:
                self.execution.clock.clocks[name].mark_active(now_us)
            self._do(self.execution.tick)
        self._deliver()

    # ---- what it is now ---------------------------------------------------------------------------------------------

    def taken(self, name: str) -> int:
        with self._lock:
            return self.execution.clock.clocks[name].came

    def answer(self) -> pa.Table | None:
        with self._lock:
            return self.execution.answer()

    def metrics(self) -> dict[str, Any]:
        with self._lock:
            # Of one that has ended what it shared may go on.
            has_left = self._ended is not None and self._together is not None
            return (self.execution.metrics if has_left else self.execution.report()).as_dict()

    @property
    def failure(self) -> BaseException | None:
        return self._error

    @property
    def is_open(self) -> bool:
        return self._ended is None

    @property
    def state(self) -> str:
        return self._ended or "open"

    @property
    def extent(self) -> str:
        return f"{self._ready.rows:,} answers to take"

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _do(self, step: Callable[..., Iterable[Answer]], *of: Any) -> None:
        """One step of the query. An error inside it leaves the operators half way, so the run ends with it."""
        self._stepping, self._breath_s = threading.get_ident(), monotonic()
        found: list[Answer] = []
        try:
            for one in step(*of):
                if one.num_rows:
                    found.append(one)
                if monotonic() > self._breath_s + BREATH_S:
                    self._let_others(found)
            if self._side is not None:
                self._side.write()
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
        if self.execution.operator.to_come >= MANY and self._ready.rows >= self._ready.most_rows:
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
        self._ready.put(found)

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
        while self._ready.rows >= self._ready.most_rows and self._ended is None:
            left_s = None if until_s is None else until_s - monotonic()
            if left_s is not None and left_s <= 0:
                raise RunError(
                    f"{self._ready.rows:,} rows of the answer wait to be taken, which is as many as may wait, and "
                    f"nobody made room for {timeout:g} s; {what_went_in()}",
                    hint="take() them, iterate over the run in another thread, start(on_answer=…), or "
                    "start(max_waiting=…)",
                )
            self._changed.wait(left_s)
        self._check_still_open()

    def _wait_for_turn(self) -> None:
        """While another thread is in the middle of a step and lets others have the lock."""
        if threading.get_ident() in (self._stepping, None if self._together is None else self._together.turn):
            raise pushing_meanwhile()
        while self._is_in_hand and self._ended is None:
            self._changed.wait(BREATH_S)

    @property
    def _is_in_hand(self) -> bool:
        return self._stepping is not None or (self._together is not None and self._together.turn is not None)

    def _go_alone(self) -> None:
        """What comes now is for this query alone."""
        if self._together is not None:
            together, self._together = self._together, None
            try:
                together.part_with(self)
            except BaseException as error:
                self._fail(error)
                raise

    def _check_open(self) -> None:
        if self._is_in_hand:
            self._wait_for_turn()
        self._check_still_open()

    def _check_still_open(self) -> None:
        if self._ended is not None:
            self.raise_failure()
            raise RunError(
                f"the run is {self._ended}, so no more rows can be pushed", hint="query.start() begins another"
            )

    def _fail(self, error: BaseException) -> None:
        if self._ended is not None:
            return
        if not isinstance(error, Exception):
            error = RunError(f"the run was interrupted ({type(error).__name__}) in the middle of a step")
        self._error = error
        self._raised_in.add(threading.get_ident())  # as it is raised here
        self.execution.abort(error)
        if self._side is not None:
            self._side.abort()
        self._end("ended by an error")

    def _end(self, how: str) -> None:
        self._ended = how
        self._ready.end()
        if self._together is not None:
            self._together.has_ended(self)


def pushing_meanwhile() -> RunError:
    return RunError("on_answer cannot push while more answers of one step are being made than may wait")


def taken_of(name: str, pieces: list[Rows], number: int) -> str:
    total, before = sum(map(len, pieces)), sum(map(len, pieces[:number]))
    taken = f"the first {before:,} of {total:,}" if before else "none"
    return f"of the rows pushed to {name!r} {taken} went in"


def _watch(forgettable: weakref.ref[PushDriver]) -> None:
    """Look at the clock on the wall when that is due, for a run that nobody calls: its streams may fall silent."""
    while True:
        driver = forgettable()
        if driver is None or not driver.is_open:
            return
        due_s = driver.due_in_s()
        if due_s is not None and due_s <= 0:
            try:
                driver.tick()
            except BaseException:  # the run keeps it, and raises it where somebody waits
                return
            due_s = driver.due_in_s()
        del driver
        time.sleep(LONGEST_SLEEP_S if due_s is None else min(max(due_s, SHORTEST_SLEEP_S), LONGEST_SLEEP_S))
