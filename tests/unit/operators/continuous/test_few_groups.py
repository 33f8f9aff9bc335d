"""Pushes of a few rows take a shorter way through a GROUP BY: with the same changes, whatever the columns hold."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.effort import thinned
from watersmeet.operators.answers import as_batch
from watersmeet.operators.continuous.few_groups import FewGroups
from watersmeet.operators.contract import Rows
from watersmeet.operators.few_rows import FEW
from watersmeet.operators.saving import Saved
from watersmeet.runtime.build import build_query

ROWS = 2_000
SCHEMA = pa.schema(
    {
        "k": pa.int64(), "b": pa.int8(), "h": pa.int16(), "i": pa.int32(), "u": pa.uint64(), "v": pa.uint16(),
        "d": pa.float64(), "f": pa.float32(), "t": pa.string(), "day": pa.date32(), "ts": pa.timestamp("us"),
    }
)  # fmt: skip
SECOND = "[RANGE 1 SECOND]"
QUERIES = {
    "sums": f"SELECT k, SUM(d) AS d, SUM(i) AS i, SUM(u) AS u, COUNT(*) AS n FROM a {SECOND} GROUP BY k",
    "means": f"SELECT AVG(d) AS d, h, AVG(i) AS i, COUNT(v) AS v FROM a {SECOND} GROUP BY h",
    "groups that come and go": "SELECT k, i, SUM(b) AS s FROM a [RANGE 2 MILLISECONDS] GROUP BY k, i",
    "keys of several widths": f"SELECT day, SUM(d) AS d, b, h, ts FROM a {SECOND} GROUP BY ts, b, day, h",
    "distinct": f"SELECT DISTINCT b, day FROM a {SECOND}",
    "texts": f"SELECT t, SUM(d) AS d FROM a {SECOND} GROUP BY t",
    "floats as keys": f"SELECT d, COUNT(*) AS n FROM a {SECOND} GROUP BY d",
    "unsigned keys": f"SELECT v, COUNT(*) AS n FROM a {SECOND} GROUP BY v",
    "narrow floats and unsigned": f"SELECT k, SUM(f) AS f, SUM(v) AS v FROM a {SECOND} GROUP BY k",
    "something computed": f"SELECT k, SUM(d) + 1 AS d FROM a {SECOND} GROUP BY k",
    "a condition": f"SELECT k, SUM(d) AS d FROM a {SECOND} WHERE i > 0 GROUP BY k HAVING COUNT(*) > 1",
    "without keys": f"SELECT SUM(d) AS d FROM a {SECOND}",
    "hidden keys": f"SELECT SUM(i) AS i FROM a {SECOND} GROUP BY k",
    "extremes": f"SELECT k, MIN(d) AS d, MAX(t) AS t FROM a {SECOND} GROUP BY k",
    "rows that never leave": "SELECT k, SUM(d) AS d FROM a [UNBOUNDED] GROUP BY k",
    "windows of rows": "SELECT k, SUM(d) AS d FROM a [ROWS 20] GROUP BY k",
}
TAKES_FEW = {"sums", "means", "groups that come and go", "keys of several widths", "distinct"}


def rows_of(seed: int, nulls: float) -> pa.Table:
    """With values of all magnitudes, both zeros and what is no number; several rows of one instant."""
    random = np.random.default_rng(seed)
    whole = random.integers(-(2**62), 2**62, ROWS)
    doubles = random.choice([0.0, -0.0, 0.1, 1e-300, -1e300, np.nan, np.inf], ROWS) + random.choice([0.0, 1.5], ROWS)
    values: dict[str, Any] = {
        "k": whole % 7 - 3, "b": whole % 200 - 100, "h": whole % 5 - 2, "i": whole % 2**32 - 2**31,
        "u": whole.astype(np.uint64) >> np.uint64(20), "v": whole % 60_000, "d": doubles, "f": random.random(ROWS),
        "t": np.array(["t0", "t1", "t2"])[whole % 3], "day": (whole % 4 - 2).astype(np.int32),
        "ts": np.cumsum(random.choice([0, 0, 1, 700, 5_000], ROWS)) + 10**15,
    }  # fmt: skip
    columns = {}
    for field in SCHEMA:
        out = random.random(ROWS) < (0.0 if field.name == "ts" else nulls)
        columns[field.name] = pa.array(values[field.name], mask=out).cast(field.type)
    return pa.table(columns, schema=SCHEMA)


def pushed(sql: str, table: pa.Table, sizes: list[int], lateness: str = "0 seconds") -> tuple[pa.Table, pa.Table, Any]:
    """What a run gives whose rows come in pieces of these sizes, over and over; its answer, and its metrics."""
    session = wm.Session()
    session.stream("a", schema=SCHEMA, time="ts", lateness=lateness)
    batch, at = table.combine_chunks().to_batches()[0], 0
    with session.sql(sql).start() as run:
        while at < table.num_rows:
            for size in sizes:
                run.push("a", batch.slice(at, size))
                at += size
        answer = run.answer()
        run.finish()
    return run.take(), answer, run.metrics()


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """How often the short way was taken, and how often it was not."""
    taken: Counter[bool] = Counter()
    take = FewGroups.take

    def counted(few: FewGroups, *arguments: Any) -> Any:
        answer = take(few, *arguments)
        taken[answer is not None] += 1
        return answer

    monkeypatch.setattr(FewGroups, "take", counted)
    return taken


def lines(log: pa.Table) -> list[str]:
    """As texts, so that NaN is NaN; which of several groups is first at an instant is no matter."""
    return sorted(str(row) for row in log.to_pylist())


def is_in_order(log: pa.Table) -> bool:
    """By instants, and at each what leaves before what enters."""
    order = [(row["_ts"], row["_op"] == "+") for row in log.select(["_op", "_ts"]).to_pylist()]
    return order == sorted(order)


@pytest.mark.parametrize(("name", "nulls"), thinned(QUERIES, [0.0, 0.02]))
def test_rows_pushed_a_few_at_a_time_change_the_answer_as_all_at_once(
    name: str, nulls: float, ways: Counter[bool]
) -> None:
    table = rows_of(7, nulls)
    log, answer, metrics = pushed(QUERIES[name], table, [1, 3, 2, 5])
    if not nulls:
        assert (ways[True] > 9 * ways[False]) == (name in TAKES_FEW)
    few = ways[True]
    all_log, all_answer, all_metrics = pushed(QUERIES[name], table, [ROWS])
    assert ways[True] == few
    assert log.schema == all_log.schema
    assert is_in_order(log)
    assert lines(log) == lines(all_log)
    assert lines(answer) == lines(all_answer)
    for counted in ("results", "stored_rows", "expired_rows"):
        assert metrics[counted] == all_metrics[counted]


@pytest.mark.parametrize("nulls", [0.0, 0.001])
def test_a_few_rows_and_many_may_take_turns(nulls: float, ways: Counter[bool]) -> None:
    """What is held moves with the many, and where NULLs have come the few go with them."""
    table = rows_of(3, nulls)
    sql = QUERIES["groups that come and go"].replace("2 MILLISECONDS", "1 SECOND")
    log, *_ = pushed(sql, table, [1, 2, FEW + 1, 1, 1, 3, 40])
    assert ways[True]
    assert ways[False]
    assert lines(log) == lines(pushed(sql, table, [ROWS])[0])


@pytest.mark.parametrize("lateness", ["20 milliseconds", "1 hour"])
def test_rows_that_wait_and_come_out_of_order_are_taken_as_they_are_in_time(lateness: str, ways: Counter[bool]) -> None:
    table = rows_of(11, 0.0)
    places = np.arange(ROWS)
    for start in range(0, ROWS, 50):  # some come a little later
        places[start : start + 3] = places[start : start + 3][::-1]
    mixed = table.take(places)
    log, *_ = pushed(QUERIES["sums"], mixed, [1, 3, 2], lateness)
    assert is_in_order(log)
    if lateness != "1 hour":
        assert ways[True] > ways[False] > 0
    assert lines(log) == lines(pushed(QUERIES["sums"], table, [ROWS])[0])


def test_more_groups_than_there_is_room_for_at_first(ways: Counter[bool]) -> None:
    count = 5_000
    numbers = pa.array(range(count), pa.int32())
    times = pa.array(np.arange(count) * 10 + 10**15)
    columns = [times if field.name == "ts" else numbers for field in SCHEMA]
    table = pa.table([one.cast(field.type, safe=False) for one, field in zip(columns, SCHEMA, strict=True)], SCHEMA)
    sql = "SELECT k, SUM(i) AS i FROM a [RANGE 20 MILLISECONDS] GROUP BY k"
    log, *_ = pushed(sql, table, [2, 3])
    assert not ways[False]
    assert lines(log) == lines(pushed(sql, table, [count])[0])


def test_a_state_that_was_saved_between_few_rows_goes_on(ways: Counter[bool]) -> None:
    table = rows_of(5, 0.0).combine_chunks().to_batches()[0]
    session = wm.Session()
    session.stream("a", schema=SCHEMA, time="ts")
    plan = session.sql(QUERIES["sums"]).plan
    given: list[list[pa.RecordBatch]] = [[], []]
    for number, found in enumerate(given):
        operator = build_query(plan).operator
        for at in range(0, ROWS, 2):
            times = table.column("ts").cast(pa.int64()).to_numpy()[at : at + 2]
            found += map(as_batch, operator.answers_to("a", Rows(table.slice(at, 2), times)))
            found += map(as_batch, operator.answers_until({"a": int(times[-1])}))
            if number and at % 400 == 0:
                saved = Saved.from_bytes(operator.save().to_bytes())
                operator = build_query(plan).operator
                operator.load(saved)
    assert not ways[False]
    once, with_saves = (pa.Table.from_batches(some) for some in given)
    assert lines(once) == lines(with_saves)


def test_a_sum_that_is_too_large_ends_the_run() -> None:
    session = wm.Session()
    session.stream("a", schema=pa.schema({"k": pa.int64(), "x": pa.int64(), "ts": pa.timestamp("us")}), time="ts")
    run = session.sql("SELECT k, SUM(x) AS s FROM a [RANGE 1 SECOND] GROUP BY k").start()
    run.push("a", {"k": [1, 1], "x": [2**63 - 1, 1], "ts": [datetime(2026, 1, 1), datetime(2026, 1, 2)]})
    run.push("a", {"k": [1], "x": [2**63 - 1], "ts": [datetime(2026, 1, 2)]})
    with pytest.raises(wm.DataError, match="went beyond the range of BIGINT"):
        run.push("a", {"k": [1], "x": [1], "ts": [datetime(2026, 1, 3)]})


def churn(seed: int) -> pa.RecordBatch:
    """Rows of more groups than there is room for at first, which go and come back."""
    random = np.random.default_rng(seed)
    waves = [np.arange(1_000), 10_000 + np.arange(900), np.arange(200), 50_000 + np.arange(300)]
    waves += [random.integers(0, 4_000, 3_000)]
    times = np.repeat(np.arange(len(waves)) * 600_000, [one.size for one in waves])
    times[-3_000:] += np.sort(random.integers(0, 3_000_000, 3_000))
    columns = [pa.array(np.concatenate(waves)), pa.array(times + 10**15, pa.timestamp("us"))]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema({"k": pa.int64(), "ts": pa.timestamp("us")}))


@pytest.mark.parametrize("sizes", [[200], [FEW], [1, 3, 90, 17]], ids=str)
@pytest.mark.parametrize("sql", ["SELECT k, COUNT(*) AS n FROM a {} GROUP BY k", "SELECT DISTINCT k FROM a {}"])
def test_groups_that_come_back_once_there_is_more_room_are_known(sql: str, sizes: list[int], ways: Counter[bool]):
    rows, logs = churn(len(sizes)), []
    for pieces in ([rows.num_rows], sizes):
        session, at = wm.Session(), 0
        session.stream("a", schema=rows.schema, time="ts")
        with session.sql(sql.format(SECOND)).start() as run:
            while at < rows.num_rows:
                for size in pieces:
                    run.push("a", rows.slice(at, size))
                    at += size
            run.finish()
        logs.append(lines(run.take()))
    assert logs[0] == logs[1]
    assert ways[True]
