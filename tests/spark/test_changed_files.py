"""Files that were read and have changed since are told of where a query on Spark was started, and counted."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.spark.planning import planner
from watersmeet.hosts.spark.reading.changed_files import changed_in
from watersmeet.hosts.spark.reading.connector_source import ConnectorReader
from watersmeet.hosts.spark.reading.splits import Offset
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.io.connectors import local_files
from watersmeet.runtime.run_settings import RunSettings

ROWS = "k,ts\n1,2026-01-01 00:00:01\n"
MORE = "2,2026-01-01 00:00:02\n"


def reader(folder: Path) -> ConnectorReader:
    return planner(folder, source="s")


def latest(of: ConnectorReader, start: Offset) -> Offset:
    """As Spark gives it back: by way of JSON."""
    return dict(json.loads(json.dumps(of.latestOffset(start, ReadAllAvailable()))))


def test_an_offset_tells_of_a_change_once_in_all_lives(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text(ROWS)
    first = reader(tmp_path)
    read = latest(first, first.initialOffset())
    assert latest(first, read) == read
    (tmp_path / "a.csv").write_text(ROWS + MORE)
    (tmp_path / "b.csv").write_text("k,ts\n")
    second = reader(tmp_path)  # another life
    told = latest(second, read)
    assert latest(second, read) == told
    assert told != read
    assert second.partitions(read, told) == []
    (found,) = changed_in([SimpleNamespace(startOffset=json.dumps(read), endOffset=json.dumps(told))])
    assert changed_in([SimpleNamespace(startOffset=str(read), endOffset=str(told))]) == [found]
    assert changed_in([SimpleNamespace(startOffset="1", endOffset="FileStreamSource[file:/changed]")]) == []
    assert (found.stream, found.files) == ("s", 2)
    assert "a.csv, which stream 's' has read, has become longer since, and is not read again" in found.sentences[0]
    assert "b.csv, which stream 's' has read, has become shorter since" in found.sentences[1]
    assert latest(second, told) == told
    assert latest(reader(tmp_path), told) == told
    assert changed_in([SimpleNamespace(startOffset=json.dumps(told), endOffset=json.dumps(told))]) == []


def test_a_file_that_grows_and_grows_costs_one_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text(ROWS)
    first = reader(tmp_path)
    read = latest(first, first.initialOffset())
    (tmp_path / "a.csv").write_text(ROWS + MORE)
    one = reader(tmp_path)
    told = latest(one, read)
    assert told != read
    monkeypatch.setattr(local_files, "WATCH_S", 0.0)
    (tmp_path / "a.csv").write_text(ROWS + MORE + MORE)
    assert latest(one, told) == told


SCRIPT = """
CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (source = 'csv', path = 'in', time = 'ts', lateness = '1 day');
CREATE SINK out WITH (sink = 'parquet', path = 'out') AS SELECT k, COUNT(*) AS n FROM s [RANGE 1 HOUR] GROUP BY k;"""


def test_a_run_warns_of_a_change_between_two_starts_and_counts_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/a.csv").write_text(ROWS)
    choices = RunSettings(available_now=True, buckets=1, checkpoint="ck")
    (first,) = SparkRun(spark, SCRIPT, choices).run()
    assert first.metrics.changed_files == {}
    Path("in/a.csv").write_text(ROWS + MORE)
    with caplog.at_level(logging.WARNING, logger="watersmeet"):
        (second,) = SparkRun(spark, SCRIPT, choices).run()
    assert second.metrics.changed_files == {"s": 1}
    assert second.metrics.rows_in == 0
    assert f"out: {tmp_path / 'in' / 'a.csv'}, which stream 's' has read, has become longer since" in caplog.text
