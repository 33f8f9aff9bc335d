"""What a run on Spark shows to whoever looks at it: its numbers, and the first rows of what it has just written."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.test_run import STREAMS, arrive
from watersmeet.hosts.spark.progress.boards import MOST_ROWS, WrittenRows, not_readable
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.hosts.spark.writing.sinks import SparkSink
from watersmeet.io.modes import SPARK_LOG
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import read_script
from watersmeet.runtime.watched import Board

SINK = "CREATE SINK pairs WITH (sink='parquet', path='pairs'{more}) AS SELECT a.k, a.ts FROM a;"


def test_a_board_has_the_numbers_and_the_rows_of_a_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(2):
        arrive(tmp_path, number)
    query = "SELECT a.k, a.ts FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS"
    run = SparkRun(
        spark,
        f"{STREAMS} CREATE SINK pairs WITH (sink='parquet', path='pairs') AS {query}; {query};",
        RunSettings(available_now=True, buckets=1),
    )
    boards = {job.name: Board(job.plan, adds_up=False) for job in run.jobs}
    heard: dict[str, list[pa.RecordBatch]] = {name: [] for name in boards}
    for name, board in boards.items():
        board.on_answers = lambda number, rows, name=name: heard[name].extend(rows)  # type: ignore[misc]
    assert {board.state for board in boards.values()} == {"waiting"}
    run.run(None, boards)
    written = pq.read_table("pairs").sort_by([("ts", "ascending"), ("k", "ascending")])
    for name, board in boards.items():
        told = board.metrics()
        assert (board.state, board.rows_missing, board.number > 0, board.batch_seconds > 0) == (
            "ended",
            None,
            True,
            True,
        )
        assert told["rows_by_stream"] == {"a": 40, "b": 40}
        assert told["newest_by_stream"] == {"a": 1_039_000_000, "b": 1_039_000_000}
        assert set(told["window_rows_by_input"]) == {"a", "b"}
        shown = pa.Table.from_batches(heard[name]).sort_by([("ts", "ascending"), ("k", "ascending")])
        assert shown.to_pylist() == written.to_pylist()


# ---- without Spark ----


def sink(folder: Path, more: str = "") -> SparkSink:
    declared = "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time='ts');"
    (job,) = read_script(declared + SINK.format(more=more).replace("'pairs'", f"'{folder}/pairs'"), pushed=True)
    return SparkSink(job, str(folder / "checkpoint"))


def commit(folder: Path, number: int, files: dict[str, int], *, before: tuple[str, ...] = ()) -> None:
    """What Spark writes for a batch: files with so many rows, and the list of them; every tenth list has all files."""
    folder = folder / "pairs"
    (folder / SPARK_LOG).mkdir(parents=True, exist_ok=True)
    for name, rows in files.items():
        times = pa.array([number] * rows, pa.timestamp("us"))
        pq.write_table(pa.table({"k": pa.array([number] * rows, pa.int64()), "ts": times}), folder / name)
    listed = [json.dumps({"path": f"file://{folder}/{name}", "action": "add"}) for name in (*before, *files)]
    name = f"{number}.compact" if before else str(number)
    (folder / SPARK_LOG / name).write_text("\n".join(["v1", *listed]))


def test_only_the_rows_of_the_batch_are_read_back(tmp_path: Path) -> None:
    rows = WrittenRows(sink(tmp_path))
    commit(tmp_path, 8, {"a b.parquet": 3})
    assert sum(one.num_rows for one in rows.of_batch(8)) == 3
    commit(tmp_path, 9, {"c.parquet": 2, "d.parquet": 1}, before=("old.parquet", "a b.parquet"))
    assert [one["k"].to_pylist() for one in rows.of_batch(9)] == [[9, 9], [9]]
    commit(tmp_path, 19, {}, before=("c.parquet", "d.parquet"))
    assert rows.of_batch(19) == []
    commit(tmp_path, 20, {"many.parquet": 10 * MOST_ROWS})
    assert sum(one.num_rows for one in rows.of_batch(20)) == MOST_ROWS
    assert rows.trouble is None
    assert rows.of_batch(21) == []
    assert "those of batch 21 cannot be read back" in (rows.trouble or "")


def test_where_rows_cannot_be_read_back_it_says_so(tmp_path: Path) -> None:
    assert "partitioned into folders" in (not_readable(sink(tmp_path, ", partition_by='k'")) or "")
    other = sink(tmp_path)
    other.kind = "csv"
    assert "go to csv" in (not_readable(other) or "")
    assert not_readable(sink(tmp_path)) is None
