"""Parquet read straight into packets gives what Spark's own file source gives, and restarts the same way."""

from __future__ import annotations

import json
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
from tests.spark.planning import STREAM, planned, planner
from watersmeet import Session
from watersmeet.errors import SourceError
from watersmeet.hosts.spark.reading.file_stream import FileStream, ParquetStream

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


def touch(folder: Path, name: str, second: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"")
    os.utime(folder / name, (1e9 + second, 1e9 + second))


def test_offsets_tell_the_files_of_each_batch_oldest_first(tmp_path):
    for second, name in ((3, "c"), (1, "a"), (2, "b")):
        touch(tmp_path, name, second)
    touch(tmp_path, "_SUCCESS", 4)
    reader = planner(tmp_path, 2)
    assert reader.getDefaultReadLimit() == ReadMaxFiles(2)
    begin = reader.initialOffset()
    first = reader.latestOffset(begin, ReadMaxFiles(2))
    second = reader.latestOffset(first, ReadMaxFiles(2))
    assert [planned(reader, begin, first), planned(reader, first, second)] == [["a", "b"], ["c"]]
    assert reader.latestOffset(second, ReadAllAvailable()) == second
    assert reader.partitions(second, second) == []


def test_a_batch_that_is_repeated_reads_the_same_files_whatever_came_since(tmp_path):
    for second, name in ((1, "a"), (3, "b")):
        touch(tmp_path, name, second)
    reader = planner(tmp_path)
    begin = reader.initialOffset()
    first = reader.latestOffset(begin, ReadAllAvailable())
    touch(tmp_path, "between", 2)
    touch(tmp_path, "c", 4)
    second = reader.latestOffset(first, ReadAllAvailable())
    touch(tmp_path, "earlier", 0)
    (tmp_path / "a").unlink()  # it was answered for good
    again = planner(tmp_path)
    assert planned(again, begin, first) == ["a", "b"]
    again = planner(tmp_path)
    assert planned(again, first, second) == ["between", "c"]
    assert planned(again, second, again.latestOffset(second, ReadAllAvailable())) == ["earlier"]


def test_a_later_life_reads_only_what_is_new_though_spark_asks_late_where_the_first_began(tmp_path):
    for second, name in enumerate("abc"):
        touch(tmp_path, name, second)
    reader = planner(tmp_path, 1)
    at = begin = reader.initialOffset()
    for name in "abc":
        upto = reader.latestOffset(at, ReadMaxFiles(1))
        reader.initialOffset()  # as for the first batch, once it is planned
        assert planned(reader, at, upto) == [name]
        at = upto
    touch(tmp_path, "d", -5)
    later = planner(tmp_path, 1)
    upto = later.latestOffset(at, ReadMaxFiles(1))
    assert planned(later, at, upto) == ["d"]
    assert later.latestOffset(upto, ReadMaxFiles(1)) == upto
    assert begin == later.initialOffset()


def test_a_file_that_appears_with_an_older_time_is_read_too(tmp_path):
    touch(tmp_path, "b", 60)
    reader = planner(tmp_path)
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    touch(tmp_path, "a", -100_000_000)
    assert planned(reader, first, reader.latestOffset(first, ReadAllAvailable())) == ["a"]


def test_names_of_files_that_are_gone_are_forgotten(tmp_path):
    """So an offset does not grow with all that ever was; a name that comes again is read again."""
    for second, name in enumerate("abc"):
        touch(tmp_path, name, second)
    reader = planner(tmp_path)
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    for name in "ab":
        (tmp_path / name).unlink()
    touch(tmp_path, "d", 4)
    second = reader.latestOffset(first, ReadAllAvailable())
    assert planned(reader, first, second) == ["d"]
    assert [one[1] for one in json.loads(second["files"])] == ["c", "d"]
    touch(tmp_path, "a", 1)
    for later in (reader, planner(tmp_path)):
        assert planned(later, second, later.latestOffset(second, ReadAllAvailable())) == ["a"]


def test_the_end_of_a_run_notes_the_files_that_are_there_though_the_newest_is_gone(tmp_path):
    for second, name in enumerate("abc"):
        touch(tmp_path, name, second)
    reader = planner(tmp_path)
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    (tmp_path / "c").unlink()
    ending = planner(tmp_path, ending="run 1")
    ending.prepareForTriggerAvailableNow()
    ended = ending.latestOffset(first, ReadAllAvailable())
    assert (ended["ended"], [one[1] for one in json.loads(ended["files"])]) == ("run 1", ["a", "b"])
    for later in (ending, planner(tmp_path)):
        assert later.latestOffset(ended, ReadAllAvailable()) == ended


@pytest.mark.parametrize("limit", [ReadAllAvailable(), ReadMaxFiles(1), ReadMaxFiles(5)])
def test_available_now_ends_at_the_files_that_were_there_at_the_start(tmp_path, limit):
    for second, name in enumerate("ab"):
        touch(tmp_path, name, second)
    reader = planner(tmp_path)
    reader.prepareForTriggerAvailableNow()
    at, batches = reader.initialOffset(), []
    for _ in range(4):
        upto = reader.latestOffset(at, limit)
        touch(tmp_path, "c", 2)
        batches += [planned(reader, at, upto)] if upto != at else []
        at = upto
    assert batches == ([["a"], ["b"]] if limit == ReadMaxFiles(1) else [["a", "b"]])


def test_files_of_one_moment_come_by_name_and_others_by_the_full_time(tmp_path):
    for name in "cab":
        touch(tmp_path, name, 1)
    touch(tmp_path, "z", 1)
    os.utime(tmp_path / "z", ns=(10**18, 10**18 + 10**9 - 1))  # a nanosecond before the others
    for path in (tmp_path, tmp_path / "[a-z]"):
        reader = planner(path)
        offset = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        assert planned(reader, reader.initialOffset(), offset) == ["z", "a", "b", "c"]


def test_the_last_offset_of_a_run_that_ends_names_the_run_once(tmp_path):
    for second, name in ((1, "a"), (2, "b")):
        touch(tmp_path, name, second)
    reader = planner(tmp_path, 1, ending="run 1")
    reader.prepareForTriggerAvailableNow()
    first = reader.latestOffset(reader.initialOffset(), ReadMaxFiles(1))
    last = reader.latestOffset(first, ReadMaxFiles(1))
    assert ("ended" in first, last["ended"]) == (False, "run 1")
    assert [type(p).__name__ for p in reader.partitions(first, last)] == ["SourceSplit", "EndSplit"]
    assert reader.latestOffset(last, ReadMaxFiles(1)) == last
    later = planner(tmp_path, 1)  # a run that goes on
    assert later.latestOffset(last, ReadMaxFiles(1)) == last
    again = planner(tmp_path, 1, ending="run 2")  # one that ends, with nothing new to read
    again.prepareForTriggerAvailableNow()
    ended = again.latestOffset(last, ReadMaxFiles(1))
    assert [type(p).__name__ for p in again.partitions(last, ended)] == ["EndSplit"]
    assert again.latestOffset(ended, ReadMaxFiles(1)) == ended


def test_the_clock_of_a_batch_is_logged_with_it_where_rows_may_lie_too_far_ahead(tmp_path):
    touch(tmp_path, "a", 1)
    reader = planner(tmp_path, maxFuture="5000000")
    offset = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    (partition,) = reader.partitions(reader.initialOffset(), offset)
    assert partition.moments.limit_us == pytest.approx(time.time() * 1e6 + 5e6, abs=60e6)


def test_a_checkpoint_of_sparks_own_reader_is_refused(tmp_path):
    touch(tmp_path, "a", 1)
    with pytest.raises(SourceError, match="was written when Spark's own reader read its files") as refused:
        planner(tmp_path).latestOffset({"logOffset": 0}, ReadAllAvailable())
    assert "packed = 'false'" in str(refused.value)
    with pytest.raises(SourceError, match="or by another version of watersmeet"):
        planner(tmp_path).latestOffset({"files": "a", "read": "a"}, ReadAllAvailable())


@pytest.mark.parametrize("module", ["hosts.spark.reading.connector_source", "io.connectors.connected_source"])
def test_what_runs_on_the_driver_loads_no_kernels(module):
    """Spark starts a Python process for every source of a query, and again for every start."""
    code = f"import sys, pyspark.sql.datasource, watersmeet.{module}; print(sorted(sys.modules))"
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    loaded = subprocess.run([sys.executable, "-c", code], env=found, check=True, capture_output=True, text=True).stdout
    heavy = ("numba", "pandas", "watersmeet.runtime", "watersmeet.operators")
    assert not [name for name in heavy if f"'{name}'" in loaded]


def test_a_folder_that_is_gone_is_told(tmp_path):
    touch(tmp_path / "in", "a", 1)
    reader = planner(tmp_path / "in")
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    (tmp_path / "in").rename(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match="in does not exist"):
        reader.latestOffset(first, ReadAllAvailable())


def test_what_lists_files_on_the_driver_loads_neither_kernels_nor_readers(tmp_path):
    """Spark starts a Python process for every source of a query, and again for every start."""
    plan = "lambda reader: reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())"
    made = FileStream(str(tmp_path)).connected(STREAM).encoded_options() | {"source": "a", "jobs": ""}
    code = (
        "import sys; from watersmeet.hosts.spark.reading.connector_source import ConnectorReader; "
        f"({plan})(ConnectorReader({made})); print(sorted(sys.modules))"
    )
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    loaded = subprocess.run([sys.executable, "-c", code], env=found, check=True, capture_output=True, text=True).stdout
    heavy = ("numba", "pandas", "watersmeet.runtime", "watersmeet.operators", "watersmeet.io.files")
    assert not [name for name in heavy if f"'{name}'" in loaded]


def test_a_file_without_a_column_that_the_query_needs_is_named(tmp_path):
    pq.write_table(pa.table({"k": [1]}), tmp_path / "bad.parquet")
    files = FileStream(str(tmp_path)).read_as(STREAM)
    with pytest.raises(SourceError, match=r"'a' is declared with a column 'ts', but .*bad\.parquet has none"):
        list(files.of_file(tmp_path / "bad.parquet", 10))
    (found,) = files.narrowed(["k"]).of_file(tmp_path / "bad.parquet", 10)
    assert found.rows.to_pylist() == [{"k": 1}]
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(SourceError, match=r"torn\.parquet cannot be read"):
        list(files.of_file(tmp_path / "torn.parquet", 10))


def test_a_query_without_state_reads_the_same_folder_as_rows(spark, tmp_path):
    write_arrivals(tmp_path / "a", cut(rows(1), [200]))
    session = Session(spark)
    session.stream("a", ParquetStream(str(tmp_path / "a"), max_files_per_trigger=1), time="ts")
    df = session.sql("SELECT id FROM a WHERE k = 3").dataframe()
    run_streaming(spark, df, tmp_path / "checkpoint", tmp_path / "sink")
    found = read_sink(spark, tmp_path / "sink", df)
    expected = int(np.count_nonzero(rows(1)["k"].to_numpy() == 3))
    assert found.num_rows == expected
    # A file that is moved in brings its time along, however old.
    pq.write_table(pq.read_table(next((tmp_path / "a").glob("*.parquet"))), moved := tmp_path / "a" / "moved.parquet")
    os.utime(moved, (1, 1))
    run_streaming(spark, df, tmp_path / "checkpoint", tmp_path / "sink")
    more = int(np.count_nonzero(pq.read_table(moved)["k"].to_numpy() == 3))
    assert more
    assert read_sink(spark, tmp_path / "sink", df).num_rows == expected + more
