"""Lists, structs and maps: declared, taken apart, and refused where they have no meaning."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from watersmeet.reference.join import answer

BID = {"auction": 1, "price": 2.5, "tags": ["a", "b"]}
TABLE = pa.table(
    {
        "bid": [BID, None], "l": [[1, 2], []], "m": pa.array([[("k", 1.0)], []], pa.map_(pa.string(), pa.float64())),
        "ts": [datetime(2026, 1, 1), datetime(2026, 1, 2)],
    }
)  # fmt: skip
DECLARED = """
CREATE STREAM e (bid STRUCT(auction BIGINT, price DOUBLE, tags STRING[]), l ARRAY<BIGINT>, m MAP(STRING, DOUBLE),
                 ts TIMESTAMP) WITH (path = '{path}', time = 'ts')
"""


@pytest.fixture
def session(tmp_path: Path) -> wm.Session:
    pa_parquet.write_table(TABLE, tmp_path / "e.parquet")
    made = wm.Session()
    made.sql(DECLARED.format(path=tmp_path / "e.parquet"))
    return made


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("bid.auction", [1, None]),
        ("e.bid.price + 1", [3.5, None]),
        ("BID['tags'][-1]", ["b", None]),
        ("bid.tags[1:1]", [["a"], None]),
        ("l[2]", [2, None]),
        ("l[3]", [None, None]),
        ("m['k']", [1.0, None]),
        ("m['none']", [None, None]),
        ("LEN(l)", [2, 0]),
        ("LIST_CONTAINS(bid.tags, 'b')", [True, None]),
        ("LIST_MAX(l) - LIST_MIN(l) + LIST_SUM(l)", [4, None]),
        ("ARRAY_TO_STRING(bid.tags, '+')", ["a+b", None]),
    ],
)
def test_parts_are_taken_as_the_reference_takes_them(session: wm.Session, expression: str, values: list[Any]) -> None:
    query = session.sql(f"SELECT {expression} AS v FROM e")
    assert query.to_arrow()["v"].to_pylist() == values
    assert [value for (value,) in answer(query.plan, {"e": TABLE})] == values


def test_a_field_names_its_column() -> None:
    session = wm.Session()
    session.stream("e", TABLE, time="ts")
    assert session.sql("SELECT bid.auction, l[1] FROM e").schema.names == ["auction", "l[1]"]


def test_fields_join_and_group(session: wm.Session) -> None:
    join = "SELECT x.bid.auction FROM e x, e y WHERE x.bid.auction = y.bid.auction WINDOW = 1 DAY"
    assert session.sql(join).to_arrow().to_pylist() == [{"auction": 1}]
    groups = "SELECT bid.auction AS a, COUNT(*) AS n FROM e [UNBOUNDED] GROUP BY bid.auction"
    assert session.sql(groups).final().sort_by("a").to_pylist() == [{"a": 1, "n": 1}, {"a": None, "n": 1}]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("bid.prize", "e.bid has no field prize"),
        ("l.first", "e.l is BIGINT[], which has no fields"),
        ("l['a']", "which has no fields"),
        ("l[1.5]", "a place in a list is a whole number, not DOUBLE"),
        ("m[1]", "the keys of MAP(STRING, DOUBLE) are not BIGINT"),
        ("CAST(l AS STRING)", "BIGINT[] cannot be cast to STRING"),
        ("LIST_CONTAINS(l, 'a')", "a list of BIGINT cannot hold STRING"),
        ("l = 'a'", "BIGINT[] and STRING cannot be compared"),
        ("UPPER(bid)", "UPPER needs text (STRING), not STRUCT(auction BIGINT"),
        ("l[1, 2]", "one place or one range stands in brackets"),
    ],
)
def test_what_has_no_meaning_is_refused(session: wm.Session, expression: str, said: str) -> None:
    with pytest.raises(wm.SqlError) as caught:
        session.sql(f"SELECT {expression} AS v FROM e")
    assert said in str(caught.value)


@pytest.mark.parametrize("source", ["HOP(a, 1 SECOND, 1 SECOND)", "(SELECT ISTREAM k, l FROM a) AS b"])
def test_lists_pass_through_what_stands_in_from(source: str) -> None:
    session = wm.Session()
    at = pa.array([0, 0], pa.timestamp("us"))
    session.stream("a", pa.table({"k": [1, 1], "l": [[1, 2], [3]], "ts": at}), time="ts")
    assert sorted(row["l"] for row in session.sql(f"SELECT k, l FROM {source}")) == [[1, 2], [3]]
