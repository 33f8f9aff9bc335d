"""Answers as files in a folder for each value of some columns: day=2026-01-31/part-….parquet, each number there once.

A commit is several files. All of them are written under hidden names first, then one hidden list of where they belong:
from then on it counts. They are put there one after the other, and after a crash the list tells which are missing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from watersmeet.io.connectors.contract import NumberedSink, Start
from watersmeet.io.connectors.folder_claim import FolderClaim
from watersmeet.io.connectors.folder_sink import NAME, committed, damaged, holds_others, refuse_file, sync, write_draft
from watersmeet.io.partitioned import check_replaceable, parted
from watersmeet.io.sealed import BrokenSealError, sealed, unsealed
from watersmeet.io.sinks import SUFFIXES
from watersmeet.io.writers import writable


class PartitionedFolderSink(NumberedSink):
    claim: FolderClaim
    may_forget = True  # files may be taken away by those they are for

    def __init__(
        self,
        name: str,
        path: Path,
        columns: Sequence[str],
        kind: str,
        mode: str,
        schema: pa.Schema,
        options: Mapping[str, str],
        run: str,
        start: Start | None = None,
    ) -> None:
        """run: the name of the run. Files of others are left alone, and refused unless `mode` says so."""
        self._path, self._columns, self._kind, self._options, self._run = path, columns, kind, options, run
        self._schema = pa.schema([field for field in schema if field.name not in columns])
        self._list = path / f".commit-{run}.json"
        self.claim = FolderClaim(name, path, run, start)
        refuse_file(name, path)
        with writable(path):
            path.mkdir(parents=True, exist_ok=True)
            with self.claim.taking_over():
                listed = self._finish()
                for draft in path.glob(f".part-{run}-*.tmp"):
                    draft.unlink(missing_ok=True)
                self._committed = max(listed, self._last())
            strangers = [one for one in path.iterdir() if not one.name.startswith((".", "_"))]
            if strangers and self._committed < 0 and mode != "append":
                self._refuse_or_clear(strangers, mode)

    def committed(self) -> int:
        return self._committed

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        if number <= self._committed:
            return
        with committed(self._path):
            drafts = self._drafted(number, pa.concat_batches(rows))
            with self.claim.committing():
                self._write_list(number, drafts)
                self._finish()
        self._committed = number

    def _drafted(self, number: int, rows: pa.RecordBatch) -> dict[str, str]:
        """Write the rows of every folder under hidden names; where each file belongs."""
        drafts: dict[str, str] = {}
        mine = uuid4().hex[:8]  # a start that is refused may write some at the same time
        own = rows.select(self._schema.names)
        for folder, numbers in parted(rows, self._columns):
            draft = self._path / f".part-{self._run}-{number:015d}-{len(drafts):05d}-{mine}.tmp"
            write_draft(draft, self._kind, self._schema, self._options, [own.take(numbers)])
            drafts[draft.name] = str(folder / f"part-{self._run}-{number:015d}{SUFFIXES[self._kind]}")
        return drafts

    def _write_list(self, number: int, drafts: Mapping[str, str]) -> None:
        draft = self._path / f".part-{self._run}-list.tmp"
        draft.write_bytes(sealed(self._list.name, json.dumps({"number": number, "files": drafts}).encode()))
        sync(draft)
        draft.replace(self._list)
        sync(self._path)

    def _finish(self) -> int:
        """Put the files of a list where they belong, but for those that are there; the number of the list, or -1."""
        try:
            listed = json.loads(bytes(unsealed(self._list.name, self._list.read_bytes())))
        except FileNotFoundError:
            return -1
        except BrokenSealError as error:
            raise damaged(str(self._list), error) from None
        folders: set[Path] = set()
        for draft, place in listed["files"].items():
            target = self._path / place
            if (self._path / draft).exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                (self._path / draft).replace(target)
            folders.update(self._path / parent for parent in Path(place).parents)
        for folder in folders:
            sync(folder)
        self._list.unlink()
        return int(listed["number"])

    def _last(self) -> int:
        found = (NAME.fullmatch(one.name) for one in self._path.rglob(f"part-{self._run}-*"))
        return max((int(one["number"]) for one in found if one is not None), default=-1)

    def _refuse_or_clear(self, strangers: Sequence[Path], mode: str) -> None:
        if mode != "overwrite":
            raise holds_others(self._path, strangers[0])
        check_replaceable(self._path, self._columns)
        for one in strangers:
            shutil.rmtree(one)
