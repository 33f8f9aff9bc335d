"""Expressions that mean the same in DuckDB, over columns with NULLs and odd values."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.outsiders.data import Streams
from tests.outsiders.pairs import Case, Pair, case, listed, say
from tests.outsiders.windows import source

NUMBERS = (
    "x + 1", "x * 3 - k", "k / x", "x % 3", "x // 2", "-x", "ABS(x)", "SIGN(x)", "SIGN(f)", "ABS(d)", "d + x", "d * 2",
    "d * d", "f * 2", "f + x", "FLOOR(f)", "CEIL(f)", "ROUND(f)", "ROUND(f, 1)", "ROUND(f, -2)", "TRUNC(f)",
    "SQRT(ABS(f))", "CBRT(f)", "POWER(x % 5, 2)", "LN(ABS(x) + 1)", "LOG10(ABS(f) + 1)", "EXP(x % 5)", "SIN(f)",
    "ATAN2(f, 2)", "DEGREES(f)", "ISNAN(g)", "ISINF(g)", "ISFINITE(g)", "GCD(x, 12)", "LCM(x % 7, 4)",
    "FACTORIAL(ABS(x) % 6)", "x & 6", "x | 1", "XOR(x, 5)", "BIT_COUNT(y)", "GREATEST(x, k, 2)", "LEAST(x, k)",
    "GREATEST(f, x)", "COALESCE(x, k, 0)", "NULLIF(x, 1)", "CASE WHEN x > 1 THEN x WHEN k > 1 THEN k END",
    "CASE k WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'many' END", "IF(x > 1, k, -k)", "g > f", "g = g", "g < 1",
    "d > f", "x > d", "k = x", "y > x", "y % 7", "y // 1000", "x BETWEEN k AND 5", "x NOT BETWEEN 0 AND 2",
    "x IN (1, 2, NULL)", "x NOT IN (1, 2, NULL)", "x IS DISTINCT FROM k", "(x > 1) IS TRUE", "x > 1 IS TRUE",
    "x = k IS NULL", "NOT x = k IS NULL", "x > 1 IS DISTINCT FROM k > 1", "(x > 1) IS NOT FALSE", "x > 1 AND k > 1",
    "x > 1 OR k > 1", "NOT (x > 1)", "d IS NULL", "ABS(x) << 2", "f / 0", "x / 0", "x % 0",
)  # fmt: skip
DECIMALS = (
    "ROUND(d)", "ROUND(d, 1)", "CEIL(d)", "FLOOR(d)", "CAST(d AS DECIMAL(7, 0))", "CAST(d AS DECIMAL(9, 1))",
    "CAST(d AS DOUBLE)", "CAST(d AS BIGINT)", "CAST(d AS INT)", "d = f", "CAST(d AS VARCHAR)", "TRUNC(d)",
    "CAST(f AS BIGINT)", "CAST(f AS INT)", "CAST(x + 0.5e0 AS BIGINT)", "CAST(f AS DECIMAL(12, 2))", "CAST(1.5 AS INT)",
    "CAST(2.5 AS INT)", "CAST(-0.5 AS BIGINT)", "CAST('12' AS INT)", "TRY_CAST(f * 1e30 AS BIGINT)",
    "TRY_CAST(d AS TINYINT)", "CAST(x > 1 AS INT)", "CAST(x AS BOOLEAN)", "CAST(x AS DECIMAL(10, 3))", "d / 3",
    "CAST(d AS DECIMAL(20, 6)) * 3",
)  # fmt: skip
TEXTS = (
    "LOWER(s)", "UPPER(s)", "REVERSE(s)", "s || 'x'", "CONCAT_WS('-', s, 'b', s)", "LENGTH(s)",
    "OCTET_LENGTH(ENCODE(s))", "SUBSTRING(s, 2)", "SUBSTRING(s, 1, 2)", "SUBSTRING(s, -2)", "LEFT(s, 1)", "RIGHT(s, 2)",
    "LEFT(s, -1)", "TRIM(s)", "LTRIM(s, 'a')", "RTRIM(s, 'b ')", "LPAD(s, 4, '*')", "RPAD(s, 2, '.')", "REPEAT(s, 2)",
    "REPLACE(s, 'b', 'cc')", "TRANSLATE(s, 'ab', 'xy')", "STRPOS(s, 'b')", "STARTS_WITH(s, 'a')", "ENDS_WITH(s, 'b')",
    "CONTAINS(s, ' ')", "ASCII(s)", "UNICODE(s)", "CHR(97 + ABS(x) % 20)", "SPLIT(s, ' ')", "SPLIT_PART(s, ',', 2)",
    "REGEXP_MATCHES(s, '^a')", "REGEXP_EXTRACT(s, '([a-z]+) ([a-z]+)', 2)", "REGEXP_REPLACE(s, 'b', 'X')",
    "REGEXP_REPLACE(s, 'b', 'X', 'g')", "REGEXP_FULL_MATCH(s, '[a-z]+')", "MD5(s)", "SHA256(s)", "HEX(s)",
    "s LIKE 'a%'", "s NOT LIKE '_b%'", "s ILIKE 'A%'", "s < 'b'", "s = ''", "COALESCE(s, '-')", "NULLIF(s, '')",
    "CAST(x AS VARCHAR)", "CAST(k AS VARCHAR) || s", "TRY_CAST(s AS INT)", "CAST(ts AS VARCHAR)",
    "CAST(x > 1 AS VARCHAR)", "PRINTF('%d|%s', k, s)", "FORMAT('{}-{}', k, s)", "s[2]", "s[1:2]", "GREATEST(s, 'b')",
    "CASE WHEN s = '' THEN 'empty' ELSE s END",
)  # fmt: skip
TIMES = (
    "YEAR(ts)", "QUARTER(ts)", "MONTH(ts)", "DAY(ts)", "HOUR(ts)", "MINUTE(ts)", "SECOND(ts)", "MILLISECOND(ts)",
    "MICROSECOND(ts)", "DAYOFWEEK(ts)", "ISODOW(ts)", "DAYOFYEAR(ts)", "WEEK(ts)", "ISOYEAR(ts)", "YEARWEEK(ts)",
    "DATE_TRUNC('minute', ts)", "DATE_TRUNC('day', ts)", "DATE_TRUNC('week', ts)", "DATE_TRUNC('month', ts)",
    "DATE_TRUNC('second', ts)", "DATE_DIFF('second', TIMESTAMP '2026-01-01', ts)",
    "DATE_DIFF('day', TIMESTAMP '1969-12-31 23:59:55', ts)", "DATE_DIFF('month', TIMESTAMP '2024-01-31', ts)",
    "LAST_DAY(ts)", "EPOCH(ts)", "EPOCH_MS(ts)", "EPOCH_US(ts)", "TIME_BUCKET(INTERVAL '7 seconds', ts)",
    "STRFTIME(ts, '%d.%m.%Y %H:%M:%S')", "DAYNAME(ts)", "MONTHNAME(ts)", "CAST(ts AS DATE)", "ts + INTERVAL '1' DAY",
    "ts - INTERVAL '90' SECOND", "ts > TIMESTAMP '2026-01-01 12:00:03'", "EXTRACT(hour FROM ts)",
    "DATE_PART('minute', ts)", "ts - TIMESTAMP '2026-01-01'", "CAST(CAST(ts AS DATE) AS TIMESTAMP)",
    "MAKE_TIMESTAMP(EPOCH_US(ts))", "CAST('2026-02-03' AS DATE)",
    "ts BETWEEN TIMESTAMP '1970-01-01' AND TIMESTAMP '2026-01-01 12:00:10'",
    "GREATEST(ts, TIMESTAMP '2026-01-01 12:00:05')", "DECADE(ts)", "CENTURY(ts)", "MAKE_DATE(2026, 1 + ABS(x) % 12, 5)",
    "STRPTIME(STRFTIME(ts, '%Y-%m-%d %H:%M:%S'), '%Y-%m-%d %H:%M:%S')",
)  # fmt: skip
LISTS = (
    "l[1]", "l[-1]", "l[2:3]", "l[:2]", "LENGTH(l)", "LEN(l)", "LIST_SUM(l)", "LIST_MIN(l)", "LIST_MAX(l)",
    "LIST_CONTAINS(l, 1)", "LIST_POSITION(l, 2)", "l", "l[x]", "CARDINALITY(l)", "l[1] + x", "COALESCE(l[1], -1)",
)  # fmt: skip
OTHERWISE = (
    ("CONCAT(s, 'b')", "s || 'b'"),
    ("NVL2(x, 'a', 'b')", "CASE WHEN x IS NULL THEN 'b' ELSE 'a' END"),
    ("DATEDIFF(ts, TIMESTAMP '2026-01-01')", "DATE_DIFF('day', TIMESTAMP '2026-01-01', ts)"),
    ("UNIX_SECONDS(ts)", "floor_div(t, 1000000)"),
    ("UNIX_MILLIS(ts)", "floor_div(t, 1000)"),
    ("x <=> k", "x IS NOT DISTINCT FROM k"),
    ("DATE_ADD(CAST(ts AS DATE), 3)", "CAST(ts AS DATE) + 3"),
    ("IFNULL(x, 1)", "COALESCE(x, 1)"),
    ("INSTR(s, 'b')", "STRPOS(s, 'b')"),
    ("x ** 2", "POWER(x, 2)"),
    ("ARRAY_TO_STRING(l, '+')", "CASE WHEN l IS NOT NULL THEN COALESCE(ARRAY_TO_STRING(l, '+'), '') END"),
)


def _drawn(pool: tuple[tuple[str, str], ...]) -> Callable[[random.Random, Streams], Case]:
    def draw_some(draw: random.Random, streams: Streams) -> Case:
        texts = draw.sample(pool, 3)
        columns = listed([Pair(f"{ours} AS c{i}", f"{theirs} AS c{i}") for i, (ours, theirs) in enumerate(texts)])
        return case(
            "growing", say("SELECT {columns} FROM {u}", columns=columns, u=source(draw.choice("abc"), None, "u", ""))
        )

    return draw_some


def _same(pool: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((one, one) for one in pool)


FAMILY = (*(_drawn(_same(pool)) for pool in (NUMBERS, TEXTS, TIMES, LISTS)), _drawn(OTHERWISE))
DECIMAL_FAMILY = (_drawn(_same(DECIMALS)),)
