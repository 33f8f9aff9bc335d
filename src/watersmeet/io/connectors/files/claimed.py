"""Who owns a folder of a store: every start of a run puts an object of its own, and the largest name is the newest.

Nothing is replaced there, so that no claim is lost where a store cannot compare before it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow.fs as pa_fs

from watersmeet.io.connectors.claims import TRIES, Claim, Owner, owner_in
from watersmeet.io.connectors.contract import SinkOpening
from watersmeet.io.connectors.files.folder import Folder, put


class StoreClaim:
    def __init__(self, opening: SinkOpening, folder: Folder) -> None:
        self._claim, self._folder = Claim.of(opening), folder
        self._inside = f"_starts-{opening.run}"
        self._own: Owner | None = None

    @property
    def written_by(self) -> str | None:
        return self._claim.written_by

    def take_over(self) -> None:
        if not self._claim.is_made:
            return
        for _ in range(TRIES):
            before = self._names()
            self._own = own = self._next(before)
            self._put(own)
            # Again, if another start has put its object meanwhile: whose is newer is not left to chance.
            if self._names() == sorted({*before, _name(own)}):
                self._forget(before)
                break

    def _next(self, names: Sequence[str]) -> Owner:
        found = [owner for name in names if (owner := self._read(name)) is not None]
        if not found:
            return self._claim.taking_over(None)
        # The newest need not have written anything; what is there is of the newest of those that have.
        by = next((one.token for one in reversed(found) if one.written_by), None)
        return replace(self._claim.taking_over(replace(found[-1], written_by=by)), written_by=None)

    def _forget(self, names: Sequence[str]) -> None:
        """But for the start that has written what is there."""
        for name in names:
            if name.partition("-")[2] != f"{self.written_by}.json":
                with suppress(FileNotFoundError):
                    self._folder.file_system.delete_file(self._path(name))

    def begin_commit(self) -> None:
        """Before the first object of a batch: raises if the folder is another start's."""
        if self._own is None:
            return
        self.check()
        wrote = self._claim.committed(self._own)
        if wrote is not None:
            self._own = wrote
            self._put(wrote)

    def check(self) -> None:
        if self._own is None:
            return
        names = self._names()
        if not names:  # whoever reads the files may have taken away all that was there
            self._put(self._own)
            names = [_name(self._own)]
        self._claim.check(self._own if names[-1] == _name(self._own) else self._read(names[-1]))

    def _names(self) -> list[str]:
        selector = pa_fs.FileSelector(f"{self._folder.path}/{self._inside}", allow_not_found=True)
        found = self._folder.file_system.get_file_info(selector)
        return sorted(one.base_name for one in found if one.base_name.endswith(".json") and one.base_name[0] != ".")

    def _read(self, name: str) -> Owner | None:
        with suppress(FileNotFoundError), self._folder.file_system.open_input_stream(self._path(name)) as stream:
            return owner_in(stream.read(), f"{self._folder.address}/{self._inside}/{name}")
        return None

    def _put(self, owner: Owner) -> None:
        put(self._folder, f"{self._inside}/{_name(owner)}", owner.as_text().encode())

    def _path(self, name: str) -> str:
        return f"{self._folder.path}/{self._inside}/{name}"


def _name(owner: Owner) -> str:
    return f"{owner.start:09d}-{owner.token}.json"
