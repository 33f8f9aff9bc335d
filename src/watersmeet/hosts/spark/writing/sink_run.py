"""A start of a run as the sinks of its checkpoint know it: its name, and what they have taken."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from watersmeet.hosts.spark.checkpoints.checkpoint import METADATA, Checkpoint, CommittedBatches
from watersmeet.io.connectors.contract import Claimed, Start
from watersmeet.runtime.side_output import side_run


class SinkRun:
    def __init__(self, checkpoint: Checkpoint, *, durable: bool, is_shared: bool = False) -> None:
        """durable: a later run may go on with the checkpoint, or with a copy of it. is_shared: it is that of several
        queries, whose batches have the same numbers."""
        self.checkpoint = checkpoint
        self.is_shared, self._durable = is_shared, durable
        self._claimed: list[Claimed] = []

    @cached_property
    def name(self) -> str:
        return self.checkpoint.run_name()

    def name_for(self, query: str) -> str:
        """By which the sink of a query knows the run: two may write to one place."""
        return side_run(self.name, query) if self.is_shared else self.name

    @cached_property
    def goes_on(self) -> bool:
        """Going on, what is there may be another query's: what was there before was replaced when this one began."""
        return self.checkpoint.place.read(METADATA) is not None

    @cached_property
    def _committed(self) -> CommittedBatches:
        return CommittedBatches(self.checkpoint)

    @cached_property
    def taken(self) -> dict[str, int]:
        """The last batch that each sink has for good."""
        return self._committed.known()

    @property
    def noted(self) -> Callable[[str, int], None]:
        return self._committed.add

    @cached_property
    def start(self) -> Start | None:
        return self.checkpoint.notes.new_start() if self._durable else None

    def claims(self, *claimed: Claimed) -> None:
        self._claimed += claimed

    def opened(self) -> None:
        """All sinks have been."""
        if self._claimed and self.start is not None:
            self.checkpoint.notes.sinks_opened(self.start, self._claimed)

    def check(self, committed: dict[str, int]) -> None:
        """Refuse sinks that are ahead of the checkpoint."""
        for name, number in committed.items():
            self.checkpoint.refuse_newer(name, number)
