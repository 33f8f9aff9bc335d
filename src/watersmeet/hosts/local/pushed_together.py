"""Queries that are started together and pushed to: a piece of a stream goes to all of them before the next comes.

So what is equal in them is kept and computed once, as it is for queries that are fed by one reading (`pull.py`). Each
has its own clock, sink and metrics, and what goes wrong in one of them ends that one alone. One that is given something
by itself, such as a push that is for nobody else, takes what it needs with it and goes on alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from watersmeet.errors import RunError
from watersmeet.hosts.local.execution import Execution
from watersmeet.hosts.local.push_driver import PushDriver, pushing_meanwhile, taken_of
from watersmeet.hosts.local.pushed_execution import PushedExecution
from watersmeet.hosts.local.static_tables import load_tables_of
from watersmeet.operators.answers import Answer
from watersmeet.operators.contract import Rows
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.script import Job
from watersmeet.runtime.shared_parts import built_together, lines_of_plans
from watersmeet.runtime.shared_windows import share_windows
from watersmeet.runtime.sharing import loaded_once_words, may_share, read_once_words

Step = Callable[[PushedExecution], Iterable[Answer]]


def may_be_together(job: Job) -> bool:
    """Those whose memory is bounded shed other rows then, and each that goes by the clock on the wall looks at it by
    itself."""
    by_the_wall = any(
        one.by_arrival or one.arrival.idle_us is not None or one.arrival.max_future_us is not None
        for one in streams_below(job.plan.root)
    )
    return may_share(job) and job.plan.shedding is None and not by_the_wall


class PushedTogether:
    def __init__(self, jobs: Sequence[Job], tell: Callable[[str], None]) -> None:
        """tell: hears of what they share."""
        self.lock = threading.Lock()
        self.turn: int | None = None
        self._members: list[PushDriver] = []
        self._leaving: list[PushDriver] = []
        built, common = built_together({job.name: job.plan for job in jobs}, shares=True)
        for words in [*read_once_words(jobs), *loaded_once_words(jobs)]:
            tell(words)
        self.executions = _executions(
            jobs, lambda job: PushedExecution(job.plan, built=built[job.name], parts=common, loads=False)
        )
        physical = {name: one.physical for name, one in built.items() if one.physical is not None}
        lines, _ = lines_of_plans(physical)
        share_windows(lines, self.executions, tell)

    def add(self, driver: PushDriver) -> None:
        """Of one of the executions, before the first row comes."""
        self._members.append(driver)

    def abort(self, error: BaseException) -> None:
        """Those that were not added are not begun."""
        for one in self.executions.values():
            if all(driver.execution is not one for driver in self._members):
                one.abort(error)

    def __contains__(self, driver: object) -> bool:
        return driver in self._members

    # ---- rows and time go in ----------------------------------------------------------------------------------------

    def push(self, stream: str, rows: Any, timeout: float | None) -> None:
        """Each piece goes in for all, or for nobody."""

        def give(members: Sequence[PushDriver], name: str) -> None:
            first, *others = (one.execution for one in members)
            pieces = first.rows_of(name, rows, others)
            for number, piece in enumerate(pieces):
                for one in members:
                    one.wait_for_room(partial(taken_of, name, pieces, number), timeout)
                _each(members, partial(_push, name, piece))

        self._in_turn(lambda members: _to_readers(members, stream, give))

    def advance(self, stream: str, until_us: int) -> None:
        def give(members: Sequence[PushDriver], name: str) -> None:
            for one in members:
                one.execution.check_promise(name)
            _each(members, lambda one: one.promise(name, until_us))

        self._in_turn(lambda members: _to_readers(members, stream, give))

    def end(self, stream: str) -> None:
        def give(members: Sequence[PushDriver], name: str) -> None:
            _each(members, lambda one: [] if one.clock.clocks[name].ended else one.end([name]))

        self._in_turn(lambda members: _to_readers(members, stream, give))

    def flush(self) -> None:
        """Each is answered up to an instant of its own, so that parts of answers are not the same from then on."""

        def give(members: Sequence[PushDriver]) -> None:
            for one in members:
                if one.execution.has_parts:
                    one.execution.go_alone()
            _each(members, lambda one: one.flush())

        self._in_turn(give)

    def finish(self) -> None:
        self._in_turn(lambda members: _all(members, lambda one: one.finish_part()))

    # ---- queries leave ----------------------------------------------------------------------------------------------

    def part_with(self, driver: PushDriver) -> None:
        self._members.remove(driver)
        try:
            driver.execution.go_alone()
        except BaseException:
            with suppress(Exception):
                driver.execution.leave_others()
            raise

    def has_ended(self, driver: PushDriver) -> None:
        self._leaving.append(driver)
        if self.turn is None:
            self._let_go()

    def _let_go(self) -> None:
        """What they kept that nobody else needs."""
        while self._leaving:
            driver = self._leaving.pop()
            self._members.remove(driver)
            with suppress(Exception):  # of one that has failed the numbers may not be had
                driver.execution.report()
            driver.execution.leave_others()

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _in_turn(self, give: Callable[[Sequence[PushDriver]], None]) -> None:
        """All are given something; then the user's functions are called, which may push in their turn."""
        if self.turn == threading.get_ident():
            raise pushing_meanwhile()
        members: list[PushDriver] = []
        try:
            with self.lock:
                members += self._members
                self.turn = threading.get_ident()
                try:
                    give(members)
                finally:
                    self.turn = None
                    self._let_go()
        finally:
            _all(members, lambda one: one.deliver())


def _executions(jobs: Sequence[Job], make: Callable[[Job], PushedExecution]) -> Mapping[str, PushedExecution]:
    made: dict[str, PushedExecution] = {}
    try:
        for job in jobs:
            made[job.name] = make(job)
        load_tables_of(list(made.values()), _cannot_begin)
    except BaseException as error:
        for one in made.values():
            one.abort(error)
        raise
    return made


def _cannot_begin(_: Execution, error: Exception) -> None:
    raise error


def _to_readers(members: Sequence[PushDriver], stream: str, give: Callable[[Sequence[PushDriver], str], None]) -> None:
    """Those that look at a stream, and its name as it was declared."""
    readers = [one for one in members if stream.lower() in map(str.lower, one.execution.streams)]
    if readers:  # somebody may have stopped them just now
        give(readers, readers[0].execution.named(stream))


def _push(name: str, piece: Rows, one: PushedExecution) -> Iterable[Answer]:
    if one.reloaded:
        one.take_loads()
    return one.push(name, piece)


def _each(members: Sequence[PushDriver], step: Step) -> None:
    """All go one step. If somebody interrupts this between two of them, the rest would lack what the others have."""
    left = list(members)

    def take(one: PushDriver) -> None:
        left.remove(one)
        one.take_part(step)

    try:
        _all(members, take)
    finally:
        for one in left:
            one.fail_in_turn(RunError("the run was interrupted in the middle of a step"))


def _all(members: Sequence[PushDriver], do: Callable[[PushDriver], None]) -> None:
    """One that fails ends alone, and the others go on; then its failure is raised."""
    failure: BaseException | None = None
    for one in members:
        try:
            do(one)
        except BaseException as error:
            failure = failure or error
    if failure is not None:
        raise failure
