"""Answers that change on Spark: any cut into micro-batches, any number of buckets, any crash give the same log."""

from __future__ import annotations

import tempfile
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, assume, given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.continuous_strategies import Case, cases
from tests.properties.test_continuous import Sent, assert_same, sent
from tests.properties.test_queries_as_values import threshold_cases
from tests.properties.test_unnest import counted_cases
from tests.runners import Source, bound_plan, tables_of
from tests.spark.harness import (
    batch_frame,
    cut,
    never_late,
    pieces_in_time,
    run_streaming,
    streaming_session,
    with_sentinels,
    write_arrivals,
)
from tests.spark.pieces import splits
from tests.spark.simulation import LOSSES, Pieces, Simulation
from watersmeet.checking.recompute import rows_of
from watersmeet.hosts.spark import memory_folder
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.reference.join import answer
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.session import Session

# Shrinking is slow where every example is a run with restarts.
UNSHRUNK = [Phase.explicit, Phase.reuse, Phase.generate]
few = random_cases(24, phases=UNSHRUNK)


def expected(case: Case, pieces: Pieces) -> Sent:
    """The reference over the rows that Spark lets in."""
    kept = pieces_in_time(case.sources, pieces)
    let_in = never_late([replace(source, table=kept.get(source.name, source.table)) for source in case.sources])
    plan = bound_plan(case.sql(), let_in)
    return sent(plan, answer(plan, tables_of(let_in)))


@pytest.mark.slow
@few
@given(cases(), st.data())
def test_random_queries_in_random_micro_batches_with_random_crashes_give_the_reference_log(case, data):
    assume("RSTREAM" not in case.query)  # its last moment is the last event's, and a sentinel is an event
    assume(bound_plan(case.sql(), case.sources).plain_join is None)  # test_processor.py has those
    pieces = data.draw(splits(case))
    crash_at = data.draw(st.lists(st.integers(1, 120), max_size=4))
    lost = data.draw(st.sampled_from(list(LOSSES.values())))
    buckets = data.draw(st.sampled_from([1, 2, 4]))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(memory_folder.WARM_DIR, folder)
        warm_state._at_hand.clear()
        run = Simulation(case.sql(), case.sources, buckets, crash_at, after_crash=lost)
        run.run(with_sentinels(case.sources, pieces))
    log = sent(bound_plan(case.sql(), case.sources), rows_of(run.table()))
    assert_same(log, expected(case, pieces))


@few
@given(threshold_cases(), st.data())
def test_rows_against_one_value_go_on_after_crashes(case, data):
    pieces = data.draw(splits(case))
    crash_at, buckets = data.draw(st.lists(st.integers(1, 60), max_size=3)), data.draw(st.sampled_from([1, 2]))
    lost = data.draw(st.sampled_from(list(LOSSES.values())))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(memory_folder.WARM_DIR, folder)
        warm_state._at_hand.clear()
        run = Simulation(case.sql, case.sources, buckets, crash_at, after_crash=lost)
        run.run(with_sentinels(case.sources, pieces))
    kept = pieces_in_time(case.sources, pieces)
    let_in = never_late([replace(source, table=kept.get(source.name, source.table)) for source in case.sources])
    assert_same(log_of(case.sql, list(let_in), run.table()), reference_log(case.sql, list(let_in)))


@few
@given(counted_cases(), st.data())
def test_rows_are_counted_before_their_lists_are_taken_apart(case, data):
    pieces = data.draw(splits(case))
    crash_at, buckets = data.draw(st.lists(st.integers(1, 60), max_size=3)), data.draw(st.sampled_from([1, 2]))
    run = Simulation(case.sql, case.sources, buckets, crash_at)
    run.run(with_sentinels(case.sources, pieces))
    kept = pieces_in_time(case.sources, pieces)
    let_in = never_late([replace(source, table=kept.get(source.name, source.table)) for source in case.sources])
    assert_same(log_of(case.sql, list(let_in), run.table()), reference_log(case.sql, list(let_in)))


def test_a_bucket_is_woken_when_rows_leave_an_answer_inside_its_query():
    """The last row of key 1 is in the view until 6.000001 s, when nothing more comes to its bucket."""

    def at(seconds: list[float], keys: list[int]) -> pa.Table:
        times = pa.array([int(second * 1e6) for second in seconds], pa.timestamp("us"))
        return pa.table({"ts": times, "k": pa.array(keys, pa.int64())})

    pieces = {
        "a": [at([1.5, 3.5], [0, 4]), at([4.5, 4.5, 5], [0, -1, 1]), at([6, 6], [4, 2])],
        "b": [at([3.5], [3]), at([2, 3.5, 7], [-1, 1, -1])],
        "c": [at([0.5, 1.5, 2], [3, 0, 5]), at([6, 6], [2, -1])],
    }
    sources = [Source(name, pa.concat_tables(parts), "ts") for name, parts in pieces.items()]
    joined = "SELECT a.k AS x FROM a [RANGE 1 SECOND], b [RANGE 3 SECONDS] WHERE a.k = b.k"
    sql = f"SELECT x, COUNT(*) AS n FROM ({joined} EXCEPT SELECT k FROM c [RANGE 4 SECONDS]) AS v GROUP BY x"
    run = Simulation(sql, sources, 4, [])
    run.run(with_sentinels(sources, pieces))
    log = sent(bound_plan(sql, sources), rows_of(run.table()))
    kept = pieces_in_time(sources, pieces)
    assert_same(log, reference_log(sql, [replace(source, table=kept[source.name]) for source in sources]))


JOINED_AS_THEY_COME = {
    "what entered an answer": (
        "SELECT c.n, b.v FROM (SELECT ISTREAM k, COUNT(*) AS n FROM a [RANGE 4 SECONDS] GROUP BY k) AS c, b "
        "WHERE b.k = c.k AND b.ts BETWEEN c._ts AND c._ts + 3 SECONDS"
    ),
    "the log of an answer, after others": (
        "SELECT c._op, c.n, b.v FROM CHANGES((SELECT k, COUNT(*) AS n FROM a [RANGE 4 SECONDS] GROUP BY k)) AS c "
        "JOIN b ON b.k = c.k AND c._ts BETWEEN b.ts AND b.ts + 3 SECONDS"
    ),
    "streams put together": (
        "SELECT u.v, b.v AS w, t.n FROM (SELECT k, v, ts FROM a UNION ALL SELECT k, v + 1, ts FROM b) AS u "
        "JOIN b ON u.k = b.k AND ABS(u.ts - b.ts) < 2 SECONDS JOIN (VALUES (1, 10), (2, NULL)) AS t (k, n) ON t.k = b.k"
    ),
}


@pytest.mark.parametrize("name", JOINED_AS_THEY_COME)
def test_rows_without_windows_that_queries_give_meet_their_partners_on_another_node(name, monkeypatch, tmp_path):
    """What a bucket needs to begin anew are rows that others can still meet."""
    sql, sources = JOINED_AS_THEY_COME[name], two_streams(60, 3)
    monkeypatch.setenv(memory_folder.WARM_DIR, str(tmp_path))
    warm_state._at_hand.clear()
    run = Simulation(sql, sources, 2, [], between_batches=LOSSES["another node"])
    run.run(with_sentinels(sources, {source.name: cut(source.table, [25, 20, 15]) for source in sources}))
    assert_same(log_of(sql, sources, run.table()), reference_log(sql, sources))


OVER_NOTHING = {
    "between bursts": "SELECT COUNT(*) AS n, SUM(k) AS t FROM a [RANGE 1 SECOND]",
    "where nothing is chosen": "SELECT COUNT(*) AS n, MAX(k) AS m FROM a [RANGE 1 SECOND] WHERE k > 99",
    "of counted rows": "SELECT COUNT(*) AS n FROM a [ROWS 2] WHERE k > 1",
    "of a join": "SELECT COUNT(*) AS n FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k",
    "again and again": "SELECT RSTREAM COUNT(*) AS n FROM a [RANGE 1 SECOND] WHERE k > 1 EVERY 2 SECONDS",
    "in a view beside a join": (
        "SELECT n, b.k FROM (SELECT COUNT(*) AS n FROM a [RANGE 1 SECOND] WHERE k > 1) AS v, b [RANGE 3 SECONDS]"
    ),
    "on both sides of a set": (
        "SELECT COUNT(*) AS n FROM a [RANGE 1 SECOND] UNION ALL SELECT COUNT(*) FROM b [RANGE 1 SECOND]"
    ),
    "of first rows": (
        "SELECT COUNT(*) AS n FROM DEDUPLICATE(a, 1 SECOND PARTITION BY k) [RANGE 1 SECOND] AS a WHERE k > 1"
    ),
}


@pytest.mark.parametrize("lost", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("name", OVER_NOTHING)
def test_an_aggregate_over_nothing_is_there_once_though_its_rows_are_all_forgotten(name, lost, monkeypatch, tmp_path):
    """Rows come in bursts, further apart than the windows, and after every batch the operator is made anew."""

    def at(*rows: tuple[float, int]) -> pa.Table:
        times = pa.array([int(second * 1e6) for second, _ in rows], pa.timestamp("us"))
        return pa.table({"ts": times, "k": pa.array([k for _, k in rows], pa.int64())})

    pieces = {
        "a": [at((1, 1)), at((9, 1), (9.5, 7)), at((20, 1)), at((30, 2), (20, 5)), at((40, 1))],
        "b": [at((0.5, 3)), at((10, 7)), at((21, 1)), at((30, 2)), at((40, 9))],
    }
    sql = OVER_NOTHING[name]
    pieces = {stream: parts for stream, parts in pieces.items() if f"{stream} [" in sql or f"({stream}," in sql}
    sources = [Source(stream, pa.concat_tables(parts), "ts") for stream, parts in pieces.items()]
    monkeypatch.setenv(memory_folder.WARM_DIR, str(tmp_path))
    warm_state._at_hand.clear()
    run = Simulation(sql, sources, 4, [], between_batches=lost)
    run.run(pieces)
    run.batch({}, ended=list(pieces))
    log = sent(bound_plan(sql, sources), rows_of(run.table()))
    kept = pieces_in_time(sources, pieces)
    in_time = [replace(source, table=kept[source.name]) for source in sources]
    assert_same(log, reference_log(sql, in_time))


@pytest.mark.parametrize("lost", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("name", ["groups", "a difference", "a join, grouped by its key", "what left"])
def test_an_answer_that_looks_for_rows_that_have_left_pane_by_pane_tells_the_same(name, lost, monkeypatch, tmp_path):
    """What a bucket needs to begin anew goes back to its last look."""
    sources = two_streams(60, 3)
    monkeypatch.setenv(memory_folder.WARM_DIR, str(tmp_path))
    warm_state._at_hand.clear()
    run = Simulation(f"{QUERIES[name]} OPTIONS (expire = '3 seconds')", sources, 2, [], between_batches=lost)
    pieces = {
        source.name: cut(source.table, [20, 15, 10, 15]) for source in sources if f"{source.name} [" in QUERIES[name]
    }
    run.run(pieces)
    run.batch({}, ended=list(pieces))
    assert_same(log_of(QUERIES[name], sources, run.table()), reference_log(QUERIES[name], sources))


# ---- on Spark itself ------------------------------------------------------------------------------------------------

QUERIES = {
    "groups": "SELECT k, COUNT(*) AS n, SUM(v) AS total, MAX(v) AS most FROM a [RANGE 4 SECONDS] GROUP BY k",
    "a join, grouped by its key": (
        "SELECT a.k, COUNT(*) AS n, AVG(b.v) AS mean FROM a [RANGE 4 SECONDS], b [RANGE 2 SECONDS] "
        "WHERE a.k = b.k GROUP BY a.k"
    ),
    "a difference": "SELECT k FROM a [RANGE 4 SECONDS] EXCEPT ALL SELECT k FROM b [RANGE 7 SECONDS]",
    "distinct rows": "SELECT DISTINCT k, v FROM a [RANGE 3 SECONDS]",
    "everything in one group": "SELECT MEDIAN(v) AS middle, COUNT(DISTINCT k) AS ks FROM a [ROWS 5]",
    "all of a join, often nothing": (
        "SELECT COUNT(*) AS n, MAX(a.v) AS most FROM a [RANGE 300 MILLISECONDS], b [RANGE 200 MILLISECONDS] "
        "WHERE a.k = b.k AND a.v > 0"
    ),
    "three behind the first two": "SELECT k, v FROM a [RANGE 5 SECONDS] ORDER BY v DESC LIMIT 3 OFFSET 2",
    "one of each, by an order": "SELECT DISTINCT ON (k) k, v FROM a [RANGE 5 SECONDS] ORDER BY k, v DESC",
    "a view, counted": (
        "SELECT x.k, COUNT(*) AS n FROM (SELECT k FROM a [RANGE 4 SECONDS] EXCEPT SELECT k FROM b [RANGE 1 SECOND]) x, "
        "b [RANGE 6 SECONDS] AS y WHERE x.k = y.k GROUP BY x.k"
    ),
    "a join, grouped by another column": (
        "SELECT b.v > 0 AS up, COUNT(*) AS n, MIN(a.v) AS least, MAX(event_time()) AS newest "
        "FROM a [RANGE 4 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k GROUP BY b.v > 0"
    ),
    "the whole of a join, again and again": (
        "SELECT RSTREAM b.v > 0 AS up, COUNT(*) AS n FROM a [RANGE 4 SECONDS], b [RANGE 2 SECONDS] "
        "WHERE a.k = b.k AND a.v > b.v + 1 GROUP BY b.v > 0 EVERY 100 MILLISECONDS"
    ),
    "entries of the last rows": (
        "SELECT k, x, COUNT(*) AS n FROM a [PARTITION BY k ROWS 3], UNNEST(CASE WHEN v < -1 THEN NULL WHEN v < 0 THEN "
        "SPLIT('a b b', ' ') ELSE SPLIT('c', ' ') END) AS t (x) GROUP BY k, x"
    ),
    "rows above the average of their key": (
        "SELECT a.k, a.v FROM a [RANGE 9 SECONDS] "
        "WHERE a.v > (SELECT AVG(b.v) FROM b [RANGE 9 SECONDS] WHERE b.k = a.k)"
    ),
    "the log of an answer, in a window": (
        "SELECT c._op AS op, c.k, COUNT(*) AS n FROM CHANGES((SELECT k, COUNT(*) AS n FROM a [RANGE 4 SECONDS] "
        "GROUP BY k)) [RANGE 2 SECONDS] AS c GROUP BY c._op, c.k"
    ),
    "rows without a partner yet": "SELECT a.k, a.v, b.v AS w FROM a [UNBOUNDED] FULL JOIN b [ROWS 9] ON a.k = b.k",
    "streams put together, counted": (
        "SELECT u.k, COUNT(*) AS n, LAST(u.v) AS last FROM (SELECT k, v, ts FROM a UNION ALL SELECT k, v, ts FROM b) "
        "[RANGE 4 SECONDS] AS u GROUP BY u.k"
    ),
    "what left": "SELECT DSTREAM k, COUNT(*) AS n FROM a [RANGE 4 SECONDS] GROUP BY k",
}


def two_streams(rows: int, seed: int) -> list[Source]:
    rng = np.random.default_rng(seed)
    made = []
    for name in "ab":
        at = np.sort(rng.integers(0, 30_000_000, rows)) + 1_700_000_000_000_000
        columns = {"k": rng.integers(0, 6, rows), "v": rng.normal(size=rows).round(3), "ts": at.astype("M8[us]")}
        made.append(Source(name, pa.table(columns), "ts"))
    return made


def log_of(sql: str, sources: list[Source], table: pa.Table) -> Sent:
    plan = bound_plan(sql, sources)
    return sent(plan, rows_of(table.cast(plan.output_schema)))


def reference_log(sql: str, sources: list[Source]) -> Sent:
    plan = bound_plan(sql, sources)
    return sent(plan, answer(plan, tables_of(sources)))


@pytest.mark.parametrize("name", QUERIES)
def test_batch_frames_give_the_whole_log_in_order(spark, name):
    sources = two_streams(60, 3)  # the last rows join no others, but the last snapshots are theirs
    session = Session(spark, buckets=3)
    for source in sources:
        session.stream(source.name, batch_frame(spark, source.table), time="ts")
    table = session.sql(QUERIES[name]).to_arrow()
    instants = table["_ts"].to_pylist()
    assert instants == sorted(instants)
    assert_same(log_of(QUERIES[name], sources, table), reference_log(QUERIES[name], sources))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            "a join, grouped by another column", marks=pytest.mark.soak
        ),  # two stages end in test_runs_that_end.py
        pytest.param("a view, counted", marks=pytest.mark.soak),
        pytest.param("everything in one group", marks=pytest.mark.soak),
    ],
)
def test_streams_in_micro_batches_give_the_log_also_after_a_restart(spark, tmp_path, name):
    sources = two_streams(60, 2)
    pieces = with_sentinels(sources, {s.name: cut(s.table, [25, 20, 15]) for s in sources})
    for half in (slice(0, 2), slice(2, None)):  # the second half is written after the query has stopped
        for source, parts in pieces.items():
            write_arrivals(tmp_path / source, parts[half], half.start)
        query = streaming_session(spark, sources, tmp_path, 2).sql(QUERIES[name])
        table = run_streaming(spark, query.dataframe(), tmp_path / "checkpoint", tmp_path / "sink")
        counted = query.metrics()
        assert 0 < counted["expired_rows"] <= counted["stored_rows"]
        assert counted["kernel_seconds"] > 0
    assert_same(log_of(QUERIES[name], sources, table), reference_log(QUERIES[name], sources))


def test_rows_that_a_query_says_itself_are_its_answer(spark):
    sql = "SELECT k + 1 AS k, s FROM (VALUES (1, 'a'), (2, NULL)) AS t (k, s) UNION ALL SELECT 9, 'x' ORDER BY k"
    assert rows_of(Session(spark).sql(sql).to_arrow()) == [(2, "a"), (3, None), (9, "x")]


def test_they_are_also_grouped_and_joined_in_a_script(spark, tmp_path):
    queries = {
        "SELECT k % 2 AS odd, COUNT(*) AS n FROM generate_series(1, 5) AS k GROUP BY odd": [(0, 2), (1, 3)],
        "SELECT a.k, b.k FROM (VALUES (1), (2)) AS a (k) LEFT JOIN (VALUES (2)) AS b (k) ON a.k = b.k": [
            (1, None),
            (2, 2),
        ],
        "SELECT 1 AS x, 'a' AS y": [(1, "a")],
    }
    made = (f"CREATE SINK s{n} WITH (sink = 'parquet', path = '{tmp_path}/{n}') AS {q};" for n, q in enumerate(queries))
    SparkRun(spark, "\n".join(made), RunSettings(available_now=True)).run()
    found = [rows_of(pq.read_table(sorted((tmp_path / str(n)).glob("*.parquet")))) for n in range(len(queries))]
    assert [sorted(rows) for rows in found] == list(queries.values())


def test_over_no_rows_at_all_an_aggregate_is_a_row_of_the_final_answer(spark):
    session = Session(spark, buckets=3)
    session.stream("a", batch_frame(spark, two_streams(0, 1)[0].table), time="ts")
    query = session.sql("SELECT COUNT(*) AS n, MAX(v) AS most FROM a [RANGE 5 SECONDS]")
    assert query.final().to_pylist() == [{"n": 0, "most": None}]
    assert query.to_arrow().num_rows == 0


def test_whole_answers_come_in_the_order_asked_for(spark):
    sources = two_streams(40, 3)
    session = Session(spark, buckets=3)
    for source in sources:
        session.stream(source.name, batch_frame(spark, source.table), time="ts")
    first = "k, v FROM a [RANGE 20 SECONDS] ORDER BY k DESC, v LIMIT 5"
    last = [(row["k"], row["v"]) for row in session.sql(f"SELECT {first}").final().to_pylist()]
    assert last == sorted(last, key=lambda row: (-row[0], row[1]))
    assert len(last) == 5
    snapshots = session.sql(f"SELECT RSTREAM {first} EVERY 3 SECONDS")
    expected = [(row["_ts"], -row["k"], row["v"]) for row in snapshots.to_arrow().to_pylist()]
    assert expected == sorted(expected)
    assert [(row["_ts"], -row["k"], row["v"]) for row in snapshots.dataframe().collect()] == expected
    every_row = [(row["v"], row["k"]) for row in session.sql("SELECT k, v FROM a ORDER BY v, k").to_arrow().to_pylist()]
    assert len(every_row) == 40
    assert every_row == sorted(every_row)
