"""Aggregates that need all values of a group, against plain Python over the rows that are in, at every instant."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from statistics import pstdev
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
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
        ("SELECT STRING_AGG(s, ',' ORDER BY x) FROM a [UNBOUNDED]", "ORDER BY"),
    ],
)
def test_what_is_wrong_with_them_is_told(text: str, said: str) -> None:
    made = session()

    def broken(x: float) -> float:
        raise ValueError("no")

    made.aggregate("broken", broken)
    made.aggregate("listed", lambda x: x.to_pylist(), ["DOUBLE"], "DOUBLE")
    with pytest.raises(wm.WatersmeetError) as caught:
        made.sql(text).to_arrow()
    assert said in str(caught.value)
    assert "line 1: SELECT" in str(caught.value)
