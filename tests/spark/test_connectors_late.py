"""Late rows that go to a sink, on Spark: once, with all their columns, whatever the query reads of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_connectors import JOIN, SECOND, STREAMS, bag, pairs, rows
from tests.spark.toy import TOY, add, taken
from watersmeet.errors import SinkError, UnsupportedError
from watersmeet.hosts.spark.progress.running_query import RunningQuery
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.io.connectors.registry import forget, register
from watersmeet.runtime.run_settings import RunSettings

LATE = "CREATE SINK late WITH (sink='toy', file='late.db');"
KEPT = STREAMS.replace("folder='a'", "folder='a', on_late='sink late'").replace("1 minute", "5 seconds")


@pytest.fixture(autouse=True)
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    register(TOY)
    yield
    forget("toy")


def run(spark: SparkSession, select: str, streams: str = KEPT) -> RunningQuery:
    script = f"{LATE} {streams} CREATE SINK answers WITH (sink='toy', file='out.db') AS {select};"
    (one,) = SparkRun(spark, script, RunSettings(available_now=True, buckets=2, checkpoint="ck")).run()
    return one


def late() -> list[tuple[object, ...]]:
    return [(one["k"], one["v"], one["ts"], one["_stream"], one["_watermark"]) for one in taken(Path("late.db"))]


def at(second: int) -> str:
    return f"1970-01-01 00:{second // 60:02}:{second % 60:02}"


def test_late_rows_go_to_a_sink_once_with_all_their_columns(spark, tmp_path):
    """Also where the query reads a stream twice, and where its filter would leave none of them. They come in the third
    batch, which is then repeated."""
    select = """SELECT x.v AS xv, y.v AS yv, b.v AS bv FROM a AS x, a AS y, b
                WHERE x.v < 1000 AND x.k = y.k AND x.k = b.k WINDOW = 1 SECOND"""
    too_late = [(1, 1_000, 10 * SECOND), (None, 1_001, 20 * SECOND)]
    add(Path("a"), 0, [*rows(0, 85), *too_late])  # type: ignore[list-item]
    add(Path("b"), 0, rows(0, 90))
    one = run(spark, select)
    expected = sorted([(1, 1_000, at(10), "a", at(74)), (None, 1_001, at(20), "a", at(74))], key=str)
    assert sorted(late(), key=str) == expected
    assert (one.metrics.late_rows, one.metrics.late_by_stream) == (2, {"a": 2})
    assert bag(taken(Path("out.db"))) == bag([{"xv": v, "yv": v, "bv": v} for v in range(85)])
    newest = max(int(one.name) for one in Path("ck/commits").glob("[0-9]*"))
    for name in (str(newest), f".{newest}.crc"):  # as if it had been killed just before Spark took note
        (tmp_path / "ck" / "commits" / name).unlink()
    run(spark, select)
    assert sorted(late(), key=str) == expected


def test_late_rows_of_a_query_without_state_are_found_too(spark):
    add(Path("a"), 0, [*rows(0, 40), (0, 99, 3 * SECOND), *rows(40, 2)])
    add(Path("b"), 0, rows(0, 1))
    one = run(spark, "SELECT v FROM a")
    assert late() == [(0, 99, at(3), "a", at(34))]
    assert one.metrics.late_rows == 1
    assert bag(taken(Path("out.db"))) == bag([{"v": v} for v in range(42)])


def test_late_rows_and_bad_records_may_go_to_one_sink(spark):
    add(Path("a"), 0, [*rows(0, 30), "what?"])
    add(Path("b"), 0, rows(0, 30))
    both = KEPT.replace("on_late='sink late'", "on_late='sink late', on_bad='sink late'")
    first = run(spark, JOIN, both)
    assert first.metrics.late_rows == 0
    add(Path("a"), 0, [(0, 99, 3 * SECOND)])
    second = run(spark, JOIN, both)  # late by what the run before has left
    found = taken(Path("late.db"))
    assert [(one["reason"], one["v"]) for one in found] == [("not JSON", None), (None, 99)]
    assert second.metrics.late_rows == 1
    assert bag(taken(Path("out.db"))) == pairs(rows(0, 30), rows(0, 30))


def test_late_rows_of_dataframes_and_files_are_kept_too(spark):
    Path("a").mkdir()
    Path("a/1.json").write_text("".join(json.dumps({"k": 1, "v": n, "ts": at(n)}) + "\n" for n in range(50)))
    Path("a/2.json").write_text(json.dumps({"k": 2, "v": 7, "ts": at(7)}) + "\n")
    os.utime("a/1.json", (1e9, 1e9))
    for packed in ("true", "false"):
        script = f"""
            CREATE SINK late WITH (sink='toy', file='late-{packed}.db');
            CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (source='json', path='a', time='ts',
                lateness='5 seconds', on_late='sink late', packed='{packed}', maxFilesPerTrigger='1');
            CREATE SINK answers WITH (sink='toy', file='out.db') AS
                SELECT k, count(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k;
        """
        choices = RunSettings(available_now=True, buckets=2, checkpoint=f"ck-{packed}")
        (one,) = SparkRun(spark, script, choices).run()
        (found,) = taken(Path(f"late-{packed}.db"))
        assert (found["k"], found["v"], found["_watermark"]) == (2, 7, at(44))
        assert one.metrics.late_rows == 1


def test_what_cannot_be_kept_is_refused_with_a_reason(spark):
    for name in ("a", "b"):
        add(Path(name), 0, rows(0, 2))
    script = f"{LATE} {KEPT} CREATE SINK rows WITH (sink='orc', path='out') AS {JOIN};"
    with pytest.raises(SinkError, match="which Spark writes by itself"):
        SparkRun(spark, script, RunSettings(available_now=True, buckets=2)).run()
    staged = "SELECT a.v, count(*) AS n FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k GROUP BY a.v"
    with pytest.raises(UnsupportedError, match="runs in two stages"):
        run(spark, staged)
