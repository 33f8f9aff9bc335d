"""Parquet read straight into packets gives what Spark's own file source gives, and restarts the same way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from tests.runners import Bag, Source, bag_of, by_reference
from tests.spark.harness import cut, never_late, read_sink, run_streaming, write_arrivals
from watersmeet import Session
from watersmeet.errors import SourceError
from watersmeet.hosts.spark.reading.file_packets import read_file
from watersmeet.hosts.spark.reading.file_source import PackedReader
from watersmeet.hosts.spark.reading.file_stream import ParquetStream

SQL = "SELECT a.id, b.id AS other, event_time() AS at FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS"


def rows(seed: int, count: int = 400, zone: str | None = None) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = pa.array(1_700_000_000_000_000 + np.arange(count) * 50_000, pa.timestamp("us", zone))
    return pa.table({"id": np.arange(count), "k": rng.integers(0, 20, count), "unused": ["x"] * count, "ts": times})


def packed_answer(spark: SparkSession, folder: Path, sql: str = SQL) -> DataFrame:
    session = Session(spark, buckets=2)
    for name in ("a", "b"):
        session.stream(name, ParquetStream(str(folder / name), max_files_per_trigger=1), time="ts")
    return session.sql(sql).dataframe()


def expected(tables: dict[str, pa.Table], sql: str = SQL) -> Bag:
    return by_reference(sql, never_late([Source(name, table, "ts", "0 seconds") for name, table in tables.items()]))


@pytest.mark.soak  # test_flights.py and test_runs_that_end.py go on from checkpoints over such files
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_packed_files_give_the_reference_answer_and_a_restart_reads_only_what_is_new(spark, tmp_path, zone):
    tables = {name: rows(seed, 300, zone) for seed, name in enumerate("ab")}
    pieces = {name: cut(table, [100]) for name, table in tables.items()}
    for name, parts in pieces.items():
        write_arrivals(tmp_path / name, parts[:2])
    df = packed_answer(spark, tmp_path)
    run_streaming(spark, df, tmp_path / "checkpoint", tmp_path / "sink")
    for name, parts in pieces.items():
        write_arrivals(tmp_path / name, parts[2:], start=2)
    answer = run_streaming(spark, packed_answer(spark, tmp_path), tmp_path / "checkpoint", tmp_path / "sink")
    assert bag_of(answer.select(["id", "other"])) == bag_of_pairs(expected(tables))
    answer = run_streaming(spark, packed_answer(spark, tmp_path), tmp_path / "checkpoint", tmp_path / "sink")
    assert answer.num_rows == sum(expected(tables).values())


def bag_of_pairs(bag: Bag) -> Bag:
    return type(bag)({pair[:2]: count for pair, count in bag.items()})


def reader_of(folder: Path, limit: int | None = None, **more: str) -> PackedReader:
    options = {"path": str(folder), "source": "a", "job": "", **more}
    return PackedReader(options | ({"maxFilesPerTrigger": str(limit)} if limit else {}))


def touch(folder: Path, name: str, second: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"")
    os.utime(folder / name, (1e9 + second, 1e9 + second))


def test_offsets_name_the_files_of_each_batch_oldest_first(tmp_path):
    for second, name in ((3, "c"), (1, "a"), (2, "b")):
        touch(tmp_path, name, second)
    touch(tmp_path, "_SUCCESS", 4)
    reader = reader_of(tmp_path, 2)
    assert reader.getDefaultReadLimit() == ReadMaxFiles(2)
    first = reader.latestOffset(reader.initialOffset(), ReadMaxFiles(2))
    second = reader.latestOffset(first, ReadMaxFiles(2))
    assert [offset["files"] for offset in (first, second)] == ["a\nb", "c"]
    assert reader.latestOffset(second, ReadAllAvailable()) == second
    assert [Path(p.path).name for p in reader.partitions(first, second)] == ["c"]
    assert reader.partitions(second, second) == []


def test_a_file_that_appears_with_an_older_time_is_read_too(tmp_path):
    touch(tmp_path, "b", 60)
    reader = reader_of(tmp_path)
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    touch(tmp_path, "a", -100_000_000)
    assert reader.latestOffset(first, ReadAllAvailable())["files"] == "a"


def test_available_now_ends_at_the_files_that_were_there_at_the_start(tmp_path):
    touch(tmp_path, "a", 1)
    reader = reader_of(tmp_path)
    reader.prepareForTriggerAvailableNow()
    touch(tmp_path, "b", 2)
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert first["files"] == "a"
    assert reader.latestOffset(first, ReadAllAvailable()) == first


def test_files_of_one_moment_come_by_name_and_others_by_the_full_time(tmp_path):
    for name in "cab":
        touch(tmp_path, name, 1)
    touch(tmp_path, "z", 1)
    os.utime(tmp_path / "z", ns=(10**18, 10**18 + 10**9 - 1))  # a nanosecond before the others
    for path in (tmp_path, tmp_path / "[a-z]"):
        reader = reader_of(path)
        offset = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        assert [Path(p.path).name for p in reader.partitions(reader.initialOffset(), offset)] == ["z", "a", "b", "c"]


def test_the_last_offset_of_a_run_that_ends_names_the_run_once(tmp_path):
    for second, name in ((1, "a"), (2, "b")):
        touch(tmp_path, name, second)
    reader = reader_of(tmp_path, 1, ending="run 1")
    reader.prepareForTriggerAvailableNow()
    first = reader.latestOffset(reader.initialOffset(), ReadMaxFiles(1))
    last = reader.latestOffset(first, ReadMaxFiles(1))
    assert ("ended" in first, last["files"], last["ended"]) == (False, "b", "run 1")
    assert [type(p).__name__ for p in reader.partitions(first, last)] == ["FileSplit", "EndSplit"]
    assert reader.latestOffset(last, ReadMaxFiles(1)) == last
    later = reader_of(tmp_path, 1)  # a run that goes on
    assert later.latestOffset(last, ReadMaxFiles(1)) == last
    again = reader_of(tmp_path, 1, ending="run 2")  # one that ends, with nothing new to read
    again.prepareForTriggerAvailableNow()
    ended = again.latestOffset(last, ReadMaxFiles(1))
    assert [type(p).__name__ for p in again.partitions(last, ended)] == ["EndSplit"]
    assert again.latestOffset(ended, ReadMaxFiles(1)) == ended


def test_the_clock_of_a_batch_is_logged_with_it_where_rows_may_lie_too_far_ahead(tmp_path):
    touch(tmp_path, "a", 1)
    reader = reader_of(tmp_path, maxFuture="5000000")
    offset = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    (partition,) = reader.partitions(reader.initialOffset(), offset)
    assert partition.limit_us == pytest.approx(time.time() * 1e6 + 5e6, abs=60e6)


def test_a_checkpoint_of_sparks_own_reader_is_refused(tmp_path):
    touch(tmp_path, "a", 1)
    with pytest.raises(SourceError, match="was written when Spark's own reader read its files") as refused:
        reader_of(tmp_path).latestOffset({"logOffset": 0}, ReadAllAvailable())
    assert "packed = 'false'" in str(refused.value)


@pytest.mark.parametrize("module", ["hosts.spark.reading.file_source", "io.connectors.connected_source"])
def test_what_runs_on_the_driver_loads_no_kernels(module):
    """Spark starts a Python process for every source of a query, and again for every start."""
    code = f"import sys, pyspark.sql.datasource, watersmeet.{module}; print(sorted(sys.modules))"
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    loaded = subprocess.run([sys.executable, "-c", code], env=found, check=True, capture_output=True, text=True).stdout
    heavy = ("numba", "pandas", "watersmeet.runtime", "watersmeet.operators")
    assert not [name for name in heavy if f"'{name}'" in loaded]


def test_a_file_without_a_column_that_the_query_needs_is_named(tmp_path):
    pq.write_table(pa.table({"k": [1]}), tmp_path / "bad.parquet")
    wanted = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])
    with pytest.raises(SourceError, match=r"'a' is declared with a column 'ts', but .*bad\.parquet has none"):
        list(read_file(str(tmp_path / "bad.parquet"), wanted, "a"))
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(SourceError, match=r"torn\.parquet cannot be read"):
        list(read_file(str(tmp_path / "torn.parquet"), wanted, "a"))


def test_a_query_without_state_reads_the_same_folder_as_rows(spark, tmp_path):
    write_arrivals(tmp_path / "a", cut(rows(1), [200]))
    session = Session(spark)
    session.stream("a", ParquetStream(str(tmp_path / "a"), max_files_per_trigger=1), time="ts")
    df = session.sql("SELECT id FROM a WHERE k = 3").dataframe()
    run_streaming(spark, df, tmp_path / "checkpoint", tmp_path / "sink")
    found = read_sink(spark, tmp_path / "sink", df)
    assert found.num_rows == int(np.count_nonzero(rows(1)["k"].to_numpy() == 3))


def test_an_offset_of_an_older_version_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "1.csv").write_text("k,ts\n1,2026-01-01\n")
    before = {"files": "1.csv", "read": "1.csv"}
    assert reader_of(folder).latestOffset(before, ReadAllAvailable()) == before
    (folder / "2.csv").write_text("k,ts\n1,2026-01-01\n")
    after = reader_of(folder).latestOffset(before, ReadAllAvailable())
    assert (after["files"], after["read"], len(after["looks"].split("\n"))) == ("2.csv", "1.csv\n2.csv", 2)
    assert not caplog.records
