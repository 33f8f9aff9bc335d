"""Functions that users bring run on Spark's workers as they run in-process, and go wrong with the same words."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet.io.own_files import load_functions
from watersmeet.model.catalog import FUNCTIONS_OF_ALL

pytestmark = pytest.mark.spark
ROWS = pa.table(
    {
        "k": [1, 2, 3, None], "l": [[1], [], None, [4, 5]], "st": [{"f": "a,b"}] * 4,
        "ts": [datetime(2026, 1, 1, 0, 0, second) for second in range(4)],
    }
)  # fmt: skip


OF_A_FILE = """
import pyarrow.compute as pc
import watersmeet as wm

def twice(x: int) -> int:
    return pc.multiply(x, 2)

wm.register_function("twice", twice)
wm.register_aggregate("most", lambda x: pc.max(x), ["BIGINT"], "BIGINT")

class Squares:
    def __init__(self) -> None:
        self.total = 0

    def add(self, x: int) -> None:
        self.total += pc.sum(twice(pc.multiply(x, x))).as_py()

    def remove(self, x: int) -> None:
        self.total -= pc.sum(twice(pc.multiply(x, x))).as_py()

    def result(self) -> int:
        return self.total

wm.register_aggregate("squares", Squares)
"""


def brought(session: wm.Session) -> wm.Session:
    factor = 2  # which only this process knows
    session.stream("s", ROWS, time="ts")
    session.function("scaled", lambda x: pc.multiply(x, factor), ["BIGINT"], "BIGINT")
    session.function("broken", lambda x: pa.array(["a"] * len(x)), ["BIGINT"], "BIGINT")
    session.aggregate("every_k", lambda x: {"all": x.to_pylist()}, ["BIGINT"], "STRUCT(all BIGINT[])")
    session.aggregate("path", lambda x: "-".join(map(str, x.to_pylist())), ["BIGINT"], "STRING")
    return session


def test_functions_travel_to_the_workers(spark: SparkSession) -> None:
    here, there = brought(wm.Session()), brought(wm.Session(spark, buckets=1))

    def rows(session: wm.Session, text: str) -> list[Any]:
        return sorted(map(str, session.sql(text)))

    join = "SELECT scaled(l.k) AS v FROM s l, s r WHERE scaled(l.k) = r.k + l.k WINDOW = 9 SECONDS"
    assert rows(there, join) == rows(here, join) != []
    nested = "SELECT l[-1] AS last, st.f, SPLIT(st.f, ',') AS parts, REGEXP_EXTRACT(st.f, '[b-z]') AS b, "
    nested += "TO_JSON(st) AS j, REGEXP_MATCH(st.f, '(a),(b)') AS m, LIST_SORT(l) AS o, LEVENSHTEIN(st.f, '') AS n "
    nested += "FROM s"
    assert rows(there, nested) == rows(here, nested) != []
    changing = "SELECT path(k) AS p, STRING_AGG(CAST(k AS STRING)) AS s FROM s [RANGE 1 SECOND]"
    assert rows(there, changing) == rows(here, changing) != []
    lists = """SELECT k % 2 AS g, ARRAY_AGG(k ORDER BY k DESC) AS l, MAP_AGG(k, st) AS m, JSON_AGG(k) AS j,
               every_k(k) AS e FROM s [RANGE 2 SECONDS] GROUP BY k % 2"""
    assert rows(there, lists) == rows(here, lists) != []
    with pytest.raises(wm.DataError) as caught:
        there.sql("SELECT broken(k) AS v FROM s").to_arrow()
    assert "the function broken returned STRING, but it is declared to return BIGINT" in str(caught.value)
    assert "line 1: SELECT broken(k) AS v FROM s" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_those_of_a_file_that_only_the_driver_has_do_too(spark: SparkSession, tmp_path: Path) -> None:
    own = tmp_path / "elsewhere" / "functions_of_mine.py"
    own.parent.mkdir()
    own.write_text(OF_A_FILE)
    try:
        assert load_functions(own) == ["twice", "most", "squares"]
        own.unlink()
        session = wm.Session(spark, buckets=1)
        session.stream("s", ROWS, time="ts")
        assert sorted(str(row["v"]) for row in session.sql("SELECT twice(k) AS v FROM s")) == ["2", "4", "6", "None"]
        assert session.sql("SELECT most(twice(k)) AS v FROM s [UNBOUNDED]").final()["v"].to_pylist() == [6]
        told = session.sql("SELECT squares(k) AS v FROM s [RANGE 1 SECOND]").to_arrow().to_pylist()
        assert [row["v"] for row in told if row["_op"] == "+"] == [2, 10, 8, 26, 18, None]
    finally:
        FUNCTIONS_OF_ALL.clear()
