"""Streams of files: every shape of query, micro-batch by micro-batch, through Spark's own state store."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.runners import Source, bag_of, by_local_engine, by_reference
from tests.scenarios.timeline import combinations, static_table, timeline
from tests.spark.harness import (
    batch_frame,
    by_spark_streaming,
    cut,
    expected_of,
    never_late,
    read_sink,
    run_streaming,
    start_streaming,
    streaming_session,
    with_sentinels,
    write_arrivals,
)
from watersmeet import Session


def random_streams(names: str, rows: int = 60, keys: int = 4, seconds: int = 12, seed: int = 0) -> list[Source]:
    """Streams that arrive disordered by up to two seconds, which is their lateness: no row comes too late."""
    random = np.random.default_rng(seed)
    made = []
    for name in names:
        times = np.sort(random.integers(0, seconds * 1000, rows)) * 1000 + 1_700_000_000_000_000
        order = np.argsort(times + random.integers(0, 2_000_000, rows), kind="stable")
        columns = {key: random.integers(0, keys, rows) for key in "xyz"}
        table = pa.table({"id": np.arange(rows), "ts": pa.array(times[order], pa.timestamp("us")), **columns})
        made.append(Source(name, table, "ts", "2 seconds"))
    return made


SHAPES = {
    "two streams, a common key": ("ab", 2, "FROM a, b WHERE a.x = b.x WINDOW = 2 SECONDS"),
    "different keys per pair on a grid": (
        "abc", 4, "FROM a, b, c WHERE a.x = b.x AND b.y = c.y WINDOW (a, b) = 1 SECOND AND WINDOW (b, c) = 1 SECOND",
    ),
    "no equality, fragments": ("ab", 4, "FROM a [RANGE 1 SECOND], b [RANGE 500 MILLISECONDS] WHERE a.x < b.y"),
    "five streams along a path": (
        "abcde", 2,
        """FROM a, b, c, d, e WHERE a.x = b.x AND b.x = c.x AND c.x = d.x AND d.x = e.x
           WINDOW PATH (a, b, c, d, e) = (1 SECOND, 1 SECOND, 1 SECOND, 1 SECOND)""",
    ),
    "the last rows of a whole stream": ("ab", 2, "FROM a [ROWS 7], b [NOW] WHERE a.x = b.x"),
    "the last rows per key": ("ab", 2, "FROM a [PARTITION BY x ROWS 2], b [RANGE 1 SECOND] WHERE a.x = b.x"),
}  # fmt: skip


# Two streams by a common key are in test_run.py, batch by batch.
LONG = {"two streams, a common key", "no equality, fragments", "five streams along a path", "the last rows per key"}


@pytest.mark.parametrize(
    "shape", [pytest.param(shape, marks=pytest.mark.soak if shape in LONG else ()) for shape in SHAPES]
)
def test_streams_in_micro_batches_give_the_answer_of_the_whole(spark, tmp_path, shape):
    names, buckets, rest = SHAPES[shape]
    sources = random_streams(names, rows=60 if len(names) < 4 else 30)
    sql = f"SELECT {', '.join(f'{name}.id AS {name}' for name in names)}, event_time() AS newest {rest}"
    pieces = {source.name: cut(source.table, [25, 40]) for source in sources}
    ended = with_sentinels(sources, pieces) if "ROWS" in rest else pieces
    answer = by_spark_streaming(spark, sql, sources, ended, tmp_path, buckets)
    assert answer
    assert answer == expected_of(sql, sources, pieces) == by_reference(sql, sources)
    if "ROWS" not in rest:
        assert answer == by_local_engine(sql, sources)


def test_a_self_join_and_a_static_table_stream_together(spark, tmp_path):
    (source,) = random_streams("a", rows=40)
    names = static_table("names", k=[0, 1, 1, None], label=["zero", "one", "uno", "?"])
    sql = """SELECT p.id AS p, q.id AS q, n.label AS label FROM a AS p, a AS q, names AS n
             WHERE p.x = q.x AND n.k = p.x DWINDOW (p, q) = 1 SECOND"""
    pieces = {"a": cut(source.table, [15])}
    answer = by_spark_streaming(spark, sql, [source, names], pieces, tmp_path, 2)
    assert answer == by_reference(sql, [source, names])


def test_no_batch_has_java_made_and_compiled_that_another_had(spark, tmp_path):
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "true")
    session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    made = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    sources = random_streams("ab")
    pieces = {name: cut(source.table, [15, 30, 45]) for name, source in zip("ab", sources, strict=True)}
    sql = "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.x = b.x WINDOW = 2 SECONDS"
    answers, counts = [], [made.getCount()]
    for number in range(2):
        answers.append(by_spark_streaming(session, sql, sources, pieces, tmp_path / str(number), 2))
        counts.append(made.getCount())
    assert counts[0] < counts[1] == counts[2]
    assert answers == 2 * [by_reference(sql, sources)]


def test_a_single_stream_with_a_static_table_needs_no_state(spark, tmp_path):
    sources = [*timeline("a: 1@0 2@50 -@60 1@61"), static_table("names", k=[1, 2, None], name=["one", "two", "?"])]
    sql = "SELECT a.id AS a, n.name AS name FROM a, names AS n WHERE a.v = n.k"
    pieces = {"a": cut(sources[0].table, [2])}
    answer = by_spark_streaming(spark, sql, sources, pieces, tmp_path)
    assert combinations(answer) == ["a1 one", "a2 two", "a4 one"]
    assert not (tmp_path / "checkpoint" / "state").exists()


def test_a_late_row_is_one_below_the_watermark_of_the_earlier_batches_and_progress_counts_it(spark, tmp_path):
    """Unlike in-process, where time advances row by row: within its batch no row is late."""
    sources = timeline("a: 1@100 1@110 1@107\nb: 1@107 1@109 1@110", a="2 seconds")
    sql = "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.v = b.v WINDOW = 20 SECONDS"
    a, b = (source.table for source in sources)
    pieces = {
        "a": [a, a.slice(0, 0), timeline("a: 1@90 1@108")[0].table],
        "b": [b, b.slice(0, 0), b.slice(0, 0)],
    }
    for name, parts in pieces.items():
        write_arrivals(tmp_path / name, parts)
    query = streaming_session(spark, sources, tmp_path, 2).sql(sql).dataframe()
    started = start_streaming(query, tmp_path / "checkpoint", tmp_path / "sink")
    started.awaitTermination()
    answer = bag_of(read_sink(spark, tmp_path / "sink", query))
    # batch 0: three by three; then the watermark is min(110 - 2, 110) = 108, so only the row at 108 is still in time
    assert answer == expected_of(sql, sources, pieces)
    assert sum(answer.values()) == 12
    observed = [json.loads(p.json)["observedMetrics"] for p in started.recentProgress]
    observed = [numbers for one in observed for name, numbers in one.items() if name.startswith("watersmeet")]
    counts = [json.loads(text)["counts"] for one in observed for text in one["reports"]]
    totals = {name: sum(one.get(name, 0) for one in counts) for name in ("rows_in", "late_rows", "results")}
    assert totals == {"rows_in": 8, "late_rows": 1, "results": 12}


@pytest.mark.soak  # test_run.py, test_launch.py and test_flights.py go on from checkpoints too
def test_a_query_goes_on_after_a_restart_as_if_there_had_been_none(spark, tmp_path):
    sources = random_streams("ab", rows=60)
    sql = "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.x = b.x WINDOW = 2 SECONDS"
    pieces = {source.name: cut(source.table, [20]) for source in sources}
    for stop in (1, 2, 3):
        for name, parts in pieces.items():
            write_arrivals(tmp_path / name, parts[stop - 1 : stop], start=stop - 1)
        frame = streaming_session(spark, sources, tmp_path, 2).sql(sql).dataframe()
        answer = run_streaming(spark, frame, tmp_path / "checkpoint", tmp_path / "sink")
    assert sorted(zip(*answer.to_pydict().values(), strict=True)) == sorted(by_reference(sql, sources).elements())


def test_the_output_of_one_query_can_be_the_input_of_plain_spark(spark, tmp_path):
    sources = timeline("a: 1@0 2@1 1@2\nb: 1@1 2@2")
    for source in sources:
        write_arrivals(tmp_path / source.name, [source.table])
    query = streaming_session(spark, sources, tmp_path, 1).sql(
        "SELECT a.v AS v, a.id AS a, b.id AS b FROM a, b WHERE a.v = b.v WINDOW = 5 SECONDS"
    )
    filtered = query.dataframe().where("v = 1").selectExpr("concat(a, b) AS both")
    answer = run_streaming(spark, filtered, tmp_path / "checkpoint", tmp_path / "sink")
    assert sorted(answer["both"].to_pylist()) == ["a1b1", "a3b1"]


def test_batch_frames_of_many_partitions_give_the_same_answer(spark):
    sources = random_streams("abc", rows=200, keys=12)
    sql = "SELECT a.id AS a, b.id AS b, c.id AS c FROM a, b, c WHERE a.x = b.x AND b.y = c.y WINDOW = 300 MILLISECONDS"
    wanted = sorted(by_reference(sql, never_late(sources)).elements())
    frames = {source.name: batch_frame(spark, source.table).repartition(3) for source in sources}
    for buckets in (1, 3, 4):
        session = Session(spark, buckets=buckets)
        for name, frame in frames.items():
            session.stream(name, frame, time="ts", lateness="2 seconds")
        found = session.sql(sql).to_arrow()
        assert sorted(zip(*found.to_pydict().values(), strict=True)) == wanted, buckets


def test_a_checkpoint_holds_no_more_than_the_window(spark, tmp_path: Path):
    """Ten times as many rows, the same window: the live rows of the state stay few."""
    sources = random_streams("ab", rows=400, seconds=200)
    sql = "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.x = b.x WINDOW = 1 SECOND"
    for source in sources:
        write_arrivals(tmp_path / source.name, cut(source.table, [200]))
    frame = streaming_session(spark, sources, tmp_path, 1).sql(sql).dataframe()
    answer = run_streaming(spark, frame, tmp_path / "checkpoint", tmp_path / "sink")
    assert sorted(zip(*answer.to_pydict().values(), strict=True)) == sorted(by_reference(sql, sources).elements())
    state = spark.read.format("statestore").option("stateVarName", "segments").load(str(tmp_path / "checkpoint"))
    assert state.count() <= 4
