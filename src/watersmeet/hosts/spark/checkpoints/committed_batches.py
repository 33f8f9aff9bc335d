"""What a checkpoint knows to be in the sinks of its run: the last batches with rows, of those that Spark has committed.

Spark's own log of commits has the numbers of empty batches too, which no sink is given.
"""

from __future__ import annotations

from time import monotonic

from watersmeet.hosts.spark.checkpoints.checkpoint import COMMITS, Checkpoint

_RARELY_S = 60.0  # in a store a note is a job of Spark's


class CommittedBatches:
    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        # The last of each sink, and the one before: Spark may not have committed the last.
        self._numbers: dict[str, list[int]] = checkpoint.notes.get("committed", {})
        self._write_at_s = 0.0

    def known(self) -> dict[str, int]:
        """The last number that a sink has for good, by its name."""
        if not self._numbers:
            return {}
        committed = self._checkpoint.newest(COMMITS)
        found = {name: [one for one in some if one <= committed] for name, some in self._numbers.items()}
        return {name: max(some) for name, some in found.items() if some}

    def add(self, sink: str, number: int) -> None:
        """The sink has the rows of a batch, which Spark commits next."""
        before = [one for one in self._numbers.get(sink, []) if one < number]
        is_first = sink not in self._numbers
        self._numbers[sink] = [*before[-1:], number]
        if is_first or self._checkpoint.place.is_here or monotonic() >= self._write_at_s:
            self._checkpoint.notes.note(committed=self._numbers)
            self._write_at_s = monotonic() + _RARELY_S
