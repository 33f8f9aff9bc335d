"""Pushes of a few rows take a shorter way through a join: with the same answers, whatever the columns hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.effort import first_of, thinned
from watersmeet.operators.join.few_step import FewStep, Way

ROWS = 2_000
STREAMS = "abc"
TABLE = pa.table({"k": pa.array(range(0, 40, 2)), "name": [f"n{k}" for k in range(0, 40, 2)]})
SCHEMA = pa.schema(
    {
        "k": pa.int64(), "m": pa.int64(), "b": pa.int8(), "s": pa.uint16(), "i": pa.int32(), "f": pa.float32(),
        "d": pa.float64(), "u": pa.uint64(), "n": pa.decimal128(9, 2), "o": pa.bool_(), "t": pa.string(),
        "day": pa.date32(), "ts": pa.timestamp("us"),
    }
)  # fmt: skip
WINDOW = "WINDOW = 30 SECONDS"
QUERIES = {
    "widths": f"SELECT a.k, a.b, a.s, a.i, a.f, a.d, a.u, a.day, b.b AS b2, b.s AS s2, b.i AS i2, b.f AS f2, "
    f"b.d AS d2, b.u AS u2, b.day AS day2, b.ts, a.ts AS ts1 FROM a, b WHERE a.k = b.k {WINDOW}",
    "other columns": f"SELECT a.t, a.n, b.n AS n2, b.o FROM a, b WHERE a.k = b.k {WINDOW}",
    "something computed": f"SELECT a.k + b.m AS z, a.d FROM a, b WHERE a.k = b.k AND a.d < b.d + a.m {WINDOW}",
    "filters": f"SELECT a.k, b.d FROM a, b WHERE a.k = b.k AND a.i > 0 AND b.d < 0.5 {WINDOW}",
    "two keys": f"SELECT a.d, b.d AS e FROM a, b WHERE a.k = b.k AND a.m = b.m {WINDOW}",
    "keys of other types": f"SELECT a.d, b.d AS e FROM a, b WHERE a.b = b.b AND a.t = b.t {WINDOW}",
    "no key": "SELECT a.k, b.k AS l FROM a, b WHERE a.k <> b.k WINDOW = 1 SECOND",
    "a star": "SELECT a.d, b.d AS e, c.d AS f FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW = 8 SECONDS",
    "a chain": "SELECT a.d, b.i, c.ts FROM a, b, c WHERE a.k = b.k AND b.m = c.m WINDOW = 4 SECONDS",
    "event times": "SELECT event_time() AS t, a.d, c.ts FROM a, b, c, names WHERE a.k = b.k AND b.k = c.k "
    "AND a.k = names.k WINDOW = 8 SECONDS",
    "directed": "SELECT a.d, b.i FROM a, b WHERE a.k = b.k DWINDOW (a, b) = 20 SECONDS",
    "itself": f"SELECT x.d, y.d AS e FROM a x, a y WHERE x.k = y.k AND x.m < y.m {WINDOW}",
    "a static table": "SELECT a.d, names.name FROM a, names WHERE a.k = names.k",
    "the same with another stream": f"SELECT a.d, names.k FROM a, b, names WHERE a.k = names.k AND a.m = b.m {WINDOW}",
}
TAKES_FEW = {name for name in QUERIES if name != "keys of other types"}


def rows_of(seed: int, nulls: float) -> pa.Table:
    random = np.random.default_rng(seed)
    whole = random.integers(-(2**62), 2**62, ROWS)
    values: dict[str, Any] = {
        "k": random.integers(0, 40, ROWS), "m": random.integers(0, 5, ROWS), "b": whole % 200 - 100,
        "s": whole % 60_000, "i": whole % 2**32 - 2**31, "f": random.random(ROWS), "d": random.random(ROWS),
        "u": whole.astype(np.uint64) * np.uint64(2), "n": whole % 1000, "o": whole % 2 == 0,
        "t": np.array(["t0", "t1", "t2"])[whole % 3], "day": (whole % 20_000).astype(np.int32),
        "ts": np.cumsum(random.integers(0, 200_000, ROWS)) + 10**15,
    }  # fmt: skip
    columns = {}
    for field in SCHEMA:
        out = random.random(ROWS) < (0.0 if field.name == "ts" else nulls)
        column = pa.array(values[field.name], mask=out)
        # Arrow makes of integers only decimals that hold them all.
        columns[field.name] = (column.cast(pa.decimal128(20, 0)) if field.name == "n" else column).cast(field.type)
    return pa.table(columns, schema=SCHEMA)


def pieces(tables: dict[str, pa.Table], seed: int) -> list[tuple[str, pa.RecordBatch]]:
    """Runs of one to five rows, all streams side by side in time."""
    random = np.random.default_rng(seed)
    cut: list[tuple[int, str, pa.RecordBatch]] = []
    for name, table in tables.items():
        batch, at = table.combine_chunks().to_batches()[0], 0
        while at < ROWS:
            piece = batch.slice(at, int(random.integers(1, 6)))
            cut.append((piece.column("ts")[0].value, name, piece))
            at += piece.num_rows
    return [(name, piece) for _, name, piece in sorted(cut, key=lambda one: one[:2])]


def expected(sql: str, tables: dict[str, pa.Table]) -> Counter[Any]:
    session = wm.Session()
    session.table("names", TABLE)
    for name, table in tables.items():
        session.stream(name, table, time="ts")
    return bag(session.sql(sql).to_arrow())


def bag(table: pa.Table) -> Counter[Any]:
    return Counter(map(tuple, zip(*(column.to_pylist() for column in table.columns), strict=True)))


@pytest.mark.parametrize(("name", "nulls"), first_of(thinned(QUERIES, [0.0, 0.02])))
def test_rows_pushed_a_few_at_a_time_meet_as_all_at_once(
    name: str, nulls: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: Counter[bool] = Counter()
    take = FewStep.take

    def counted(step: FewStep, rows: Any) -> Any:
        answer = take(step, rows)
        ways[answer is Way.USUAL] += 1
        return answer

    monkeypatch.setattr(FewStep, "take", counted)
    tables = {stream: rows_of(seed, nulls) for seed, stream in enumerate(STREAMS)}
    session = wm.Session()
    session.table("names", TABLE)
    for stream in STREAMS:
        session.stream(stream, schema=SCHEMA, time="ts", lateness="2 seconds")
    query = session.sql(QUERIES[name])
    used = {stream for stream in STREAMS if f" {stream}" in QUERIES[name].partition("FROM")[2]}
    with query.start() as run:
        for stream, piece in pieces({stream: tables[stream] for stream in sorted(used)}, seed=7):
            run.push(stream, piece)
    found = run.take()
    assert found.schema == query.schema
    assert found.num_rows
    assert bag(found) == expected(QUERIES[name], tables)
    assert run.metrics()["results"] == found.num_rows
    if nulls:
        return
    assert (ways[False] > 9 * ways[True]) == (name in TAKES_FEW)


def test_rows_of_pushes_before_and_after_many_at_once_meet() -> None:
    """Many rows go the usual way and move the store; then addresses that were taken before are wrong."""
    tables = {stream: rows_of(seed, 0.0) for seed, stream in enumerate("ab")}
    session = wm.Session()
    for stream in "ab":
        session.stream(stream, schema=SCHEMA, time="ts", lateness="1 hour")
    sql = f"SELECT a.d, b.d AS e FROM a, b WHERE a.k = b.k {WINDOW}"
    with session.sql(sql).start() as run:
        for start in range(0, ROWS, 500):
            for stream in "ab":
                batch = tables[stream].combine_chunks().to_batches()[0]
                run.push(stream, batch.slice(start, 400))
                for at in range(start + 400, start + 500, 2):
                    run.push(stream, batch.slice(at, 2))
    assert bag(run.take()) == expected(sql, tables)


def test_answers_are_given_in_the_order_in_which_they_were_found() -> None:
    """Those of a few rows and those of many, whose columns are made at different times."""
    session = wm.Session()
    session.stream("a", schema={"k": "BIGINT", "x": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    session.stream("b", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    at = pa.scalar(10**15, pa.timestamp("us")).as_py()
    with session.sql("SELECT a.x FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE").start() as run:
        run.push("b", [{"k": 1, "ts": at}])
        for number, x in enumerate([1, 2, None, 3, None, None, 4]):
            run.push("a", [{"k": 1, "x": x, "ts": at}])
            if number == 4:
                assert next(iter(run)).to_pylist() == [{"x": 1}]
        assert run.take()["x"].to_pylist() == [2, None, 3, None, None, 4]


def test_rows_that_are_all_left_out_before_meet_nothing():
    """Behind DEDUPLICATE, after the other stream's store has moved."""
    schema = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us")})
    session = wm.Session()
    for name in "ab":
        session.stream(name, schema=schema, time="ts", lateness="1 hour")
    distinct = "DEDUPLICATE(a, 1 HOUR PARTITION BY k) AS o"
    query = session.sql(f"SELECT o.k, p.ts AS t FROM {distinct}, b AS p WHERE o.k = p.k WINDOW = 10 MINUTES")

    def rows(*keys: int) -> pa.Table:
        return pa.table([pa.array(keys), pa.array([10**6] * len(keys), pa.timestamp("us"))], schema=schema)

    with query.start() as run:
        for name, keys in (("a", [1]), ("b", range(2_000)), ("a", [1]), ("a", [1, 1]), ("b", [1]), ("a", [2, 2])):
            run.push(name, rows(*keys))
        run.finish()
        assert run.take()["k"].to_pylist() == [1, 1, 2]
        assert run.metrics()["duplicate_rows"] == 4
