"""Answers as files, each under the numbers of its batches: a number is there once, whatever happens.

The name of a file says by which run it was written, and up to which batch: after a crash the names tell what the sink
has. How files come to be there whole, and who owns the folder, is told in `local_folder.py` and `store_folder.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pyarrow as pa

from watersmeet.errors import SinkError
from watersmeet.io.connectors.contract import Claimed, NumberedSink, SinkOpening
from watersmeet.io.connectors.files.folder import Folder, kind_of
from watersmeet.io.connectors.files.local_folder import LocalFolder
from watersmeet.io.connectors.files.names import NO_HEADER, PartName
from watersmeet.io.connectors.files.store_folder import StoreFolder
from watersmeet.io.connectors.gone import GO_ON
from watersmeet.io.connectors.lake_options import interval_s
from watersmeet.io.drafts import Drafts
from watersmeet.io.modes import check_replaceable, in_the_way, mode_of
from watersmeet.io.partitioned import partition_columns
from watersmeet.io.path_formats import SPELLINGS
from watersmeet.io.writers import check_settings


class Place(Protocol):
    """A folder that takes the files of batches, printed as its address."""

    @property
    def claim(self) -> Claimed: ...

    def naming_errors(self, hint: str | None = None) -> AbstractContextManager[None]:
        """What goes wrong there becomes a sentence."""

    def take_over(self) -> int:
        """Claim it for this start, and finish or forget what another has left; the number of the batch that a note of
        it tells, or -1."""

    def committed(self, marked: int, largest: int) -> int:
        """The last batch that counts, by that note and by the names of files."""

    def files(self) -> list[str]:
        """What readers see there, by paths in it."""

    def remove(self, files: Sequence[str]) -> None: ...

    def drafting(self) -> AbstractContextManager[Path]:
        """Where the files of a batch are written before they are put there."""

    def publish(self, number: int, drafts: Mapping[str, str]) -> None:
        """Put drafts where they belong, all or none; raises if the folder is another start's."""


class FilesSink(NumberedSink):
    may_forget = True  # files may be taken away by those they are for

    def __init__(self, opening: SinkOpening, place: Place, kind: str, columns: Sequence[str]) -> None:
        """Files of other runs are left alone, and refused unless `mode` says so."""
        self._place, self._kind, self._columns, self._run = place, kind, columns, opening.run
        self._schema, self._options, self._threads = opening.schema, opening.options, opening.threads
        self.commit_every_s = interval_s(opening.name, opening.options, "commit_every")
        self.claim = place.claim
        self._hint = None if opening.start is None else GO_ON
        mode = mode_of(opening.name, opening.options)
        check_settings(kind, opening.options)
        with place.naming_errors(self._hint):
            marked, files = place.take_over(), place.files()
            own = {path: number for path in files if (number := self._number_of(path)) is not None}
            self._committed = place.committed(marked, max(own.values(), default=-1))
            place.remove([path for path, number in own.items() if number > self._committed])
            strangers = [path for path in files if path not in own]
            if strangers and self._committed < 0 and mode != "append":
                self._make_way(strangers, mode)

    def committed(self) -> int:
        return self._committed

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        if number <= self._committed:
            return
        with self._place.naming_errors(self._hint), self._place.drafting() as folder:
            self._place.publish(number, self._drafted(folder, number, rows))
        self._committed = number

    def _drafted(self, folder: Path, number: int, rows: Sequence[pa.RecordBatch]) -> dict[str, str]:
        part = PartName(self._run, number, number, self._kind)
        own = str(part).removesuffix(f".{self._kind}")
        mine = uuid4().hex[:8]  # a start that is refused may write some at the same time

        def names(inside: str, count: int) -> tuple[str, str]:
            return f".{own}-{count:05d}-{mine}.tmp", f"{inside}/{part}".lstrip("/")

        drafts = Drafts(folder, self._kind, self._schema, self._options, self._columns, names, None, self._threads)
        try:
            # A folder of values gets one file.
            for batch in [pa.concat_batches(rows)] if self._columns else rows:
                drafts.write(batch)
            return drafts.finish()
        except BaseException:
            drafts.discard()
            raise

    def _number_of(self, path: str) -> int | None:
        """The last batch in a file; None if it is of another run, or no file of a run."""
        name = PartName.of(path.rpartition("/")[2])
        return name.last if name is not None and name.run == self._run else None

    def _make_way(self, strangers: Sequence[str], mode: str) -> None:
        if mode != "overwrite":
            raise in_the_way(f"{self._place} already holds {strangers[0]}, which another run has written")
        check_replaceable(str(self._place), strangers, self._columns)
        self._place.remove(strangers)


def files_sink(opening: SinkOpening) -> NumberedSink:
    """In a store."""
    columns = _columns(opening)
    folder = Folder(opening.name, opening.options, SinkError)
    kind = kind_of(opening.name, opening.options, "sink", folder)
    return FilesSink(opening, StoreFolder(opening, folder, several=bool(columns)), SPELLINGS.get(kind, kind), columns)


def folder_sink(opening: SinkOpening, path: Path, kind: str) -> NumberedSink:
    """In a folder of this machine."""
    columns = _columns(opening)
    sink = FilesSink(opening, LocalFolder(opening.name, path, opening.run, opening.start), kind, columns)
    if kind in ("csv", "tsv") and opening.options.get("header", "true").lower() != "true":
        (path / f"{NO_HEADER}{opening.run}").touch()  # for those who merge files
    return sink


def _columns(opening: SinkOpening) -> tuple[str, ...]:
    if not opening.schema.names:
        raise SinkError(f"sink {opening.name!r} would have no columns")
    return partition_columns(opening.name, opening.options.get("partition_by"), opening.schema)
