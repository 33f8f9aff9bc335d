"""The kit for tests of queries: what it sees, what it lets pass, and how it says what differs."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from tests.warned import code_of
from watersmeet.testing import Trial, queries_of

ROOT = Path(__file__).parents[3]
JOIN = "SELECT a.k, b.x FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS"
COUNT = "SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k"


def query(sql: str = JOIN, **how: Any) -> wm.Query:
    session = wm.Session()
    session.stream("a", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts", **how)
    session.stream("b", schema={"k": "BIGINT", "x": "DOUBLE", "ts": "TIMESTAMPTZ"}, time="ts", **how)
    return session.sql(sql)


def test_answers_are_expected_once_in_any_order() -> None:
    with Trial(query()) as trial:
        trial.push("a", [{"k": 1, "ts": "0:00"}, {"k": 2, "ts": "0:00:01"}])
        trial.expect_nothing()
        trial.push("b", {"k": [2, 1], "x": [0.2, 0.1], "ts": ["0:00:02", "0:00:03.5"]})
        trial.expect([{"x": 0.1, "k": 1}, {"k": 2, "x": 0.1 + 0.1}])
        trial.expect_nothing()


def test_decimals_are_pushed_and_expected_as_numbers_or_text() -> None:
    session = wm.Session()
    session.stream("a", schema={"price": "DECIMAL(6, 2)", "ts": "TIMESTAMP"}, time="ts")
    with Trial(session.sql("SELECT price FROM a")) as trial:
        trial.push("a", [{"price": price, "ts": "0:00"} for price in ("1.50", 1.5, Decimal("1.5"), 2, "2.00")])
        trial.expect([{"price": price} for price in (1.5, "1.5", "1.50", "2", Decimal(2))])


def test_what_differs_is_drawn_row_by_row() -> None:
    with Trial(query("SELECT k, ts FROM a")) as trial:
        trial.push("a", [{"k": 1, "ts": "12:00"}, {"k": 20, "ts": "12:01"}, {"k": 3, "ts": "12:02"}])
        with pytest.raises(AssertionError) as caught:
            trial.expect([{"k": 1, "ts": "12:00"}, {"k": 3, "ts": "12:02:30"}])
    assert str(caught.value).splitlines() == [
        "answers: 1 row expected did not come, 2 rows came that were not expected",
        "  k   ts",
        "- 3   2026-01-01 12:02:30",
        "+ 20  2026-01-01 12:01:00",
        "+ 3   2026-01-01 12:02:00",
        "  1   2026-01-01 12:00:00",
    ]


def test_the_order_counts_if_asked_for() -> None:
    with Trial(query("SELECT k FROM a")) as trial:
        trial.push("a", [{"k": 1, "ts": "12:00"}, {"k": 2, "ts": "12:01"}])
        with pytest.raises(AssertionError, match=r"in another order from row 1 on\n  k\n- 2\n\+ 1"):
            trial.expect([{"k": 2}, {"k": 1}], in_order=True)
        trial.push("a", [{"k": 1, "ts": "12:03"}, {"k": 2, "ts": "12:04"}])
        trial.expect([{"k": 1}, {"k": 2}], in_order=True)


def test_an_expectation_that_cannot_hold_says_why() -> None:
    with Trial(query()) as trial:
        with pytest.raises(AssertionError, match="'kk', which is no column of the answer: k, x"):
            trial.expect([{"kk": 1}])
        with pytest.raises(AssertionError, match="name different columns"):
            trial.expect([{"k": 1}, {"x": 1}])


def test_as_many_as_expected() -> None:
    with Trial(query("SELECT k FROM a")) as trial:
        trial.push("a", {"k": [1, 1], "ts": ["12:00", "12:00"]})
        with pytest.raises(AssertionError, match=r"1 row came that was not expected\n  k\n\+ 1\n  1"):
            trial.expect([{"k": 1}])


def test_event_time_is_moved_by_hand() -> None:
    with Trial(query("SELECT k FROM a [NOW] UNION ALL SELECT k FROM b [NOW]")) as trial:
        assert trial.watermark is None
        trial.push("a", {"k": 1, "ts": "9:00"})
        trial.expect_nothing()
        trial.advance("a", "9:01")
        trial.advance("b", datetime(2026, 1, 1, 9, 2))
        assert trial.watermark == datetime(2026, 1, 1, 9, 1)
        trial.expect([{"_op": "+", "_ts": "9:00", "k": 1}, {"_op": "-", "_ts": "9:00:00.000001", "k": 1}])


def test_the_clock_on_the_wall_is_moved_by_hand() -> None:
    with Trial(query(COUNT, idle="30 seconds"), today="2026-01-01 09:00:00") as trial:
        trial.push("a", {"k": 1, "ts": "9:00"})
        trial.wait("29 seconds")
        trial.expect_nothing()
        trial.wait(timedelta(seconds=1))
        trial.expect([{"_op": "+", "_ts": "9:00", "n": 1}, {"_op": "-", "_ts": "9:00:05.000001", "n": 1}])
        trial.expect_answer([])
        trial.push("a", {"k": 1, "ts": "9:00:10"})
        trial.expect_late("a", [{"k": 1, "ts": "9:00:10"}])
        assert trial.now == datetime(2026, 1, 1, 9, 0, 30)


def test_a_row_of_the_future_moves_no_time() -> None:
    with Trial(query("SELECT k FROM a", max_future="1 hour"), today="2026-01-01 12:00:00") as trial:
        trial.push("a", [{"k": 1, "ts": "13:00:01"}, {"k": 2, "ts": "12:00"}])
        trial.expect([{"k": 1}, {"k": 2}])
        trial.finish()
        assert [code_of(one) for one in trial.warnings] == ["future_rows"]
        assert trial.metrics()["future_rows"] == {"a": 1}


def test_late_rows_that_nobody_expected_fail_the_test() -> None:
    with (
        pytest.raises(AssertionError, match="1 row of 'a' came too late and nothing expected that"),
        Trial(query("SELECT k FROM a")) as trial,
    ):
        trial.push("a", [{"k": 1, "ts": "12:00"}, {"k": 2, "ts": "11:59"}])
    with Trial(query("SELECT k FROM a")) as trial:
        trial.push("a", [{"k": 1, "ts": "12:00"}, {"k": 2, "ts": "11:59"}])
        with pytest.raises(AssertionError, match="1 row of 'a' came too late, expected were 2"):
            trial.expect_late("a", 2)


def test_the_present_answer_is_expected() -> None:
    with Trial(query(COUNT)) as trial:
        trial.push("a", {"k": [1, 1, 2], "ts": ["9:00", "9:00:01", "9:00:03"]})
        trial.advance("a", "9:00:04")
        trial.expect_answer([{"k": 1, "n": 2}, {"k": 2, "n": 1}])
        with pytest.raises(AssertionError, match="the present answer: 1 row expected did not come"):
            trial.expect_answer([{"k": 1, "n": 2}, {"k": 2, "n": 1}, {"k": 3, "n": 1}])
        trial.finish()
        assert {row["k"]: row["n"] for row in trial.answer()} == {1: 2, 2: 1}
        assert [row["_op"] for row in trial.answers()] == ["+", "-", "+", "+", "-", "+", "-", "-"]


def test_a_query_over_files_is_tried_without_them(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pa_parquet.write_table(pa.table({"k": [7], "ts": pa.array([0], pa.timestamp("us"))}), file)
    session = wm.Session()
    session.stream("a", file, time="ts")
    session.table("names", pa.table({"k": [1], "name": ["one"]}))
    named = session.sql("SELECT n.name FROM a, names n WHERE a.k = n.k")
    file.unlink()
    with Trial(named) as trial:
        trial.push("a", [{"k": 1, "ts": "9:00"}, {"k": 7, "ts": "9:00"}])
        trial.expect([{"name": "one"}])
    with Trial(named, tables={"names": [{"k": 7, "name": "seven"}]}) as trial:
        trial.push("a", [{"k": 1, "ts": "9:00"}, {"k": 7, "ts": "9:00"}])
        trial.expect([{"name": "seven"}])
    with pytest.raises(wm.CatalogError, match="no static table 'name'\nhint: its tables are names"):
        Trial(named, tables={"name": []})


def test_the_queries_of_a_script_are_tried_by_name() -> None:
    (name, checkout), *_ = queries_of(ROOT / "examples" / "checkout.sql").items()
    assert name == "query 1"
    with Trial(checkout) as trial:
        trial.push("clicks", {"visitor": 7, "page": "/tea", "ts": "12:00"})
        trial.push("orders", {"id": 1, "visitor": 7, "amount": 5, "ts": "12:04"})
        trial.push("payments", {"order_id": 1, "method": "card", "ts": "12:05"})
        trial.expect([{"id": 1, "page": "/tea", "method": "card", "waited": timedelta(minutes=1)}])
