"""Rows at hand are read in the order of their event times: tables, and files in bounded memory."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from tests.unit.declared import source_with
from watersmeet.errors import DataError, SetupError
from watersmeet.io import spill
from watersmeet.io import time_ordered_files as files
from watersmeet.io.sources import TableSource, source_of
from watersmeet.io.spill import END, Piece, TimeSorter
from watersmeet.io.time_ordered import batches_of, in_order
from watersmeet.model.arrival import Arrival
from watersmeet.model.catalog import Stream

UNITS = ["s", "ms", "us", "ns"]


def made(rows: int, seed: int = 1, unit: str = "us", tz: str | None = None, span: int = 50) -> pa.Table:
    """Rows in any order, many of equal times, some before 1970; `n` counts them as they stand."""
    rng = np.random.default_rng(seed)
    times = pa.array(rng.integers(-span // 2, span, rows), pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    words = pa.array([None if n % 11 == 0 else f"word {n % 17}" for n in range(rows)])
    return pa.table({"ts": times if tz is None else times.cast(pa.timestamp(unit, tz)), "n": range(rows), "w": words})


def stream(data: Any, read: str = "time") -> Stream:
    source = source_of(data, "a")
    return Stream("a", source.schema, "ts", 0, source, arrival=Arrival(read=read))


def declared(folder: Path, kind: str, schema: pa.Schema, read: str = "time") -> Stream:
    source = source_with("a", {"source": kind, "path": str(folder)}, schema)
    return Stream("a", schema, "ts", 0, source, arrival=Arrival(read=read))


def read(one: Stream, max_rows: int = 100) -> pa.Table:
    batches = list(batches_of(one, max_rows))
    assert all(0 < batch.num_rows <= max_rows for batch in batches)
    return pa.Table.from_batches(batches, one.schema).cast(one.source.schema)


def by_time(table: pa.Table) -> pa.Table:
    """In the order of time, and among equal times as they stand."""
    return table.take(np.lexsort((np.arange(len(table)), table["ts"].cast(pa.int64()).to_numpy())))


# ---- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("tz", [None, "America/New_York"])
def test_a_table_is_read_in_time_order_and_equal_times_as_they_stand(unit: str, tz: str | None) -> None:
    table = made(1_000, unit=unit, tz=tz)
    chunked = pa.concat_tables([table.slice(0, 300), table.slice(300, 0), table.slice(300)])
    assert read(stream(chunked)) == by_time(table)
    assert read(stream(chunked, read="arrival")) == table


def test_frames_and_lists_of_batches_are_read_in_time_order() -> None:
    table = made(200, unit="ns")
    assert read(stream(table.to_pandas()))["n"] == by_time(table)["n"]
    assert read(stream(table.to_batches(max_chunksize=30))) == by_time(table)


def test_what_flows_keeps_its_order() -> None:
    table = made(200)
    assert read(stream(table.to_reader(max_chunksize=30))) == table
    assert read(stream(iter(table.to_batches(max_chunksize=30)))) == table


def test_a_table_in_order_is_not_copied() -> None:
    one = stream(by_time(made(200)))
    assert isinstance(one.source, TableSource)
    assert in_order(one, one.source) is one.source


def test_a_table_with_null_times_is_refused_with_their_number() -> None:
    times = pa.array([3, None, 1, None], pa.timestamp("us"))
    with pytest.raises(DataError, match=r"stream 'a': the event time 'ts' is NULL in 2 of 4 rows"):
        read(stream(pa.table({"ts": times})))


# ---- files ----------------------------------------------------------------------------------------------------------


def write(folder: Path, kind: str, tables: list[pa.Table], **how: Any) -> Path:
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables):
        path = folder / f"part-{number}.{kind}"
        if kind == "parquet":
            pa_parquet.write_table(table, path, **how)
        elif kind == "csv":
            pa_csv.write_csv(table, path)
        else:
            table.to_pandas().to_json(path, orient="records", lines=True, date_format="iso")
    return folder


def in_three(table: pa.Table) -> list[pa.Table]:
    third = len(table) // 3
    return [table.slice(0, third), table.slice(third, third), table.slice(2 * third)]


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
@pytest.mark.parametrize("memory", ["256 MB", "1 KB"])
def test_files_are_read_in_time_order(tmp_path: Path, kind: str, memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(spill.SORT_MEMORY, memory)
    monkeypatch.setattr(spill, "FAN_IN", 3)
    monkeypatch.setattr(files, "LOOK_ROWS", 64)
    table = made(1_000)
    how = {"row_group_size": 90} if kind == "parquet" else {}
    folder = write(tmp_path / "a", kind, in_three(table), **how)
    found = read(declared(folder, kind, table.schema))
    assert found["n"] == by_time(table)["n"]
    assert found["w"] == by_time(table)["w"]
    assert read(declared(folder, kind, table.schema, read="arrival"))["n"] == table["n"]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("how", [{}, {"write_statistics": False}, {"row_group_size": 70}, {"version": "1.0"}])
def test_parquet_of_any_unit_with_and_without_statistics(tmp_path: Path, unit: str, how: dict[str, Any]) -> None:
    table = made(600, unit=unit, tz="Asia/Kolkata" if unit == "ms" else None)
    assert read(stream(str(write(tmp_path / "a", "parquet", in_three(table), **how))))["n"] == by_time(table)["n"]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_files_in_order_are_passed_on_without_sorting(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the last time of a row group is the first of the next."""
    monkeypatch.setattr(TimeSorter, "add", lambda *_: pytest.fail("nothing is to be sorted"))
    table = by_time(made(2_000))
    how = {"row_group_size": 150} if kind == "parquet" else {}
    assert read(stream(str(write(tmp_path / "a", kind, in_three(table), **how))))["n"].cast(pa.int64()) == table["n"]


def test_files_in_order_whose_names_are_not_are_passed_on_without_sorting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TimeSorter, "add", lambda *_: pytest.fail("nothing is to be sorted"))
    first, second, third = in_three(by_time(made(999, span=10**6)))
    found = read(stream(str(write(tmp_path / "a", "parquet", [third, first, second]))))
    assert found["n"] == pa.concat_tables([first, second, third])["n"]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_files_without_rows_give_none(tmp_path: Path, kind: str) -> None:
    table = made(3)
    folder = write(tmp_path / "a", kind, [table.slice(0, 0), table.slice(0, 0)])
    assert read(declared(folder, kind, table.schema)).num_rows == 0


def test_what_waits_comes_out_after_a_section_that_was_passed_on(tmp_path: Path) -> None:
    seconds = [[0, 0, 0], [0, 0, 5, 7], [1], [6], [6]]
    tables = [pa.table({"ts": pa.array(some, pa.timestamp("s")), "n": some}) for some in seconds]
    found = read(stream(str(write(tmp_path / "a", "parquet", tables))))
    assert found["n"].to_pylist() == [0, 0, 0, 0, 0, 1, 5, 6, 6, 7]


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_files_with_null_times_are_refused_with_their_number(tmp_path: Path, kind: str) -> None:
    table = pa.table({"ts": pa.array([3, None, 1, None], pa.timestamp("us")), "n": range(4)})
    with pytest.raises(DataError, match=r"stream 'a': the event time 'ts' is NULL in 2 of 4 rows .*part-0"):
        read(declared(write(tmp_path / "a", kind, [table]), kind, table.schema))


def test_the_memory_for_sorting_must_be_a_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(spill.SORT_MEMORY, "much")
    with pytest.raises(SetupError, match="WATERSMEET_SORT_MEMORY='much'"):
        read(stream(str(write(tmp_path / "a", "parquet", [made(10)]))))


# ---- spilling -------------------------------------------------------------------------------------------------------


def pieces(rows: int, seed: int, rows_each: int) -> tuple[pa.Table, list[Piece]]:
    table = made(rows, seed)
    times = table["ts"].cast(pa.int64()).to_numpy()
    cut = [
        Piece(batch, times[start : start + rows_each], np.arange(start, start + batch.num_rows))
        for start, batch in zip(range(0, rows, rows_each), table.to_batches(max_chunksize=rows_each), strict=True)
    ]
    return table, cut


@pytest.mark.slow
@pytest.mark.parametrize(("fan_in", "rows"), [(2, 900), (3, 1_200), (32, 3_000)])
def test_sorted_runs_on_disk_are_merged_whatever_their_number(
    monkeypatch: pytest.MonkeyPatch, fan_in: int, rows: int
) -> None:
    """The fewer are merged at once, the fewer it takes to merge what was merged."""
    monkeypatch.setattr(spill, "FAN_IN", fan_in)
    table, cut = pieces(rows, fan_in, 100)
    rng = np.random.default_rng(fan_in)
    with TimeSorter(6_000) as sorter:
        for k in rng.permutation(len(cut)):
            sorter.add(cut[k])
        assert sorter.spilled_rows > rows // 3
        found = pa.Table.from_batches(sorter.release(END))
    assert found == by_time(table)


def test_what_is_certain_comes_out_while_more_is_added() -> None:
    table, cut = pieces(2_000, 5, 100)
    cut.sort(key=lambda piece: piece.smallest)
    with TimeSorter(6_000) as sorter:
        given = []
        for piece, following in zip(cut, [*(later.smallest for later in cut[1:]), END], strict=True):
            sorter.add(piece)
            given += sorter.release(following)
    assert pa.Table.from_batches(given) == by_time(table)


def test_runs_are_kept_where_only_this_user_can_read_them_and_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _, cut = pieces(1_000, 1, 100)
    with pytest.raises(KeyboardInterrupt), TimeSorter(3_000) as sorter:  # noqa: PT012
        for piece in cut:
            sorter.add(piece)
        (folder,) = tmp_path.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert list(folder.iterdir())
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_a_run_that_is_abandoned_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "a", "parquet", [made(5_000)], row_group_size=500)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    monkeypatch.setenv(spill.SORT_MEMORY, "10 KB")
    batches = batches_of(stream(str(folder)), 100)
    next(batches)
    assert list((tmp_path / "scratch").iterdir())
    batches.close()  # type: ignore[attr-defined]
    assert not list((tmp_path / "scratch").iterdir())


MEASURED = """
import resource, sys
from watersmeet.io.time_ordered import batches_of
from tests.unit.io.test_time_ordered import stream
import pyarrow as pa
pa.jemalloc_set_decay_ms(0) if pa.default_memory_pool().backend_name == "jemalloc" else None
one = stream(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
last, rows = None, 0
for batch in batches_of(one, 1 << 14):
    first = batch.column("ts").cast(pa.int64())
    assert last is None or last <= first[0].as_py()
    last, rows = first[-1].as_py(), rows + batch.num_rows
print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10, pa.default_memory_pool().max_memory())
"""


@pytest.mark.slow
def test_memory_stays_bounded_however_many_rows_there_are(tmp_path: Path) -> None:
    """40 MB of rows in any order, sorted with 6 MB."""
    rng = np.random.default_rng(1)
    rows = 400_000
    table = pa.table(
        {
            "ts": pa.array(rng.integers(0, 10**9, rows), pa.timestamp("us")),
            **{name: rng.integers(0, 2**60, rows) for name in "pqrstuvwxyz"},
        }
    )
    pa_parquet.write_table(
        table, tmp_path / "a.parquet", row_group_size=20_000, compression="none", use_dictionary=False
    )
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED, str(tmp_path / "a.parquet")], capture_output=True, text=True, check=True,
        env={**os.environ, spill.SORT_MEMORY: "6 MB"}, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    read_rows, resident, allocated = map(int, ran.stdout.split())
    assert read_rows == rows
    assert allocated < 16 << 20, "besides the 6 MB there are the pieces that are read and given out"
    assert resident < table.nbytes


# ---- only what is looked at -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", ["time", "arrival"])
def test_only_the_columns_that_a_query_looks_at_are_read(
    read: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = pa.array([3, 1, 2], pa.timestamp("us"))
    pa_parquet.write_table(
        pa.table({"k": [1, 2, 3], "wide": ["x" * 100] * 3, "x": [4, 5, 6], "ts": at}), tmp_path / "a.parquet"
    )
    asked: set[str] = set()
    iter_batches = pa_parquet.ParquetFile.iter_batches

    def noted(self: pa_parquet.ParquetFile, *given: object, columns: list[str], **more: object) -> object:
        asked.update(columns)
        return iter_batches(self, *given, columns=columns, **more)

    monkeypatch.setattr(pa_parquet.ParquetFile, "iter_batches", noted)
    session = wm.Session()
    # A hint may be of a column that is not read.
    how = {"read": read, "lateness": "1 second", "distinct": {"wide": 1}}
    session.stream("a", tmp_path / "a.parquet", time="ts", **how)
    assert sorted(session.sql("SELECT k FROM a WHERE x > 4").to_arrow()["k"].to_pylist()) == [2, 3]
    assert asked == {"k", "x", "ts"}
    asked.clear()
    assert session.sql("SELECT COUNT(*) AS n FROM a [UNBOUNDED]").final()["n"].to_pylist() == [3]
    assert asked == {"ts"}
    asked.clear()
    joined = session.sql("SELECT one.k, other.x FROM a AS one, a AS other WHERE one.k = other.k WINDOW = 1 SECOND")
    assert sorted(joined.to_arrow()["x"].to_pylist()) == [4, 5, 6]
    assert asked == {"k", "x", "ts"}
    session.stream("b", tmp_path / "a.parquet", time="arrival")
    assert session.sql("SELECT COUNT(*) AS n FROM b [UNBOUNDED]").final()["n"].to_pylist() == [3]
    assert session.sql("SELECT * FROM b").to_arrow().num_columns == 5
