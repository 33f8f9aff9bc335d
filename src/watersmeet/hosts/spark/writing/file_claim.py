"""A folder of files that Spark itself writes, claimed for this start of the run.

No step of Spark's writer asks us whether a batch may count, and one under a number that its log has it passes over. So
it is looked between batches who owns the folder: whoever does not is ended, with a sentence.
"""

from __future__ import annotations

from pathlib import Path

from watersmeet.hosts.spark.checkpoints import starts
from watersmeet.hosts.spark.checkpoints.checkpoint import Checkpoint
from watersmeet.io.connectors.folder_claim import FolderClaim
from watersmeet.io.writers import writable


class FileClaim:
    def __init__(self, name: str, folder: Path, checkpoint: Checkpoint) -> None:
        start = starts.begun(checkpoint)
        self._folder, self._claim = folder, FolderClaim(name, folder, checkpoint.run_name(), start)
        with writable(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with self._claim.taking_over():
                pass
        starts.opened(checkpoint, start, [self._claim])

    def look(self, *, has_written: bool) -> None:
        """Raises if the folder is another start's. has_written: since the last look."""
        with writable(self._folder):
            if not has_written:
                self._claim.check()
                return
            with self._claim.committing():
                pass
