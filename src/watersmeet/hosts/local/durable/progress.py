"""How far a durable run is, by the numbers of its batches, by the rows that have come, and by what its readers have
read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from watersmeet.dataclass import dataclass
from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.batches import Step
from watersmeet.io.connectors.contract import Range, Reader
from watersmeet.runtime.clock import QueryClock
from watersmeet.runtime.left_out import Tell
from watersmeet.runtime.metrics import Metrics


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


class Readers:
    def __init__(self, readers: Mapping[str, Reader], tell: Tell) -> None:
        self.of = dict(readers)
        self._ranges: dict[str, Range] = {}  # what every reader has given to batches last
        self._positions: dict[str, Any] = {}
        for reader in self.of.values():
            reader.tell = tell

    def resume(self, positions: Mapping[str, Any]) -> None:
        for name, position in positions.items():
            if name in self.of:
                self.of[name].resume(position)
        self._positions = dict(positions)

    def note(self, steps: Sequence[Step]) -> None:
        """These are in the journal."""
        for step in steps:
            if step.kind == "read" and step.batch is not None:
                self._ranges[step.stream] = step.batch.range

    def positions(self) -> dict[str, Any]:
        """Behind what was noted."""
        for name, range in self._ranges.items():
            self._positions[name] = self.of[name].position_after(range)
        self._ranges.clear()
        return dict(self._positions)

    def read_again(self, step: Step) -> Step:
        """A step of the journal with its rows."""
        if step.kind != "read" or step.batch is None:
            return step
        if step.stream not in self.of:
            raise RunError(
                f"stream {step.stream!r} was read by this run, and has to be read again for the batches that are "
                "repeated, but now it is pushed",
                hint="start it once more as it was, stop it, then change it",
            )
        self.note([step])
        found = self.of[step.stream].again(step.batch.range)
        return replace(step, batch=replace(step.batch, rows=found.rows, bad=found.bad, left_out=found.left_out))

    def report(self, metrics: Metrics) -> None:
        lags = {name: reader.lag() for name, reader in self.of.items()}
        metrics.lag_by_stream = {name: sum(lag.values()) for name, lag in lags.items() if lag}
        changed = {name: reader.changed_files for name, reader in self.of.items()}
        metrics.changed_files = {name: files for name, files in changed.items() if files}
