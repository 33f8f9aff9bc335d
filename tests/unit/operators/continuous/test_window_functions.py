"""TUMBLE, HOP and SESSION where random queries do not look: when groups come, and windows a microsecond apart."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

import watersmeet as wm

START = datetime(2024, 1, 1)


def at(*microseconds: int) -> pa.Array:
    return pa.array([START + timedelta(microseconds=us) for us in microseconds], pa.timestamp("us"))


def session_of(*microseconds: int) -> wm.Session:
    session = wm.Session()
    session.stream("a", pa.table({"k": range(len(microseconds)), "ts": at(*microseconds)}), time="ts")
    return session


@pytest.mark.parametrize(
    "function", ["TUMBLE(a, 10 SECONDS)", "HOP(a, 5 SECONDS, 10 SECONDS)", "SESSION(a, 9 SECONDS)"]
)
def test_a_group_comes_when_the_watermark_reaches_the_end_of_its_window(function: str) -> None:
    session = wm.Session()
    session.stream("a", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    text = f"SELECT window_end, COUNT(*) AS n FROM {function} GROUP BY window_start, window_end"
    with session.sql(text).start() as run:
        run.push("a", pa.table({"k": [1], "ts": at(1_000_000)}))
        run.push("a", pa.table({"k": [2], "ts": at(9_999_999)}))
        given = run.take().to_pylist()
        assert all(row["window_end"] < START + timedelta(seconds=10) for row in given)
        run.push("a", pa.table({"k": [3], "ts": at(18_999_999 if "SESSION" in function else 10_000_000)}))
        ends = [row["window_end"] for row in run.take().to_pylist()]
        assert ends == [START + timedelta(microseconds=18_999_999 if "SESSION" in function else 10_000_000)]


def test_windows_a_microsecond_apart_that_look_alike_all_come() -> None:
    texts = ("TUMBLE(a, 1 MICROSECOND)", "SESSION(a, 1 SECOND PARTITION BY k)", "HOP(a, 1 MICROSECOND, 2 MICROSECONDS)")
    for text, number in zip(texts, (3, 3, 4), strict=True):
        query = f"SELECT COUNT(*) > 0 AS some FROM {text} GROUP BY window_start, window_end"
        assert session_of(0, 1, 2).sql(query).to_arrow()["some"].to_pylist() == [True] * number


def test_windows_begin_at_multiples_before_1970_too() -> None:
    session = wm.Session()
    times = pa.array([-1, 0, 1], pa.int64()).cast(pa.timestamp("us"))
    session.stream("a", pa.table({"ts": times}), time="ts")
    query = "SELECT window_start, COUNT(*) AS n FROM TUMBLE(a, 1 HOUR) GROUP BY window_start, window_end"
    rows = session.sql(query).to_arrow().to_pylist()
    assert [(row["window_start"].hour, row["n"]) for row in rows] == [(23, 1), (0, 2)]


def test_windows_of_instants_are_instants() -> None:
    session = wm.Session(timezone="America/New_York")
    session.stream("a", pa.table({"ts": at(0).cast(pa.timestamp("us", "UTC"))}), time="ts")
    for function in ("TUMBLE(a, 1 HOUR)", "HOP(a, 30 MINUTES, 1 HOUR)", "SESSION(a, 1 HOUR)"):
        grouped = session.sql(f"SELECT window_start FROM {function} GROUP BY window_start, window_end").to_arrow()
        listed = session.sql(f"SELECT window_start FROM {function}").to_arrow()
        assert pa.types.is_timestamp(grouped.schema.field(0).type)
        assert grouped.schema.field(0).type.tz is not None
        assert sorted(grouped["window_start"].to_pylist()) == sorted(listed["window_start"].to_pylist())


ALONE = (
    "SELECT k, {w}, COUNT(*) AS n, SUM(x) AS total FROM TUMBLE(a, 10 SECONDS) GROUP BY k, {w}",
    "SELECT {w} AS w, COUNT(*) AS n FROM HOP(a, 4 SECONDS, 10 SECONDS) GROUP BY 1",
    "SELECT k, {w}, COUNT(*) AS n FROM SESSION(a, 9 SECONDS PARTITION BY k) GROUP BY k, {w}",
    "SELECT k, x, {w} FROM TUMBLE(a, 10 SECONDS) QUALIFY RANK() OVER (PARTITION BY {w} ORDER BY x) = 1",
    "SELECT MAX(n) AS most, {w} FROM (SELECT k, COUNT(*) AS n, {w} FROM TUMBLE(a, 10 SECONDS) GROUP BY k, {w}) AS g "
    "GROUP BY {w}",
    "SELECT k, n FROM (SELECT k, COUNT(*) AS n, {w} FROM TUMBLE(a, 10 SECONDS) GROUP BY k, {w}) AS g "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY {w} ORDER BY n DESC, k) = 1",
    "SELECT a.{w}, COUNT(*) AS n FROM TUMBLE(a, 10 SECONDS) AS a JOIN TUMBLE(b, 10 SECONDS) AS b ON a.{w} = b.{w} "
    "GROUP BY a.{w}",
    "SELECT g.k, g.n, h.n AS m FROM (SELECT k, COUNT(*) AS n, {w} FROM TUMBLE(a, 10 SECONDS) GROUP BY k, {w}) AS g "
    "JOIN (SELECT k, COUNT(*) AS n, {w} FROM TUMBLE(b, 10 SECONDS) GROUP BY k, {w}) AS h "
    "ON g.k = h.k AND g.{w} = h.{w}",
)  # fmt: skip


@pytest.mark.parametrize("column", ["window_start", "window_end"])
@pytest.mark.parametrize("text", ALONE)
def test_one_column_of_windows_tells_the_other(text: str, column: str) -> None:
    session = wm.Session()
    seconds = [0, 1, 3, 9, 10, 12, 19, 20, 41]
    rows = pa.table({"k": [1, 2, 1, None, 1, 2, 2, None, 1], "x": [5, None, 5, 2, 7, 1, 1, 0, 3]})
    for name in "ab":
        session.stream(name, rows.append_column("ts", at(*(s * 1_000_000 for s in seconds))), time="ts")
    both = "{w}, window_end" if column == "window_start" else "window_start, {w}"
    spelt = text.replace("GROUP BY 1", "GROUP BY {w}").replace("GROUP BY k, {w}", f"GROUP BY k, {both}")
    spelt = spelt.replace("TION BY {w}", f"TION BY {both}") if " g " not in text else spelt
    ours = session.sql(text.format(w=column))
    assert sorted(map(str, ours.to_arrow().to_pylist())) == sorted(
        map(str, session.sql(spelt.format(w=column)).to_arrow().to_pylist())
    )
    assert ours.to_arrow().num_rows
    assert wm.check(ours).equal


def test_groups_of_other_windows_that_begin_together_are_not_of_one_window() -> None:
    with pytest.raises(wm.WindowError, match=r"b\.window_end is neither grouped by nor equal to what is"):
        session_of(0).sql(
            "SELECT COUNT(*) AS n FROM TUMBLE(a, 10 SECONDS) AS a JOIN HOP(a, 5 SECONDS, 10 SECONDS) AS b "
            "ON a.window_start = b.window_start GROUP BY a.window_start"
        )
