"""Every aggregate against plain Python over the rows that are in, at every instant of random histories."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from functools import reduce
from operator import and_, or_, xor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.effort import thinned
from tests.unit.histories import History, aggregated, history, plain, run, same
from watersmeet.errors import DataError, UnsupportedError
from watersmeet.operators.continuous.aggregates import Cells, make_aggregator
from watersmeet.plan.expressions import Aggregate, Column, Literal

Random = np.random.Generator
INT64 = np.iinfo(np.int64)

EXTREME_FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.1, 1e16, -1e16, 1e308, -1e308, 1.7976931348623157e308, 5e-324, -5e-324, 2.2e-308, 1e-300,
    math.pi, 2.0**53, 2.0**-53, 2.0**-1022, 1e15 + 0.3,
]  # fmt: skip
SPECIAL_FLOATS = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5]


def pick(values: list[Any]) -> Callable[[Random], Any]:
    return lambda rng: values[int(rng.integers(len(values)))]


def long_decimal(rng: Random) -> Decimal:
    digits = tuple(rng.integers(0, 10, int(rng.integers(1, 36))).tolist())
    return Decimal((int(rng.integers(2)) if any(digits) else 0, digits, -4))


def word(rng: Random) -> str:
    return "".join(pick(list("aäb\U0001f600\uffff"))(rng) for _ in range(int(rng.integers(0, 5))))


MAKERS: dict[str, tuple[pa.DataType, Callable[[Random], Any]]] = {
    "ints": (pa.int64(), lambda rng: int(rng.integers(-(10**6), 10**6))),
    "few ints": (pa.int32(), lambda rng: int(rng.integers(-2, 3))),
    "large ints": (pa.int64(), lambda rng: int(rng.integers(-(2**57), 2**57))),
    "unsigned": (pa.uint64(), lambda rng: int(rng.integers(0, 2**58, dtype=np.uint64))),
    "floats": (pa.float64(), lambda rng: float(rng.normal(100, 30))),
    "extreme floats": (pa.float64(), pick(EXTREME_FLOATS)),
    "any floats": (pa.float64(), lambda rng: float(np.ldexp(rng.normal(), int(rng.integers(-1070, 1000))))),
    "floats that nearly cancel out": (pa.float64(), lambda rng: 1e9 + 1e-3 * float(rng.normal())),
    "floats far apart": (pa.float64(), lambda rng: float(rng.normal() * 10.0 ** rng.integers(-20, 20))),
    "special floats": (pa.float64(), pick(SPECIAL_FLOATS)),
    "small floats": (pa.float32(), lambda rng: float(np.float32(rng.normal()))),
    "decimals": (pa.decimal128(10, 2), lambda rng: Decimal(int(rng.integers(-(10**9), 10**9))).scaleb(-2)),
    "long decimals": (pa.decimal128(36, 4), long_decimal),
}
ORDERED: dict[str, tuple[pa.DataType, Callable[[Random], Any]]] = {
    **MAKERS,
    "words": (pa.string(), word),
    "many words": (pa.large_string(), lambda rng: f"name {int(rng.integers(10**6))}"),
    "word views": (pa.string_view(), word),
    "bytes": (pa.binary(), lambda rng: rng.bytes(int(rng.integers(0, 3)))),
    "fixed bytes": (pa.binary(3), lambda rng: rng.bytes(3)),
    "booleans": (pa.bool_(), lambda rng: bool(rng.random() < 0.5)),
    "dates": (pa.date32(), lambda rng: date(2024, 1, 1) + timedelta(days=int(rng.integers(-400, 400)))),
    "instants": (pa.timestamp("us"), lambda rng: datetime(2024, 1, 1) + timedelta(seconds=int(rng.integers(10**6)))),
    "spans": (pa.duration("us"), lambda rng: timedelta(microseconds=int(rng.integers(-(10**6), 10**6)))),
}


def some(make: Callable[[Random], Any], count: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [None if rng.random() < 0.1 else make(rng) for _ in range(count)]


def check(
    aggregate: Aggregate, answer: Callable[[list[Any]], Any], values: list[Any], *, fifo: bool, seed: int
) -> None:
    """Many groups that fill and empty all the time, then few that grow."""
    for groups, window in ((40, 60), (2, 100)):
        past = history(values, groups=groups, window=window, fifo=fifo, seed=seed)
        expected = plain(past, answer)
        for cuts in (0, 7):
            same(run(aggregate, past, fifo=fifo, cuts=cuts, seed=seed), expected)


def nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def unless_special(values: list[Any], finite: Callable[[list[Any]], Any]) -> Any:
    """What a sum is if NaN or infinities are in."""
    infinite = {v for v in values if isinstance(v, float) and math.isinf(v)}
    if len(infinite) == 2 or any(v != v for v in values):
        return math.nan
    return infinite.pop() if infinite else finite(values)


def exact_total(values: list[Any]) -> Fraction:
    return sum(map(Fraction, values), Fraction(0))


def plain_sum(values: list[Any]) -> Any:
    if not values:
        return None
    if isinstance(values[0], float):
        return unless_special(values, lambda finite: nearest(exact_total(finite)))
    if isinstance(values[0], Decimal):
        with localcontext(prec=60):
            return sum(values, Decimal(0))
    return sum(values)


def plain_mean(values: list[Any]) -> float | None:
    return unless_special(values, lambda finite: nearest(exact_total(finite) / len(finite))) if values else None


def plain_variance(values: list[Any]) -> float | None:
    if len(values) < 2:
        return None
    if any(isinstance(v, float) and not math.isfinite(v) for v in values):
        return math.nan
    return nearest(statistics.variance(map(Fraction, values)))


def plain_deviation(values: list[Any]) -> float | None:
    variance = plain_variance(values)
    return None if variance is None else math.sqrt(variance)


def by_value(value: Any) -> Any:
    """NaN is above all numbers."""
    return (True, 0.0) if isinstance(value, float) and math.isnan(value) else (False, value)


def positive_zero(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


PLAIN: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": plain_sum,
    "avg": plain_mean,
    "variance": plain_variance,
    "stddev": plain_deviation,
    "min": lambda values: positive_zero(min(values, key=by_value)) if values else None,
    "max": lambda values: positive_zero(max(values, key=by_value)) if values else None,
    "first": lambda values: positive_zero(values[0]) if values else None,
    "last": lambda values: positive_zero(values[-1]) if values else None,
}


@pytest.mark.parametrize(("function", "kind"), thinned(["count", "sum", "avg", "variance", "stddev"], MAKERS))
def test_sums_are_exact_whatever_came_and_went(function: str, kind: str) -> None:
    data_type, make = MAKERS[kind]
    for seed in range(2):
        check(aggregated(function, data_type), PLAIN[function], some(make, 150, seed), fifo=False, seed=seed)


@pytest.mark.parametrize(("function", "kind", "fifo"), thinned(["min", "max", "first", "last"], ORDERED, [True, False]))
def test_extremes_are_those_of_the_rows_that_are_in(function: str, kind: str, fifo: bool) -> None:
    data_type, make = ORDERED[kind]
    for seed in range(2):
        check(aggregated(function, data_type), PLAIN[function], some(make, 200, seed), fifo=fifo, seed=seed)


def bits(combine: Callable[[int, int], int]) -> Callable[[list[Any]], Any]:
    return lambda values: reduce(combine, values) if values else None


@pytest.mark.parametrize("kind", ["few ints", "large ints", "unsigned"])
def test_bits_are_those_of_the_values_that_are_in(kind: str) -> None:
    data_type, make = MAKERS[kind]
    for function, combine in (("bit_and", and_), ("bit_or", or_), ("bit_xor", xor)):
        check(aggregated(function, data_type), bits(combine), some(make, 150, 1), fifo=False, seed=1)


def plain_covariance(pairs: list[Any], sample: int) -> float | None:
    known = [(one["f0"], one["f1"]) for one in pairs if None not in one.values()]
    if len(known) <= sample:
        return None
    if not all(math.isfinite(value) for pair in known for value in pair):
        return math.nan
    x, y = ([Fraction(pair[place]) for pair in known] for place in (0, 1))
    joint = exact_total([a * b for a, b in zip(x, y, strict=True)]) - exact_total(x) * exact_total(y) / len(known)
    return nearest(joint / (len(known) - sample)) + 0.0


@pytest.mark.parametrize("kind", ["floats", "extreme floats", "any floats", "special floats"])
def test_covariances_are_exact_whatever_came_and_went(kind: str) -> None:
    make = MAKERS[kind][1]
    pairs = [{"f0": x, "f1": y} for x, y in zip(some(make, 150, 1), some(make, 150, 2), strict=True)]
    data_type = pa.struct([("f0", pa.float64()), ("f1", pa.float64())])
    for function, sample in (("covar_pop", 0), ("covar_samp", 1)):
        aggregate = Aggregate(function, (Column("s", "x", data_type),), pa.float64())
        check(aggregate, lambda values, less=sample: plain_covariance(values, less), pairs, fifo=False, seed=1)


@pytest.mark.parametrize("kind", ["few ints", "floats", "special floats", "long decimals", "words", "spans", "dates"])
def test_a_discrete_percentile_is_one_of_the_values(kind: str) -> None:
    data_type, make = ORDERED[kind]
    for share, downwards in ((0.0, False), (0.3, False), (0.5, True), (1.0, False), (0.0, True)):

        def answer(values: list[Any], share: float = share, downwards: bool = downwards) -> Any:
            ordered = sorted(values, key=by_value, reverse=downwards)
            place = max(math.ceil(Fraction(repr(share)) * len(values)), 1) - 1
            return positive_zero(ordered[place]) if values else None

        args = (Column("s", "x", data_type), Literal(share, pa.float64()), *[Literal(True, pa.bool_())] * downwards)
        check(Aggregate("percentile_disc", args, data_type), answer, some(make, 100, 3), fifo=False, seed=3)


def test_intervals_are_summed_and_their_mean_is_rounded_away_from_zero() -> None:
    def mean(values: list[timedelta]) -> timedelta | None:
        total = sum(values, timedelta()) // timedelta(microseconds=1)
        if not values:
            return None
        exact = Decimal(total) / len(values)
        return timedelta(microseconds=int(exact.quantize(Decimal(1), ROUND_HALF_UP)))

    spans = some(lambda rng: timedelta(microseconds=int(rng.integers(-9, 10))), 200, 4)
    check(aggregated("avg", pa.duration("us")), mean, spans, fifo=False, seed=4)
    total = aggregated("sum", pa.duration("us"))
    check(total, lambda values: sum(values, timedelta()) if values else None, spans, fifo=False, seed=4)


def once(values: list[Any]) -> list[Any]:
    """One of each value; NaN equals NaN and -0.0 equals 0.0."""
    return list({by_value(v): v for v in values}.values())


@pytest.mark.parametrize("kind", ORDERED)
def test_distinct_values_are_counted_once(kind: str) -> None:
    data_type, make = ORDERED[kind]
    twice = [value for value in some(make, 60, 1) for _ in range(3)]
    check(aggregated("count", data_type, distinct=True), lambda v: len(once(v)), twice, fifo=False, seed=1)


@pytest.mark.parametrize("function", ["sum", "avg", "variance", "min", "last"])
@pytest.mark.parametrize("kind", ["few ints", "extreme floats", "special floats", "decimals"])
def test_distinct_values_are_summed_once(function: str, kind: str) -> None:
    data_type, make = MAKERS[kind]
    keep = (lambda values: values) if function == "last" else once
    values = some(make, 150, 2)
    check(aggregated(function, data_type, distinct=True), lambda v: PLAIN[function](keep(v)), values, fifo=True, seed=2)


def test_without_an_argument_count_counts_rows_with_null_too() -> None:
    counter = make_aggregator(Aggregate("count", (), pa.int64()), fifo=True)
    counter.grow(2)
    cells = Cells(np.array([0, 0, 1, 0]), np.array([1, 1, 1, -1]), np.array([2, 3, 4]))
    assert counter.apply(cells, None, np.arange(4)).to_pylist() == [2, 1, 1]


@pytest.mark.parametrize("function", ["sum", "avg", "variance", "min", "max", "first", "last", "median", "count"])
def test_the_literal_null_aggregates_to_null_and_counts_nothing(function: str) -> None:
    aggregate = aggregated(function, pa.null())
    past = history([None] * 30, groups=3, window=10, fifo=True, seed=0)
    same(run(aggregate, past, fifo=True), [0 if function == "count" else None] * past.cells().size)
    distinct = aggregated(function, pa.null(), distinct=True)
    same(run(distinct, past, fifo=True), [0 if function == "count" else None] * past.cells().size)


@pytest.mark.parametrize("seed", range(5))
def test_float_sums_equal_fsum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [float(x) for x in np.ldexp(rng.normal(size=300), rng.integers(-300, 300, 300))]
    past = history(values, groups=5, window=80, fifo=True, seed=seed)
    same(run(aggregated("sum", pa.float64()), past, fifo=True), plain(past, lambda v: math.fsum(v) if v else None))


LARGEST = 1.7976931348623157e308
TIES = [
    [2.0**53, 1.0], [2.0**53, 1.0, 5e-324], [2.0**53, 1.0, -5e-324], [2.0**53 + 2, 1.0], [2.0**53 + 2, 1.0, -5e-324],
    [-(2.0**53), -1.0], [-(2.0**53), -1.0, -5e-324], [2.0**106, 2.0**53, 2.0**-1000], [1.0, 2.0**-53], [1.0, 2.0**-54],
    [LARGEST, 2.0**969], [LARGEST, 2.0**970], [LARGEST, 2.0**970, -5e-324], [-LARGEST, -(2.0**970)],
    [5e-324, 5e-324], [5e-324, 0.0], [5e-324, 0.0, 0.0], [1.5e-323, 0.0], [2.0**-1022, -5e-324],
    [2.0**-1022, 5e-324, 0.0], [1e308, 1e308, -1e308], [LARGEST] * 3,
]  # fmt: skip


@pytest.mark.parametrize("function", ["sum", "avg", "variance"])
def test_halves_are_rounded_to_even_and_a_little_more_is_not_forgotten(function: str) -> None:
    for values in TIES:
        aggregator = make_aggregator(aggregated(function, pa.float64()), fifo=False)
        aggregator.grow(1)
        count = len(values)
        together = Cells(np.zeros(count, np.int64), np.ones(count, np.int64), np.array([count]))
        same(aggregator.apply(together, pa.array(values), np.arange(count)).to_pylist(), [PLAIN[function](values)])


def test_what_left_is_gone_without_a_trace() -> None:
    """1e16 + 1 - 1e16 is 1, and an infinity that left leaves a number."""
    adder = make_aggregator(aggregated("sum", pa.float64()), fifo=False)
    adder.grow(1)
    values = pa.array([1e16, 1.0, math.inf, math.nan, 1e16, math.nan, math.inf, 1.0])
    cells = Cells(np.zeros(8, np.int64), np.array([1, 1, 1, 1, -1, -1, -1, -1]), np.arange(1, 9))
    found = adder.apply(cells, values, np.array([0, 1, 2, 3, 0, 3, 2, 1])).to_pylist()
    same(found, [1e16, 1e16, math.inf, math.nan, math.nan, math.inf, 1.0, None])


@pytest.mark.parametrize("data_type", [pa.int64(), pa.uint64()])
def test_a_sum_beyond_bigint_is_an_error_and_one_that_came_back_is_not(data_type: pa.DataType) -> None:
    adder = make_aggregator(aggregated("sum", data_type), fifo=True)
    adder.grow(1)
    largest = pa.array([INT64.max, 5, INT64.max], data_type)
    together = Cells(np.zeros(3, np.int64), np.array([1, 1, -1]), np.array([3]))
    assert adder.apply(together, largest, np.array([0, 1, 0])).to_pylist() == [5]
    with pytest.raises(
        DataError, match=r"SUM\(s\.x\) went beyond the range of BIGINT(.|\n)*DECIMAL\(38, 0\) or DOUBLE"
    ):
        adder.apply(Cells(np.zeros(1, np.int64), np.array([1]), np.array([1])), largest[:1], np.array([2]))


def test_sums_at_the_limits_of_bigint_are_right() -> None:
    adder = make_aggregator(aggregated("sum", pa.int64()), fifo=True)
    adder.grow(2)
    values = pa.array([INT64.max, INT64.min, 1])
    cells = Cells(np.array([0, 1, 1]), np.array([1, 1, 1]), np.array([1, 2, 3]))
    assert adder.apply(cells, values, np.arange(3)).to_pylist() == [INT64.max, INT64.min, INT64.min + 1]


def test_a_decimal_sum_of_39_digits_is_an_error() -> None:
    adder = make_aggregator(aggregated("sum", pa.decimal128(38, 0)), fifo=True)
    adder.grow(1)
    largest = Decimal(10**38 - 1)
    values = pa.array([largest, Decimal(1)], pa.decimal128(38, 0))
    one = Cells(np.zeros(1, np.int64), np.array([1]), np.array([1]))
    assert adder.apply(one, values[:1], np.array([0])).to_pylist() == [largest]
    with pytest.raises(DataError, match="38 digits"):
        adder.apply(one, values[1:], np.array([1]))


def test_slices_of_columns_are_read_from_their_offset() -> None:
    one = Cells(np.zeros(1, np.int64), np.array([1]), np.array([1]))
    for kind, (data_type, make) in ORDERED.items():
        value = make(np.random.default_rng(3))
        values = pa.array([None, make(np.random.default_rng(4)), value], data_type)[2:]
        for function in ("max", "last", *(["sum"] if kind in MAKERS else [])):
            aggregator = make_aggregator(aggregated(function, data_type), fifo=False)
            aggregator.grow(1)
            same(aggregator.apply(one, values, np.array([0])).to_pylist(), [PLAIN[function]([value])])


ALL = [("count", "ints"), ("sum", "any floats"), ("avg", "decimals"), ("stddev", "extreme floats"), ("max", "words"),
       ("first", "long decimals"), ("median", "floats"), ("bit_xor", "ints"), ("skewness", "floats"),
       ("entropy", "words")]  # fmt: skip


@pytest.mark.parametrize("fifo", [True, False], ids=["in order", "in any order"])
@pytest.mark.parametrize(("function", "kind"), ALL)
def test_a_restart_from_the_rows_that_are_in_changes_no_digit(function: str, kind: str, fifo: bool) -> None:
    """One aggregator has seen all of the past, another only the rows still in; from then on both say the same."""
    data_type, make = ORDERED[kind]
    aggregate = aggregated(function, data_type)
    past = history(some(make, 300, 5), groups=8, window=70, fifo=fifo, seed=5)
    cells = past.cells()
    middle = int(cells[cells.size // 2])
    came = dict(zip(past.rows[:middle].tolist(), past.groups[:middle].tolist(), strict=True))
    balance = np.bincount(past.rows[:middle], past.diffs[:middle], len(past.values))
    live = np.flatnonzero(balance > 0)
    live = live[np.argsort([came[row] for row in live.tolist()], kind="stable")]
    groups = np.array([came[row] for row in live.tolist()])
    start = np.zeros(live.size, np.int64)
    short = History(
        *(
            np.concatenate([new, old[middle:]])
            for new, old in (
                (start - 1, past.instants),
                (groups, past.groups),
                (start + 1, past.diffs),
                (live, past.rows),
            )
        ),
        past.values,
    )
    expected = run(aggregate, past, fifo=fifo)[int(cells.size // 2) + 1 :]
    same(run(aggregate, short, fifo=fifo)[np.unique(groups).size :], expected)


@pytest.mark.parametrize("fifo", [True, False], ids=["in order", "in any order"])
@pytest.mark.parametrize(("function", "kind"), [*ALL, ("sum", "ints"), ("variance", "decimals"), ("last", "booleans")])
def test_no_changes_and_changes_of_nothing_change_nothing(function: str, kind: str, fifo: bool) -> None:
    data_type, make = ORDERED[kind]
    value = make(np.random.default_rng(1))
    for distinct in (False, True):
        aggregate = aggregated(function, data_type, distinct=distinct)
        aggregator = make_aggregator(aggregate, fifo=fifo)
        aggregator.grow(1)
        nothing = np.empty(0, np.int64)
        assert len(aggregator.apply(Cells(nothing, nothing, nothing), pa.array([], data_type), nothing)) == 0
        cells = Cells(np.zeros(4, np.int64), np.array([-1, 0, 1, 1]), np.array([4]))
        values = pa.array([value, make(np.random.default_rng(2)), value, value], data_type)
        once = aggregator.apply(cells, values, np.array([1, 9, 1, 2])).to_pylist()
        fresh = make_aggregator(aggregate, fifo=fifo)
        fresh.grow(1)
        one = Cells(np.zeros(1, np.int64), np.array([1]), np.array([1]))
        same(once, fresh.apply(one, values[:1], np.array([2])).to_pylist())


def test_memory_follows_the_rows_that_are_in() -> None:
    """Ten times the rows in the same window need no more room."""
    for function, data_type in (("min", pa.string()), ("first", pa.int64()), ("median", pa.int64())):
        sizes = []
        for count in (3_000, 30_000):
            aggregator = make_aggregator(aggregated(function, data_type), fifo=function != "median")
            aggregator.grow(1)
            window, batch = 1_000, 500
            for start in range(0, count, batch):
                came = np.arange(start, start + batch)
                rows = np.stack([came, came - window], axis=1).ravel()
                diffs = np.tile([1, -1], batch)[rows >= 0]
                rows = rows[rows >= 0]
                values = pa.array(rows * 7919 % 100_003).cast(data_type)
                cells = Cells(np.zeros(rows.size, np.int64), diffs, np.arange(1, rows.size + 1))
                aggregator.apply(cells, values, rows)
            sizes.append(aggregator.nbytes)
        assert sizes[1] <= 1.5 * sizes[0]


@pytest.mark.parametrize(("function", "distinct"), [("first", False), ("last", False), ("count", True)])
def test_values_without_an_order_are_refused(function: str, distinct: bool) -> None:
    with pytest.raises(UnsupportedError, match=rf"{function.upper()}\(.*s\.x\) does not work on values of type "):
        make_aggregator(aggregated(function, pa.decimal256(50, 0), distinct=distinct), fifo=True)


def test_an_unknown_aggregate_is_refused() -> None:
    with pytest.raises(ValueError, match="no aggregate product"):
        make_aggregator(Aggregate("product", (Column("s", "x", pa.int64()),), pa.int64()), fifo=True)
