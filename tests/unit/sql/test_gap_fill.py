"""GAP_FILL: the answers that RisingWave's own tests write down, when rows come, and zones."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

import watersmeet as wm

START = datetime(2024, 5, 21, 10)


def at(*minutes: float) -> pa.Array:
    return pa.array([START + timedelta(minutes=minute) for minute in minutes], pa.timestamp("us"))


def filled(text: str, rows: pa.Table) -> list[tuple[object, ...]]:
    session = wm.Session()
    session.stream("t", rows, time="ts")
    query = session.sql(text)
    assert wm.check(query).equal
    return [tuple(row.values()) for row in query.to_arrow().to_pylist()]


VALUES = pa.table({"ts": at(-4, -3, 0, 1, 2, 4, 5, 8), "value": [6.0, 7, 10, 11, 12, 14, 15, 20]})


@pytest.mark.parametrize("fill", ["", ", LOCF(value)"])
def test_the_last_value_is_carried_on(fill: str) -> None:
    rows = filled(f"SELECT ts, value FROM GAP_FILL(t, ts, INTERVAL '1' MINUTE{fill})", VALUES)
    assert [value for _, value in rows] == [6, 7, 7, 7, 10, 11, 12, 12, 14, 15, 15, 15, 20]
    assert [time for time, _ in rows] == at(*range(-4, 9)).to_pylist()


def test_values_lie_on_the_line_between_two_rows() -> None:
    rows = filled("SELECT value FROM GAP_FILL(t, ts, INTERVAL '1' MINUTE, INTERPOLATE(value))", VALUES)
    expected = [6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 15 + 5 / 3, 15 + 10 / 3, 20]
    assert [value for (value,) in rows] == pytest.approx(expected)


def test_each_column_is_filled_in_its_own_way() -> None:
    table = pa.table(
        {"ts": at(0, 4), "temperature": [20.0, 24], "pressure": [100.0, 120], "status": ["active", "inactive"]}
    )
    rows = filled(
        "SELECT temperature, pressure, status FROM GAP_FILL(t, ts, INTERVAL '1' MINUTE, INTERPOLATE(temperature), "
        "LOCF(pressure), KEEPNULL(status))",
        table,
    )
    between = [(temperature, 100.0, None) for temperature in (21.0, 22.0, 23.0)]
    assert rows == [(20.0, 100.0, "active"), *between, (24.0, 120.0, "inactive")]


def test_rows_between_two_steps_stay_where_they_are() -> None:
    table = pa.table({"ts": at(0, 0, 2.5, 2.75, 3.75), "x": [1, 2, 3, None, 5]})
    rows = filled("SELECT ts, x FROM GAP_FILL(TABLE t, DESCRIPTOR(ts), 1 MINUTE, CONSTANT(x, -1))", table)
    assert rows == list(zip(at(0, 0, 1, 2, 2.5, 2.75, 3.75).to_pylist(), [1, 2, -1, -1, 3, None, 5], strict=True))


def test_a_gap_is_filled_when_the_row_that_ends_it_is_certain_and_a_key_no_further() -> None:
    session = wm.Session()
    session.stream("t", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts", lateness="1 minute")
    query = "SELECT k, ts, event_time() AS given FROM GAP_FILL(t, ts, 1 MINUTE PARTITION BY k)"
    with session.sql(query).start() as run:
        run.push("t", pa.table({"k": [1, 2], "ts": at(0, 0)}))
        run.push("t", pa.table({"k": [1], "ts": at(3)}))
        assert {row["k"] for row in run.take().to_pylist()} <= {1, 2}
        run.push("t", pa.table({"k": [1], "ts": at(2)}))
        run.push("t", pa.table({"k": [3], "ts": at(10)}))
        rows = run.take().to_pylist()
    of_1 = [(row["ts"], row["given"]) for row in rows if row["k"] == 1]
    assert of_1[-3:] == list(zip(at(1, 2, 3).to_pylist(), at(2, 2, 3).to_pylist(), strict=True))
    assert not any(row["k"] == 2 and row["ts"] > START for row in rows)


def test_windows_without_rows_are_filled_by_key_and_go_on_from_there() -> None:
    session = wm.Session()
    session.stream("t", pa.table({"k": [1, 2, 1, 2], "ts": at(0, 0.5, 3, 4.5)}), time="ts")
    counts = "SELECT k, window_start, window_end, COUNT(*) AS n FROM TUMBLE(t, 1 MINUTE) GROUP BY k, window_start"
    query = session.sql(
        f"WITH c AS ({counts}) SELECT k, window_end, n FROM GAP_FILL(c, window_start, 1 MINUTE, CONSTANT(n, 0) "
        "PARTITION BY k) AS g"
    )
    rows = {(row["k"], row["window_end"]): row["n"] for row in query.to_arrow().to_pylist()}
    assert {key: n for key, n in rows.items() if n} == {
        (1, START + timedelta(minutes=1)): 1, (1, START + timedelta(minutes=4)): 1,
        (2, START + timedelta(minutes=1)): 1, (2, START + timedelta(minutes=5)): 1,
    }  # fmt: skip
    assert len(rows) == 4 + 5
    assert wm.check(query).equal
