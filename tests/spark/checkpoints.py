"""Checkpoints as Spark leaves them, without Spark."""

from __future__ import annotations

from pathlib import Path

from watersmeet.hosts.spark.checkpoints.checkpoint import COMMITS, OFFSETS, Checkpoint
from watersmeet.hosts.spark.checkpoints.place import SparkPlace
from watersmeet.hosts.spark.paths import NOTES
from watersmeet.runtime.checkpoints import CheckpointNotes


class Kept(Checkpoint):
    """One of this machine, with batches up to these numbers."""

    def __init__(self, folder: Path, begun: int, committed: int = -1) -> None:
        self.folder, self.place = str(folder), SparkPlace(None, str(folder), is_here=True)
        self.notes = CheckpointNotes(self.place, NOTES)
        self.reach(begun, committed)

    def reach(self, begun: int, committed: int) -> None:
        for log, newest in ((OFFSETS, begun), (COMMITS, committed)):
            (Path(self.folder) / log).mkdir(parents=True, exist_ok=True)
            for number in range(newest + 1):
                (Path(self.folder) / log / str(number)).touch()
