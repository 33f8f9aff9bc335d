"""The reference for answers that change: aggregates as DuckDB has them, instants, and the order of its log."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.runners import Source, bound_plan, tables_of
from tests.scenarios.timeline import timeline
from watersmeet.errors import DataError
from watersmeet.plan.expressions import Aggregate, Column, Literal
from watersmeet.plan.functions import aggregate_type
from watersmeet.reference.aggregates import aggregate, float_sum, percentile
from watersmeet.reference.continuous import change_log, instants, snapshot
from watersmeet.reference.evaluate import Combination
from watersmeet.reference.join import answer

NAN, INF = math.nan, math.inf
SECOND = 1_000_000


def value_of(function: str, values: Sequence[Any], kind: pa.DataType, *more: Any, distinct: bool = False) -> Any:
    args = (Column("x", "v", kind), *(Literal(value, pa.float64()) for value in more))
    call = Aggregate(function, args, aggregate_type(function, [arg.type for arg in args]), distinct)
    return aggregate(call, [Combination({"x": {"v": value}}) for value in values])


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


NUMBERS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integers": (pa.int64(), [None, 0, 1, 1, -7, 100, 2**40]),
    "floats": (pa.float64(), [None, 0.5, -1.25, 3.0, 3.0, 1e6]),
    "decimals": (pa.decimal128(8, 2), [None, Decimal("1.25"), Decimal("-3.10"), Decimal("0.00"), Decimal("0.01")]),
}
CALLS = {
    "count(v)": ("count", ()), "sum(v)": ("sum", ()), "avg(v::DOUBLE)": ("avg", ()), "min(v)": ("min", ()),
    "max(v)": ("max", ()), "median(v::DOUBLE)": ("median", ()), "quantile_cont(v::DOUBLE, 0.3)": ("percentile", (0.3,)),
    "quantile_cont(v::DOUBLE, 0.0)": ("percentile", (0.0,)), "quantile_cont(v::DOUBLE, 1.0)": ("percentile", (1.0,)),
    "stddev_samp(v::DOUBLE)": ("stddev", ()), "var_samp(v::DOUBLE)": ("variance", ()),
}  # fmt: skip


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("text", CALLS)
@pytest.mark.parametrize("numbers", NUMBERS)
def test_an_aggregate_has_the_value_duckdb_gives_it(
    connection: duckdb.DuckDBPyConnection, numbers: str, text: str, distinct: bool
) -> None:
    kind, domain = NUMBERS[numbers]
    function, more = CALLS[text]
    chance = random.Random(f"{numbers} {text} {distinct}")
    for size in (0, 1, 2, 3, 8, 20):
        values = [chance.choice(domain) for _ in range(size)]
        connection.register("x", pa.table({"v": pa.array(values, kind)}))
        written = text.replace("(v", "(DISTINCT v") if distinct else text
        ((theirs,),) = connection.execute(f"SELECT {written} FROM x").fetchall()
        ours = value_of(function, values, kind, *more, distinct=distinct)
        if isinstance(theirs, float):
            assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9)
        else:
            assert ours == theirs


def test_count_of_everything_counts_nulls() -> None:
    star = Aggregate("count", (), pa.int64())
    assert aggregate(star, [Combination({"x": {"v": None}})] * 3) == 3


def test_floating_sums_are_exact_and_rounded_once() -> None:
    assert float_sum([1e16, 1.0, -1e16]) == 1.0
    assert float_sum([0.1] * 10) == 1.0
    assert float_sum([1e308, 1e308, -1e308]) == 1e308
    assert float_sum([1e308, 1e308]) == INF


@pytest.mark.parametrize(
    ("values", "total"), [([1.0, NAN], NAN), ([INF, 1.0], INF), ([INF, -INF], NAN), ([-INF, 2.0], -INF)]
)
def test_sums_of_infinities_and_nan_follow_ieee(values: list[float], total: float) -> None:
    assert value_of("sum", values, pa.float64()) == pytest.approx(total, nan_ok=True)
    assert value_of("avg", values, pa.float64()) == pytest.approx(total, nan_ok=True)
    assert math.isnan(value_of("variance", values, pa.float64()))


def test_nan_is_the_largest_value() -> None:
    assert math.isnan(value_of("max", [1.0, NAN, INF], pa.float64()))
    assert value_of("min", [NAN, 1.0], pa.float64()) == 1.0
    assert math.isnan(percentile([1.0, 2.0, NAN], 1.0))
    assert percentile([1.0, 2.0, NAN], 0.5) == 2.0


def test_means_are_exact_and_rounded_once() -> None:
    assert value_of("avg", [1e308, 1e308, 1e308], pa.float64()) == 1e308
    assert value_of("avg", [0.1, 0.1, 0.1], pa.float64()) == 0.1
    assert value_of("avg", [2**62, 2**62 + 2, 2**62 + 4], pa.int64()) == float(2**62 + 2)
    assert value_of("avg", [Decimal("0.10"), Decimal("0.20")], pa.decimal128(4, 2)) == 0.15


def test_a_percentile_between_a_number_and_an_infinity_is_that_infinity() -> None:
    assert percentile([-INF, 1.0], 0.5) == -INF
    assert percentile([-1e308, 1e308], 0.5) == 0.0


def test_a_percentile_between_equal_values_is_that_value() -> None:
    assert percentile([0.1, 0.1, 0.1], 0.3) == 0.1
    assert percentile([INF, INF], 0.5) == INF


def test_a_single_value_has_no_deviation() -> None:
    assert value_of("stddev", [3.0], pa.float64()) is None
    assert value_of("variance", [3.0, None], pa.float64()) is None
    assert value_of("variance", [INF], pa.float64()) is None


def test_a_sum_that_its_type_cannot_hold_is_an_error() -> None:
    top = 2**63 - 1
    assert value_of("sum", [top, 1, -1], pa.int64()) == top
    with pytest.raises(DataError, match="BIGINT cannot hold"):
        value_of("sum", [top, 1], pa.int64())
    nines = Decimal("9" * 38)
    with pytest.raises(DataError, match="cannot hold"):
        value_of("sum", [nines, Decimal(1)], pa.decimal128(38, 0))


def test_the_first_and_the_last_of_distinct_values_are_those_of_all() -> None:
    for function in ("first", "last"):
        assert value_of(function, [1, 2, 1], pa.int64(), distinct=True) == 1


def test_distinct_values_count_once_with_nan_and_zero_as_one_each() -> None:
    assert value_of("count", [NAN, NAN, 0.0, -0.0, None], pa.float64(), distinct=True) == 2


# ---- instants, snapshots and logs -----------------------------------------------------------------------------------


def moments(sql: str, drawing: str) -> list[float]:
    sources = timeline(drawing)
    return [at / SECOND for at in instants(bound_plan(sql, sources), tables_of(sources))]


def test_rows_enter_at_their_time_and_leave_just_after_their_window() -> None:
    assert moments("SELECT DISTINCT v FROM a [RANGE 5 SECONDS]", "a: 1@0 1@2") == [0, 2, 5.000001, 7.000001]
    half_open = "SELECT DISTINCT v FROM a [RANGE 5 SECONDS] OPTIONS (boundary = 'half_open')"
    assert moments(half_open, "a: 1@0 1@2") == [0, 2, 5, 7]


def test_rows_of_other_windows_leave_only_when_others_enter() -> None:
    assert moments("SELECT DISTINCT v FROM a [ROWS 1]", "a: 1@0 1@2") == [0, 2]
    assert moments("SELECT DISTINCT v FROM a [UNBOUNDED]", "a: 1@0 1@2") == [0, 2]


def test_the_whole_answer_is_sent_at_multiples_within_the_events_of_all_streams() -> None:
    sql = "SELECT RSTREAM a.v FROM a [UNBOUNDED], b [UNBOUNDED] EVERY 3 SECONDS"
    assert moments(sql, "a: 1@-4 1@0\nb: 1@2 1@7") == [-3, 0, 3, 6]
    assert moments(sql, "a: 1@3\nb: 1@3") == [3]
    assert moments(sql, "a: 1@4\nb: 1@5") == []


def test_a_snapshot_may_be_taken_anywhere() -> None:
    sources = timeline("a: 1@0 2@3")
    plan, tables = (
        bound_plan("SELECT v FROM a [RANGE 4 SECONDS] UNION SELECT v FROM a [NOW]", sources),
        tables_of(sources),
    )
    assert [sorted(snapshot(plan, tables, at * SECOND)) for at in (-1, 1, 3, 4, 5, 8)] == [
        [], [(1,)], [(1,), (2,)], [(1,), (2,)], [(2,)], [],
    ]  # fmt: skip


def test_a_log_is_ordered_by_instant_then_what_leaves_then_by_value() -> None:
    sources = timeline("a: 2@0 1@0 -@0 9@1 8@1 7@1")
    plan = bound_plan("SELECT DISTINCT v FROM a [ROWS 3]", sources)
    assert [(op, at // SECOND, *row) for op, at, row in change_log(plan, tables_of(sources))] == [
        ("+", 0, 1), ("+", 0, 2), ("+", 0, None),
        ("-", 1, 1), ("-", 1, 2), ("-", 1, None), ("+", 1, 7), ("+", 1, 8), ("+", 1, 9),
    ]  # fmt: skip


def test_rows_of_a_subquery_with_equal_times_are_counted_in_the_order_of_their_values() -> None:
    sources = timeline("a: 3@0 1@0 2@0\nb: 1@0")
    sql = "SELECT DISTINCT v FROM (SELECT a.v FROM a, b WINDOW = 1 SECOND) [ROWS 2] AS pairs"
    plan = bound_plan(sql, sources)
    assert sorted(snapshot(plan, tables_of(sources), 0)) == [(2,), (3,)]


def test_first_and_last_of_a_join_go_by_its_newest_member_then_by_the_members_in_from() -> None:
    sources = timeline("a: 1@0 2@1\nb: 1@1 2@1")
    sql = "SELECT FIRST(a.id || b.id) AS f, LAST(a.id || b.id) AS l FROM a [UNBOUNDED], b [UNBOUNDED]"
    plan = bound_plan(sql, sources)
    assert snapshot(plan, tables_of(sources), SECOND) == [("a1b1", "a2b2")]


def test_the_first_rows_go_by_code_points_and_nan_is_largest() -> None:
    table = pa.table({
        "s": ["b", "B", "é", None, "a"], "f": [NAN, 1.0, INF, None, -0.0],
        "ts": pa.array([0] * 5, pa.timestamp("us")),
    })  # fmt: skip
    sources = [Source("x", table)]

    def first(order: str) -> list[Any]:
        plan = bound_plan(f"SELECT s FROM (SELECT s, f FROM x [NOW] ORDER BY {order} LIMIT 3) v", sources)
        return [row[0] for row in sorted(snapshot(plan, tables_of(sources), 0), key=str)]

    assert first("s") == ["B", "a", "b"]
    assert first("f DESC") == ["B", "b", "é"]
    assert first("f") == ["B", "a", "é"]


def test_a_sum_beyond_its_type_is_an_error_at_the_instant_it_happens() -> None:
    table = pa.table({"v": [2**62, 2**62], "ts": pa.array([0, SECOND], pa.timestamp("us"))})
    sources = [Source("x", table)]
    plan = bound_plan("SELECT SUM(v) AS total FROM x [UNBOUNDED]", sources)
    assert snapshot(plan, tables_of(sources), 0) == [(2**62,)]
    with pytest.raises(DataError):
        snapshot(plan, tables_of(sources), SECOND)


def test_nested_values_pass_through_a_plain_join() -> None:
    table = pa.table({"v": [{"a": 1}, {"a": None}, None], "ts": pa.array([0, 0, 0], pa.timestamp("us"))})
    sources = [Source("x", table)]
    rows = answer(bound_plan("SELECT v FROM x", sources), tables_of(sources))
    assert sorted(map(str, rows)) == ["(None,)", "({'a': 1},)", "({'a': None},)"]
