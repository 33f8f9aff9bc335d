"""The files of one commit while they are written, under names that no reader looks at: one file, or some in a folder
for each value of some columns. Whoever has them written puts them in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from watersmeet.io.partitioned import parted
from watersmeet.io.whole_files import sync
from watersmeet.io.writers import WRITERS, Writer

OPEN_FILES = 64


def put_in_place(folder: Path, files: Mapping[str, str], into: Path, *, on_disk: bool = False) -> None:
    """Move files that were written below a folder to where they belong. on_disk: also after a crash of the machine."""
    parents = {parent for place in files.values() for parent in Path(place).parents}
    for parent in sorted(parents - {Path()}):
        (into / parent).mkdir(parents=True, exist_ok=True)
    for name, place in files.items():
        (folder / name).replace(into / place)
    for parent in parents if on_disk else ():
        sync(into / parent)


class Drafts:
    def __init__(
        self,
        folder: Path,
        kind: str,
        schema: pa.Schema,
        options: Mapping[str, str],
        columns: Sequence[str],
        names: Callable[[str, int], tuple[str, str]],
        start: Path | None = None,
        threads: int = 1,
    ) -> None:
        """names: what a file is called below `folder`, and where it belongs, by the folder of its values and how many
        were before it. start: a file whose content comes first. threads: in how many rows may become text."""
        self._folder, self._columns, self._names = folder, tuple(columns), names
        self._schema = pa.schema([one for one in schema if one.name not in columns]) if columns else schema
        self._kind, self._options, self._start, self._threads = kind, options, start, threads
        self._open: dict[str, Writer] = {}  # the one that was written to last is the last
        self._places: dict[str, str] = {}
        if not self._columns:  # also if no row comes
            self._writer("")

    def write(self, batch: pa.RecordBatch) -> None:
        if not self._columns:
            self._open[""].write(batch)
            return
        for folder, rows in parted(batch, self._columns, self._schema.names):
            self._writer(folder).write(rows)

    def finish(self) -> dict[str, str]:
        """Where each file belongs, by its name."""
        while self._open:
            self._open.pop(next(iter(self._open))).close()
        return self._places

    def discard(self) -> None:
        while self._open:
            self._open.popitem()[1].discard()
        for name in self._places:
            (self._folder / name).unlink(missing_ok=True)

    def _writer(self, folder: str) -> Writer:
        writer = self._open.pop(folder, None)
        if writer is None:
            if len(self._open) >= OPEN_FILES:
                self._open.pop(next(iter(self._open))).close()
            name, place = self._names(folder, len(self._places))
            self._places[name] = place
            writer = self._made(name)
        self._open[folder] = writer
        return writer

    def _made(self, name: str) -> Writer:
        path = self._folder / name
        if "/" in name:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return WRITERS[self._kind](path, self._schema, self._options, self._start, self._threads)
        # Also if the user interrupts: nothing half-written is left behind.
        except BaseException:
            path.unlink(missing_ok=True)
            raise
