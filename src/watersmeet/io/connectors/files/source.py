"""Files of a store as a stream, by an address such as s3://bucket/folder.

A store may hold more files than can be named with every offset, so the last ones are: what is older than an offset
counts as read in a later life.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from watersmeet.errors import SourceError
from watersmeet.io.connectors.changed_files import MOST_NOTED
from watersmeet.io.connectors.contract import (
    Offsets,
    PartitionedSource,
    SourceBatch,
    SourceOpening,
    Split,
    TableOpening,
)
from watersmeet.io.connectors.files.folder import Folder, kind_of
from watersmeet.io.connectors.folder_source import FolderSource, Found, Life, file_of
from watersmeet.io.files import FileSource, first_schema, readable, undeclared, unknown_types
from watersmeet.io.filesystems import StoreFile, address_of
from watersmeet.io.formats import Format, format_named
from watersmeet.model.arrival import arrival_of
from watersmeet.model.arriving import is_arrival, named_time
from watersmeet.model.catalog import Stream
from watersmeet.model.names import column_named
from watersmeet.model.stream_options import STREAM_OPTIONS

READ_ROWS = 1 << 16


def files_source(opening: SourceOpening) -> PartitionedSource:
    return StoreFiles(opening.name, opening.options, opening.columns, opening.time)


class StoreFiles(FolderSource):
    partition = "files"

    def __init__(
        self, name: str, options: Mapping[str, str], declared: pa.Schema | None, time: str | None = None
    ) -> None:
        super().__init__(name)
        self._options, self._declared, self._time = dict(options), declared, time
        self._is_guessed = False  # the declared columns are those of the first file
        self._keeps_going = options.get("on_bad", "error").lower() != "error"
        self._folder = Folder(name, options, SourceError)
        self.place = self._folder.address

    def __getstate__(self) -> dict[str, Any]:
        own = {name: value for name, value in super().__getstate__().items() if name not in ("_source", "_format")}
        if "_source" in self.__dict__:  # who reads elsewhere need not look at the first file again
            own["_declared"], own["_is_guessed"] = self._source.schema, not self._source.declared
        return own

    # ---- what it is -------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        return self._source.schema

    @property
    def description(self) -> str:
        return f"{self._format.kind} {self._folder.address}"

    @cached_property
    def _format(self) -> Format:
        return format_named(kind_of(self._name, self._options, "source", self._folder), self._options)

    @cached_property
    def _source(self) -> FileSource:
        """How files are read."""
        where, rounding = self._folder.address, self._options.get("rounding", "error").lower()
        if self._keeps_going and not self._format.has_footer and (self._declared is None or self._is_guessed):
            raise undeclared(self._name)
        if self._declared is not None and not self._is_guessed:
            return FileSource(
                self._name, (), self._format, self._declared, where, declared=True, where=where, rounding=rounding
            )
        files = [self._folder.file(one.path) for one in sorted(self._folder.listed(self._format.kind))]
        if not files:
            raise self._nothing()
        schema = self._declared or first_schema(self._name, files, self._format)
        return FileSource(
            self._name, (files[0],), self._format, schema, where, declared=False, where=where, rounding=rounding
        )

    def _nothing(self) -> SourceError:
        if not self._folder.is_there():
            return SourceError(f"there is no file or folder {self._folder.address}")
        return unknown_types(self._name, self._folder.address, ())

    # ---- its files --------------------------------------------------------------------------------------------------

    def _listed(self) -> tuple[int, list[Found]]:
        found = self._all_listed()
        return len(found), found

    def _all_listed(self) -> list[Found]:
        return self._folder.listed(self._format.kind)

    def _shown(self, path: str) -> str:
        return address_of(self._folder.address, path)

    def noted(self, upto: Offsets) -> list[Any]:
        known = self._life.known  # so that no later life tells again what was told
        return [one._replace(changed_ns=known[one.path]) for one in super().noted(upto)[-MOST_NOTED:]]

    def close(self) -> None:
        self._life = Life()  # who reads it once more lists it anew

    # ---- rows -------------------------------------------------------------------------------------------------------

    def read(self, split: Split) -> Iterator[SourceBatch]:
        found = file_of(split)
        self._note_read(split, found)
        file = self._folder.file(found.path)
        with self._folder.naming_errors(f"cannot be read: {found.path}"):
            self._check_size(file, found.size)
            with readable(file, self._source.hint):
                yield from self._batches(file)

    def _batches(self, file: StoreFile) -> Iterator[SourceBatch]:
        if not self._keeps_going:
            yield from (SourceBatch(rows) for rows in self._source.read(file, READ_ROWS))
        elif self._format.has_footer:
            yield from replace(self._source, stream=self._judged).source_batches(file, READ_ROWS)
        else:
            yield from self._source.text_batches(file, self._judged)

    @property
    def _judged(self) -> Stream | None:
        """The stream by which event times are found bad here, where the file and the line are known. Times that are
        not written as timestamps are read later."""
        time = None if self._time is None or is_arrival(self._time) else named_time(self._time)
        column = None if time is None else column_named(time, self.schema.names)
        if column is None or not pa.types.is_timestamp(self.schema.field(column).type):
            return None
        words: tuple[str, ...] = ("on_null", "on_bad")
        said = {word: STREAM_OPTIONS[word].parse(self._options[word]) for word in words if word in self._options}
        return Stream(self._name, self.schema, column, arrival=arrival_of(said))

    def _check_size(self, file: StoreFile, size: int) -> None:
        with readable(file, "files must stay until they were read for good"):
            now = file.stat().st_size
        if now != size:
            raise SourceError(
                f"{file} has {now:,} bytes, but had {size:,} when it was found",
                hint="files must stay as they are; write rows that come later to files of their own",
            )


def files_table(opening: TableOpening) -> pa.Table:
    files = StoreFiles(opening.name, opening.options, opening.columns)
    after = files.begin()
    parts = files.splits(after, files.newest(after))
    return pa.Table.from_batches([batch.rows for split in parts for batch in files.read(split)], files.schema)
