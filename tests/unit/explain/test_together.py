"""EXPLAIN of a script: at the end what its queries share, and what that saves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.cli.test_commands import call

DECLARED = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) WITH (source = 'parquet', path = '{name}.parquet', time = 'ts', "
    "rate = '100/s');"
    for name in "ab"
)
JOIN = "SELECT a.k FROM a [RANGE {0} SECONDS], b [RANGE {0} SECONDS] WHERE a.k = b.k;"


Explained = Callable[..., str]


@pytest.fixture
def explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Explained:
    def explain(queries: str, *options: str) -> str:
        script = tmp_path / "script.sql"
        script.write_text(DECLARED + queries)
        assert call("explain", str(script), *options) == 0
        return capsys.readouterr().out

    return explain


def test_the_last_words_are_of_all_queries(explained: Explained) -> None:
    text = explained(JOIN.format(10) + JOIN.format(30) + JOIN.format(10) + "SELECT ts FROM a;")
    words = " ".join(text.partition("-- in one process together\n")[2].split())
    assert "a is read once for query 1, query 2, query 3 and query 4" in words
    assert "rows of a are kept once for query 1 and query 2: about 3,000 (" in words
    assert "), apart 4,000 (" in words
    assert "query 1 and query 3 ask the same and are answered once" in words


def test_a_program_reads_numbers(explained: Explained) -> None:
    told = json.loads(explained(JOIN.format(10) + JOIN.format(30), "--format", "json"))
    (together,) = told["in one process together"]
    assert together["queries"] == ["query 1", "query 2"]
    (kept,) = together["kept_once"]["b"]
    assert (kept["queries"], kept["rows"], kept["rows_apart"]) == (["query 1", "query 2"], 3000, 4000)
    assert kept["bytes"] < kept["bytes_apart"]


def test_a_page_says_it_first(explained: Explained) -> None:
    page = explained(JOIN.format(10) + JOIN.format(30), "--format", "html")
    assert page.index("<p>a is read once for query 1 and query 2</p>") < page.index("<h1>query 1</h1>")


def test_a_memory_that_is_shared_is_told(explained: Explained) -> None:
    text = explained("SET memory = '100 rows';" + JOIN.format(10) + JOIN.format(30))
    assert "query 1 and query 2 share a memory of 100 rows" in text
    assert text.count("that is its part of the 100 rows") == 2


def test_a_query_by_itself_says_nothing_of_others(explained: Explained) -> None:
    assert "together" not in explained(JOIN.format(10))


def test_one_query_of_many_is_told_alone(explained: Explained) -> None:
    assert "-- in one" not in explained(JOIN.format(10) + JOIN.format(30), "--query", "query 1")
