"""What a query asks of the rows of its streams by constants, and when every row counts nevertheless."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.model.catalog import Catalog, Stream
from watersmeet.optimizer.asked_rows import asked_of
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.sql import bind

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("word", pa.string()), ("ts", pa.timestamp("us"))])
Found = dict[str, list[tuple[str, list[int | str]]]]


def asked(sql: str) -> Found:
    catalog = Catalog()
    for name in "ab":
        catalog.add(Stream(name, SCHEMA, "ts"))
    found = asked_of(plan_query(bind(sql, catalog)))
    return {name: [(one.column, sorted(one.values)) for one in ones] for name, ones in found.items()}


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT k FROM a WHERE k = 3", {"a": [("k", [3])]}),
        ("SELECT k FROM a WHERE 3 = k AND word IN ('u', 'v')", {"a": [("k", [3]), ("word", ["u", "v"])]}),
        ("SELECT k FROM a WHERE k IN (1, 2, 3) AND k IN (2, 3, 4)", {"a": [("k", [2, 3])]}),
        ("SELECT k FROM a WHERE x > 0.0 AND k = 3", {"a": [("k", [3])]}),
        ("SELECT word, COUNT(*) AS n FROM a [RANGE 9 SECONDS] WHERE k = 3 GROUP BY word", {"a": [("k", [3])]}),
        ("SELECT DISTINCT word FROM a [RANGE 9 SECONDS] WHERE k = 3", {"a": [("k", [3])]}),
        (
            "SELECT a.k FROM a, b WHERE a.k = b.k AND b.k = 3 WINDOW = 9 SECONDS",
            {"a": [("k", [3])], "b": [("k", [3])]},
        ),
        ("SELECT a.k FROM a, b WHERE a.k = b.k AND a.word = 'u' WINDOW = 9 SECONDS", {"a": [("word", ["u"])]}),
        (
            "SELECT x.k FROM a x, a y WHERE x.k = y.k AND x.word = 'u' AND y.word = 'v' WINDOW = 9 SECONDS",
            {"a": [("word", ["u", "v"])]},
        ),
        ("SELECT COUNT(*) AS n FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k AND a.k = 3", {}),
    ],
)
def test_it_is_known_which_rows_concern_a_query(sql: str, found: Found) -> None:
    assert asked(sql) == found


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM a WHERE k > 3",
        "SELECT k FROM a WHERE k = 3 OR x > 0.0",
        "SELECT k FROM a WHERE x = 3.0",
        "SELECT x.k FROM a x, a y WHERE x.k = y.k AND x.word = 'u' WINDOW = 9 SECONDS",
        # Rows count that it leaves out, or are there to be counted.
        "SELECT a.k FROM a [ROWS 3], b [RANGE 9 SECONDS] WHERE a.k = b.k AND a.k = 3",
        "SELECT COUNT(*) AS n FROM a [RANGE 9 SECONDS] WHERE k = 3",
        "SELECT word, COUNT(*) AS n FROM SESSION(a, 9 SECONDS) WHERE k = 3 GROUP BY word, window_start, window_end",
        "SELECT word, COUNT(*) AS n FROM HOP(a, 3 SECONDS, 9 SECONDS) WHERE k = 3 GROUP BY word, window_end",
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND WHERE a.k = 3",
        "SELECT a.k FROM a, b WHERE a.k = b.k AND a.k = 3 WINDOW = 9 SECONDS OPTIONS (memory = '10 rows')",
        # What is asked first may fail, and would then fail of rows of other values.
        "SELECT k FROM a WHERE CAST(word AS BIGINT) > 1 AND k = 3",
    ],
)
def test_otherwise_all_of_them_do(sql: str) -> None:
    assert asked(sql) == {}
