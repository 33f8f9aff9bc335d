"""What a log adds up to at the end of bounded input."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from watersmeet.errors import UnsupportedError
from watersmeet.session import Session


def session() -> Session:
    at = [dt.datetime(2026, 1, 1, 0, 0, second) for second in (0, 3, 4, 4, 5)]
    made = Session()
    table = pa.table({"k": ["a", "b", None, "b", "b"], "v": [1.0, 2.0, float("nan"), 2.0, 2.0], "ts": at})
    made.stream("s", table, time="ts", lateness="1 second")
    return made


def test_the_final_answer_is_the_one_at_the_last_event() -> None:
    grouped = session().sql("SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 1 SECOND] GROUP BY k").final()
    assert dict(zip(grouped["k"].to_pylist(), grouped["n"].to_pylist(), strict=True)) == {None: 1, "b": 2}
    assert grouped.num_rows == 2


def test_equal_rows_come_as_often_as_they_are_in_the_answer() -> None:
    view = "SELECT x.k, x.v FROM (SELECT k, v FROM s [RANGE 2 SECONDS]) AS x"
    assert sorted(map(str, session().sql(view).final().column("k").to_pylist())) == ["None", "b", "b", "b"]


def test_a_join_that_only_grows_ends_with_all_its_rows() -> None:
    assert session().sql("SELECT k FROM s WHERE v > 1").final().num_rows == 4


def test_an_answer_that_is_empty_at_the_end_has_no_rows() -> None:
    none = session().sql("SELECT k FROM s [RANGE 1 SECOND] EXCEPT SELECT k FROM s [RANGE 1 SECOND]").final()
    assert none.num_rows == 0
    assert none.schema.names == ["k"]


def test_changes_alone_have_no_final_state() -> None:
    with pytest.raises(UnsupportedError, match="no final state"):
        session().sql("SELECT ISTREAM k, COUNT(*) AS n FROM s [RANGE 1 SECOND] GROUP BY k").final()


def prices() -> Session:
    """Rows whose prices tie, are missing, or are no number, in an order that is none."""
    at = [dt.datetime(2026, 1, 1, 0, 0, second) for second in (0, 1, 2, 3, 4, 5, 6)]
    made = Session()
    values = [2.0, None, 7.5, 2.0, float("nan"), -1.0, 7.5]
    made.stream("s", pa.table({"k": ["d", "n", "z", "b", "x", "a", "c"], "v": values, "ts": at}), time="ts")
    return made


ORDERS = {
    "v LIMIT 9": "abdczxn",
    "v DESC LIMIT 9": "xczbdan",
    "v NULLS FIRST LIMIT 9": "nabdczx",
    "v DESC NULLS FIRST LIMIT 4": "nxcz",
    "v DESC NULLS LAST LIMIT 3": "xcz",
    "v > 0 DESC, k DESC LIMIT 9": "zxdcban",
}


@pytest.mark.parametrize("order", ORDERS)
def test_the_first_rows_come_in_their_order(order: str) -> None:
    answer = prices().sql(f"SELECT k, v FROM s [UNBOUNDED] ORDER BY {order}").final()
    assert "".join(answer["k"].to_pylist()) == ORDERS[order]


@pytest.mark.parametrize("order", ORDERS)
def test_whole_answers_again_and_again_come_in_their_order(order: str) -> None:
    sent = prices().sql(f"SELECT RSTREAM k, v FROM s [UNBOUNDED] ORDER BY {order} EVERY 2 SECONDS").to_arrow()
    answers: dict[dt.datetime, str] = {}
    for row in sent.to_pylist():
        answers[row["_ts"]] = answers.get(row["_ts"], "") + row["k"]
    assert len(answers) == 4
    assert sent["_ts"].to_pylist() == sorted(sent["_ts"].to_pylist())
    assert answers[max(answers)] == ORDERS[order]


def test_equal_rows_stand_together_in_an_answer_with_an_order() -> None:
    same = session().sql("SELECT k, v FROM s [UNBOUNDED] ORDER BY v DESC LIMIT 4").final()
    assert same["k"].to_pylist() == [None, "b", "b", "b"]


def test_a_set_operation_is_given_in_the_order_that_stands_around_it() -> None:
    sql = "SELECT k FROM s [UNBOUNDED] UNION ALL SELECT k FROM s [UNBOUNDED] ORDER BY k DESC LIMIT 3"
    assert prices().sql(sql).final()["k"].to_pylist() == ["z", "z", "x"]


# ---- over no rows at all --------------------------------------------------------------------------------------------

EMPTY: dict[str, list[dict[str, object]]] = {
    "SELECT COUNT(*) AS n, COUNT(v) AS m, SUM(v) AS total, MIN(k) AS least FROM s [RANGE 1 SECOND]": [
        {"n": 0, "m": 0, "total": None, "least": None}
    ],
    "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND] HAVING COUNT(*) > 0": [],
    "SELECT k, COUNT(*) AS n FROM s [RANGE 1 SECOND] GROUP BY k": [],
    "SELECT k, COUNT(*) AS n FROM s [RANGE 1 SECOND] GROUP BY ROLLUP (k)": [{"k": None, "n": 0}],
    "SELECT n + 1 AS m FROM (SELECT COUNT(*) AS n FROM s [ROWS 3]) AS x": [{"m": 1}],
    "SELECT n, name FROM (SELECT COUNT(*) AS n FROM s [ROWS 3]) AS x, t": [{"n": 0, "name": "a"}],
    "SELECT COUNT(*) AS n FROM s [UNBOUNDED] UNION ALL SELECT COUNT(*) FROM s [ROWS 1]": [{"n": 0}, {"n": 0}],
    "SELECT COUNT(*) AS n FROM s [UNBOUNDED] UNION SELECT COUNT(*) FROM s [ROWS 1]": [{"n": 0}],
    "SELECT COUNT(*) AS n, (SELECT MAX(v) FROM s [UNBOUNDED]) AS m FROM s [UNBOUNDED]": [{"n": 0, "m": None}],
    "SELECT k FROM s [UNBOUNDED] ORDER BY k LIMIT 1": [],
}


def no_rows() -> Session:
    made = Session()
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("ts", pa.timestamp("us"))])
    made.stream("s", schema.empty_table(), time="ts")
    made.table("t", pa.table({"name": ["a"]}))
    return made


@pytest.mark.parametrize("sql", EMPTY)
def test_over_no_rows_at_all_it_is_what_sql_gives_and_nothing_has_changed(sql: str) -> None:
    query = no_rows().sql(sql)
    assert query.final().to_pylist() == EMPTY[sql]
    assert query.to_arrow().num_rows == 0


def test_where_rows_came_the_log_is_what_counts() -> None:
    """A condition that holds over nothing only: at the last event there is something."""
    sql = "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND] HAVING COUNT(*) = 0"
    assert session().sql(sql).final().num_rows == 0
    assert no_rows().sql(sql).final().to_pylist() == [{"n": 0}]
