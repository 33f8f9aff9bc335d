"""Expressions over columns give what DuckDB gives, row by row."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from watersmeet.errors import DataError
from watersmeet.operators.evaluate import (
    _DEAR,
    _LAZY,
    _LENIENT,
    _STRICT,
    ENOUGH,
    evaluate,
    evaluate_predicate,
)
from watersmeet.operators.scalar.values import Function
from watersmeet.plan.expressions import Call, Column, EventTime, Expression, Literal
from watersmeet.plan.functions import FUNCTIONS, result_type
from watersmeet.reference.evaluate import Combination
from watersmeet.reference.evaluate import evaluate as evaluate_row
from watersmeet.reference.values import plain_column, present

NAN = math.nan
ROWS = 400


def random_table(seed: int = 7) -> pa.Table:
    rng = np.random.default_rng(seed)

    def column(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([values[k] for k in rng.integers(0, len(values), ROWS)], kind)

    floats = [None, NAN, -0.0, 0.0, 1.5, -2.5, 3.0, math.inf, -math.inf, 7.25, -7.25, 1e18]
    integers = [None, 0, 1, -1, 2, -2, 3, 7, -7, 100, 2**53 + 1, -(2**40)]
    texts = [None, "", "a", "ab", "a%b", "a_b", "héllo", "HELLO", "a\nb", " x ", "a\\b", "abab"]
    times = [None, 0, 1, -1, 1_500_000, 86_400_000_000 * 45 + 12_345_678, -(86_400_000_000 * 400) - 1]
    decimals = [None, Decimal("1.25"), Decimal("-1.25"), Decimal("0.00"), Decimal("99.99"), Decimal("3.10")]
    return pa.table(
        {
            "i": column(integers, pa.int64()), "j": column(integers[:10], pa.int32()),
            "f": column(floats, pa.float64()), "g": column(floats, pa.float64()),
            "r": column(floats[:-1], pa.float32()),
            "s": column(texts, pa.string()), "t": column(texts, pa.string()),
            "b": column([None, True, False], pa.bool_()), "c": column([None, True, False], pa.bool_()),
            "ts": column(times, pa.timestamp("us")), "us": column(times, pa.timestamp("us")),
            "d": column([None, date(1969, 12, 31), date(2024, 2, 29)], pa.date32()),
            "m": column(decimals, pa.decimal128(6, 2)), "n": column(decimals, pa.decimal128(10, 3)),
            "span": column([None, 0, 5_000_000, -7], pa.duration("us")),
        }
    )  # fmt: skip


TABLE = random_table()


def col(name: str) -> Column:
    return Column("x", name, TABLE.schema.field(name).type)


def lit(value: Any, kind: pa.DataType | None = None) -> Literal:
    return Literal(value, kind or pa.scalar(value).type)


def call(function: str, *args: Expression) -> Call:
    return Call(function, args, result_type(function, [arg.type for arg in args]))


def cast(arg: Expression, kind: pa.DataType) -> Call:
    return Call("cast", (arg,), kind)


def run(expression: Expression, table: pa.Table = TABLE) -> pa.Array:
    result = evaluate(expression, lambda c: table[c.name].combine_chunks(), table.num_rows)
    assert result.type == expression.type
    assert len(result) == table.num_rows
    result.validate(full=True)
    return result


def one(expression: Expression) -> Any:
    """The value of an expression without columns."""
    return run(expression, pa.table({"x": [0]}))[0].as_py()


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET ieee_floating_point_ops = false; SET error_on_division_by_zero = false")
    connection.register("x", TABLE)
    return connection


def duck(sql: str) -> list[Any]:
    return _connection().sql(f"SELECT {sql} AS v FROM x").to_arrow_table()["v"].to_pylist()


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or math.isclose(left, right, rel_tol=1e-12)
    return bool(left == right)


def assert_like_duckdb(expression: Expression, sql: str) -> None:
    ours, theirs = run(expression).to_pylist(), duck(sql)
    different = [(n, a, b) for n, (a, b) in enumerate(zip(ours, theirs, strict=True)) if not same(a, b)]
    assert not different, f"{sql}: row, ours, DuckDB's: {different[:5]}"


i, j, f, g, r, s, t, b, c, ts, us, d, m, n, span = map(col, TABLE.schema.names)
SIGNS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@pytest.mark.parametrize(
    "pair", ["i j", "f g", "i f", "r f", "s t", "b c", "ts us", "ts d", "m n", "m i", "m f", "j m"]
)
@pytest.mark.parametrize("function", SIGNS)
def test_comparisons(function: str, pair: str) -> None:
    left, right = pair.split()
    assert_like_duckdb(call(function, col(left), col(right)), f"{left} {SIGNS[function]} {right}")


@pytest.mark.parametrize("function", SIGNS)
def test_nan_equals_itself_and_is_largest(function: str) -> None:
    assert_like_duckdb(call(function, f, lit(NAN)), f"f {SIGNS[function]} 'nan'::DOUBLE")
    assert_like_duckdb(call(function, lit(NAN), f), f"'nan'::DOUBLE {SIGNS[function]} f")


CASES: dict[str, Expression] = {
    "b AND c": call("and", b, c),
    "b OR c": call("or", b, c),
    "b AND c AND i > 0": call("and", b, c, call("gt", i, lit(0))),
    "NOT b": call("not", b),
    "f IS NULL": call("is_null", f),
    "(i % 1000000) + j": call("add", call("modulo", i, lit(1000000)), j),
    "(j::BIGINT) - i": call("subtract", j, i),
    "(j::BIGINT) * j": call("multiply", j, j),
    "f + g": call("add", f, g),
    "f * i": call("multiply", f, i),
    "m + n": call("add", m, n),
    "m - n": call("subtract", m, n),
    "m * n": call("multiply", m, n),
    "m + j": call("add", m, j),
    "m % n": call("modulo", m, n),
    "j / i": call("divide", j, i),
    "i / 0": call("divide", i, lit(0)),
    "f / g": call("divide", f, g),
    "m / n": call("divide", m, n),
    "i % j": call("modulo", i, j),
    "j % 3": call("modulo", j, lit(3)),
    "j % -3": call("modulo", j, lit(-3)),
    "-i": call("negate", i),
    "abs(i)": call("abs", i),
    "abs(f)": call("abs", f),
    "abs(m)": call("abs", m),
    "floor(f)": call("floor", f),
    "ceil(f)": call("ceil", f),
    "floor(m)": call("floor", m),
    "ceil(m)": call("ceil", m),
    "floor(j)": call("floor", j),
    "round(f)": call("round", f),
    "round(f, 1)": call("round", f, lit(1)),
    "round(m)": call("round", m),
    "sqrt(abs(f))": call("sqrt", call("abs", f)),
    "power(j, 2)": call("power", j, lit(2)),
    "greatest(f, g)": call("greatest", f, g),
    "least(f, g)": call("least", f, g),
    "greatest(i, j, 5)": call("greatest", i, j, lit(5)),
    "least(s, t)": call("least", s, t),
    "coalesce(f, g, 0)": call("coalesce", f, g, lit(0)),
    "coalesce(s, t)": call("coalesce", s, t),
    "coalesce(m, j)": call("coalesce", m, j),
    "nullif(f, 'nan'::DOUBLE)": call("nullif", f, lit(NAN)),
    "nullif(i, j)": call("nullif", i, j),
    "i IN (1, 7, 100, -7)": call("in", i, lit(1), lit(7), lit(100), lit(-7)),
    "i IN (1, NULL)": call("in", i, lit(1), lit(None)),
    "i IN (1, 2, 3, NULL)": call("in", i, lit(1), lit(2), lit(3), lit(None)),
    "f IN (0.0::DOUBLE, 'nan'::DOUBLE, 3)": call("in", f, lit(0.0), lit(NAN), lit(3)),
    "f IN (g, 3)": call("in", f, g, lit(3)),
    "i IN (1.5::DOUBLE, 7, 2, 3)": call("in", i, lit(1.5), lit(7), lit(2), lit(3)),
    "s IN ('a', 'ab', 'zz')": call("in", s, lit("a"), lit("ab"), lit("zz")),
    "s LIKE 'a%b'": call("like", s, lit("a%b")),
    "s LIKE 'a_b'": call("like", s, lit("a_b")),
    "s LIKE '%\\%'": call("like", s, lit("%\\%")),
    "s LIKE t": call("like", s, t),
    "s || t": call("concat", s, t),
    "s || '-' || t": call("concat", s, lit("-"), t),
    "lower(s)": call("lower", s),
    "upper(s)": call("upper", s),
    "trim(s)": call("trim", s),
    "length(s)": call("length", s),
    "substring(s, 2)": call("substring", s, lit(2)),
    "substring(s, 2, 2)": call("substring", s, lit(2), lit(2)),
    "substring(s, -2)": call("substring", s, lit(-2)),
    "substring(s, -2, 1)": call("substring", s, lit(-2), lit(1)),
    "substring(s, 0, 2)": call("substring", s, lit(0), lit(2)),
    "starts_with(s, 'a')": call("starts_with", s, lit("a")),
    "starts_with(s, t)": call("starts_with", s, t),
    "contains(s, 'b')": call("contains", s, lit("b")),
    "contains(s, t)": call("contains", s, t),
    "replace(s, 'a', 'xy')": call("replace", s, lit("a"), lit("xy")),
    "replace(s, t, 'z')": call("replace", s, t, lit("z")),
    "CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' ELSE s END": call(
        "case", call("gt", i, lit(0)), lit("p"), call("lt", i, lit(0)), lit("n"), s
    ),
    "CASE WHEN b THEN i ELSE f END": call("case", b, i, f),
    "CASE WHEN b THEN 1 ELSE NULL END": call("case", b, lit(1), lit(None)),
    "year(ts)": call("year", ts),
    "month(ts)": call("month", ts),
    "day(d)": call("day", d),
    "hour(ts)": call("hour", ts),
    "minute(ts)": call("minute", ts),
    "second(ts)": call("second", ts),
    "epoch_us(ts)": call("epoch_us", ts),
    **{
        f"date_trunc('{unit}', ts)": call("date_trunc", lit(unit), ts)
        for unit in ("millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
    },
    "ts + INTERVAL 5 SECOND": call("add", ts, lit(5_000_000, pa.duration("us"))),
    "ts - INTERVAL 5 SECOND": call("subtract", ts, lit(5_000_000, pa.duration("us"))),
    "d + INTERVAL 5 HOUR": call("add", d, lit(18_000_000_000, pa.duration("us"))),
    "ts > us + INTERVAL 1 SECOND": call("gt", ts, call("add", us, lit(1_000_000, pa.duration("us")))),
    "epoch_us(ts) - epoch_us(us)": cast(call("subtract", ts, us), pa.int64()),
    "CAST(j AS DOUBLE)": cast(j, pa.float64()),
    "CAST(i AS VARCHAR)": cast(i, pa.string()),
    "CAST(m AS VARCHAR)": cast(m, pa.string()),
    "CAST(b AS VARCHAR)": cast(b, pa.string()),
    "CAST(ts AS VARCHAR)": cast(ts, pa.string()),
    "CAST(d AS VARCHAR)": cast(d, pa.string()),
    "CAST(ts AS DATE)": cast(ts, pa.date32()),
    "CAST(d AS TIMESTAMP)": cast(d, pa.timestamp("us")),
    "CAST(j AS DECIMAL(10, 2))": cast(j, pa.decimal128(10, 2)),
    "CAST(n AS DECIMAL(10, 1))": cast(n, pa.decimal128(10, 1)),
    "CAST(m AS BIGINT)": cast(m, pa.int64()),
    "CAST(i AS BOOLEAN)": cast(i, pa.bool_()),
    "CAST(b AS INTEGER)": cast(b, pa.int32()),
    "CAST(CAST(f AS VARCHAR) AS DOUBLE)": cast(cast(f, pa.string()), pa.float64()),
}


@pytest.mark.parametrize("sql", CASES)
def test_functions(sql: str) -> None:
    assert_like_duckdb(CASES[sql], sql)


def test_every_function_of_the_language_is_there() -> None:
    missing = sorted(set(FUNCTIONS) - {*_STRICT, *_LENIENT, *_LAZY})
    assert not missing, f"{missing} of plan/ compute nothing yet: write their columns in a module of operators/scalar/"


def test_the_remainder_of_long_decimals_is_exact() -> None:
    left = ["1.5", "-7.25", "12345678901234567890123.75", "0", "5", None, "-99999999999999999.5"]
    right = ["1000000000000000000", "10000000000000000000000000", "-7.5", "3", "0", "2", "99999999999999998.25"]
    kinds = (pa.decimal128(38, 10), pa.decimal128(38, 2))
    columns = [
        pa.array([None if v is None else Decimal(v) for v in values], k)
        for values, k in zip((left, right), kinds, strict=True)
    ]
    names = [Column("", name, k) for name, k in zip("lr", kinds, strict=True)]
    made = run(call("modulo", *names), pa.table(columns, names=["l", "r"])).to_pylist()
    exact = Context(prec=100)
    pairs = zip(*(column.to_pylist() for column in columns), strict=True)
    assert made == [None if a is None or not b else exact.remainder(a, b) for a, b in pairs]


def test_float_modulo_has_the_sign_of_the_dividend_and_is_null_by_zero() -> None:
    table = pa.table({"f": [-7.5, 7.5, -7.5, 1.0, None, 5.0], "g": [2.0, -2.0, math.inf, 0.0, 1.0, None]})
    assert run(call("modulo", f, g), table).to_pylist() == [-1.5, 1.5, -7.5, None, None, None]
    assert one(call("modulo", lit(-7.5), lit(2.0))) == -1.5


def test_smallest_integer_modulo_minus_one_is_zero() -> None:
    assert one(call("modulo", lit(-(2**63)), lit(-1))) == 0


def test_large_integers_compare_exactly_with_integers_and_as_doubles_with_doubles() -> None:
    assert one(call("eq", lit(2**53), lit(2**53 + 1))) is False
    assert one(call("eq", lit(float(2**53)), lit(2**53 + 1))) is True
    assert one(call("lt", lit(-1), lit(2**64 - 1, pa.uint64()))) is True


def test_predicates_reject_null() -> None:
    kept = evaluate_predicate(call("gt", i, lit(0)), lambda column: TABLE[column.name].combine_chunks(), ROWS)
    assert kept.dtype == np.bool_
    assert kept.tolist() == [v is not None and v > 0 for v in TABLE["i"].to_pylist()]


def test_constant_predicates_have_one_entry_per_row() -> None:
    assert evaluate_predicate(lit(True), lambda column: pa.nulls(3), 3).tolist() == [True] * 3
    assert evaluate_predicate(lit(None, pa.bool_()), lambda column: pa.nulls(3), 3).tolist() == [False] * 3


@pytest.mark.parametrize("function", ["add", "subtract", "multiply", "eq", "in", "coalesce", "greatest"])
def test_a_bare_null_fits_everywhere(function: str) -> None:
    result = run(call(function, i, lit(None)))
    assert result.null_count == ROWS or function in ("coalesce", "greatest")


def test_event_time_is_the_given_column() -> None:
    times = pa.array([5, 6], pa.timestamp("us"))
    moved = call("add", EventTime(), lit(1, pa.duration("us")))
    result = evaluate(moved, lambda column: pa.nulls(2), 2, lambda: times)
    assert result.cast(pa.int64()).to_pylist() == [6, 7]


def test_intervals_add_negate_and_multiply() -> None:
    assert one(cast(call("multiply", lit(5, pa.duration("us")), lit(3)), pa.int64())) == 15
    assert one(cast(call("negate", lit(5, pa.duration("us"))), pa.int64())) == -5
    expected = [v is not None and v * 2 for v in TABLE["span"].cast(pa.int64()).to_pylist()]
    doubled = run(cast(call("add", span, span), pa.int64())).to_pylist()
    assert [v is not None and v for v in doubled] == expected


def test_zoned_and_plain_times_subtract_as_utc() -> None:
    zoned = lit(10, pa.timestamp("us", tz="Europe/Zurich"))
    assert one(cast(call("subtract", zoned, lit(4, pa.timestamp("us"))), pa.int64())) == 6
    moved = call("add", zoned, lit(5, pa.duration("us")))
    assert moved.type == pa.timestamp("us", tz="Europe/Zurich")
    assert one(moved) == datetime(1970, 1, 1, microsecond=15, tzinfo=UTC)
    assert one(cast(moved, pa.timestamp("us"))) == datetime(1970, 1, 1, 1, microsecond=15)  # what clocks show there


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        (" 12 ", pa.int64(), 12),
        ("+12", pa.int32(), 12),
        ("1e3", pa.float64(), 1000.0),
        ("1.255", pa.decimal128(10, 2), Decimal("1.26")),
        ("TRUE", pa.bool_(), True),
        ("2024-02-29", pa.date32(), date(2024, 2, 29)),
        ("2024-02-29 01:02:03.5", pa.timestamp("us"), datetime(2024, 2, 29, 1, 2, 3, 500_000)),
        ("2024-02-29T01:02:03+02:00", pa.timestamp("us"), datetime(2024, 2, 28, 23, 2, 3)),
        ("2024-02-29T01:02:03Z", pa.timestamp("us", tz="UTC"), datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)),
    ],
)
def test_text_is_read_as_in_sql(text: str, kind: pa.DataType, expected: Any) -> None:
    assert one(cast(lit(text), kind)) == expected


def test_floats_become_the_nearest_decimal() -> None:
    halves = pa.table({"f": [7.25, -7.25, 2.675, None]})
    assert run(cast(f, pa.decimal128(5, 1)), halves).to_pylist() == [
        Decimal("7.3"), Decimal("-7.3"), Decimal("2.7"), None
    ]  # fmt: skip


def test_the_reference_agrees_on_every_function() -> None:
    columns = {name: plain_column(TABLE[name].combine_chunks()) for name in TABLE.schema.names}
    rows = [Combination({"x": {name: columns[name][k] for name in columns}}) for k in range(0, ROWS, 4)]
    for sql, expression in CASES.items():
        ours = run(expression).to_pylist()[::4]
        theirs = [present(evaluate_row(expression, row), expression.type) for row in rows]
        assert all(same(a, b) for a, b in zip(ours, theirs, strict=True)), sql


def test_numbers_are_rounded_to_integers() -> None:
    assert one(cast(lit(2.9), pa.int64())) == 3
    assert one(cast(lit(-2.9), pa.int64())) == -3
    assert one(cast(lit(2.0), pa.string())) == "2.0"


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        (call("add", lit(2**63 - 1), lit(1)), "does not fit in BIGINT"),
        (call("multiply", lit(2**62), lit(2)), "does not fit in BIGINT"),
        (call("negate", lit(-(2**63))), "overflows"),
        (cast(lit("abc"), pa.int64()), "CAST('abc' AS BIGINT) fails"),
        (cast(lit(300), pa.int8()), "300"),
        (cast(lit(NAN), pa.int64()), "nan"),
        (cast(lit(10**6), pa.decimal128(4, 2)), "DECIMAL(4, 2)"),
        (cast(lit("soon"), pa.timestamp("us")), "soon"),
        (call("date_trunc", lit("fortnight"), lit(0, pa.timestamp("us"))), "fortnight"),
    ],
)
def test_rows_that_break_an_expression_are_a_data_error(expression: Expression, part: str) -> None:
    with pytest.raises(DataError) as caught:
        one(expression)
    assert part in str(caught.value)


def test_a_guard_protects_what_it_guards() -> None:
    table = pa.table({"s": ["1", "x", None, "3"]})
    number = cast(s, pa.int64())
    is_digit = call("in", s, lit("1"), lit("3"))
    assert run(call("case", is_digit, number, lit(-1)), table).to_pylist() == [1, -1, -1, 3]
    assert run(call("and", is_digit, call("gt", number, lit(2))), table).to_pylist() == [False, False, None, True]
    guarded = call("coalesce", call("case", call("eq", s, lit("x")), lit(0), lit(None)), call("nullif", number, lit(3)))
    assert run(guarded, table).to_pylist() == [1, 0, None, None]


def test_other_text_layouts_are_text() -> None:
    table = pa.table({"s": pa.array(["a", "b", None], pa.large_string())})
    wide = Column("x", "s", pa.large_string())
    assert run(call("upper", wide), table).to_pylist() == ["A", "B", None]
    assert run(call("eq", wide, lit("a")), table).to_pylist() == [True, False, None]


def test_no_rows_is_not_special() -> None:
    empty = TABLE.slice(0, 0)
    for expression in CASES.values():
        assert len(run(expression, empty)) == 0


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        (call("repeat", lit("abc"), lit(10**9)), "longer than 2 GB"),
        (call("lpad", lit("abc"), lit(10**9)), "is too long"),
        (call("sqrt", lit(-1)), "there is no square root of a negative number"),
        (call("ln", lit(0)), "there is no logarithm of zero"),
        (call("power", lit(0), lit(-1)), "zero has no negative powers"),
        (call("regexp_matches", lit("a"), lit("(")), "'(' is not a regular expression"),
        (call("strptime", lit("soon"), lit("%Y-%m-%d")), "'soon' is not written as '%Y-%m-%d'"),
        (call("strftime", lit(0, pa.timestamp("us")), lit("%Q")), "'%Q' has %Q, which is not known"),
        (call("format", lit("{} {}"), lit(1)), "asks for value 2, and 1 are given"),
        (call("json_extract", lit("nope"), lit("$.a")), "'nope' is not JSON"),
        (call("unhex", lit("zz")), "'zz' is not hexadecimal"),
        (call("make_date", lit(2024), lit(2), lit(30)), "there is no day 2024-2-30"),
        (call("shift_left", lit(1), lit(63)), "overflows"),
    ],
)
def test_what_a_function_is_not_defined_for_is_a_data_error(expression: Expression, part: str) -> None:
    with pytest.raises(DataError) as caught:
        run(expression, pa.table({"x": [0, 1]}))
    assert part in str(caught.value)


@pytest.mark.parametrize("digits", [-(2**63), -400, -308, -1, 0, 2, 308, 400, 2**63 - 1])
def test_doubles_are_rounded_to_any_number_of_digits(digits: int) -> None:
    halves = [1.005, 2.675, -0.5, 1e305, -7e307, math.inf, NAN, None]
    made = run(call("round", f, lit(digits)), pa.table({"f": halves})).to_pylist()
    by_duckdb = f"SELECT round(x, {max(-400, min(digits, 400))}) FROM (SELECT unnest($1::DOUBLE[]) AS x)"
    theirs = [value for (value,) in duckdb.execute(by_duckdb, [halves]).fetchall()]
    assert all(same(a, b) for a, b in zip(made, theirs, strict=True))


def test_a_width_beyond_all_memory_is_told() -> None:
    with pytest.raises(DataError, match="is wider than any text"):
        one(call("format", lit("{:9223372036854775807d}"), lit(1)))


@pytest.mark.parametrize(
    "expression",
    [
        call("split_part", col("s"), lit("b"), lit(1)),
        call("regexp_extract", col("s"), lit("a(.)"), lit(1)),
        call("coalesce", call("regexp_replace", col("s"), lit("a"), lit("é")), lit("none")),
        call("regexp_matches", col("s"), Literal(None, pa.string())),
    ],
    ids=str,
)
def test_a_text_that_many_rows_have_is_looked_at_once(expression: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counting(function: Function) -> Function:
        return lambda args, call: sizes.append(len(args[0])) or function(args, call)

    for name in _DEAR:
        monkeypatch.setitem(_STRICT, name, counting(_STRICT[name]))
    few = run(expression)
    copies = -(-ENOUGH // ROWS)
    assert run(expression, pa.concat_tables([TABLE] * copies)).to_pylist() == few.to_pylist() * copies
    assert sizes == [ROWS, len(TABLE["s"].unique())]
    different = pa.table({"s": [f"a{number}" for number in range(ENOUGH)]})
    run(expression, different)
    assert sizes[2:] == [ENOUGH]
