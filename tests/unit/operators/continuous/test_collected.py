"""Aggregates that need all values of a group, against plain Python over the rows that are in, at every instant."""

from __future__ import annotations

import json
import math
from collections import Counter
from datetime import datetime, timedelta
from statistics import pstdev
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.plain_sql import said_by_duckdb
from tests.unit.histories import aggregated, history, plain, run, same
from watersmeet.operators.continuous.aggregates import collected
from watersmeet.plan.expressions import Aggregate, Column, Literal
from watersmeet.plan.functions import result_type
from watersmeet.plan.user_functions import user_function

WORDS = ["a", "b", "", "é", "ab", None, "c", "a", "b"]
NOON = datetime(2026, 1, 1, 12)


def words(count: int) -> list[Any]:
    return [WORDS[(7 * n + n // 5) % len(WORDS)] for n in range(count)]


def most_frequent(values: list[Any]) -> Any:
    counts = Counter(values)
    return next((value for value in values if counts[value] == max(counts.values())), None)


def check(aggregate: Aggregate, answer: Any, values: list[Any]) -> None:
    for groups, window in ((20, 40), (2, 60)):
        for fifo in (False, True):
            past = history(values, groups=groups, window=window, fifo=fifo, seed=3)
            for cuts in (0, 6):
                same(run(aggregate, past, fifo=fifo, cuts=cuts, seed=3), plain(past, answer))


def test_texts_are_joined_in_the_order_of_time() -> None:
    column = Column("s", "x", pa.string())
    joined = Aggregate("string_agg", (column, Literal("-", pa.string())), pa.string())
    check(joined, lambda values: "-".join(values) if values else None, words(300))


def test_distinct_texts_are_joined_in_their_own_order() -> None:
    joined = aggregated("string_agg", pa.string(), distinct=True)
    check(joined, lambda values: ",".join(sorted(set(values))) if values else None, words(300))


def test_the_mode_is_the_oldest_of_the_most_frequent() -> None:
    check(aggregated("mode", pa.string()), most_frequent, words(300))
    numbers = [n % 5 if n % 7 else None for n in range(300)]
    check(aggregated("mode", pa.int32()), most_frequent, numbers)


@pytest.mark.parametrize("function", ["arg_min", "arg_max"])
def test_of_equal_extremes_the_oldest_counts(function: str) -> None:
    pairs = [(word, None if n % 11 == 0 else (n * 13) % 9 - 4) for n, word in enumerate(words(300))]
    kind = result_type("pack", [pa.string(), pa.int64()])
    aggregate = Aggregate(function, (Column("s", "x", kind),), pa.string())
    pick = min if function == "arg_min" else max

    def answer(values: list[Any]) -> Any:
        known = [(value["f0"], value["f1"]) for value in values if None not in value.values()]
        return pick(known, key=lambda pair: pair[1])[0] if known else None

    check(aggregate, answer, [{"f0": word, "f1": by} for word, by in pairs])


def test_an_aggregate_of_a_user_sees_the_values_in_order() -> None:
    user = user_function("aggregate", "path", lambda x: ">".join(x.to_pylist()), ["STRING"], "STRING", "")
    aggregate = Aggregate(user.call_name, (Column("s", "x", pa.string()),), pa.string(), user=user)
    check(aggregate, lambda values: ">".join(values) if values else None, words(200))


def test_many_values_are_read_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collected, "PORTION", 50)
    test_texts_are_joined_in_the_order_of_time()
    test_distinct_texts_are_joined_in_their_own_order()


def session() -> wm.Session:
    made = wm.Session()
    table = pa.table(
        {
            "k": [1, 1, 2, 1, 2], "x": [2.5, None, 1.0, 3.0, 3.0], "s": list("abcab"),
            "ts": [NOON + timedelta(seconds=second) for second in range(5)],
        }
    )  # fmt: skip
    made.stream("a", table, time="ts")
    made.aggregate("largest_gap", lambda x: max(x.to_pylist()) - min(x.to_pylist()), ["DOUBLE"], "DOUBLE")
    made.aggregate(
        "weighted", lambda x, w: sum((a or 0) * b for a, b in zip(x.to_pylist(), w.to_pylist(), strict=True)),
        ["DOUBLE", "BIGINT"], "DOUBLE",
    )  # fmt: skip
    return made


def test_in_sql_they_are_aggregates_like_others_and_checked_by_the_reference() -> None:
    query = session().sql(
        """
        SELECT k, largest_gap(x) AS gap, largest_gap(DISTINCT x) AS same, weighted(x, k) AS w,
               weighted(x, k) FILTER (WHERE x > 2) AS most, largest_gap(x) FILTER (WHERE s = 'a') AS of_a,
               STDDEV_POP(x) AS spread, BOOL_AND(x > 1) AS large, BOOL_OR(x > 2.9) AS any_large, ANY_VALUE(s) AS s
        FROM a [RANGE 2 SECONDS] GROUP BY k HAVING largest_gap(x) >= 0
        """
    )
    report = wm.check(query)
    assert report.equal, str(report)
    whole = (
        session().sql("SELECT weighted(x, k) AS w, STDDEV_POP(x) AS d, largest_gap(x) AS g FROM a [UNBOUNDED]").final()
    )
    assert whole.to_pylist() == [{"w": 13.5, "d": pytest.approx(pstdev([2.5, 1.0, 3.0, 3.0])), "g": 2.0}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT broken(x) AS v FROM a [UNBOUNDED]", "the aggregate broken raised ValueError: no"),
        ("SELECT listed(x) AS v FROM a [UNBOUNDED]", "the aggregate listed returned"),
        ("SELECT largest_gap(s) AS v FROM a [UNBOUNDED]", "largest_gap needs DOUBLE as argument 1, not STRING"),
        ("SELECT largest_gap(x) FROM a", "needs a window on a"),
        ("SELECT k FROM a WHERE largest_gap(x) > 1", "is an aggregate and cannot stand in WHERE"),
        ("SELECT STRING_AGG(s, s) FROM a [UNBOUNDED]", "STRING_AGG needs a constant text"),
        ("SELECT ARG_MAX(x, s) FROM a [UNBOUNDED]", "ARG_MAX goes by a number or a time, not by STRING"),
        ("SELECT MODE(DISTINCT s) FROM a [UNBOUNDED]", "MODE over DISTINCT values has no meaning"),
        ("SELECT STRING_AGG(DISTINCT s, ',' ORDER BY x) FROM a [UNBOUNDED]", "ordered by what it is of"),
        ("SELECT MAP_AGG(DISTINCT s, x) FROM a [UNBOUNDED]", "DISTINCT goes with an aggregate of one argument"),
        ("SELECT MAP_AGG(SPLIT(s, 'b'), x) FROM a [UNBOUNDED]", "MAP_AGG needs values that have an order"),
        ("SELECT FIRST(s) FROM (SELECT DISTINCT s FROM a [UNBOUNDED])", "FIRST(x ORDER BY y)"),
        ("SELECT words(x) AS v FROM a [UNBOUNDED]", "the aggregate words returned float, which is no STRING[]"),
    ],
)
def test_what_is_wrong_with_them_is_told(text: str, said: str) -> None:
    made = session()

    def broken(x: float) -> float:
        raise ValueError("no")

    made.aggregate("broken", broken)
    made.aggregate("listed", lambda x: x.to_pylist(), ["DOUBLE"], "DOUBLE")
    made.aggregate("words", lambda x: 1.5, ["DOUBLE"], "STRING[]")
    with pytest.raises(wm.WatersmeetError) as caught:
        made.sql(text).to_arrow()
    assert said in str(caught.value)
    assert "line 1: SELECT" in str(caught.value)


# -- lists, JSON and maps ---------------------------------------------------------------------------------------------


def nested() -> wm.Session:
    """Ties, NULLs, duplicates, a group that empties, rows out of order within their lateness."""
    made = wm.Session()
    seconds = [0, 2, 1, 3, 3, 7, 4, 12]
    table = pa.table(
        {
            "k": [1, 1, 2, 1, 2, 1, 2, 1], "x": [3, None, 1, 2, 5, 2, None, 3],
            "s": ["b", "a", None, "c", "b", "a", "b", "b"],
            "d": pa.array([2, None, 1, 1, 2, 3, 3, 2], pa.int32()).cast(pa.decimal128(14, 2)),
            "ts": [NOON + timedelta(seconds=second) for second in seconds],
        }
    )  # fmt: skip
    made.stream("a", table, time="ts", lateness="3 seconds")
    return made


BY_DUCKDB = [
    "ARRAY_AGG(x)", "LIST(s ORDER BY x DESC, d)", "ARRAY_AGG(x ORDER BY s NULLS FIRST)", "ARRAY_AGG(DISTINCT s)",
    "ARRAY_AGG(DISTINCT x ORDER BY x DESC) FILTER (WHERE d > 1)", "ARRAY_AGG(SPLIT(s, 'b'))",
    "ARRAY_AGG(x) FILTER (WHERE s = 'z')", "JSON_AGG(s ORDER BY x)", "JSON_AGG(x) FILTER (WHERE s = 'b')",
    "JSON_OBJECT_AGG(s, x)", "JSON_OBJECT_AGG(x, s ORDER BY s)", "STRING_AGG(s, '-' ORDER BY d DESC NULLS FIRST)",
    "STRING_AGG(DISTINCT s, '' ORDER BY s DESC)", "FIRST(s ORDER BY d)", "LAST(x ORDER BY s) FILTER (WHERE d > 1)",
    "ARG_MAX(s, x ORDER BY d)", "MODE(x ORDER BY d)", "SUM(x ORDER BY d)",
    "JSON_AGG(JSON_OBJECT('x', x, 's', s) ORDER BY s, x)", "JSON_OBJECT('all', JSON_AGG(JSON_ARRAY(x)))",
    "JSON_OBJECT_AGG(s, TO_JSON(x)) FILTER (WHERE k = 1)", "COUNT(* ORDER BY s)",
    "MEDIAN(x ORDER BY s DESC)", "ARRAY_AGG(x)[2]", "LIST(x ORDER BY s)[1]", "ARRAY_AGG(x ORDER BY ts)",
]  # fmt: skip
BY_REFERENCE = [
    "ARRAY_AGG(ts)", "ARRAY_AGG(d) FILTER (WHERE x > 1)", "JSON_AGG(d)", "JSON_AGG(ts)",
    "JSONB_OBJECT_AGG(s, x ORDER BY x)", "MAP_AGG(s, x)", "MAP_AGG(x, ts ORDER BY s)",
]  # fmt: skip
FROMS = [
    "a [RANGE 2 SECONDS] GROUP BY k", "a [ROWS 3]", "TUMBLE(a, 3 SECONDS) GROUP BY k, window_start, window_end",
    "SESSION(a, 2 SECONDS PARTITION BY k) GROUP BY k, window_start, window_end",
]  # fmt: skip


@pytest.mark.parametrize("place", FROMS)
def test_lists_and_orders_are_those_of_duckdb_at_every_instant(place: str) -> None:
    columns = ", ".join(f"{text} AS c{n}" for n, text in enumerate(BY_DUCKDB))
    report = wm.check(nested().sql(f"SELECT {columns} FROM {place}"))
    assert report.equal, str(report)
    assert "recomputed by DuckDB" in str(report)
    columns = ", ".join(f"{text} AS c{n}" for n, text in enumerate(BY_REFERENCE))
    report = wm.check(nested().sql(f"SELECT {columns} FROM {place}"))
    assert report.equal, str(report)


def test_json_of_json_is_not_put_into_quotes() -> None:
    columns = """JSON_OBJECT('all', JSON_AGG(JSON_OBJECT('x', x, 's', s) ORDER BY ts)) AS c,
                 JSON_OBJECT_AGG(s, JSON_ARRAY(x) ORDER BY ts) AS d"""
    made = nested().sql(f"SELECT {columns} FROM a [UNBOUNDED] WHERE k = 2").final().to_pylist()
    rows = [{"x": 1, "s": None}, {"x": 5, "s": "b"}, {"x": None, "s": "b"}]
    assert [json.loads(made[0]["c"])] == [{"all": rows}]
    assert made[0]["d"] == '{"b":[5],"b":[null]}'
    with pytest.raises(wm.UnsupportedError, match="JSON_AGG of JSON with OVER is not supported"):
        nested().sql("SELECT JSON_AGG(TO_JSON(x)) OVER (ORDER BY ts) AS c FROM a")


def test_lists_are_what_is_in_the_window() -> None:
    lists = "ARRAY_AGG(x) AS l, ARRAY_AGG(x) FILTER (WHERE k > 9) AS n"
    text = f"SELECT {lists}, JSON_AGG(d ORDER BY x) AS j, MAP_AGG(s, x) AS m"
    (row,) = nested().sql(f"{text} FROM a [RANGE 4 SECONDS]").final().to_pylist()
    assert row == {"l": [3], "j": "[2.00]", "m": [("b", 3)], "n": None}
    (row,) = nested().sql(f"{text} FROM a [UNBOUNDED]").final().to_pylist()
    assert row == {
        "l": [3, 1, None, 2, 5, None, 2, 3], "j": "[1.00,1.00,3.00,2.00,2.00,2.00,null,3.00]",
        "m": [("b", 3), ("a", 2), ("c", 2)], "n": None,
    }  # fmt: skip


def test_over_an_answer_that_changes_values_go_by_themselves() -> None:
    inner = "SELECT k, COUNT(*) AS n, MAX(s) AS u, ARRAY_AGG(x) AS l FROM a [RANGE 3 SECONDS] GROUP BY k"
    for text in (
        f"SELECT STRING_AGG(u) AS w, ARRAY_AGG(n ORDER BY u) AS z, MODE(n) AS m FROM ({inner})",
        f"SELECT FIRST(u ORDER BY n DESC) AS f, JSON_AGG(n) AS j FROM ({inner})",
        f"SELECT l, n FROM ({inner}) WHERE k = 1",
        f"{inner} UNION ALL {inner.replace('3', '1')}",
        "SELECT a.k, ARRAY_AGG(b.x ORDER BY b.x) AS l FROM a [RANGE 2 SECONDS] LEFT JOIN a [RANGE 1 SECOND] AS b "
        "ON a.k = b.k AND a.x < b.x GROUP BY a.k",
    ):
        report = wm.check(nested().sql(text))
        assert report.equal, str(report)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT STRUCT(k, s) AS r, [x, k] AS l, COUNT(*) AS n FROM a [RANGE 2 SECONDS] GROUP BY STRUCT(k, s), [x, k]",
        "SELECT DISTINCT [s, NULL] AS l FROM a [ROWS 3]",
        "SELECT k, [s, 'b'] AS l, [x] AS m FROM a [RANGE 4 SECONDS] ORDER BY l DESC NULLS FIRST, m LIMIT 3",
        "SELECT {'k': k, 's': s} AS r FROM a [RANGE 2 SECONDS] INTERSECT SELECT {'k': k, 's': 'b'} FROM a [ROWS 4]",
        "SELECT k, MAX([s]) AS m, MIN([x, k]) AS l, MODE([s]) AS o, FIRST([x]) AS f, ARG_MAX([s], x) AS g, "
        "COUNT(DISTINCT [s]) AS n, ARRAY_AGG(DISTINCT [s]) AS d FROM a [RANGE 3 SECONDS] GROUP BY k",
        "SELECT u.k, v.x FROM a [RANGE 3 SECONDS] AS u LEFT JOIN a [ROWS 3] AS v ON [u.s, u.s] = [v.s, 'b']",
        "SELECT k, x FROM a [RANGE 3 SECONDS] WHERE [k, x] IN (SELECT [k, x + 1] FROM a [ROWS 5])",
        "SELECT k, RANK() OVER (PARTITION BY [s] ORDER BY [x, k]) AS r, [s] AS l FROM a [RANGE 4 SECONDS]",
        "SELECT k, ARRAY_AGG(x ORDER BY x DESC) OVER (PARTITION BY s ORDER BY k) AS l, "
        "MAP_AGG(k, x) OVER (PARTITION BY s ORDER BY k) AS m FROM a [RANGE 3 SECONDS]",
        "SELECT window, [s] AS l, COUNT(*) AS n FROM a GROUP BY window(ts, '2 seconds', '1 second'), [s]",
        "SELECT window, MAX(n) AS n FROM (SELECT tumble(interval '1 second') AS window, s, COUNT(*) AS n FROM a "
        "GROUP BY window, s) AS c GROUP BY window",
        "SELECT u.window, u.n, v.m FROM (SELECT tumble(2 SECONDS) AS window, COUNT(*) AS n FROM a GROUP BY 1) AS u "
        "JOIN (SELECT tumble(2 SECONDS) AS window, MAX(x) AS m FROM a GROUP BY window) AS v ON u.window = v.window",
    ],
)
def test_what_is_nested_is_compared_as_other_values_are(text: str) -> None:
    report = wm.check(nested().sql(text))
    assert report.equal, str(report)
    assert nested().sql(text).to_arrow().num_rows > 0


def test_aggregates_of_users_may_give_lists_and_structs_and_are_ordered() -> None:
    made = nested()
    made.aggregate("all_of", lambda x: x, ["BIGINT"], "BIGINT[]")
    made.aggregate(
        "ends", lambda x, s: {"first": x[0].as_py(), "names": s.to_pylist()}, ["BIGINT", "STRING"],
        "STRUCT(first BIGINT, names STRING[])",
    )  # fmt: skip
    text = "SELECT k, all_of(x ORDER BY s DESC) AS l, ends(x, s ORDER BY d) AS e FROM a [RANGE 4 SECONDS] GROUP BY k"
    report = wm.check(made.sql(text))
    assert report.equal, str(report)
    last = made.sql(text.replace("RANGE 4 SECONDS", "UNBOUNDED")).final().to_pylist()
    assert sorted(last, key=lambda row: row["k"]) == [
        {"k": 1, "l": [2, 3, 3, 2], "e": {"first": 2, "names": ["c", "b", "b", "a", "a"]}},
        {"k": 2, "l": [5, 1], "e": {"first": 1, "names": [None, "b", "b"]}},
    ]


# -- as DuckDB has them -----------------------------------------------------------------------------------------------

ALIKE = [
    "QUANTILE_DISC(x, 0.5)", "PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY s DESC)", "QUANTILE_DISC(y, 0.0)",
    "PERCENTILE_DISC(1) WITHIN GROUP (ORDER BY x)", "PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY y DESC)",
    "MODE() WITHIN GROUP (ORDER BY x)", "QUANTILE_DISC(DISTINCT x, 0.6)",
    "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x) FILTER (WHERE s = 'a')", "BIT_AND(x)", "BIT_OR(x)", "BIT_XOR(x)",
    "BIT_XOR(DISTINCT -x) FILTER (WHERE y > 1)", "COVAR_POP(y, x)", "COVAR_SAMP(y, x)", "CORR(y, x)",
    "CORR(x, CAST(1 AS BIGINT))",
    "CORR(y, x) FILTER (WHERE s <> 'a')", "COVAR_POP(y, x) FILTER (WHERE x > 9)", "SKEWNESS(x)", "KURTOSIS(x)",
    "KURTOSIS_POP(y)", "KURTOSIS(x) FILTER (WHERE s = 'a')", "SKEWNESS(y) FILTER (WHERE x = 2)", "ENTROPY(s)",
    "ENTROPY(x) FILTER (WHERE x > 9)", "ENTROPY(DISTINCT x)", "AVG(x * INTERVAL 1 SECOND)",
    "MIN(ts - TIMESTAMP '2026-01-01')", "AVG(-x * INTERVAL 1 SECOND)", "MAX(x * INTERVAL 1 SECOND)",
    *(f"REGR_{name}(y, x)" for name in ["COUNT", "AVGX", "AVGY", "SXX", "SYY", "SXY", "SLOPE", "INTERCEPT", "R2"]),
    "REGR_SLOPE(y, 1)", "REGR_INTERCEPT(y, 1)", "REGR_R2(1, y)", "REGR_R2(y, 1)", "REGR_SXX(y, x) FILTER (WHERE x > 9)",
    "REGR_COUNT(y, x) FILTER (WHERE x > 9)",
]  # fmt: skip


def measured() -> pa.Table:
    return pa.table(
        {
            "k": [1, 1, 2, 1, 2, 1, 2, 1, 3, 1], "x": [3, None, 1, 2, 5, 2, None, 3, 4, 7],
            "y": [2.5, 1.0, None, 0.5, 3.0, 2.5, 1.5, 4.0, 2.0, 2.25],
            "s": ["b", "a", None, "c", "b", "a", "b", "b", None, "a"],
            "ts": [NOON + timedelta(seconds=second) for second in (0, 2, 1, 3, 3, 7, 4, 8, 9, 9)],
        }
    )  # fmt: skip


def near(value: Any) -> Any:
    if isinstance(value, float):
        return pytest.approx(value, nan_ok=True)
    if isinstance(value, pa.MonthDayNano):
        return timedelta(days=value.days, microseconds=value.nanoseconds // 1000)
    return value


def test_what_they_say_of_a_whole_table_is_what_duckdb_says() -> None:
    made = wm.Session()
    made.stream("a", measured(), time="ts", lateness="3 seconds")
    columns = ", ".join(f"{text} AS c{n}" for n, text in enumerate(ALIKE))
    ours = made.sql(f"SELECT k, {columns} FROM a [UNBOUNDED] GROUP BY k").final().sort_by("k").to_pylist()
    theirs = said_by_duckdb(f"SELECT k, {columns} FROM a GROUP BY k ORDER BY k", {"a": measured()})
    for row, other in zip(ours, theirs.to_pylist(), strict=True):
        for n, text in enumerate(ALIKE):
            assert row[f"c{n}"] == near(other[f"c{n}"]), (row["k"], text)


@pytest.mark.parametrize("values", [[math.nan] * 5, [1e308, -1e308, 1e308, 3.0], [1e-200, 2e-200, 4e-200, 5e-200]])
@pytest.mark.parametrize("function", ["SKEWNESS", "KURTOSIS", "KURTOSIS_POP"])
def test_the_shape_of_values_does_not_depend_on_their_scale(function: str, values: list[float]) -> None:
    made = wm.Session()
    made.stream("a", pa.table({"y": values, "ts": [NOON + timedelta(n) for n in range(len(values))]}), time="ts")
    report = wm.check(made.sql(f"SELECT {function}(y) AS c FROM a [UNBOUNDED]"))
    assert report.equal, str(report)


@pytest.mark.parametrize(
    "rows",
    ["a [RANGE 2 SECONDS] GROUP BY k", "a [ROWS 4]", "TUMBLE(a, 4 SECONDS) GROUP BY window_start, window_end", None],
    ids=["range", "rows", "tumble", "over"],
)
def test_what_they_say_is_right_at_every_instant(rows: str | None) -> None:
    made = wm.Session()
    made.stream("a", measured(), time="ts", lateness="3 seconds")
    texts = [*ALIKE, "SUM(ts - TIMESTAMP '2026-01-01')", "LISTAGG(s, '|') WITHIN GROUP (ORDER BY x DESC)"]
    over = "" if rows else " OVER (PARTITION BY k ORDER BY ts ROWS 2 PRECEDING)"
    # What DuckDB says with a digit more or less it is not asked beside others.
    for part in (texts[:12], texts[12:26], texts[26:]):
        columns = ", ".join(f"{t}{over} AS c{n}" for n, t in enumerate(part) if rows or "DISTINCT" not in t)
        report = wm.check(made.sql(f"SELECT {columns} FROM {rows or 'a'}"))
        assert report.equal, str(report)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("PERCENTILE_DISC(2) WITHIN GROUP (ORDER BY x)", "PERCENTILE_DISC needs a constant between 0 and 1"),
        ("PERCENTILE_DISC(0.12345678901) WITHIN GROUP (ORDER BY x)", "counts with nine digits"),
        ("SUM(x) WITHIN GROUP (ORDER BY x)", "WITHIN GROUP goes with a percentile, a mode or a list"),
        ("COVAR_POP(DISTINCT x, k)", "DISTINCT goes with one argument"),
        ("BIT_AND(x)", "BIT_AND needs whole numbers, not DOUBLE"),
        ("KURTOSIS(s)", "KURTOSIS needs a number"),
    ],
)
def test_what_is_wrong_with_these_is_told(text: str, said: str) -> None:
    with pytest.raises(wm.WatersmeetError) as caught:
        session().sql(f"SELECT {text} FROM a [UNBOUNDED]")
    assert said in str(caught.value)
