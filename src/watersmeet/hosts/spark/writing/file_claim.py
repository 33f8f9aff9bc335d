"""A folder of files that Spark itself writes, claimed for this start of the run.

No step of Spark's writer asks us whether a batch may count, and one under a number that its log has it passes over. So
it is looked between batches who owns the folder: whoever does not is ended, with a sentence. A batch that an older
start had in hand meanwhile may still come in before that one looks. It is looked for until the first batch of this
start runs, as it would be taken for this start's own of that number; later ones Spark itself refuses (`RACE`).
"""

from __future__ import annotations

from pathlib import Path

from watersmeet.errors import SinkError
from watersmeet.hosts.spark.writing.sink_run import SinkRun
from watersmeet.io.connectors.files.local_folder import FolderClaim
from watersmeet.io.modes import SPARK_LOG
from watersmeet.io.writers import writable

RACE = "Race while writing batch"  # what Spark says of a batch that its log has by the time it is done


class FileClaim:
    def __init__(self, name: str, folder: Path, run: SinkRun) -> None:
        self._name, self._folder = name, folder
        self._claim = FolderClaim(name, folder, run.name_for(name), run.start)
        self._written = _newest(folder)
        run.check({name: self._written})
        with writable(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with self._claim.taking_over():
                pass
        run.claims(self._claim)

    def look(self, *, has_written: bool) -> None:
        """Raises if the folder is another start's. has_written: since the last look."""
        with writable(self._folder):
            if not has_written:
                self._claim.check()
                return
            with self._claim.committing():
                self._written = _newest(self._folder)

    def has_more(self) -> bool:
        """Whether there are batches that were not there at the last look."""
        return _newest(self._folder) > self._written

    def written_by_another(self) -> SinkError:
        """Noted first: the next start of this checkpoint would pass over its own batch of that number as well."""
        with writable(self._folder):
            self._claim.note_stranger()
        return SinkError(
            f"sink {self._name!r} has a batch that an older start of this run had in hand when this one claimed it; "
            "its answers are not those of this checkpoint",
            hint="end the older start and go on with its checkpoint, or start anew with a new checkpoint and sink",
        )


def _newest(folder: Path) -> int:
    """The last batch that Spark's writer has put there; -1 if none is."""
    log = folder / SPARK_LOG
    names = [one.name.removesuffix(".compact") for one in log.iterdir()] if log.is_dir() else []
    return max((int(name) for name in names if name.isdecimal()), default=-1)
