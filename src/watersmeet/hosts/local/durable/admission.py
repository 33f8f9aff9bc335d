"""What has come, as the steps of a batch: their rows are looked at, and what does not fit is refused."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.batches import Ready, Step, as_one, mergeable
from watersmeet.hosts.local.durable.input_queue import Arrived
from watersmeet.hosts.local.pushed_execution import PUSHED
from watersmeet.runtime.bad_records import refusal
from watersmeet.runtime.clock import QueryClock


class Admission:
    def __init__(self, clock: QueryClock) -> None:
        self._clock = clock

    def accepted(self, arrived: Sequence[Arrived]) -> list[Ready]:
        """The steps of a batch with their rows: what was pushed into one stream is one step. Whoever pushed what does
        not fit is told so, and it is in no step."""
        found: list[Ready] = []
        for places in mergeable([one.step for one in arrived]):
            some = [arrived[i] for i in places]
            try:
                step = as_one([one.step for one in some])
                found.append(self._checked(step))
            except Exception:
                fitting = [one.step for one in some if self._fits(one)]
                if fitting:
                    found.append(self._checked(as_one(fitting)))
        return found

    def ready(self, step: Step) -> Ready:
        """A step with its rows and their times, checked, apart from what could not be read."""
        if step.batch is None:
            return Ready(step)
        clock = self._clock.clocks[step.stream]
        if clock.ended:
            raise RunError(f"stream {step.stream!r} has ended, so no more rows of it can come")
        return Ready(
            step, clock.timed_batch(step.batch.rows, step.batch.bad, place=PUSHED if step.kind == "pushed" else None)
        )

    def _checked(self, step: Step) -> Ready:
        """Raises what ends the run before the step is written down: bad records, where the stream does not go on."""
        ready = self.ready(step)
        if ready.timed is not None and ready.timed.bad is not None:
            stream = self._clock.clocks[step.stream].stream
            if not stream.arrival.keeps_going:
                raise refusal(stream, ready.timed.bad)
        return ready

    def _fits(self, one: Arrived) -> bool:
        try:
            self._checked(one.step)
        except Exception as error:
            if one.logged is None:
                raise
            one.logged.set_exception(error)  # only what was pushed can be refused
            return False
        return True
