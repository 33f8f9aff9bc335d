"""Answers as files of a store, each under the numbers of its batches.

A store has no rename: an object is there whole, once it was put. Where a commit is several files, by the values of
columns, a mark is put behind them; files of a number without a mark are what a crash has left, and are removed by the
next life of the run.

Nor has it a lock. Every start puts an object of its own that says so (`claimed.py`), and looks for a newer one before
and after it puts a batch. A put that was under way when another start claimed the folder cannot be held back: whoever
put it ends, and says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.fs as pa_fs

from watersmeet.errors import SinkError
from watersmeet.io.connectors.contract import NumberedSink, SinkOpening
from watersmeet.io.connectors.files.claimed import StoreClaim
from watersmeet.io.connectors.files.folder import Folder, kind_of, put
from watersmeet.io.connectors.folder_sink import NAME, damaged, write_draft
from watersmeet.io.connectors.lake_options import interval_s, one_of
from watersmeet.io.partitioned import parted, partition_columns
from watersmeet.io.path_formats import ALIASES
from watersmeet.io.sealed import BrokenSealError, sealed, unsealed

GO_ON = "mend that, then start again with the same checkpoint: nothing is lost"


def files_sink(opening: SinkOpening) -> NumberedSink:
    return StoreSink(opening)


class StoreSink(NumberedSink):
    claim: StoreClaim
    may_forget = True  # files may be taken away by those they are for

    def __init__(self, opening: SinkOpening) -> None:
        name, options = opening.name, opening.options
        if not opening.schema.names:
            raise SinkError(f"sink {name!r} would have no columns")
        self._folder = Folder(name, options, SinkError)
        kind = kind_of(name, options, "sink", self._folder)
        self._kind = ALIASES.get(kind, kind)
        self._options, self._run = options, opening.run
        self.commit_every_s = interval_s(name, options, "commit_every")
        self._columns = partition_columns(name, options.get("partition_by"), opening.schema)
        self._schema = pa.schema([field for field in opening.schema if field.name not in self._columns])
        mode = one_of(name, options, "mode", ("error", "append", "overwrite"), "error")
        self.claim = StoreClaim(opening, self._folder)
        with self._folder.told("cannot be written", GO_ON):
            self.claim.take_over()
        files = list(self._files())
        self._committed = self._marked() if self._columns else self._largest(files)
        own = [path for path in files if self._number_of(path) is not None]
        self._remove(path for path in own if (self._number_of(path) or 0) > self._committed)
        strangers = sorted(set(files) - set(own))
        if strangers and self._committed < 0 and mode != "append":
            self._refuse_or_clear(strangers, mode)

    def committed(self) -> int:
        return self._committed

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        if number <= self._committed:
            return
        name = f"part-{self._run}-{number:015d}.{self._kind}"
        with self._folder.told("cannot be written", GO_ON):
            self.claim.begin_commit()
            if not self._columns:
                self._put_rows(name, rows)
            else:
                whole = pa.concat_batches(rows)
                own = whole.select(self._schema.names)
                for folder, numbers in parted(whole, self._columns):
                    self._put_rows(f"{folder.as_posix()}/{name}", [own.take(numbers)])
                self.claim.check()  # the files count when the mark is there
                put(self._folder, self._mark, sealed(self._mark, json.dumps({"number": number}).encode()))
            self.claim.check()
        self._committed = number

    def _put_rows(self, name: str, rows: Sequence[pa.RecordBatch]) -> None:
        with TemporaryDirectory(prefix="watersmeet-") as scratch:
            draft = Path(scratch) / "part"
            write_draft(draft, self._kind, self._schema, self._options, rows)
            put(self._folder, name, draft.read_bytes())

    def _files(self) -> Iterator[str]:
        """What is there, but for what is hidden; by paths in the folder."""
        with self._folder.told("cannot be listed"):
            files, base = self._folder.file_system, self._folder.path
            if files.get_file_info(base).type == pa_fs.FileType.File:
                raise SinkError(
                    f"{self._folder.address} is a file, but answers go into a folder of files",
                    hint="choose another path",
                )
            found = files.get_file_info(pa_fs.FileSelector(base, allow_not_found=True, recursive=True))
        for info in found:
            inside = info.path[len(base) :].lstrip("/")
            if info.type == pa_fs.FileType.File and not any(part[:1] in "._" for part in inside.split("/")):
                yield inside

    def _number_of(self, path: str) -> int | None:
        found = NAME.fullmatch(path.rpartition("/")[2])
        return int(found["number"]) if found is not None and found["run"] == self._run else None

    def _largest(self, files: Sequence[str]) -> int:
        return max((number for one in files if (number := self._number_of(one)) is not None), default=-1)

    def _marked(self) -> int:
        with self._folder.told("cannot be read"):
            try:
                with self._folder.file_system.open_input_stream(f"{self._folder.path}/{self._mark}") as stream:
                    return int(json.loads(bytes(unsealed(self._mark, stream.read())))["number"])
            except FileNotFoundError:
                return -1
            except BrokenSealError as error:
                raise damaged(f"{self._folder.address}/{self._mark}", error) from None

    @property
    def _mark(self) -> str:
        """Says up to which batch all objects are there."""
        return f"_commit-{self._run}.json"

    def _refuse_or_clear(self, strangers: Sequence[str], mode: str) -> None:
        if mode != "overwrite":
            raise SinkError(
                f"{self._folder.address} already holds {strangers[0]}, which another run has written",
                hint="say mode = 'append' to add to it, mode = 'overwrite' to replace it, choose another path, or go "
                "on with the checkpoint it was written with",
            )
        odd = [one for one in strangers if not NAME.fullmatch(one.rpartition("/")[2])]
        if odd:
            raise SinkError(
                f"{self._folder.address} holds {odd[0]}, which no run has written, so mode = 'overwrite' does not "
                "remove it",
                hint="empty the folder by hand, or choose another path",
            )
        self._remove(strangers)

    def _remove(self, paths: Iterator[str] | Sequence[str]) -> None:
        with self._folder.told("cannot be written", GO_ON):
            for path in paths:
                self._folder.file_system.delete_file(f"{self._folder.path}/{path}")
