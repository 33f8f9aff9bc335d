"""How many rows of each stream have come, also where the query has failed and they are only written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from watersmeet.hosts.local.durable.batches import Step
from watersmeet.runtime.clock import QueryClock


class Unanswered:
    def __init__(self, clock: QueryClock) -> None:
        self._clock = clock
        self._before: dict[str, int] = {}  # the batch in hand, by stream; kept where it may fail
        self._rows: Counter[str] = Counter()  # in the journal, that a failed query has not seen, by stream

    def remember(self) -> None:
        """A batch begins that may fail."""
        self._before = {name: clock.came for name, clock in self._clock.clocks.items()}

    def leave(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._rows[step.stream] += step.num_rows

    def came(self, stream: str, *, failed: bool) -> int:
        if failed and self._before:
            return self._before[stream] + self._rows[stream]
        return self._clock.clocks[stream].came
