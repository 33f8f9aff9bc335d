"""Checkpoints of several kinds of runs, as a kill leaves them, and all that may befall a file of theirs."""

from __future__ import annotations

import datetime as dt
import os
import random
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.dataset import dataset

import watersmeet as wm
from watersmeet.io.holding import HOLDER

NOON = dt.datetime(2026, 1, 1, 12)
_COLUMNS = "(id BIGINT, k BIGINT, ts TIMESTAMP)"
Answer = list[str]


def at(*ids: int) -> list[dict[str, Any]]:
    return [{"id": one, "k": one % 3, "ts": NOON + dt.timedelta(seconds=one)} for one in ids]


@dataclass(frozen=True)
class Kind:
    """A run over streams that are pushed, or over files. `lives` is what each life brings: all but the last are
    stopped, so their state is saved, and the last is killed; `rest` is what the one after it brings."""

    name: str
    sql: str
    lives: tuple[tuple[tuple[str, tuple[int, ...]], ...], ...]
    rest: tuple[tuple[str, tuple[int, ...]], ...]
    streams: str = "ab"
    files: bool = False
    table: str | None = None
    sink: bool = False
    sides: bool = False
    store: bool = False


_LIVES = (
    (("a", (1, 2, 3)), ("b", (4, 5))),
    (("a", (7, 8)), ("b", (9, 10, 11))),
    (("b", (12, 13)), ("a", (14, 15, 6))),
    (("a", (21, 22)), ("b", (23, 24, 20))),
)
_REST = (("a", (31, 32, 33)), ("b", (34, 35, 36)))
_PAIRS = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 1 HOUR"
_COUNTS = "SELECT k, COUNT(*) AS n, SUM(id) AS s FROM a [RANGE 10 SECONDS] GROUP BY k"
_NAMED = "SELECT a.id, t.word FROM a [RANGE 1 HOUR], t WHERE a.k = t.k"
_NAMES = "SELECT t.word, COUNT(*) AS n FROM a [RANGE 10 SECONDS], t WHERE a.k = t.k GROUP BY t.word"

KINDS = (
    Kind("pushed", _PAIRS, _LIVES, _REST),
    Kind("changing", _COUNTS, _LIVES, _REST, streams="a"),
    Kind("kept_table", _NAMES, _LIVES, _REST, streams="a", table="kept"),
    Kind("reloaded_table", _NAMED, _LIVES, _REST, streams="a", table="reloaded", sink=True),
    Kind("files", _PAIRS, _LIVES, _REST, files=True, sink=True),
    Kind("sides", _PAIRS, _LIVES, _REST, sink=True, sides=True),
    Kind("store", _PAIRS, _LIVES, _REST, store=True),
)


class Stage:
    """Where a kind of run is played: every start finds the same paths, as sinks and files are known by them."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.work, self.image, self.inputs = folder / "work", folder / "image", folder / "inputs"
        self.told: list[str] = []
        self._query: wm.Query | None = None
        self._table = folder / "t.csv"

    @property
    def checkpoint(self) -> Path:
        return self.work / "checkpoint"

    def query(self) -> wm.Query:
        script = ""
        late = ", on_late = 'sink late'" if self.kind.sides else ""
        if late:
            script += f"CREATE SINK late WITH (sink = 'parquet', path = '{self.work / 'late'}');"
        for name in self.kind.streams:
            if self.kind.files:
                script += f"CREATE STREAM {name} WITH (time = 'ts', lateness = '9 s', path = '{self.inputs / name}');"
            else:
                script += f"CREATE STREAM {name} {_COLUMNS} WITH (time = 'ts', lateness = '3 seconds'{late});"
        if self.kind.table is not None:
            reload = ", reload = '1 hour'" if self.kind.table == "reloaded" else ""
            script += f"CREATE TABLE t (k BIGINT, word TEXT) WITH (path = '{self._table}'{reload});"
        return wm.Session().sql(script + self.kind.sql)

    def start(self, **more: Any) -> wm.Run:
        sink = {"sink": "parquet", "path": str(self.work / "out"), "mode": "overwrite"} if self.kind.sink else None
        self._query = self._query or self.query()
        return self._query.start(
            checkpoint=f"file://{self.checkpoint}" if self.kind.store else self.checkpoint,
            sink=sink,
            save_every="1 hour",
            commit_every="1 ms",
            timeout=20,
            **more,
        )

    def bring(self, run: wm.Run, rows: tuple[tuple[str, tuple[int, ...]], ...], name: str) -> Answer:
        """Let rows come, and wait until they are answered."""
        number = -1
        for stream, ids in rows:
            if stream not in self.kind.streams:
                continue
            if self.kind.files:
                self._write(stream, name, ids)
            else:
                number = run.push(stream, at(*ids))
        return self._answered(run, number)

    def _write(self, stream: str, name: str, ids: tuple[int, ...]) -> None:
        folder = self.inputs / stream
        draft = folder / f".{name}"
        pq.write_table(pa.Table.from_pylist(at(*ids)), draft)
        draft.rename(folder / f"{name}.parquet")

    def _answered(self, run: wm.Run, number: int) -> Answer:
        inner: Any = run.driver.run  # type: ignore[attr-defined]
        there = sum(pq.read_metadata(one).num_rows for one in self.inputs.glob("*/*.parquet"))
        until_s = time.monotonic() + 20
        while inner.is_open and time.monotonic() < until_s:
            came = sum(run.taken(name) for name in self.kind.streams) if self.kind.files else 0
            if inner.progress.given >= max(number, inner.progress.number) and came >= there:
                break
            time.sleep(0.001)
        return [] if self.kind.sink else sorted(map(str, run.take().to_pylist()))

    def play(self) -> None:
        """All lives; the image is what the last leaves when it is killed."""
        self.folder.mkdir(exist_ok=True)
        for name in self.kind.streams if self.kind.files else "":
            (self.inputs / name).mkdir(parents=True)
            self._write(name, "first", (0,))
        for number, rows in enumerate(self.kind.lives):
            # A table that is reloaded is loaded anew by every start.
            self._table.write_text("k,word\n" + "".join(f"{k},{'word'[: number + 1]}{k}\n" for k in range(3)))
            run = self.start()
            self.bring(run, rows, f"{number}")
            if number + 1 < len(self.kind.lives):
                run.stop()
            else:
                inner: Any = run.driver.run  # type: ignore[attr-defined]
                if self.kind.sink:
                    inner.outputs.flush(inner.progress.number)
                inner._parts.checkpoint.reached.close()  # in a store it is put only now and then
                shutil.copytree(self.work, self.image, ignore=lambda _, names: {HOLDER} & set(names))
                run.stop()
        for stream, ids in self.kind.rest if self.kind.files else ():
            self._write(stream, "rest", ids)

    def restore(self) -> None:
        shutil.rmtree(self.work)
        shutil.copytree(self.image, self.work)

    def go_on(self) -> Answer:
        """The answer of a life after the kill, with what was told meanwhile."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            run = self.start(available_now=self.kind.files)
            try:
                if self.kind.files:
                    run.wait(20)
                    found: Answer = []
                else:
                    found = self.bring(run, self.kind.rest, "rest")
            finally:
                run.stop()
        self.told = [str(one.message) for one in told]
        for name in ("out", "late") if self.kind.sink else ():
            found += self._written(name)
        return found

    def _written(self, name: str) -> Answer:
        folder = self.work / name
        if not folder.exists() or not any(folder.iterdir()):
            return []
        return [f"{name} {row}" for row in sorted(map(str, dataset(folder, format="parquet").to_table().to_pylist()))]

    def files(self) -> list[Path]:
        return sorted(one for one in self.checkpoint.rglob("*") if one.is_file())


@dataclass(frozen=True)
class Damage:
    """What befell which files of a checkpoint, by their names in it."""

    what: str
    names: tuple[str, ...]
    do: Callable[..., None]  # to the paths of them

    def __str__(self) -> str:
        return f"{self.what} {' and '.join(self.names)}"


def damages(stage: Stage, effort: int, seed: int = 0) -> Iterator[Damage]:
    """effort: so many positions of a file are flipped, and so often it is cut; of small files all are."""
    rng = random.Random(seed)
    stage.restore()
    filled_of = {one.relative_to(stage.checkpoint).as_posix(): _filled(one) for one in stage.files()}
    for name, filled in filled_of.items():
        yield Damage("delete", (name,), Path.unlink)
        yield Damage("zero", (name,), partial(_zero, start=0))
        yield Damage("append to", (name,), _add)
        for place in _places(rng, filled, effort):
            yield Damage(f"flip byte {place} of", (name,), partial(_flip, place=place, bit=1 << rng.randrange(8)))
        for place in {0, *_places(rng, filled, max(effort // 3, 2))}:
            yield Damage(f"cut behind byte {place} of", (name,), partial(_cut, start=place))
            yield Damage(f"zero behind byte {place} of", (name,), partial(_zero, start=place))
    names = sorted(filled_of)
    pairs = [(one, other) for one in names for other in names if one < other]
    for pair in pairs:
        yield Damage("swap", pair, _swap)


def _places(rng: random.Random, size: int, effort: int) -> list[int]:
    return list(range(size)) if size <= effort else sorted({0, size - 1, *rng.sample(range(size), effort - 2)})


def _filled(path: Path) -> int:
    """How long a file is without the zeros at its end."""
    return len(path.read_bytes().rstrip(b"\0"))


def _flip(path: Path, place: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ bit]))


def _cut(path: Path, start: int) -> None:
    os.truncate(path, start)


def _add(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\1more")


def _zero(path: Path, start: int) -> None:
    size = path.stat().st_size
    os.truncate(path, start)
    os.truncate(path, size)


def _swap(one: Path, other: Path) -> None:
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)
