"""An archive on disk.

    watersmeet.json                       the query
    run-<id>/tables/<name>.parquet        static tables as the run saw them
    run-<id>/<bucket>-<batch>.parquet     what a bucket recorded in a batch
    run-<id>/batches.json                 on a host with batches: how to tell which of them count
    completion.json                       what was completed

A run in this process writes into a hidden folder, which gets its name when the run is over. A host that commits
batches writes into the folder at once: a batch that is run again overwrites its own files, and the files of one that
was never committed do not count. As a batch begins when the one before it was committed, only the last is in doubt.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from watersmeet.archive.description import FILE, ArchiveDescription
from watersmeet.archive.disk import reading, replace_file, replace_parquet
from watersmeet.dataclass import dataclass
from watersmeet.errors import SinkError, SourceError
from watersmeet.io.writers import writable
from watersmeet.operators.memory_bound import Page
from watersmeet.plan.query import Plan
from watersmeet.temporary_folders import hold, left_among

BATCHES = "batches.json"
_RUN, _TABLES = "run-", "tables"
_RESULTS, _LOST = b"results", b"lost"


@dataclass(frozen=True)
class ArchivePart:
    """A file of records, with what the join gave and lost meanwhile."""

    path: Path
    bucket: int
    batch: int

    def totals(self) -> tuple[int, int | None]:
        metadata = pa_parquet.read_schema(self.path).metadata or {}
        return int(metadata.get(_RESULTS, b"0")), int(metadata[_LOST]) if _LOST in metadata else None


class RunFolder:
    """Where one run writes, and where it is read from."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, archive: Path, name: str) -> RunFolder:
        return cls(archive / f"{_RUN}{name}")

    @property
    def name(self) -> str:
        return self.path.name.removeprefix(_RUN)

    def write(self, page: Page, bucket: int, batch: int) -> int:
        """Returns the bytes written."""
        metadata = {_RESULTS: str(page.results), **({} if page.lost is None else {_LOST: str(page.lost)})}
        # In the file's own metadata, so that counts and records are there together or not at all.
        records = page.records.replace_schema_metadata(metadata)
        return replace_parquet(self.path / f"{bucket:05d}-{batch:09d}.parquet", records)

    def write_table(self, name: str, data: pa.Table) -> None:
        with writable(self.path):
            (self.path / _TABLES).mkdir(parents=True, exist_ok=True)
        replace_parquet(self._table_path(name), data)

    def table(self, name: str) -> pa.Table:
        path = self._table_path(name)
        with reading(self.path, path):
            return pa_parquet.read_table(path, partitioning=None)

    def parts(self) -> list[ArchivePart]:
        """The files that count, in the order they were written in."""
        found = [
            ArchivePart(path, *map(int, path.stem.split("-")))
            for path in self.path.glob("*-*.parquet")
            if not path.name.startswith(".")
        ]
        last = max((part.batch for part in found), default=0)
        counting = found if self._counts(last) else [part for part in found if part.batch < last]
        return sorted(counting, key=lambda part: (part.bucket, part.batch))

    def _counts(self, last: int) -> bool:
        """Whether the last batch was committed. A run that is whole has nothing to say about batches."""
        path = self.path / BATCHES
        if not path.exists():
            return True
        with reading(self.path, path):
            followed = json.loads(path.read_text(encoding="utf-8"))
        commits = followed.get("commits")
        return last <= followed.get("until", -1) or (commits is not None and (Path(commits) / str(last)).exists())

    def follow(self, **followed: Any) -> None:
        """Make the folder of a run with batches. `commits` is a folder with a file for each that was committed, `until`
        the last one that was."""
        with writable(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        # With nothing to tell, what an earlier start has told stays.
        if followed or not (self.path / BATCHES).exists():
            replace_file(self.path / BATCHES, json.dumps(followed))

    @property
    def goes_on(self) -> bool:
        """Whether more may come that meets what is there: of a run on a host with batches, while its checkpoint is
        there."""
        path = self.path / BATCHES
        if not path.exists():
            return False
        with reading(self.path, path):
            commits = json.loads(path.read_text(encoding="utf-8")).get("commits")
        return commits is None or Path(commits).exists()

    @property
    def has_records(self) -> bool:
        return any(pa_parquet.read_metadata(part.path).num_rows for part in self.parts())

    def empty(self) -> None:
        """Let go of all records. What the run gave and lost stays known."""
        for part in self.parts():
            replace_parquet(part.path, pa_parquet.read_schema(part.path).empty_table())

    def has_table(self, name: str) -> bool:
        return self._table_path(name).exists()

    def _table_path(self, name: str) -> Path:
        # Names of tables may have slashes in them.
        return self.path / _TABLES / f"{quote(name, safe='')}.parquet"


class OpenRun(RunFolder):
    """A run that is not over: nothing of it counts until it is committed."""

    def __init__(self, archive: Path) -> None:
        self._final = archive / f"{_RUN}{uuid4().hex}"
        super().__init__(archive / f".{self._final.name}")
        self.batch = 0
        with writable(self.path):
            self.path.mkdir(parents=True)
            self._held = hold(self.path)

    def add(self, page: Page) -> int:
        self.batch += 1
        return self.write(page, 0, self.batch)

    def commit(self) -> None:
        with writable(self.path):
            # The rename is the commit.
            self.path.rename(self._final)
        self._let_go()

    def abort(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._let_go()

    def _let_go(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None


class Archive:
    def __init__(self, path: Path, description: ArchiveDescription) -> None:
        self.path = path
        self.description = description

    @classmethod
    def for_writing(cls, path: str | Path, plan: Plan) -> Archive:
        """The archive of a query, made if it is not there; one of another query is refused."""
        folder, wanted = Path(path).expanduser(), ArchiveDescription.of(plan)
        with writable(folder):
            folder.mkdir(parents=True, exist_ok=True)
            # Hidden files are locks and runs that were never over.
            strangers = [one.name for one in folder.iterdir() if not one.name.startswith(".")]
        if (folder / FILE).exists():
            held = ArchiveDescription.read(folder)
            if held.fingerprint != wanted.fingerprint:
                raise SinkError(
                    f"the archive {folder} belongs to another query:\n{held.sql.strip()}",
                    hint="give each query a folder of its own",
                )
            return cls(folder, held)
        if strangers:
            raise SinkError(
                f"{folder} cannot become an archive: it holds other files, such as {min(strangers)}",
                hint="choose an empty folder, or a new one",
            )
        wanted.write(folder)
        return cls(folder, wanted)

    @classmethod
    def open(cls, path: str | Path) -> Archive:
        folder = Path(path).expanduser()
        return cls(folder, ArchiveDescription.read(folder))

    def begin(self) -> OpenRun:
        return OpenRun(self.path)

    def run_named(self, name: str) -> RunFolder:
        return RunFolder.of(self.path, name)

    def runs(self) -> list[RunFolder]:
        return [RunFolder(path) for path in sorted(self.path.glob(f"{_RUN}*")) if path.is_dir()]

    def unfinished(self) -> int:
        """How many runs were never over, and do not count."""
        return sum(1 for _ in self.path.glob(f".{_RUN}*"))

    def killed(self) -> list[Path]:
        """The folders of those that never will be."""
        return left_among(self.path.glob(f".{_RUN}*"))


def by_bucket(parts: Iterable[ArchivePart]) -> Mapping[int, list[ArchivePart]]:
    buckets: dict[int, list[ArchivePart]] = {}
    for part in parts:
        buckets.setdefault(part.bucket, []).append(part)
    return buckets


def follow_checkpoint(archive: str | Path, checkpoint: str) -> None:
    """Let the checkpoint of a Spark query say which batches count."""
    folder = Path(checkpoint).expanduser().absolute()
    try:
        query = str(json.loads((folder / "metadata").read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError):
        raise SourceError(
            f"{checkpoint} is not the checkpoint of a query", hint="give the folder that the query was started with"
        ) from None
    run = RunFolder.of(Archive.open(archive).path, query)
    if not run.path.is_dir():
        raise SourceError(f"the query of checkpoint {checkpoint} did not write to the archive {archive}")
    run.follow(commits=str(folder / "commits"))
