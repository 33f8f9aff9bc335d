"""The readers of a durable run, and how far each has been read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.batches import Step
from watersmeet.io.connectors.contract import Range, Reader
from watersmeet.runtime.left_out import Tell
from watersmeet.runtime.metrics import Metrics


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
