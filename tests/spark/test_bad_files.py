"""Records of files and DataFrames that cannot be read, on Spark: left out, counted and kept as in-process."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import watersmeet as wm
from tests.spark.toy import TOY, taken
from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.hosts.spark.progress.running_query import RunningQuery
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.hosts.spark.writing.sinks import SparkSink
from watersmeet.io.connectors.registry import forget, register
from watersmeet.runtime.run_settings import RunSettings

NOON = "2026-01-01 12:00:00"
PAGE = Path(__file__).parents[2] / "docs" / "bad_records.md"
GROUPED = "SELECT k, count(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k"


@pytest.fixture(autouse=True)
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    register(TOY)
    yield
    forget("toy")


def run(spark: SparkSession, script: str, checkpoint: str | None = "ck") -> RunningQuery:
    (one,) = SparkRun(spark, script, RunSettings(available_now=True, buckets=2, checkpoint=checkpoint)).run()
    return one


def lines_of(folder: str) -> list[dict[str, object]]:
    parts = sorted(one for one in Path(folder).rglob("part-*"))
    return [json.loads(line) for path in parts for line in path.open()]


def test_the_script_of_the_page_keeps_on_spark_what_it_keeps_in_process(spark):
    """But for the late row, which is in the batch that moves time."""
    page = PAGE.read_text()
    script = next(one for one in re.findall(r"```sql\n(.*?)```", page, re.S) if "shop.sql" in one)
    Path("orders").mkdir()
    written = page.split("cat > orders/1.json <<'END'\n")[1].split("END\n")[0].splitlines(keepends=True)
    Path("orders/1.json").write_text("".join(written[:-1]))
    first = run(spark, script)
    Path("orders/2.json").write_text(written[-1])
    second = run(spark, script)
    kept = [(one["offset"], one["reason"], bytes.fromhex(str(one["raw"]))) for one in lines_of("bad")]
    assert sorted(kept) == [
        (2, "wrong type", written[1].strip().encode()),
        (3, "null time", written[2].strip().encode()),
        (4, "not json", written[3].strip().encode()),
    ]
    (late,) = lines_of("late")
    assert (late["id"], late["_stream"], late["_watermark"]) == (6, "orders", "2026-01-01T12:00:10")
    assert lines_of("taken") == [{"id": 1, "amount": 10}, {"id": 5, "amount": 2}]
    assert first.metrics.bad_by_reason == {"orders: wrong type": 1, "orders: not json": 1, "orders: null time": 1}
    assert (first.metrics.rows_in, second.metrics.late_rows) == (5, 1)


STREAM = (
    "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (source='{kind}', path='a', time='ts', on_bad='{on_bad}'{more});"
)
BAD = "CREATE SINK bad WITH (sink='toy', file='bad.db');"


def script_of(kind: str, on_bad: str, select: str, more: str = "") -> str:
    stream = STREAM.format(kind=kind, on_bad=on_bad, more=more)
    side = BAD if on_bad.startswith("sink") else ""
    return f"{side} {stream} CREATE SINK answers WITH (sink='toy', file='out.db') AS {select};"


def put(kind: str) -> None:
    """Three rows, and records that are none."""
    Path("a").mkdir()
    if kind == "parquet":
        times = pa.array([0, None, 1_000_000, 2**62, 2_000_000], pa.timestamp("us"))
        pq.write_table(pa.table({"k": pa.array([1, 2, 3, 4, 5], pa.int64()), "ts": times}), "a/1.parquet")
    elif kind == "csv":
        rows = ["k,ts", f"1,{NOON}", "2,", f"3,{NOON}", f"four,{NOON}", f"5,{NOON}", "6"]
        Path("a/1.csv").write_text("\n".join(rows) + "\n")
    else:
        rows = "".join(json.dumps({"k": k, "ts": NOON}) + "\n" for k in (1, 3, 5))
        Path("a/1.json").write_text(f'{{\n{rows}{{"k": 7, "ts": "noon"}}\n')


@pytest.mark.parametrize(
    ("kind", "reasons"),
    [
        ("parquet", {"a: null time": 1, "a: time out of range": 1}),
        ("csv", {"a: null time": 1, "a: wrong type": 1, "a: not csv": 1}),
        ("json", {"a: not json": 1, "a: wrong type": 1}),
    ],
)
def test_files_of_every_kind_leave_out_and_keep_what_cannot_be_read(spark, kind, reasons):
    put(kind)
    one = run(spark, script_of(kind, "sink bad", "SELECT k FROM a"))
    assert one.metrics.bad_by_reason == reasons
    assert sorted(row["k"] for row in taken(Path("out.db"))) == [1, 3, 5]
    kept = taken(Path("bad.db"))
    assert len(kept) == sum(reasons.values())
    assert all(str(row["place"]).endswith(f"a/1.{kind}") for row in kept)
    if kind == "csv":  # all kinds are read alike, for a query with state too
        skipping = run(spark, script_of(kind, "skip", GROUPED), checkpoint="other")
        assert skipping.metrics.bad_by_reason == reasons
    there = wm.Session()
    there.sql(STREAM.format(kind=kind, on_bad="skip", more=""))
    query = there.sql("SELECT k FROM a")
    with pytest.warns(wm.DataWarning, match="bad_rows"):
        query.to_arrow()
    assert query.metrics()["bad_by_reason"] == reasons


def test_queries_share_a_sink_that_is_overwritten_only_before_their_first_life(spark, monkeypatch):
    """The folder that is overwritten holds what a run before left there; what another query sends stays, also if that
    is done before the next one starts."""
    start = SparkSink.start

    def to_the_end(*given: Any) -> StreamingQuery:
        query = start(*given)
        query.awaitTermination()
        return query

    monkeypatch.setattr(SparkSink, "start", to_the_end)
    for name in "ab":
        Path(name).mkdir()
    Path("a/1.json").write_text(f'nope of a\n{{"k": 1, "ts": "{NOON}"}}\n')
    Path("b/1.json").write_text(f'{{"k": 2, "ts": "{NOON}"}}\n')
    Path("bad").mkdir()
    Path("bad/part-0123456789ab-000000000000000.json").write_text('{"stream": "old"}\n')
    script = "CREATE SINK bad WITH (sink='json', path='bad', mode='overwrite');" + "".join(
        f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (source='json', path='{name}', time='ts', "
        f"on_bad='sink bad'); CREATE SINK of_{name} WITH (sink='toy', file='{name}.db') AS SELECT k FROM {name};"
        for name in "ab"
    )
    choices = RunSettings(available_now=True, buckets=2, checkpoint="ck")
    SparkRun(spark, script, choices).run()
    assert [one["stream"] for one in lines_of("bad")] == ["a"]
    Path("b/2.json").write_text("nope of b\n")
    SparkRun(spark, script, choices).run()
    assert sorted(str(one["stream"]) for one in lines_of("bad")) == ["a", "b"]


def test_what_spark_reads_itself_is_refused_and_columns_must_be_declared(spark):
    put("csv")
    with pytest.raises(UnsupportedError, match="is read by Spark's own reader"):
        SparkRun(spark, script_of("csv", "skip", GROUPED, ", packed='false'"))
    undeclared = script_of("csv", "skip", GROUPED).replace("(k BIGINT, ts TIMESTAMP)", "")
    with pytest.raises(OptionError, match="says on_bad, and not its columns"):
        SparkRun(spark, undeclared)


def test_rows_of_a_streaming_dataframe_without_a_time_are_left_out_and_told(spark, tmp_path):
    put("parquet")
    times = pa.array([0, None, 1_000_000], pa.timestamp("us"))
    pq.write_table(pa.table({"k": pa.array([1, 2, 3], pa.int64()), "ts": times}), "a/1.parquet")
    session = wm.Session(spark, buckets=2)
    session.stream(
        "a", spark.readStream.schema("k long, ts timestamp_ntz").parquet(str(tmp_path / "a")), time="ts", on_bad="skip"
    )
    for select in (GROUPED, "SELECT k FROM a"):
        query = session.sql(select)
        writer = query.dataframe().writeStream.format("memory").queryName(f"q{len(select)}")
        writer = writer.option("checkpointLocation", str(tmp_path / f"ck{len(select)}")).trigger(availableNow=True)
        writer.start().awaitTermination()
        spark._jsc.sc().listenerBus().waitUntilEmpty()  # Spark tells of batches from another thread
        assert query.metrics()["bad_by_reason"] == {"a: null time": 1}
    assert sorted(row.k for row in spark.table(f"q{len('SELECT k FROM a')}").collect()) == [1, 3]


def test_of_batch_dataframes_nobody_would_tell_so_on_bad_is_refused(spark):
    session = wm.Session(spark, buckets=2)
    frame = spark.createDataFrame([(1, None)], "k long, ts timestamp_ntz")
    session.stream("a", frame, time="ts", on_bad="skip")
    with pytest.raises(UnsupportedError, match="it is a batch DataFrame"):
        session.sql(GROUPED).to_arrow()
