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
    assert grouped.column("k").to_pylist() == [None, "b"]
    assert grouped.column("n").to_pylist() == [1, 2]


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
