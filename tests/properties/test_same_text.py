"""Functions as DuckDB writes them: the same text gives the same values here and there, also of hostile ones."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

import watersmeet as wm

TABLE = pa.table(
    {
        "s": [None, "", "a", "Ab-12-cd", "héllo wörld", "日本🙂", "a,b,,c", " x\t", "2024-02-29 23:59:59", "100%_\\"],
        "t": ["b", "", None, "-", "ö", "本", ",", "x", "2024", "%"],
        "n": pa.array([0, 1, -1, None, 7, -(2**62), 2**62, 63, 255, -8], pa.int64()),
        "k": pa.array([1, 2, 3, 0, None, -1, 5, 2, 1, -2], pa.int64()),
        "f": [0.0, -0.5, 2.5, None, 1e18, -1e300, 99.995, 0.1, -2.5, 12345.678],
        "d": [None, *map(Decimal, ("0.00", "1.25", "-1.25", "99.99", "-99.50", "0.05", "3.00", "-0.01", "7.77"))],
        "ts": [
            datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), None,
            datetime(2024, 2, 29, 12, 30, 1, 5), datetime(2000, 12, 31, 23, 0, 59), datetime(1900, 3, 1),
            datetime(2101, 7, 9, 3), datetime(2023, 1, 1), datetime(2024, 12, 30), datetime(2026, 3, 29, 1, 30),
        ],
        "day": [date(2024, 2, 29), None, *(date(year, 12, 31) for year in range(1999, 2007))],
        "l": pa.array([[1, 2, 3], [], None, [None], [3, None, 3, -1], [2], [5, 4], [0, 0], [7], [1, None]],
                      pa.list_(pa.int64())),
        "w": pa.array([["b", "a"], [], None, [None], ["é", "", None], ["a"], ["z", "a"], ["a", "a"], ["x"], ["y"]],
                      pa.list_(pa.string())),
        "j": [
            '{"a": {"b": [1, 2.5]}, "s": "é\\n"}', "[1, 2, 3]", None, '"x"', "null", '{"a": null, "b": true}', "{}",
            '{"a.b": 1, "a": -7}', "[]", '[{"a": "x"}]',
        ],
    }
)  # fmt: skip
# What is written so in both.
EXPRESSIONS = """
LEVENSHTEIN(s, t); STRIP_ACCENTS(s); URL_ENCODE(s); URL_DECODE(URL_ENCODE(s)); REGEXP_ESCAPE(s)
REGEXP_EXTRACT_ALL(s, '[a-z]+'); REGEXP_EXTRACT_ALL(s, '([a-z])([0-9]?)', 1); REGEXP_REPLACE(s, '[a-z]', '<>', 'g')
REGEXP_MATCHES(s, 'A', 'i'); STRING_SPLIT_REGEX(s, '[,-]'); REGEXP_EXTRACT(s, '([a-z]+)-([0-9]+)', 2)
SPLIT_PART(s, ',', k); LPAD(s, 5, '*'); RPAD(s, 3, 'xy'); LEFT(s, k); RIGHT(s, k); STRPOS(s, t); INSTR(s, t)
TRANSLATE(s, 'abö', 'xy'); REVERSE(s); REPEAT(s, k); CONCAT_WS('-', s, t); STARTS_WITH(s, t)
s LIKE '%!%!_%' ESCAPE '!'; s NOT LIKE 'a$%' ESCAPE '$'; s ILIKE 'A_-12%' ESCAPE '+'; k IN l; k NOT IN l; l || [1, k]
s ILIKE 'A%'; s SIMILAR TO 'a.*'; MD5(s); SHA256(s); BASE64(ENCODE(s)); DECODE(FROM_BASE64(BASE64(ENCODE(s)))); HEX(s)
ASCII(s); UNICODE(s); JSON_EXTRACT(j, '$.a'); j -> '$.a.b'; j ->> '$.s'; JSON_EXTRACT_STRING(j, '/a/b/0')
JSON_TYPE(j); JSON_TYPE(j, '$.a'); JSON_KEYS(j); JSON_EXISTS(j, '$.a'); JSON_ARRAY_LENGTH(j); JSON_VALID(j)
JSON_OBJECT('a', n, COALESCE(s, 'x'), t); JSON_ARRAY(n, s, l); JSON_OBJECT('a', j -> '$.a', 'b', JSON_ARRAY(k))
TO_JSON(s); TO_JSON(l); TO_JSON(w); TO_JSON(n); TO_JSON(k > 1); LIST_SORT(l); LIST_REVERSE_SORT(l); LIST_REVERSE(w)
LIST_SORT(LIST_DISTINCT(l)); LIST_UNIQUE(w); LIST_COUNT(l); LIST_AVG(l); LIST_SUM(l); LIST_MIN(w); LIST_MAX(l)
LIST_HAS_ANY(l, [1, 3]); LIST_HAS_ALL(l, [3]); LIST_SORT(LIST_INTERSECT(l, [3, -1, 1])); LIST_CONCAT(l, [k])
LIST_APPEND(l, k); LIST_PREPEND(k, l); LIST_CONTAINS(l, 3); LIST_POSITION(l, 3); ARRAY_LENGTH(l); l[2]; l[2:]; l[-1]
LIST_FIRST(l); LIST_LAST(l); n = ANY(COALESCE(l, [1])); k <> ALL(COALESCE(l, [1])); ARRAY_LENGTH(l, 1)
STRFTIME(ts, '%Y-%m-%d %H:%M:%S.%f'); DATE_PART('year', ts); EXTRACT(EPOCH FROM ts); EPOCH(ts); EPOCH_MS(ts)
EPOCH_MS(k); EPOCH(ts - TIMESTAMP '2000-01-01'); EXTRACT(EPOCH FROM ts - TIMESTAMP '2024-02-29'); DAYS_IN_MONTH(day)
DATE_DIFF('month', ts, TIMESTAMP '2024-02-29'); DATE_TRUNC('week', ts); TIME_BUCKET(INTERVAL '15 minutes', ts)
TIME_BUCKET(INTERVAL '7 days', ts, TIMESTAMP '1970-01-01'); LAST_DAY(ts); DATE_TRUNC('quarter', day); DAYNAME(ts)
MAKE_TIMESTAMP(2024, 2, 29, 1, 2, 3.5); MAKE_DATE(2024, 2, 29); ts + INTERVAL '1 day'; ts + k * INTERVAL '90 minutes'
n & 12; k | 8; XOR(n, k); ~n; ABS(k) << 2; n >> 3; BIT_COUNT(n); GCD(n, k); n % NULLIF(k, 0); SIGN(f); ROUND(f, 2)
ROUND(d, 1); TRUNC(f); CBRT(k); SQRT(ABS(k)); GREATEST(n, k, 3); LEAST(f, k); NULLIF(n, 7); ROUND(f, -2); SIN(k)
ATAN2(k, 2); DEGREES(k); LN(ABS(k) + 1); LOG2(ABS(k) + 1); POWER(2, k); CAST(d AS DOUBLE); TRY_CAST(s AS INTEGER)
n IS DISTINCT FROM k; k BETWEEN 1 AND 3; COALESCE(n, k); ISFINITE(f); FACTORIAL(ABS(CAST(k AS INTEGER)))
"""


# Of instants, in a zone: before, within and after changes of its clocks.
IN_A_ZONE = """
TO_TIMESTAMP(n); TO_TIMESTAMP(n + 0.25); STRFTIME(TO_TIMESTAMP(n), '%Y-%m-%d %H:%M:%S'); EPOCH(TO_TIMESTAMP(n))
EXTRACT(HOUR FROM TO_TIMESTAMP(n)); DATE_TRUNC('day', TO_TIMESTAMP(n)); DAYNAME(TO_TIMESTAMP(n))
CAST(TO_TIMESTAMP(n) AS DATE); DATE_DIFF('day', TO_TIMESTAMP(0), TO_TIMESTAMP(n))
"""
CHANGES_OF_CLOCKS = [
    0,
    -1,
    None,
    1_710_053_999,
    1_710_054_000,
    1_730_609_999,
    1_730_610_000,
    1_730_613_600,
    951_782_400,
]


def listed(texts: str) -> list[str]:
    return [one.strip() for one in texts.replace("\n", ";").split(";") if one.strip()]


def differences(texts: list[str], table: pa.Table, zone: str = "UTC") -> dict[str, tuple[Any, Any]]:
    """The first values that are not the same, by what was asked for."""
    columns = ", ".join(f"{text} AS c{at}" for at, text in enumerate(texts))
    session = wm.Session(timezone=zone)
    session.stream("a", table.append_column("at", pa.array(range(len(table)), pa.timestamp("us"))), time="at")
    ours = session.sql(f"SELECT {columns} FROM a").to_arrow()
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{zone}'")
    connection.register("a", table)
    theirs = connection.sql(f"SELECT {columns} FROM a").to_arrow_table()
    found: dict[str, tuple[Any, Any]] = {}
    for at, text in enumerate(texts):
        pairs = zip(ours[f"c{at}"].to_pylist(), theirs[f"c{at}"].to_pylist(), strict=True)
        wrong = [pair for pair in pairs if not same(*pair)]
        if wrong:
            found[text] = wrong[0]
    return found


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) or isinstance(right, float):
        return left is right or (left is not None and right is not None and math.isclose(left, right, rel_tol=1e-12))
    return bool(left == right)


def test_what_is_written_as_in_duckdb_means_the_same() -> None:
    texts = listed(EXPRESSIONS)
    assert len(texts) > 120
    assert differences(texts, TABLE) == {}


def test_so_it_does_in_a_zone() -> None:
    table = pa.table({"n": pa.array(CHANGES_OF_CLOCKS, pa.int64())})
    assert differences(listed(IN_A_ZONE), table, "America/New_York") == {}
