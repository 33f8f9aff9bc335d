"""Files of this machine that a path stands for, of which there may be a million: looked for only when there may be new
ones, and only those that nobody knows are looked at."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import monotonic, time_ns

from watersmeet.io.connectors.folder_source import Found
from watersmeet.io.path_formats import is_data_name, is_hidden

# A folder whose own time has stood still since before the last listing holds nothing new; some file systems do not
# keep that time, so now and then it is read all the same.
STEADY_NS = 2_000_000_000
ANYWAY_S = 60.0


class LocalFolder:
    """A file, a folder or a pattern. Files go by their names in the folder, which for a pattern is what stands before
    the first part with a `*` or the like: so they are the same however the path is written, and if all is moved."""

    def __init__(self, where: str, kind: str | None) -> None:
        """kind: the format by which files are named; None if any file is data that is not hidden."""
        self.address, self._kind = where, kind
        self._target = Path(where).expanduser()
        self._is_pattern = glob.has_magic(where) and not self._target.exists()
        self._above, self._pattern = self._target.parent, self._target.name  # the folder that a file or a pattern is in
        while self._is_pattern and glob.has_magic(str(self._above)):
            self._above, self._pattern = self._above.parent, f"{self._above.name}/{self._pattern}"
        self._listed_at_s = 0.0
        self._changed_ns: int | None = None  # when the folder was, at the last listing; None if that says nothing

    def file(self, name: str) -> Path:
        return (self._above if self._is_pattern or self._is_single(name) else self._target) / name

    def _is_single(self, name: str) -> bool:
        """Whether this is the file that was given."""
        return not self._is_pattern and name == self._target.name and not self._target.is_dir()

    def look_at(self, name: str) -> Found | None:
        """A file as it is now; None if it is not there."""
        try:
            status = os.stat(self.file(name))
        except OSError:
            return None
        return Found(status.st_mtime_ns, name, status.st_size)

    def is_gone(self) -> bool:
        return not self._is_pattern and not self._target.exists()

    def stands_still(self) -> bool:
        """Whether nothing can have come since the last listing."""
        if self._changed_ns is None or monotonic() > self._listed_at_s + ANYWAY_S:
            return False
        return self._changed() == self._changed_ns

    def listed(self, is_known: Callable[[str], bool]) -> tuple[list[str], list[Found]]:
        """The names of all files that are there, and those of data that are not known."""
        self._changed_ns, self._listed_at_s = self._changed(), monotonic()
        names = self._names()
        new = [name for name in names if not is_known(name) and self._is_data(name)]
        return names, list(self._found(new))

    def _names(self) -> list[str]:
        if self._target.is_dir():
            with os.scandir(self._target) as entries:
                return [entry.name for entry in entries if entry.is_file()]
        if self._is_pattern:
            found = glob.glob(self._pattern, root_dir=self._above, recursive=True)
            return [name for name in found if os.path.isfile(f"{self._above}/{name}")]
        return [self._target.name] if self._target.is_file() else []

    def _is_data(self, name: str) -> bool:
        if self._is_single(name):
            return True
        base = os.path.basename(name)
        return not is_hidden(base) if self._kind is None else is_data_name(base, self._kind)

    def _found(self, names: Iterable[str]) -> Iterator[Found]:
        within = f"{self._target if self._target.is_dir() else self._above}/"
        for name in names:
            try:
                status = os.stat(within + name)
            except FileNotFoundError:  # it was renamed or removed since
                continue
            yield Found(status.st_mtime_ns, name, status.st_size)

    def _changed(self) -> int | None:
        """When names came into the folder or left it; None if that was just now, so that more may come unseen."""
        try:
            changed_ns = os.stat(self._target).st_mtime_ns if self._target.is_dir() else None
        except OSError:
            return None
        return changed_ns if changed_ns is not None and time_ns() - changed_ns > STEADY_NS else None
