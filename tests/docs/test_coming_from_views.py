"""The first queries of other engines, as the page has them here: each is run, and its answer is DuckDB's."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.docs.test_shown import ROOT, blocks
from watersmeet.checking.checker import check

PAGE = ROOT / "docs" / "coming_from_views.md"
_, *PARTS = [text for language, text in blocks(PAGE) if language == "sql"]
QUERIES = [query.strip() for part in PARTS for query in part.split(";")]
START = dt.datetime(2026, 1, 1, 12)


def at(*minutes: float) -> list[dt.datetime]:
    return [START + dt.timedelta(minutes=minute) for minute in minutes]


@pytest.fixture(scope="module")
def session() -> wm.Session:
    """Rows that all of the queries find something in: visitors with and without orders, equal times, NULLs."""
    made = wm.Session()
    clicks = {
        "visitor": [1, 2, 1, 3, 1, 2],
        "page": ["home", "cart", "cart", "home", None, "home"],
        "tags": [["new"], [], ["a", "b"], None, ["a"], ["b", None]],
        "ts": at(0, 0.5, 0.5, 4, 9, 30),
    }
    orders = {
        "id": [1, 2, 3, 4],
        "visitor": [1, 1, 2, 4],
        "amount": [9.5, 20.0, 3.0, None],
        "detail": ["gold", "tin", "gold", None],
        "ts": at(0.2, 2, 2, 12),
    }
    quotes = {"symbol": ["gold", "tin", "gold"], "price": [1.5, 2.5, 3.5], "ts": at(0, 1, 1.5)}
    pages = {"page": ["home", "cart"], "section": ["front", "shop"]}
    made.stream("clicks", pa.table(clicks), time="ts", lateness="5 seconds")
    made.stream("orders", pa.table(orders), time="ts", lateness="5 seconds")
    made.stream("quotes", pa.table(quotes), time="ts", lateness="5 seconds")
    made.table("pages", pa.table(pages))
    return made


def test_the_page_has_ten_of_each() -> None:
    assert [len(part.split(";")) for part in PARTS] == [10, 10, 10, 10]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.splitlines()[1][:60])
def test_a_query_of_the_page_has_the_answer_of_duckdb(session: wm.Session, query: str) -> None:
    asked = session.sql(query)
    report = check(asked)
    assert report.equal, str(report)
    assert asked.to_arrow().num_rows > 0
