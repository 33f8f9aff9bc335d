"""When an operator notices that rows have expired: by probing the time (TPA, NTA), or at its next input (ITA)."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.continuous.delta import Delta


class Trigger(Protocol):
    def reach(self, until: int, entered: Delta) -> int:
        """Up to which instant the operator may look for expired rows, given what came in before `until`."""
        ...

    def noticed(self, left: Delta, entered: Delta) -> Delta:
        """The rows that left, with the event time at which that was noticed."""
        ...


class Timely:
    """Expired rows are noticed as soon as time has come that far, whatever comes in."""

    STATE = ()

    def reach(self, until: int, entered: Delta) -> int:
        return until

    def noticed(self, left: Delta, entered: Delta) -> Delta:
        return left


class AtNextInput:
    """Expired rows are noticed when the next row comes in: late, with the same answers."""

    STATE = ("_clock",)

    def __init__(self) -> None:
        self._clock = BEGINNING_US

    def reach(self, until: int, entered: Delta) -> int:
        if len(entered):
            # A row also tells of what expires at its own instant, and the end is not included: hence + 1.
            self._clock = max(self._clock, int(entered.instants[-1]) + 1)
        return FOREVER_US if until >= FOREVER_US else min(until, self._clock)

    def noticed(self, left: Delta, entered: Delta) -> Delta:
        """At the end of the input nothing comes any more: what is left then is noticed at its instant."""
        if len(left) == 0:
            return left
        place = np.searchsorted(entered.instants, left.instants)
        later = np.append(entered.instants, np.int64(FOREVER_US))[place]
        return replace(left, noticed=np.where(later == FOREVER_US, left.instants, later))
