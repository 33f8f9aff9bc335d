"""What of each push is left out of the answer, for whoever pushed it: known when its batch was answered."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
import numpy.typing as npt

from watersmeet.hosts.local.durable.batches import Arrived, LeftOut
from watersmeet.hosts.local.pushed_execution import PUSHED, PushedExecution

_Waiting = tuple[Arrived, Future[LeftOut | None]]
NOTHING = LeftOut()


class PushAccount:
    """Of one batch at a time. Pushes of one stream are let in together, one behind the other."""

    def __init__(self, execution: PushedExecution) -> None:
        self._execution = execution
        self._late: dict[str, list[npt.NDArray[np.int64]]] = {}
        self._pushes: list[_Waiting] = []
        self._before: dict[str, int] = {}

    def begin(self, arrived: Sequence[Arrived]) -> None:
        """What was refused is told so already."""
        self._pushes = [
            (one, one.left_out)
            for one in arrived
            if one.step.kind == "pushed" and one.left_out is not None and not (one.logged and one.logged.done())
        ]
        if self._pushes:
            self._before = {name: clock.rows_in for name, clock in self._execution.clock.clocks.items()}
            self._late = {}
            self._execution.on_late_numbers = lambda name, numbers: self._late.setdefault(name, []).append(numbers)

    def tell(self) -> None:
        """The batch was answered."""
        self._execution.on_late_numbers = None
        by_stream: dict[str, list[_Waiting]] = {}
        for push in self._pushes:
            by_stream.setdefault(push[0].step.stream, []).append(push)
        for stream, pushes in by_stream.items():
            for (_, told), found in zip(pushes, self._left_out(stream, pushes), strict=True):
                told.set_result(found)
        self._pushes = []

    def fail(self) -> None:
        """It was not answered, or not to its end."""
        self._execution.on_late_numbers = None
        for _, told in self._pushes:
            told.set_result(None)
        self._pushes = []

    def _left_out(self, stream: str, pushes: Sequence[_Waiting]) -> list[LeftOut]:
        """Of each push of a stream."""
        if stream not in self._late and not self._execution.clock.clocks[stream].leaves_out:
            return [NOTHING] * len(pushes)
        unread = [self._unread(one) for one, _ in pushes]
        counts = zip(pushes, unread, strict=True)
        let_in = [one.step.num_rows - found.skipped - found.bad for (one, _), found in counts]
        late = self._late_of_each(stream, let_in)
        return [LeftOut(rows, found.skipped, found.bad) for found, rows in zip(unread, late, strict=True)]

    def _late_of_each(self, stream: str, let_in: Sequence[int]) -> list[int]:
        if stream not in self._late:
            return [0] * len(let_in)
        places = np.concatenate(self._late[stream]) - self._before[stream]
        owners = np.searchsorted(np.cumsum(let_in), places, side="right")
        counted: list[int] = np.bincount(owners, minlength=len(let_in)).tolist()
        return counted

    def _unread(self, one: Arrived) -> LeftOut:
        """Rows that are told apart by what they are."""
        clock = self._execution.clock.clocks[one.step.stream]
        if not clock.leaves_out or one.step.batch is None:
            return NOTHING
        timed = clock.timed_batch(one.step.batch.rows, place=PUSHED)
        return LeftOut(0, timed.skipped, 0 if timed.bad is None else timed.bad.num_rows)
