"""Words of other languages: those with an exact equivalent are read as that, of the others what would do is told."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.plans import golden_catalog
from watersmeet import Session
from watersmeet.errors import SqlError
from watersmeet.plan.functions import FUNCTIONS as KNOWN
from watersmeet.plan.functions import aggregate_name, scalar_name
from watersmeet.sql import bind, parse_script
from watersmeet.sql.foreign import FUNCTIONS, PHRASES
from watersmeet.sql.syntax import CreateStream

CATALOG = golden_catalog()


@pytest.mark.parametrize(
    ("foreign", "ours"),
    [
        ("IFNULL(x, 0)", "COALESCE(x, 0)"),
        ("NVL(x, 0)", "COALESCE(x, 0)"),
        ("ISNULL(x, 0)", "COALESCE(x, 0)"),
        ("ISNULL(x)", "x IS NULL"),
        ("isnotnull(x)", "x IS NOT NULL"),
        ("NVL2(x, s, 'none')", "CASE WHEN x IS NULL THEN 'none' ELSE s END"),
        ("IF(x > 1, s, 'few')", "CASE WHEN x > 1 THEN s ELSE 'few' END"),
        ("IF(x > 1, s)", "CASE WHEN x > 1 THEN s END"),
        ("IIF(x > 1, 1, 0)", "CASE WHEN x > 1 THEN 1 ELSE 0 END"),
        ("LEN(s)", "LENGTH(s)"),
        ("STRLEN(s)", "LENGTH(s)"),
        ("DATE_PART('hour', ts)", "EXTRACT(HOUR FROM ts)"),
        ("IFF(x > 1, 1, 0)", "CASE WHEN x > 1 THEN 1 ELSE 0 END"),
        ("LOCATE('a', s)", "STRPOS(s, 'a')"),
        ("SPLIT_INDEX(s, 'a', x)", "CASE WHEN x >= 0 THEN SPLIT(s, 'a')[(x) + 1] END"),
        ("POSITION('a' IN s)", "STRPOS(s, 'a')"),
        ("s RLIKE 'a+'", "REGEXP_MATCHES(s, 'a+')"),
        ("DATEDIFF(ts, '2024-01-01')", "DATE_DIFF('day', '2024-01-01', ts)"),
        ("DATE_DIFF(hour, ts, ts)", "DATE_DIFF('hour', ts, ts)"),
        ("DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss')", "STRFTIME(ts, '%Y-%m-%d %H:%M:%S')"),
        ("TO_TIMESTAMP(s, 'dd.MM.yyyy')", "STRPTIME(s, '%d.%m.%Y')"),
        ("TO_DATE(s)", "CAST(s AS DATE)"),
        ("DATE_ADD(ts, INTERVAL 1 DAY)", "ts + INTERVAL 1 DAY"),
        ("DATEADD(month, 2, ts)", "ts + INTERVAL 2 MONTHS"),
        ("UNIX_TIMESTAMP(ts)", "UNIX_SECONDS(ts)"),
        ("GET_JSON_OBJECT(s, '$.a')", "s ->> '$.a'"),
        ("SUBSTRING(s FROM 2 FOR 3)", "SUBSTRING(s, 2, 3)"),
        ("EXTRACT(DOW FROM ts)", "DAYOFWEEK(ts)"),
        ("x DIV 2", "x // 2"),
        ("x ** 2", "POWER(x, 2)"),
        ("SHA2(s, 256)", "SHA256(s)"),
        ("TO_MINUTES(x)", "x * INTERVAL 1 MINUTE"),
        ("x == 1", "x = 1"),
        ("x != 1", "x <> 1"),
        ("x::BIGINT", "CAST(x AS BIGINT)"),
        ("NOT x <=> 1", "x IS DISTINCT FROM 1"),
        ("TO_CHAR(ts, 'FMDD Mon YYYY, HH12:MI:SS.MS AM')", "STRFTIME(ts, '%-d %b %Y, %I:%M:%S.%g %p')"),
        ("TO_CHAR(ts, 'yyyy-mm-dd\"T\"hh24:mi:ss.us')", "STRFTIME(ts, '%Y-%m-%dT%H:%M:%S.%f')"),
        ("TO_CHAR(ts, 'IYYY-IW-ID DDD 100%')", "STRFTIME(ts, '%G-%V-%u %j 100%%')"),
        ("TO_TIMESTAMP(s, 'YYYY-MM-DD HH24:MI:SS.US')", "STRPTIME(s, '%Y-%m-%d %H:%M:%S.%f')"),
        ("TO_TIMESTAMP(s, 'd.M.yyyy H:mm:ss.SSS')", "STRPTIME(s, '%d.%m.%Y %H:%M:%S.%f')"),
        ("TO_DATE(s, 'DD MON YYYY')", "CAST(STRPTIME(s, '%d %b %Y') AS DATE)"),
        ("EPOCH_MS(x)", "MAKE_TIMESTAMP(x * 1000)"),
        ("TO_TIMESTAMP(x)", "CAST(MAKE_TIMESTAMP(x * 1000000) AS TIMESTAMPTZ)"),
        (
            "DATE_BIN('15 minutes', ts, TIMESTAMP '2001-01-01')",
            "TIME_BUCKET(INTERVAL 15 MINUTES, ts, TIMESTAMP '2001-01-01')",
        ),
        ("TIMESTAMPADD(MINUTE, x + 1, ts)", "ts + (x + 1) * INTERVAL 1 MINUTE"),
        ("s #>> '{a,b,0}'", "s ->> '/a/b/0'"),
        ("JSON_OBJECT('a', s -> 'b', 'c', s)", "JSON_OBJECT('a', s -> 'b', 'c', TO_JSON(s))"),
        ("x BETWEEN SYMMETRIC 5 AND 1", "x BETWEEN 5 AND 1 OR x BETWEEN 1 AND 5"),
        ("x BETWEEN ASYMMETRIC 1 AND 5", "x BETWEEN 1 AND 5"),
        ("x # 3", "XOR(x, 3)"),
        ("LENGTH(s -> 'a')", "LENGTH(JSON_EXTRACT(s, 'a'))"),
        ("ENCODE(s, 'hex')", "LOWER(HEX(s))"),
        ("s::jsonb ->> 'a'", "s ->> 'a'"),
        ("(s::JSON) -> 'a'", "s -> 'a'"),
        ("CAST(s AS JSON)", "s -> '$'"),
        ("CAST(x AS JSONB)", "TO_JSON(x)"),
        ("JSON_ARRAY(s::json)", "JSON_ARRAY(s -> '$')"),
        (
            "JSON_ARRAY(TRY_CAST(s AS JSON), IF(x > 1, s, 'a'))",
            "JSON_ARRAY(CASE WHEN JSON_VALID(s) THEN s -> '$' END, TO_JSON(IF(x > 1, s, 'a')))",
        ),
        ("TRY_CAST(s AS JSON)", "CASE WHEN JSON_VALID(s) THEN s -> '$' END"),
        ("ts + '5 minutes'::INTERVAL", "ts + INTERVAL 5 MINUTES"),
    ],
)
def test_what_says_exactly_the_same_is_read_as_the_same(foreign: str, ours: str) -> None:
    plans = [bind(f"SELECT {one} AS c FROM a", CATALOG).root for one in (foreign, ours)]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("TO_CHAR(x, '999D99')", "TO_CHAR is of times, not of numbers"),
        ("TO_CHAR(ts, 'MONTH')", "'MONTH' has 'MONTH', which is not known; the patterns are YYYY YY MM Mon FMMonth"),
        ("TO_CHAR(ts, s)", "TO_CHAR needs its format as a constant"),
        ("FORMAT('%s of %s', s, x)", "'%s of %s' has no {} in it, so that no value is written"),
        ("DATEADD(fortnight, 1, ts)", "fortnight is no unit of time"),
        ("ENCODE(s, 'latin1')", "bytes are written as 'hex', 'base64', 'utf-8', 'utf8', not as 'latin1'"),
        ("s #> 'a'", "#> and #>> need a path as PostgreSQL writes it, a constant such as '{a,b}'"),
        ("1.5 * INTERVAL 1 HOUR", "DOUBLE * INTERVAL has no meaning"),
        ("HOUR(ts - ts)", "HOUR needs a TIMESTAMP or DATE, not INTERVAL; EPOCH(…) gives the seconds of an interval"),
        ("s LIKE 'a!' ESCAPE '!'", "the pattern 'a!' ends with its escape"),
        ("s LIKE s ESCAPE '!'", "LIKE … ESCAPE needs a constant pattern, and one character"),
        ("s::INTERVAL", "only a constant can be cast to INTERVAL"),
        ("s ~ 'a'", "~ looks for a pattern in PostgreSQL, and for all of it in DuckDB"),
        ("s ~* 'a'", "~* looks for a pattern in PostgreSQL, and for all of it in DuckDB"),
        ("x > ALL (SELECT x FROM a [NOW])", "ANY and ALL with a query go with = ANY and <> ALL"),
        ("x ^ 2", "^ is a power in some languages and bits in others"),
        ("JSON_OBJECT('a')", "JSON_OBJECT takes at least 2 arguments, not 1"),
        ("JSON_OBJECT('a', 1, 'b')", "JSON_OBJECT takes a name and a value for each field"),
        ("JARO_SIMILARITY(s, s)", "there is no function JARO_SIMILARITY"),
    ],
)
def test_what_cannot_be_read_so_is_refused_in_words(written: str, said: str) -> None:
    with pytest.raises(SqlError) as caught:
        bind(f"SELECT {written} AS c FROM a", CATALOG)
    assert said in str(caught.value)
    assert "^" in str(caught.value)  # the place is underlined


@pytest.mark.parametrize(
    ("foreign", "ours"),
    [
        ("COUNT_IF(x > 1)", "COUNT(CASE WHEN x > 1 THEN 1 END)"),
        ("COUNTIF(x > 1)", "COUNT(CASE WHEN x > 1 THEN 1 END)"),
        ("COUNT(*) FILTER (WHERE x > 1)", "COUNT(CASE WHEN x > 1 THEN 1 END)"),
        ("SUM(x) FILTER (WHERE s = 'a')", "SUM(CASE WHEN s = 'a' THEN x END)"),
        ("COUNT_IF(x > 1) FILTER (WHERE s = 'a')", "COUNT(CASE WHEN x > 1 THEN 1 END) FILTER (WHERE s = 'a')"),
        ("APPROX_COUNT_DISTINCT(x)", "COUNT(DISTINCT x)"),
        ("APPROX_COUNT_DISTINCT(x) FILTER (WHERE s = 'a')", "COUNT(DISTINCT x) FILTER (WHERE s = 'a')"),
        ("FIRST_VALUE(x)", "FIRST(x)"),
        ("LAST_VALUE(x)", "LAST(x)"),
        ("STDEV(x)", "STDDEV(x)"),
        ("VAR(x)", "VARIANCE(x)"),
    ],
)
def test_so_are_aggregates(foreign: str, ours: str) -> None:
    plans = [bind(f"SELECT k, {one} AS c FROM a [RANGE 1 HOUR] GROUP BY k", CATALOG).root for one in (foreign, ours)]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("foreign", "ours"),
    [("x = ANY (", "x IN ("), ("x = SOME (", "x IN ("), ("x <> ALL (", "x NOT IN ("), ("x != ALL (", "NOT x IN (")],
)
@pytest.mark.parametrize("rest", ["", " OR k = 1"])
def test_any_and_all_of_a_query_are_in_and_not_in(foreign: str, ours: str, rest: str) -> None:
    query = f"SELECT x FROM a [RANGE 1 HOUR] AS b WHERE b.k = a.k){rest}"
    plans = [bind(f"SELECT k FROM a [RANGE 1 HOUR] WHERE {one}{query}", CATALOG).root for one in (foreign, ours)]
    assert plans[0] == plans[1]


@pytest.mark.parametrize("rest", ["", " FILTER (WHERE s = 'a')"])
def test_so_they_are_with_over(rest: str) -> None:
    over = f"{rest} OVER (PARTITION BY k ORDER BY ts) AS c FROM a"
    plans = [
        bind(f"SELECT {one}{over}", CATALOG).root for one in ("COUNT_IF(x > 1)", "COUNT(CASE WHEN x > 1 THEN 1 END)")
    ]
    assert plans[0] == plans[1]


@pytest.mark.parametrize("rest", ["", " FILTER (WHERE x > 0)", " OVER (ORDER BY ts)"])
def test_an_aggregate_of_ones_own_is_meant_by_its_name_whatever_follows(rest: str) -> None:
    session = Session()
    session.stream("a", pa.table({"x": [1, 2], "ts": pa.array([0, 1], pa.timestamp("us"))}), time="ts")
    session.aggregate("corr", lambda x, y: 7.0, ["BIGINT", "BIGINT"], "DOUBLE")
    window = "" if "OVER" in rest else " [UNBOUNDED]"
    answer = session.sql(f"SELECT corr(x, x){rest} AS c FROM a{window}").final()
    assert set(answer["c"].to_pylist()) == {7.0}


def test_null_is_not_distinct_from_null() -> None:
    session = Session()
    times = pa.array([0, 1, 2, 3], pa.timestamp("us"))
    session.stream("a", pa.table({"x": [1, None, 2, None], "y": [1, None, 3, 4], "ts": times}), time="ts")
    same = session.sql("SELECT x IS NOT DISTINCT FROM y AS same, x IS DISTINCT FROM y AS other FROM a").to_arrow()
    assert same["same"].to_pylist() == [True, True, False, False]
    assert same["other"].to_pylist() == [False, False, True, True]


def test_an_error_inside_an_equivalent_points_at_what_was_written() -> None:
    with pytest.raises(SqlError) as caught:
        bind("SELECT IIF(s, 1, 0) FROM a", CATALOG)
    assert "WHEN needs a condition" in str(caught.value)
    assert f"{' ' * 15}^^^^^^^^^^^^" in str(caught.value)


def test_no_hint_is_about_a_function_that_there_is() -> None:
    assert [name for name in FUNCTIONS if name in KNOWN or scalar_name(name) or aggregate_name(name)] == []


def test_a_stream_or_column_may_still_have_a_foreign_word_for_a_name() -> None:
    """Only a text that cannot be read is looked at for them."""
    for word in (*PHRASES, "STREAM", "WATERMARK", "ROWTIME"):
        columns = f"{word.lower()} BIGINT, ts TIMESTAMP"
        (stream,) = parse_script(f"CREATE STREAM b ({columns}) WITH (path = 'b', time = 'ts')")
        assert isinstance(stream, CreateStream)
        assert stream.schema is not None
        assert stream.schema.names[0] == word.lower()


# What hints say to write, as whole queries.
ADVICE = [
    "SELECT EVENT_TIME() AS t FROM a",
    "SELECT (EPOCH_US(b.ts) - EPOCH_US(a.ts)) / 1000000 AS s FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS",
    "SELECT TIMESTAMP '1970-01-01' + x * INTERVAL 1 SECOND AS t FROM a",
    "SELECT DATE_TRUNC('minute', ts) AS m, COUNT(*) AS n FROM a [RANGE 5 MINUTES] GROUP BY DATE_TRUNC('minute', ts)",
    "SELECT RSTREAM COUNT(*) AS n FROM a [RANGE 5 MINUTES] EVERY 5 MINUTES",
    "SELECT ISTREAM DISTINCT k FROM a [RANGE 1 HOUR]",
    "SELECT k, MIN(CASE WHEN x > 1 THEN 1 ELSE 0 END) = 1 AS all_large FROM a [RANGE 1 HOUR] GROUP BY k",
    "SELECT a.k FROM a, b WHERE a.k = b.k DWINDOW (a, b) = 5 MINUTES",
    "SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW PATH (a, b, c) = (1 MINUTE, 2 MINUTES)",
    "SELECT a.k FROM a JOIN b ON a.k = b.k WINDOW = 5 MINUTES",
    "SELECT a.k FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL 1 HOUR AND a.ts",
    "SELECT CONCAT(s, ', ', s) AS both FROM a",
    "SELECT HOUR(at) AS h FROM zoned OPTIONS (timezone = 'America/New_York')",
]


@pytest.mark.parametrize("query", ADVICE)
def test_what_a_hint_says_to_write_can_be_written(query: str) -> None:
    bind(query, CATALOG)


def test_a_number_becomes_a_time_as_the_hint_says() -> None:
    session = Session()
    session.stream("a", pa.table({"x": [90], "ts": pa.array([0], pa.timestamp("us"))}), time="ts")
    made = session.sql("SELECT TIMESTAMP '1970-01-01' + x * INTERVAL 1 SECOND AS t FROM a").to_arrow()
    assert str(made["t"][0].as_py()) == "1970-01-01 00:01:30"
