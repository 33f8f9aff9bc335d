"""A disk that is full or may only be read, seen from the command line: one sentence, and the next start goes on with
nothing lost and nothing twice."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pa_parquet
import pytest

from tests.connectors.commands import check_sentence, run
from tests.connectors.small_disk import SmallDisk, small_disk
from tests.lakes import opened
from watersmeet.io.connectors.databases import table_sink
from watersmeet.io.connectors.databases.database import LostError

ROWS = 20_000  # of about a hundred bytes, which do not pack well
Found = Callable[[Path], list[int]]


def keys(table: Any) -> list[int]:
    return sorted(table["k"].to_pylist())


def of_sqlite(disk: Path) -> list[int]:
    with sqlite3.connect(disk / "out.db") as connection:
        return sorted(row[0] for row in connection.execute("SELECT k FROM out"))


def of_duckdb(disk: Path) -> list[int]:
    with duckdb.connect(str(disk / "out.duckdb")) as connection:
        return sorted(row[0] for row in connection.execute("SELECT k FROM out").fetchall())


def of_parquet(disk: Path) -> list[int]:
    return keys(pa_parquet.read_table(disk / "out"))


def of_csv(disk: Path) -> list[int]:
    lines = [line for one in (disk / "out").glob("*.csv") for line in one.read_text().splitlines()[1:]]
    return sorted(int(line.partition(",")[0]) for line in lines)


def of_delta(disk: Path) -> list[int]:
    return keys(opened.table("delta", path=str(disk / "out")))


def of_iceberg(disk: Path) -> list[int]:
    ways = {"catalog__type": "sql", "catalog__uri": f"sqlite:///{disk}/c.db", "catalog__warehouse": f"file://{disk}"}
    return keys(opened.table("iceberg", table="db.out", **ways))


ICEBERG = (
    "sink = 'iceberg', table = 'db.out', 'catalog.type' = 'sql', 'catalog.uri' = 'sqlite:///{disk}/c.db', "
    "'catalog.warehouse' = 'file://{disk}'"
)
SINKS: dict[str, tuple[str, Found]] = {
    "parquet": ("sink = 'parquet', path = '{disk}/out'", of_parquet),
    "csv": ("sink = 'csv', path = '{disk}/out'", of_csv),
    "store": ("sink = 'parquet', path = 'file://{disk}/out'", of_parquet),
    "sqlite": ("sink = 'sqlite', path = '{disk}/out.db'", of_sqlite),
    "duckdb": ("sink = 'duckdb', path = '{disk}/out.duckdb'", of_duckdb),
    "delta": ("sink = 'delta', path = '{disk}/out'", of_delta),
    "iceberg": (ICEBERG, of_iceberg),
}
KINDS = pytest.mark.parametrize("kind", SINKS)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as made:
        yield made


@cache
def parts() -> list[str]:
    chosen = random.Random(1)
    lines = [f"{k},{chosen.randbytes(40).hex()},2026-01-01 00:{k // 600:02d}:{k // 10 % 60:02d}\n" for k in range(ROWS)]
    return ["k,word,ts\n" + "".join(lines[i * ROWS // 4 : (i + 1) * ROWS // 4]) for i in range(4)]


def script(tmp_path: Path, sink: str) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for part, text in enumerate(parts()):
        (folder / f"{part}.csv").write_text(text)
    file = tmp_path / "script.sql"
    file.write_text(
        f"""CREATE STREAM s (k BIGINT, word VARCHAR, ts TIMESTAMP)
              WITH (source = 'csv', path = '{folder}', time = 'ts', lateness = '1 hour');
            CREATE SINK out WITH ({sink.format(disk=tmp_path / "disk")}) AS SELECT k, word FROM s;"""
    )
    return file


@KINDS
def test_a_full_disk_under_a_sink(kind: str, tmp_path: Path, disk: SmallDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_lost(error: Exception) -> bool:
        assert not isinstance(error, LostError), "others who write are waited for, not room"
        return False

    monkeypatch.setattr(table_sink, "_is_lost", is_lost)
    sink, found = SINKS[kind]
    file = script(tmp_path, sink)
    disk.fill(leave=200_000)
    check_sentence(run(file, tmp_path / "state"), "cannot be", "nothing is lost")
    disk.make_room()
    again = run(file, tmp_path / "state")
    assert again.code == 0, again.said
    assert found(disk.path) == list(range(ROWS))


@KINDS
def test_a_sink_that_may_only_be_read(kind: str, tmp_path: Path, disk: SmallDisk) -> None:
    sink, found = SINKS[kind]
    file = script(tmp_path, sink)
    with disk.read_only():
        check_sentence(run(file, tmp_path / "state"), "cannot be")
    again = run(file, tmp_path / "state")
    assert again.code == 0, again.said
    assert found(disk.path) == list(range(ROWS))


def test_a_full_disk_under_a_checkpoint(tmp_path: Path, disk: SmallDisk) -> None:
    file = script(tmp_path, f"sink = 'sqlite', path = '{tmp_path}/out.db'")
    disk.fill(leave=4096)
    check_sentence(run(file, disk.path / "state"), "the checkpoint cannot be written", "No space left")
    disk.make_room()
    assert run(file, disk.path / "state").code == 0
    assert of_sqlite(tmp_path) == list(range(ROWS))


def test_a_checkpoint_that_may_only_be_read(tmp_path: Path, disk: SmallDisk) -> None:
    file = script(tmp_path, f"sink = 'sqlite', path = '{tmp_path}/out.db'")
    with disk.read_only():
        check_sentence(run(file, disk.path / "state"), "the checkpoint cannot be written", "Read-only")
    assert run(file, disk.path / "state").code == 0
    assert of_sqlite(tmp_path) == list(range(ROWS))
