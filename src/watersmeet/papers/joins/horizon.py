"""Which rows may still be asked for, whatever an algorithm keeps besides: H02's removal rule, row by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from watersmeet.operators.kernels.memory import address, writable_address
from watersmeet.papers.joins.contract import COUNTS, ArrivedRows, Int64s
from watersmeet.papers.joins.description import JoinDescription
from watersmeet.papers.joins.kernels import nested, removal
from watersmeet.papers.joins.nested_plan import NestedPlan


class Horizon:
    """The oldest serial of each input that a row to come, of any other input, can still reach."""

    STATE = ("_buffers",)

    def __init__(self, description: JoinDescription) -> None:
        # Only its limits and the places of times and deaths are used: nothing is searched here.
        self._plan = NestedPlan(description, timed=True, refined=False)
        self._buffers = empty_buffers(description)
        self._reach_us = description.reach_us

    def follow(self, arrivals: ArrivedRows, shelf: Int64s) -> None:
        plan = self._plan.aim(shelf)
        proven = self._plan.table[nested.PROVEN]
        removal.follow(*addresses(arrivals), len(arrivals), proven, writable_address(self._buffers))
        removal.remove(plan, writable_address(self._buffers), np.zeros(COUNTS, np.int64), False)

    def expect(self, from_us: int) -> None:
        self._plan.table[nested.PROVEN] = from_us

    def pass_by(self, until_us: int, shelf: Int64s) -> None:
        if lift_silent(self._buffers[nested.LAST :], until_us, self._reach_us).size:
            removal.remove(self._plan.aim(shelf), writable_address(self._buffers), np.zeros(COUNTS, np.int64), False)

    def oldest(self, place: int) -> int:
        return int(self._buffers[nested.TAIL + place])


def lift_silent(last: Int64s, until_us: int, reach_us: Sequence[int]) -> Int64s:
    """Bring the inputs up to a time before which none has a row to come; which of them that moved.

    Only those behind it by more than any window: what the others hold back is not worth a look before their next row.
    """
    last = last[: len(reach_us)]
    silent = np.flatnonzero(until_us - last > max(reach_us))
    last[silent] = until_us
    return silent


def addresses(arrivals: ArrivedRows) -> tuple[int, int, int]:
    if len(arrivals) == 0:
        return 0, 0, 0
    return address(arrivals.streams), address(arrivals.serials), address(arrivals.times)


def empty_buffers(description: JoinDescription) -> Int64s:
    """Buffers before the first row; a table has nothing to come."""
    buffers = np.zeros(nested.BUFFERS_SIZE, np.int64)
    buffers[nested.LAST : nested.LAST + nested.MAX_INPUTS] = nested.UNREAD
    for place in description.static:
        buffers[nested.LAST + place] = nested.ENDED
    return buffers
