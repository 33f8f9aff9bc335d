"""Every mistake gives our own error, with a pointer into the text."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.plans import FOLDER, golden_catalog
from watersmeet.errors import ParseError, SqlError, WatersmeetError
from watersmeet.sql import bind, parse_script
from watersmeet.sql.dialect import Watersmeet

CATALOG = golden_catalog()
MISTAKES = sorted(FOLDER.glob("error_*.sql"))
# Set to rewrite the golden texts; the diff is then for review.
REWRITE = bool(os.environ.get("WATERSMEET_REWRITE"))


@pytest.mark.parametrize("path", MISTAKES, ids=lambda path: path.stem)
def test_a_mistake_is_explained_as_recorded(path: Path) -> None:
    with pytest.raises(SqlError) as caught:
        bind(path.read_text(), CATALOG)
    explained = f"{type(caught.value).__name__}: {caught.value}\n"
    golden = path.with_suffix(".txt")
    if REWRITE:
        golden.write_text(explained)
    assert explained == golden.read_text()
    assert caught.value.span is not None
    assert not caught.value.message[0].isupper() or caught.value.message.split()[0].isupper(), "sentences are lowercase"


VALID = [
    "SELECT a.k, b.x, event_time() AS t FROM a [RANGE 30 SECONDS], b [ROWS 10] AS b WHERE a.k = b.k",
    "SELECT * FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts + INTERVAL '3' SECOND",
    "SELECT a.k FROM a, b, c WINDOW PATH (a, b, c) = (1 SECOND, '2 seconds') WHERE ABS(a.x - c.x) < 3 AND a.s LIKE 'x'",
    "SELECT DISTINCT k FROM a [PARTITION BY k, x ROWS 3] UNION ALL SELECT k FROM b [NOW] OPTIONS (boundary = closed)",
    "SELECT RSTREAM k, AVG(x) AS m FROM a [RANGE 1 HOUR] GROUP BY k HAVING MAX(x) > 2 ORDER BY m LIMIT 3 EVERY 5 s",
    "SELECT k, COUNT(DISTINCT x) FROM (SELECT ISTREAM a.k, b.x FROM a, b WINDOW = 5 SECONDS) [RANGE 1 HOUR] GROUP BY k",
    "SELECT CASE WHEN x > 3 THEN 'hi' ELSE s END, CAST(x AS DOUBLE), EXTRACT(hour FROM ts), x::string || 'b' FROM a "
    "WHERE x IN (1, 2) AND s IS NOT NULL AND NOT (x = 3 OR k NOT BETWEEN 1 AND 2)",
]
STRAY = ["(", ")", "[", "]", ",", ".", "SELECT", "WINDOW", "=", "AND", "'x'", "5", "SECONDS", "*", "NOT", "CASE",
         "OVER", "::",
         "DISTINCT", "{", "?", "@", "WITH", "INTERSECT", "LIMIT", "VALUES", "BETWEEN", "ROWS", "OPTIONS", "1e400",
         "DATE", "ARRAY", "x.y.z.w", "'", '"', ";", "NULL", "b'01'", "x'0g'", "é", "\\", "9" * 50]  # fmt: skip


@pytest.mark.parametrize("query", VALID)
def test_the_queries_that_are_mutilated_below_are_valid(query: str) -> None:
    bind(query, CATALOG)


@pytest.mark.parametrize("seed", range(8))
def test_a_mutilated_query_gives_a_plan_or_our_error(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(100):
        text = mutilated(chance.choice(VALID), chance)
        assert has_place(mistake(text)), text


def mistake(text: str) -> SqlError | None:
    try:
        bind(text, CATALOG)
    except SqlError as error:
        return error
    return None


def has_place(error: SqlError | None) -> bool:
    return error is None or (error.span is not None and "^" in str(error))


def mutilated(query: str, chance: random.Random) -> str:
    words = [query[token.start : token.end + 1] for token in Watersmeet().tokenize(query)]
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(words))
        if chance.random() < 0.5:
            del words[place]
        else:
            words.insert(place, chance.choice(STRAY))
    return " ".join(words)


@pytest.mark.parametrize(
    "text", ["(" * 2000, "SELECT " + "-" * 3000 + "k FROM a", "SELECT " + "NOT " * 3000 + "k FROM a"]
)
def test_deep_nesting_is_refused_without_a_crash(text: str) -> None:
    with pytest.raises(WatersmeetError):
        bind(text, CATALOG)


def test_errors_of_a_script_point_into_the_script() -> None:
    script = "CREATE TABLE t (k BIGINT) WITH (path = 'x');\nCREATE STREAM s (k BIGNT) WITH (time = 'ts')"
    with pytest.raises(ParseError) as caught:
        parse_script(script)
    start, end = caught.value.span or (0, 0)
    assert script[start:end] == "BIGNT"
    assert "line 2:" in str(caught.value)


LONG = "9" * 20


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        (f"SELECT k FROM a [RANGE 1 HOUR] ORDER BY k LIMIT {LONG}", "beyond what this system can count"),
        (f"SELECT COUNT(*) AS n FROM a [ROWS 5 SLIDE {LONG}]", "beyond what this system can count"),
        (f"SELECT k FROM a [RANGE {LONG} SECONDS]", "longer than the system can count"),
        (f"SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = {LONG} SECONDS", "longer than the system can count"),
        ("SELECT LAG(k, 9223372036854775807) OVER (ORDER BY ts) AS x FROM a", "more than this system can count"),
        (
            "SELECT SUM(k) OVER (ORDER BY ts ROWS 9223372036854775807 PRECEDING) AS x FROM a",
            "more than this system can",
        ),
        (f"SELECT k + {'9' * 5000} AS x FROM a", "a number of 5000 digits"),
        (f"SELECT k FROM a [ROWS {'9' * 5000}]", "a number of 5000 digits"),
        (
            f"SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 HOUR OPTIONS (memory = '{'9' * 400} MB')",
            "is more than this system can count",
        ),
    ],
)
def test_a_number_that_cannot_be_counted_is_told(sql: str, words: str) -> None:
    with pytest.raises(WatersmeetError) as caught:
        bind(sql, CATALOG)
    assert words in str(caught.value)
