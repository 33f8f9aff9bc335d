"""The files of a folder that are new, of which there may be a million: looked for only when there may be some."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, time_ns

from watersmeet.io.files import is_data_name

FEW = 1_000  # files are looked for as often as somebody asks
SHARE = 10  # of more, the folder is read again after so many times as long as that took
# A folder whose own time has stood still since before the last listing holds nothing new; some file systems do not
# keep that time, so now and then it is read all the same.
STEADY_NS = 2_000_000_000
ANYWAY_S = 60.0


class Listing:
    def __init__(self, where: str, kind: str) -> None:
        """where: a file, a folder or a pattern."""
        self._where, self._kind = where, kind
        self._target = Path(where).expanduser()
        self._ask_at_s = 0.0
        self._listed_at_s = 0.0
        self._changed_ns: int | None = None  # when the folder was, at the last listing; None if that says nothing

    def new(self, is_known: Callable[[str], bool]) -> list[str]:
        """Files that are not known, by the time they were changed."""
        now_s = monotonic()
        if now_s < self._ask_at_s or self._stands_still(now_s):
            return []
        self._changed_ns = self._changed()
        many, paths = self._paths(is_known)
        took_s = monotonic() - now_s
        self._listed_at_s = monotonic()
        self._ask_at_s = self._listed_at_s + (SHARE * took_s if many > FEW else 0.0)
        return paths

    def _stands_still(self, now_s: float) -> bool:
        if self._changed_ns is None or now_s > self._listed_at_s + ANYWAY_S:
            return False
        return self._changed() == self._changed_ns

    def _changed(self) -> int | None:
        """When names came into the folder or left it; None if that was just now, so that more may come unseen."""
        try:
            changed_ns = os.stat(self._target).st_mtime_ns if self._target.is_dir() else None
        except OSError:
            return None
        return changed_ns if changed_ns is not None and time_ns() - changed_ns > STEADY_NS else None

    def _paths(self, is_known: Callable[[str], bool]) -> tuple[int, list[str]]:
        """How many files there are, and the new ones among them."""
        if self._target.is_dir():
            with os.scandir(self._target) as entries:
                names = [entry.path for entry in entries if entry.is_file()]
        elif glob.has_magic(self._where):
            names = [path for path in glob.glob(str(self._target), recursive=True) if os.path.isfile(path)]
        else:
            names = [str(self._target)] if self._target.is_file() else []
        found = []
        for path in names:
            if not is_known(path) and (path == str(self._target) or is_data_name(os.path.basename(path), self._kind)):
                with suppress(FileNotFoundError):  # it was renamed or removed since
                    found.append((os.stat(path).st_mtime_ns, path))
        return len(names), [path for _, path in sorted(found)]
