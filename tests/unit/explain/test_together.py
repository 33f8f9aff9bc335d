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
    def explain(queries: str, *options: str, declared: str = DECLARED) -> str:
        script = tmp_path / "script.sql"
        script.write_text(declared + queries)
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


def test_it_is_told_who_keeps_rows_once_on_spark(explained: Explained) -> None:
    other = "SELECT a.k FROM a, b WHERE a.ts < b.ts WINDOW = 1 SECOND;"
    turned = "SELECT y.k FROM b AS y, a AS x WHERE y.k = x.k AND x.k > 7 WINDOW = 1 SECOND;"
    text = explained(JOIN.format(10) + other + turned + "SELECT k, COUNT(*) AS n FROM a [RANGE 1 SECOND] GROUP BY k;")
    assert "on Spark all rows are kept once for query 1 and query 3" in " ".join(text.split())
    assert "on Spark" not in explained(JOIN.format(10) + other)


def test_a_program_reads_numbers(explained: Explained) -> None:
    told = json.loads(explained(JOIN.format(10) + JOIN.format(30), "--format", "json"))
    (together,) = told["in one process together"]
    assert together["queries"] == ["query 1", "query 2"]
    (kept,) = together["kept_once"]["b"]
    assert (kept["queries"], kept["rows"], kept["rows_apart"]) == (["query 1", "query 2"], 3000, 4000)
    assert kept["bytes"] < kept["bytes_apart"]


def test_a_picture_shows_what_flows_into_them(explained: Explained) -> None:
    queries = JOIN.format(10) + JOIN.format(30)
    picture = explained(queries, "--format", "svg")
    assert picture.startswith("<svg")
    for words in ("query 1 and query 2", "a is read once for", "look for partners once"):
        assert words in picture
    assert picture.strip() in explained(queries, "--format", "html")
    assert "read once" not in explained(queries, "--format", "svg", "--query", "query 2")
    assert "read once" not in explained(JOIN.format(10), "--format", "svg")


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


RATED = DECLARED.replace("100/s'", "1000/s', distinct = 'k: 2000'")


def words_of(text: str) -> str:
    return " ".join(text.partition("-- in one process together\n")[2].split())


def test_it_says_which_joins_walk_once_and_what_that_saves(explained: Explained) -> None:
    queries = JOIN.format(1) + JOIN.format(2) + JOIN.format(4)
    words = words_of(explained(queries))
    assert (
        "new rows of a look for partners once for query 1, query 2 and query 3: about 5.3 µs of each second, "
        "apart 8.4 µs" in words
    )
    (told,) = json.loads(explained(queries, "--format", "json"))["in one process together"]
    (of_a, of_b) = told["walks"]
    assert (of_a["stream"], of_b["stream"], of_a["queries"]) == ("a", "b", ["query 1", "query 2", "query 3"])
    assert of_a["busy_ns"] < of_a["apart_ns"]
    assert "others" not in of_a or not of_a["others"]


def test_and_which_do_not_as_that_would_cost_more(explained: Explained) -> None:
    words = words_of(explained(JOIN.format(1) + JOIN.format(2) + JOIN.format(36_000), declared=RATED))
    assert "look for partners once for query 1 and query 2" in words
    assert "do so for query 3 apart from those for query 1 and query 2, as they find very different numbers" in words


VIEW = "CREATE VIEW busy AS SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k;"


def test_it_says_which_parts_are_computed_once(explained: Explained) -> None:
    words = words_of(
        explained(VIEW + "SELECT k FROM busy WHERE n > 1; SELECT x.k FROM busy x, busy y WHERE x.n = y.n;")
    )
    assert (
        "GROUP BY over a is computed once for query 1 and query 2, which have it 3 times: 100 rows a second come to "
        "it, apart 300" in words
    )


def test_of_one_query_it_says_what_it_has_twice(explained: Explained) -> None:
    told = explained(VIEW + "SELECT x.k FROM busy x, busy y WHERE x.n = y.n;")
    assert "GROUP BY over a is computed once for: query 1" in told
    apart = explained(VIEW + "SELECT x.k FROM busy x, busy y WHERE x.n = y.n OPTIONS (share = 'no');")
    assert "computed once" not in apart


def test_it_says_who_reads_apart_and_why(explained: Explained) -> None:
    queries = JOIN.format(1) + JOIN.format(2) + JOIN.format(3).replace(";", " OPTIONS (share = 'no');")
    told = explained(queries)
    assert told.rstrip().endswith("-- in one process apart\nquery 3 reads a and b by itself: it says share = 'no'")
    assert json.loads(explained(queries, "--format", "json"))["in one process apart"] == [
        "query 3 reads a and b by itself: it says share = 'no'"
    ]
    shed = JOIN.format(3).replace(";", " OPTIONS (memory = '10 rows');")
    assert "query 2 reads a and b by itself: which rows it sheds goes by how it is fed" in explained(
        JOIN.format(1) + shed
    )


def test_of_streams_that_wait_for_others_it_says_so(explained: Explained) -> None:
    drifting = DECLARED.replace("'100/s'", "'100/s', max_drift = '1 minute'")
    told = explained(JOIN.format(1) + "SELECT k FROM a;", declared=drifting)
    assert "query 2 reads a by itself: one of the streams has max_drift" in " ".join(told.split())


def test_it_says_whose_rows_are_kept_apart_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declared = DECLARED + DECLARED.partition(";")[0].replace("STREAM a", "STREAM c").replace("a.par", "c.par") + ";"
    late = declared.replace("rate =", "read = 'arrival', lateness = '1 second', rate =")
    script = tmp_path / "script.sql"
    script.write_text(late + JOIN.format(1) + JOIN.format(2).replace("b [", "c [").replace("b.k", "c.k"))
    assert call("explain", str(script)) == 0
    words = words_of(capsys.readouterr().out)
    assert (
        "rows of a are kept apart for query 1 and query 2: rows may be late, and which of them are goes by all streams "
        "that a query looks at" in words
    )


def test_it_says_why_joins_below_an_answer_that_changes_keep_their_own(explained: Explained) -> None:
    counts = "SELECT a.k, COUNT(*) AS n FROM a [RANGE {0} SECONDS], b [RANGE {0} SECONDS] WHERE a.k = b.k GROUP BY a.k;"
    why = "rows of a are kept apart for {}: a join below an answer that changes takes the rows of all its streams"
    words = " ".join(explained(counts.format(10) + counts.format(30) + JOIN.format(10)).split())
    assert why.format("query 1 and query 2") in words
    assert "kept apart" not in explained(counts.format(10) * 2)
    same = counts.format(10).replace("COUNT(*)", "MAX(b.k)")
    text = " ".join(explained(counts.format(10) + same).split())
    assert "the join over a and b is computed once for query 1 and query 2" in text
    assert "kept apart" not in text
    assert "kept apart" not in explained(counts.format(10) + "SELECT ts FROM a;")
