"""OVER and DEDUPLICATE over many rows: equal to DuckDB, in bounded state, and given when they should be."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.plain_sql import said_by_duckdb
from tests.runners import Source, bag_of, bound_plan
from watersmeet.operators.contract import Operator, Rows
from watersmeet.runtime.build import build

ROWS, KEYS = 20_000, 300
CALLS = {
    "total": "SUM(x) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL 30 SECONDS PRECEDING AND CURRENT ROW)",
    "most": "MAX(s) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL 30 SECONDS PRECEDING AND CURRENT ROW)",
    "few": "MIN(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 7 PRECEDING AND CURRENT ROW)",
    "all": "COUNT(s) OVER (PARTITION BY k ORDER BY ts)",
    "number": "ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts)",
    "dense": "DENSE_RANK() OVER (ORDER BY ts)",
    "before": "LAG(s, 3) OVER (PARTITION BY k ORDER BY ts)",
    "after": "LEAD(x, 2, x) OVER (PARTITION BY k ORDER BY ts)",
    "next": "LEAD(s) OVER (ORDER BY ts)",
    "first": "FIRST_VALUE(s) OVER (PARTITION BY k ORDER BY ts)",
    "around": "SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW)",
    "earlier": "MAX(s) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL 60 SECONDS PRECEDING AND INTERVAL 5 "
    "SECONDS PRECEDING)",
    "soon": "COUNT(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 1 SECOND PRECEDING AND INTERVAL 2 SECONDS FOLLOWING)",
    "until": "SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
    "third": "NTH_VALUE(s, 3) OVER (PARTITION BY k ORDER BY ts)",
    "known": "LAG(s, 2 IGNORE NULLS) OVER (PARTITION BY k ORDER BY ts)",
    "coming": "LEAD(s IGNORE NULLS) OVER (PARTITION BY k ORDER BY ts)",
}


def table(rows: int = ROWS, keys: int = KEYS) -> pa.Table:
    """Every row at a time of its own, so that nothing depends on their order."""
    random = np.random.default_rng(0)
    times = np.sort(random.choice(np.arange(rows * 20), rows, replace=False)) * 1000
    words = pa.array(
        np.char.add("w", random.integers(0, 99, rows).astype(str)).tolist(), mask=random.random(rows) < 0.1
    )
    columns = {
        "id": np.arange(rows),
        "k": random.integers(0, keys, rows),
        "x": random.integers(0, 99, rows),
        "s": words,
    }
    return pa.table({**columns, "ts": pa.array(times, pa.timestamp("us"))})


@pytest.mark.parametrize("names", [[name] for name in CALLS] + [list(CALLS)], ids=lambda names: names[0][:6])
def test_many_rows_give_what_duckdb_gives(names: list[str]) -> None:
    rows = table()
    sql = f"SELECT id, {', '.join(f'{CALLS[name]} AS v{n}' for n, name in enumerate(names))} FROM a"
    session = wm.Session()
    session.stream("a", rows, time="ts")
    expected = said_by_duckdb(sql, {"a": rows})
    found = pa.Table.from_batches(session.sql(sql).batches(batch_rows=1500))
    expected = expected.cast(found.schema)  # a sum has more digits there
    assert found.sort_by("id").equals(expected.sort_by("id"))


@pytest.mark.parametrize("window", ["[RANGE 60 SECONDS]", "[UNBOUNDED]"])
def test_the_first_rows_of_many_are_those_of_duckdb_at_the_end(window: str) -> None:
    rows = table()
    top = "ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC) <= 3"
    session = wm.Session()
    session.stream("a", rows, time="ts")
    log = session.sql(f"SELECT k, x, id FROM a {window} QUALIFY {top}").to_arrow()
    newest = rows["ts"][-1].as_py()
    with duckdb.connect() as connection:
        connection.register("a", rows)
        connection.register("log", log)
        recent = "WHERE ts >= (SELECT max(ts) FROM a) - INTERVAL 60 SECONDS" if "60" in window else ""
        order = "ORDER BY x DESC, k, id"
        asked = f"SELECT k, x, id FROM a {recent} QUALIFY row_number() OVER (PARTITION BY k {order}) <= 3"
        there = "sum(CASE _op WHEN '+' THEN 1 ELSE -1 END) = 1"
        summed = f"SELECT k, x, id FROM log WHERE _ts <= TIMESTAMP '{newest}' GROUP BY ALL HAVING {there}"
        found = connection.sql(summed).to_arrow_table()
        assert bag_of(found) == bag_of(connection.sql(asked).to_arrow_table())


def run_through(sql: str, rows: pa.Table, batch: int = 500) -> tuple[Operator, int]:
    """The operator after the rows, time following them, and the most rows that it ever held."""
    operator = build(bound_plan(sql, [Source("a", rows)]))
    most = 0
    for data in rows.combine_chunks().to_batches(batch):
        times = data.column("ts").view(pa.int64()).to_numpy()
        for _ in operator.push("a", Rows(data, times)):
            pass
        for _ in operator.advance({"a": int(times[-1])}):
            pass
        most = max(most, operator.kept_rows)
    return operator, most


def test_rows_that_wait_for_the_next_one_are_told() -> None:
    operator, _ = run_through("SELECT id, LEAD(id) OVER (PARTITION BY k ORDER BY ts) AS n FROM a", table(), 5000)
    waiting = operator.waiting_rows()["a"]
    assert waiting.rows == KEYS + 1  # the last row of each key, and the last of all, which time has not passed
    assert waiting.newest_us == table()["ts"].cast(pa.int64())[-1].as_py()


def with_new_keys(rows: pa.Table) -> pa.Table:
    """Keys that come a few times within a second or so, and never again."""
    return rows.set_column(1, "k", pa.array(np.arange(len(rows)) // 40))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, SUM(x) OVER (PARTITION BY k ORDER BY ts RANGE 5 SECONDS PRECEDING) AS v FROM a",
        "SELECT id, MAX(s) OVER (PARTITION BY k ORDER BY ts RANGE 5 SECONDS PRECEDING) AS v FROM a",
        "SELECT id, MAX(s) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN 5 SECONDS PRECEDING AND 1 SECOND FOLLOWING) "
        "AS v FROM a",
        "SELECT id FROM DEDUPLICATE(a, 5 SECONDS PARTITION BY k)",
        "SELECT id FROM a [RANGE 5 SECONDS] QUALIFY RANK() OVER (PARTITION BY k ORDER BY x) <= 2",
    ],
)
def test_keys_that_do_not_come_again_are_forgotten(sql: str) -> None:
    short, long = (run_through(sql, with_new_keys(table(rows)))[1] for rows in (10_000, 40_000))
    assert long < 1.2 * short + 100
    assert long < 6_000


@pytest.mark.parametrize(
    ("call", "of_each"),
    [
        ("SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING)", 2),
        ("SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 9 PRECEDING AND 5 PRECEDING)", 9),
        ("NTH_VALUE(x, 2) OVER (PARTITION BY k ORDER BY ts)", 1),
        ("LAG(s, 3) IGNORE NULLS OVER (PARTITION BY k ORDER BY ts)", 3),
    ],
)
def test_of_a_partition_no_more_is_kept_than_frames_ask_for(call: str, of_each: int) -> None:
    operator, _ = run_through(f"SELECT id, {call} AS v FROM a", table())
    assert operator.kept_rows <= of_each * KEYS + 1  # the last row still waits


def test_of_the_first_rows_ever_no_others_are_kept() -> None:
    sql = "SELECT k, x FROM a [UNBOUNDED] QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC) <= 3"
    operator, _ = run_through(sql, table())
    assert operator.kept_rows == 3 * KEYS + 1  # the last row still waits


def push(run: Any, *rows: tuple[int, float]) -> list[tuple[Any, ...]]:
    times = [np.datetime64("2026-01-01", "us") + np.timedelta64(int(second * 1e6), "us") for _, second in rows]
    run.push("a", pa.table({"k": [key for key, _ in rows], "ts": pa.array(times, pa.timestamp("us"))}))
    return [tuple(row.values()) for row in run.take().to_pylist()]


def test_the_first_to_arrive_is_given_at_once_and_its_copies_are_counted() -> None:
    session = wm.Session()
    session.stream("a", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts", lateness="1 minute")
    with session.sql("SELECT k, SECOND(ts) AS s FROM DEDUPLICATE(a, 10 SECONDS PARTITION BY k)").start() as run:
        assert push(run, (1, 20)) == [(1, 20)]
        assert push(run, (1, 11), (1, 30), (2, 11)) == [(2, 11)]  # within 10 seconds, before and after
        assert push(run, (1, 9)) == [(1, 9)]
        assert push(run, (1, 31), (1, 19)) == [(1, 31)]
        assert run.metrics()["duplicate_rows"] == 3


def test_a_row_is_given_when_the_watermark_has_passed_it_and_lead_when_the_next_one_is_certain() -> None:
    session = wm.Session()
    session.stream("a", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts", lateness="2 seconds")
    number = "SELECT SECOND(ts) AS s, ROW_NUMBER() OVER (ORDER BY ts) AS n FROM a"
    ahead = "SELECT SECOND(ts) AS s, LEAD(SECOND(ts)) OVER (PARTITION BY k ORDER BY ts) AS n FROM a"
    with session.sql(number).start() as run:
        assert push(run, (1, 5), (1, 3)) == []
        assert push(run, (1, 6)) == [(3, 1)]
        assert push(run, (1, 9)) == [(5, 2), (6, 3)]
    around = (
        "SELECT SECOND(ts) AS s, COUNT(*) OVER (ORDER BY ts RANGE BETWEEN 1 SECOND PRECEDING AND 2 SECONDS FOLLOWING)"
    )
    with session.sql(f"{around} AS n FROM a").start() as run:
        assert push(run, (1, 5), (1, 6)) == []
        assert push(run, (1, 9)) == []  # all before 7 is there, and more may come at 7
        assert push(run, (1, 10)) == [(5, 2)]
        run.finish()
        assert [tuple(row.values()) for row in run.take().to_pylist()] == [(6, 2), (9, 2), (10, 2)]
    with session.sql(ahead).start() as run:
        assert push(run, (1, 5), (2, 6)) == []
        assert push(run, (1, 8), (1, 9), (3, 20)) == [(5, 8), (8, 9)]
        run.finish()
        ended = [tuple(row.values()) for row in run.take().to_pylist()]
        assert sorted(ended) == [(6, None), (9, None), (20, None)]
