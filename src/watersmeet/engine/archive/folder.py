"""An archive on disk.

    watersmeet.json                       the query
    run-<id>/tables/<name>.parquet        static tables as the run saw them
    run-<id>/<bucket>-<batch>.parquet     what a bucket recorded in a batch
    run-<id>/batches.json                 on a host with batches: where they are committed
    completion.json                       what was completed

A run in this process writes into a hidden folder, which gets its name when the run is over. A host that commits
batches writes into the folder at once: a batch that is run again overwrites its own files, and the files of one that
was never committed do not count.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from watersmeet.engine.archive.description import FILE, Description
from watersmeet.engine.archive.disk import reading, replace_file, replace_parquet
from watersmeet.engine.sinks import writable
from watersmeet.errors import DataError, SinkError
from watersmeet.plan.nodes import Plan
from watersmeet.shedding.recording import Page

BATCHES = "batches.json"
_RUN, _TABLES = "run-", "tables"
_RESULTS, _LOST = b"results", b"lost"


@dataclass(frozen=True)
class Part:
    """A file of records, with what the join gave and lost meanwhile."""

    path: Path
    bucket: int
    batch: int

    def totals(self) -> tuple[int, int | None]:
        told = pa_parquet.read_schema(self.path).metadata or {}
        return int(told.get(_RESULTS, b"0")), int(told[_LOST]) if _LOST in told else None


class RunFolder:
    """Where one run writes, and where it is read from."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return self.path.name.removeprefix(_RUN)

    def write(self, page: Page, bucket: int, batch: int) -> int:
        """Returns the bytes written."""
        told = {_RESULTS: str(page.results), **({} if page.lost is None else {_LOST: str(page.lost)})}
        records = page.records.replace_schema_metadata(told)
        return replace_parquet(self.path / f"{bucket:05d}-{batch:09d}.parquet", records)

    def write_table(self, name: str, data: pa.Table) -> None:
        with writable(self.path):
            (self.path / _TABLES).mkdir(exist_ok=True)
        replace_parquet(self.path / _TABLES / f"{name}.parquet", data)

    def table(self, name: str) -> pa.Table:
        path = self.path / _TABLES / f"{name}.parquet"
        with reading(self.path, path):
            return pa_parquet.read_table(path, partitioning=None)

    def parts(self) -> list[Part]:
        """The files that count, in the order they were written in."""
        committed = self._committed()
        found = [
            Part(path, *map(int, path.stem.split("-")))
            for path in self.path.glob("*-*.parquet")
            if not path.name.startswith(".")
        ]
        return sorted(
            (p for p in found if committed is None or p.batch in committed), key=lambda p: (p.bucket, p.batch)
        )

    def _committed(self) -> set[int] | None:
        """The batches that were committed; None if the run is whole because it has its name."""
        path = self.path / BATCHES
        if not path.exists():
            return None
        with reading(self.path, path):
            commits = Path(json.loads(path.read_text(encoding="utf-8"))["commits"])
        if not commits.is_dir():
            raise DataError(
                f"{commits}, which tells what batches of {self.path} count, is not there",
                hint="complete before the checkpoint is removed, or say where it is now: --checkpoint DIR",
            )
        return {int(one.name) for one in commits.iterdir() if one.name.isdigit()}


class OpenRun(RunFolder):
    """A run that is not over: nothing of it counts until it is committed."""

    def __init__(self, archive: Path) -> None:
        self._final = archive / f"{_RUN}{uuid4().hex}"
        super().__init__(archive / f".{self._final.name}")
        self.batch = 0
        with writable(self.path):
            self.path.mkdir(parents=True)

    def add(self, page: Page) -> int:
        self.batch += 1
        return self.write(page, 0, self.batch)

    def commit(self) -> None:
        with writable(self.path):
            self.path.rename(self._final)

    def abort(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class Archive:
    def __init__(self, path: Path, description: Description) -> None:
        self.path = path
        self.description = description

    @classmethod
    def for_writing(cls, path: str | Path, plan: Plan) -> Archive:
        """The archive of a query, made if it is not there; one of another query is refused."""
        folder, wanted = Path(path).expanduser(), Description.of(plan)
        with writable(folder):
            folder.mkdir(parents=True, exist_ok=True)
            strangers = [one.name for one in folder.iterdir() if not one.name.startswith(".")]
        if not (folder / FILE).exists():
            if strangers:
                raise SinkError(
                    f"{folder} cannot become an archive: it holds other files, such as {min(strangers)}",
                    hint="choose an empty folder, or a new one",
                )
            wanted.write(folder)
        elif (held := Description.read(folder)).fingerprint != wanted.fingerprint:
            raise SinkError(
                f"the archive {folder} belongs to another query:\n{held.sql.strip()}",
                hint="give each query a folder of its own",
            )
        return cls(folder, wanted)

    @classmethod
    def open(cls, path: str | Path) -> Archive:
        folder = Path(path).expanduser()
        return cls(folder, Description.read(folder))

    def begin(self) -> OpenRun:
        return OpenRun(self.path)

    def follow(self, run: str, commits: str) -> RunFolder:
        """The folder of a run whose batches are committed elsewhere, by files of their numbers in a folder."""
        folder = self.run_named(run)
        with writable(folder.path):
            folder.path.mkdir(exist_ok=True)
        replace_file(folder.path / BATCHES, json.dumps({"commits": commits}))
        return folder

    def run_named(self, name: str) -> RunFolder:
        return RunFolder(self.path / f"{_RUN}{name}")

    def runs(self) -> list[RunFolder]:
        return [RunFolder(path) for path in sorted(self.path.glob(f"{_RUN}*")) if path.is_dir()]

    def unfinished(self) -> int:
        """How many runs were never over, and do not count."""
        return sum(1 for _ in self.path.glob(f".{_RUN}*"))


def by_bucket(parts: Iterable[Part]) -> Mapping[int, list[Part]]:
    buckets: dict[int, list[Part]] = {}
    for part in parts:
        buckets.setdefault(part.bucket, []).append(part)
    return buckets
