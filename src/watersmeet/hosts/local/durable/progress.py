"""How far a durable run is, by the numbers of its batches, and by the rows that have come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet.hosts.local.durable.batches import Step
from watersmeet.runtime.clock import QueryClock


@dataclass
class Progress:
    number: int = -1  # the last batch that was answered
    written: int = -1  # the last in the journal
    saved: int = -1  # the last whose state was copied to be saved
    given: int = -1  # the last whose answers, if any, were handed on
    given_before: int = -1  # the last of those that were taken by who gets them in a life before
    answered: int = -1  # the last that gave answers
    answered_before: int = -1  # the last of those that no life repeats any more
    first: int = 0  # the first of this life
    repeated: int = 0  # how many were repeated in this life
    failed: int | None = None  # the one that could not be answered
    error: BaseException | None = None  # what ended the run, if something went wrong
    rows_before: int = 0  # that came before this life
    seconds: float = 0.0  # that batches of this life took, from what came to its answers


class Unanswered:
    """How many rows of each stream have come, also where the query has failed and they are only written down."""

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
