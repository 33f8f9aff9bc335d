"""CAST of every type to every other: the engine over columns, the binder over constants, the reference and DuckDB give
the same for the same value, or all refuse it. What is different on purpose stands in the tables below."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm
from watersmeet.errors import BindError, DataError
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.model.types import arrow_type, sql_type
from watersmeet.operators.evaluate import evaluate
from watersmeet.plan.expressions import Call, Column, Literal
from watersmeet.plan.functions import check_cast
from watersmeet.reference.casts import single
from watersmeet.reference.evaluate import Combination
from watersmeet.reference.evaluate import evaluate as evaluate_row
from watersmeet.reference.values import plain, present
from watersmeet.sql import literals
from watersmeet.sql.bind import bind

REFUSED = "refused"
BEYOND = "a time that Python does not know"
INF, NAN = math.inf, math.nan
WHOLE = [0, 1, -1, 2, 99, 100, 127, 128, 255, 256, 2**15, 2**24 + 1, 2**31 - 1, 2**53 + 1, 2**63 - 1, -(2**63)]
FLOATS = [
    0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999999999999994, 1.005, 2.675, 0.1, 127.5, -128.5, 255.5, 99.995,
    999.5, 1e10, 123456789.125, 1e15, 1e16, 9007199254740993.0, 9.2233720368547748e18, 2.0**63, 2.0**64, 1e22, 1e23,
    1e37, 1e38, 1e39, 3.4028235677973366e38, 1e300, 1e-4, 1e-5, 5e-324, INF, -INF, NAN,
]  # fmt: skip
SINGLES = [0.0, -0.5, 1.5, 2.5, 0.1, 16777216.0, 1e10, 3e-5, 1e-4, 6.692648e13, 5726140.5, 1e16, 3.4028235e38, INF, NAN]
SHORT = ["0.00", "0.49", "0.50", "1.50", "2.50", "-0.50", "-1.50", "99.50", "99.99", "-99.99", "-0.01"]
LONG = [
    "0", "0.0000000001", "1.5000000000", "2.5", "0.4999999999", "127.5", "-128.5", "9223372036854775807.4",
    "9223372036854775807.5", "-9223372036854775808.4", "18446744073709551615", "9999999999999999999999999999",
    "9007199254740992.9999999999", "123456789.0123456789",
]  # fmt: skip
HUGE = ["0", "9007199254740993", "18446744073709551616", "99999999999999999999999999999999999999", "-1"]
FINE = ["0.00000000000000000000000000000000000001", "0.99999999999999999999999999999999999999", "-0.5", "0"]
TEXTS = [
    "", "a", "0", "1", "-1", " 12 ", "+12", "12.", ".5", "0.5", "-0.5", "1.5", "2.5", "-2.5", "1e2", "1E-2", "1.5e1",
    "1_000", "1__0", "_1", "0x1F", "0b101", "0xFFFFFFFFFFFFFFFF", "-0x10", "127.5", "99.995", "9223372036854775807",
    "9223372036854775808", "18446744073709551615", "1e30", "1e400", "-1e400", "1e39", "1e-400", "nan", "inf",
    "-Infinity", "0.1", "1.0000000596046448", "0.49999999999999999999999999", "1,5", "1.5.2", "true", " true ", "T",
    "yes", "No", "f", "on", "2", "é", "2024-02-29", "2024-2-9", "2024/02/09", "2023-02-29", "2024-02-29 12:30",
    "2024-02-29T12:30:01.5", "2024-02-29 12:30:01.1234567", "2024-02-29 1:2:3", "2024-02-29 25:00:00", "0000-01-01",
    "0001-01-01", "9999-12-31 23:59:59.999999", "soon",
]  # fmt: skip
DAYS = [date(1970, 1, 1), date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31)]
TIMES = [datetime(1970, 1, 1), datetime(2024, 2, 29, 12, 30, 1, 500_000), datetime(1969, 12, 31, 23, 59, 59, 999_999)]
SHOWN = ["1970-01-01 00:00:00", "2024-02-29 12:30:01.5", "1969-12-31 23:59:59.999999"]
SPANS = [timedelta(0), timedelta(minutes=90), timedelta(hours=-25, microseconds=1), timedelta(microseconds=500)]


def decimals(kind: pa.DataType, texts: list[str]) -> tuple[pa.DataType, list[Any]]:
    return kind, [Decimal(one) for one in texts]


def fitting(kind: pa.DataType) -> tuple[pa.DataType, list[Any]]:
    size = kind.bit_width
    signed = pa.types.is_signed_integer(kind)
    low, high = (-(2 ** (size - 1)), 2 ** (size - 1)) if signed else (0, 2**size)
    return kind, sorted({low, high - 1, *(one for one in WHOLE if low <= one < high)})


INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "UTINYINT", "UINT", "UBIGINT")
SOURCES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "BOOLEAN": (pa.bool_(), [True, False]),
    **{name: fitting(arrow_type(name)) for name in INTEGERS},
    "FLOAT": (pa.float32(), SINGLES),
    "DOUBLE": (pa.float64(), FLOATS),
    "DECIMAL(4, 2)": decimals(pa.decimal128(4, 2), SHORT),
    "DECIMAL(2, 2)": decimals(pa.decimal128(2, 2), ["0.00", "-0.05", "0.99"]),
    "DECIMAL(38, 10)": decimals(pa.decimal128(38, 10), LONG),
    "DECIMAL(38, 0)": decimals(pa.decimal128(38, 0), HUGE),
    "DECIMAL(38, 38)": decimals(pa.decimal128(38, 38), FINE),
    "STRING": (pa.string(), TEXTS),
    "BINARY": (pa.binary(), [b"", b"abc", b"\xff"]),
    "DATE": (pa.date32(), DAYS),
    "TIMESTAMP": (pa.timestamp("us"), TIMES),
    "TIMESTAMPTZ": (pa.timestamp("us", tz="UTC"), [one.replace(tzinfo=UTC) for one in TIMES]),
    "INTERVAL": (pa.duration("us"), SPANS),
}  # fmt: skip
TARGETS = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "UTINYINT", "UINT", "UBIGINT", "FLOAT", "DOUBLE",
    "DECIMAL(1, 1)", "DECIMAL(4, 2)", "DECIMAL(3, 0)", "DECIMAL(18, 3)", "DECIMAL(38, 0)", "DECIMAL(38, 20)",
    "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMPTZ",
]  # fmt: skip
# What is ours, where DuckDB gives something else; docs/language.md has the reasons.
DIFFERENT: dict[tuple[str, str], dict[Any, Any]] = {
    # 1 has no room in DECIMAL(1, 1); DuckDB gives 0.1.
    ("BOOLEAN", "DECIMAL(1, 1)"): {True: REFUSED},
    # A digit stands before every point; DuckDB writes .99.
    ("DECIMAL(2, 2)", "STRING"): {Decimal(one): one for one in ("0.00", "-0.05", "0.99")},
    ("DECIMAL(38, 38)", "STRING"): {Decimal(one): f"{Decimal(one):.38f}" for one in FINE},
    # Offsets have minutes, as those that are read may have.
    ("TIMESTAMPTZ", "STRING"): {
        one.replace(tzinfo=UTC): f"{shown}+00:00" for one, shown in zip(TIMES, SHOWN, strict=True)
    },
    # Bytes are text if they are UTF-8, and text is its bytes; DuckDB knows escapes of its own.
    ("BINARY", "STRING"): {b"\xff": REFUSED},
    ("STRING", "BINARY"): {"é": "é".encode()},
    # Blanks around a text do not matter for any type.
    ("STRING", "BOOLEAN"): {" true ": True},
    # What is too small for any digit is 0 in every type.
    ("STRING", "DECIMAL(1, 1)"): {"1E-2": Decimal("0.0"), "1e-400": Decimal("0.0")},
    # There is no time without end here, nor one before year 1.
    ("STRING", "DATE"): {"inf": REFUSED, "-Infinity": REFUSED, "0000-01-01": REFUSED},
    ("STRING", "TIMESTAMP"): {"inf": REFUSED, "-Infinity": REFUSED, "0000-01-01": REFUSED},
    ("STRING", "TIMESTAMPTZ"): {"inf": REFUSED, "-Infinity": REFUSED, "0000-01-01": REFUSED},
}
PAIRS = [(source, target) for source in SOURCES for target in TARGETS if source != target]


def refused(source: pa.DataType, target: pa.DataType) -> bool:
    try:
        check_cast(source, target)
    except TypeError:
        return True
    return False


def by_column(values: list[Any], source: pa.DataType, target: pa.DataType, function: str = "cast") -> list[Any] | str:
    try:
        call = Call(function, (Column("a", "x", source),), target)
        made = evaluate(call, lambda column: pa.array(values, source), len(values))
    except DataError:
        return REFUSED
    made.validate(full=True)
    assert made.type == target
    return list(made.to_pylist())


def by_constant(value: Any, source: pa.DataType, target: pa.DataType) -> Any:
    given = value // timedelta(microseconds=1) if isinstance(value, timedelta) else value
    try:
        return literals.cast(Literal(given, source), target).value
    except ValueError:
        return REFUSED


def by_reference(value: Any, source: pa.DataType, target: pa.DataType) -> Any:
    row = Combination({"a": {"x": plain(pa.scalar(value, source))}})
    try:
        return present(evaluate_row(Call("cast", (Column("a", "x", source),), target), row), target)
    except DataError:
        return REFUSED


_CONNECTIONS: list[Any] = []


def database() -> Any:
    if not _CONNECTIONS:
        _CONNECTIONS.append(duckdb.connect())
        _CONNECTIONS[0].execute("SET TimeZone = 'UTC'")
    return _CONNECTIONS[0]


def by_duckdb(values: list[Any], source: pa.DataType, target: pa.DataType) -> list[Any]:
    """Of each value; all are asked for at once, where what it refuses is NULL."""
    database().register("a", pa.table({"x": pa.array(values, source)}))
    name = {pa.uint32(): "UINTEGER"}.get(target, sql_type(target))
    try:
        found = database().sql(f"SELECT TRY_CAST(x AS {name}) AS v FROM a").to_arrow_table()["v"].cast(target)
    except duckdb.Error:
        return [REFUSED] * len(values)
    return [in_python(one) if one.is_valid else REFUSED for one in found]


def in_python(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except OverflowError:
        return BEYOND


def same(left: Any, right: Any) -> bool:
    # By their words: -0.0 is not 0.0, and NaN is NaN.
    return repr(left) == repr(right)


@pytest.mark.parametrize(("source_name", "target_name"), PAIRS)
def test_everyone_casts_alike(source_name: str, target_name: str) -> None:
    (source, values), target = SOURCES[source_name], arrow_type(target_name)
    different = DIFFERENT.get((source_name, target_name), {})
    ours = []
    for value, theirs in zip(values, by_duckdb(values, source, target), strict=True):
        made = REFUSED if refused(source, target) else by_column([value], source, target)
        ours.append(made if made == REFUSED else made[0])
        if not refused(source, target):
            assert same(ours[-1], by_constant(value, source, target)), f"a constant {value!r}"
            assert same(ours[-1], by_reference(value, source, target)), f"the reference of {value!r}"
        assert same(ours[-1], theirs) == (value not in different), f"{value!r}: {ours[-1]!r}, DuckDB {theirs!r}"
        assert value not in different or same(ours[-1], different[value]), f"{value!r}: {ours[-1]!r}"
    if not refused(source, target):
        tried = by_column([*values, None], source, target, "try_cast")
        assert all(map(same, tried, [*(None if one == REFUSED else one for one in ours), None]))


# -- decimals -------------------------------------------------------------------------------------------------------


def evaluated(sql: str, **columns: pa.Array) -> list[Any]:
    """What an expression of columns gives."""
    catalog = Catalog()
    times = pa.array([0] * max(map(len, columns.values()), default=1), pa.timestamp("us"))
    table = pa.table({**columns, "ts": times})
    catalog.add(Stream("a", table.schema, "ts"))
    ((_, expression),) = bind(f"SELECT {sql} AS v FROM a", catalog).root.columns
    made = evaluate(expression, lambda column: table[column.name].combine_chunks(), len(table))
    made.validate(full=True)
    return list(made.to_pylist())


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ROUND(d)", "100 -100 0"), ("CEIL(d)", "100 -99 1"), ("FLOOR(d)", "99 -100 0"), ("TRUNC(d)", "99 -99 0"),
        ("ROUND(d, 1)", "100.00 -100.00 0.00"), ("ROUND(d, -1)", "100.00 -100.00 0.00"), ("ROUND(d, -5)", "0 0 0"),
        ("ROUND(d, 50)", "99.99 -99.99 0.01"), ("CAST(d AS DECIMAL(5, 1))", "100.0 -100.0 0.0"),
        ("CAST(d AS INT)", "100 -100 0"), ("CAST(d AS DOUBLE)", "99.99 -99.99 0.01"),
        ("d % CAST(0.5 AS DECIMAL(2, 1))", "0.49 -0.49 0.01"),
    ],
)  # fmt: skip
def test_rounding_has_room_for_one_digit_more_whatever_else_is_in_the_batch(sql: str, expected: str) -> None:
    digits = [Decimal("99.99"), Decimal("-99.99"), Decimal("0.01")]
    wanted = [Decimal(one) for one in expected.split()]
    for chosen in ([0], [1], [2], [2, 0], [0, 1, 2]):
        column = pa.array([digits[place] for place in chosen], pa.decimal128(4, 2))
        found = [Decimal(str(one)) for one in evaluated(sql, d=column)]
        assert found == [wanted[place] for place in chosen]


def test_a_decimal_that_has_no_room_after_rounding_is_told_whatever_else_is_in_the_batch() -> None:
    for others in ([], ["0.01"], ["0.01", "99.99"]):
        column = pa.array([Decimal(one) for one in ["99.99", *others]], pa.decimal128(4, 2))
        with pytest.raises(DataError, match=r"99\.99 does not fit in DECIMAL\(3, 1\)"):
            evaluated("CAST(d AS DECIMAL(3, 1))", d=column)
        assert evaluated("TRY_CAST(d AS DECIMAL(3, 1))", d=column)[0] is None


def odd_digits(most: int, count: int = 2_000) -> list[int]:
    """Numbers whose bits are long runs of ones or zeros, with zeros behind them: what long division gets wrong."""
    chosen = random.Random(5)
    found: list[int] = []
    while len(found) < count:
        number = ((1 << chosen.randrange(1, 128)) - chosen.randrange(3)) * 10 ** chosen.randrange(38)
        if number < 10**most:
            found.append(number * chosen.choice((1, -1)))
    return found


@pytest.mark.parametrize("scale", [1, 9, 10, 15, 18, 19, 25, 38])
def test_no_digit_is_lost_on_the_way_to_fewer_of_them(scale: int) -> None:
    exact = Context(prec=100)
    given = [Decimal(one).scaleb(-scale, exact) for one in odd_digits(38)]
    column = pa.array(given, pa.decimal128(38, scale))
    for digits in (0, scale // 2):
        wanted = [one.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, exact) for one in given]
        fitting = [abs(one) < 10 ** (38 - scale) for one in wanted]
        made = evaluated(f"TRY_CAST(d AS DECIMAL(38, {digits}))", d=column)
        assert made == wanted
        rounded = pa.array([one for one, fits in zip(given, fitting, strict=True) if fits], column.type)
        kept = [one for one, fits in zip(wanted, fitting, strict=True) if fits]
        assert evaluated(f"ROUND(d, {digits})", d=rounded) == kept
    assert evaluated("CAST(CAST(d AS STRING) AS DECIMAL(38, 0))", d=column) == evaluated(
        "CAST(d AS DECIMAL(38, 0))", d=column
    )


@pytest.mark.parametrize(("precision", "scale"), [(4, 2), (15, 3), (18, 15), (20, 2), (38, 0), (38, 10), (38, 38)])
def test_a_decimal_becomes_the_nearest_floating_number(precision: int, scale: int) -> None:
    chosen, exact = random.Random(3), Context(prec=100)
    most = 10**precision - 1
    numbers = [most, -most, *(chosen.randint(-most, most) // 10 ** chosen.randrange(precision) for _ in range(2_000))]
    given = [Decimal(one).scaleb(-scale, exact) for one in (*numbers, *odd_digits(precision, 500))]
    column = pa.array([*given, None], pa.decimal128(precision, scale))
    assert evaluated("CAST(d AS DOUBLE)", d=column) == [*(float(Fraction(one)) for one in given), None]
    assert evaluated("CAST(d AS FLOAT)", d=column) == [*map(single, given), None]


def test_a_decimal_equals_the_double_that_is_written_like_it() -> None:
    chosen = random.Random(1)
    digits = [Decimal(chosen.randrange(10**9)).scaleb(-3) for _ in range(10_000)]
    start = datetime(2026, 1, 1)
    rows = pa.table(
        {
            "ts": [start + timedelta(seconds=place) for place in range(len(digits))],
            "d": pa.array(digits, pa.decimal128(12, 3)),
            "f": [float(one) for one in digits],
        }
    )
    session = wm.Session()
    session.stream("a", rows, time="ts")
    session.stream("b", rows, time="ts")
    assert session.sql("SELECT ts FROM a WHERE d = f").to_arrow().num_rows == len(digits)
    assert session.sql("SELECT a.ts FROM a, b WHERE a.d = b.f WINDOW = 0 SECONDS").to_arrow().num_rows == len(digits)
    between = session.sql("SELECT a.ts FROM a, b WHERE a.d <= b.f AND a.d >= b.f WINDOW = 0 SECONDS")
    assert between.to_arrow().num_rows == len(digits)


# -- constants ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        # With a point a constant is the decimal that is written; as a DOUBLE halves are rounded to even.
        ("CAST(2.5 AS INT)", 3), ("CAST(-2.5 AS INT)", -3), ("CAST((2.5) AS INT)", 3), ("TRY_CAST(2.5 AS INT)", 3),
        ("CAST(CAST(2.5 AS DOUBLE) AS INT)", 2), ("CAST(25e-1 AS INT)", 2), ("CAST('2.5' AS INT)", 3),
        ("CAST(1.005 AS DECIMAL(5, 2))", Decimal("1.01")), ("CAST(1.50 AS STRING)", "1.50"), ("2.5::INT", 3),
        ("CAST(1e16 AS STRING)", "1e+16"), ("CAST(true AS STRING)", "true"),
        ("CAST(DATE '2024-02-29' AS STRING)", "2024-02-29"),
        ("CAST(INTERVAL 90 MINUTES AS STRING)", "01:30:00"), ("CAST('2024-2-9 1:02' AS DATE)", date(2024, 2, 9)),
        ("CAST(99999999999999999999 AS STRING)", "99999999999999999999"), ("CAST(-0.0 AS DOUBLE)", 0.0),
        ("TRY_CAST('x' AS INT)", None), ("TRY_CAST(128 AS TINYINT)", None),
    ],
)  # fmt: skip
def test_constants_are_cast_as_columns_are(sql: str, expected: Any) -> None:
    (found,) = evaluated(sql)
    assert same(found, expected)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("CAST(9223372036854775807 AS TIMESTAMP)", "BIGINT cannot be cast to TIMESTAMP"),
        ("CAST(5 AS DATE)", "BIGINT cannot be cast to DATE"),
        ("CAST(true AS TIMESTAMP)", "BOOLEAN cannot be cast to TIMESTAMP"),
        ("CAST(INTERVAL 5 SECONDS AS BIGINT)", "INTERVAL cannot be cast to BIGINT"),
        ("CAST('abc' AS BIGINT)", "'abc' is not a BIGINT"),
        ("CAST(128 AS TINYINT)", "128 does not fit in TINYINT"),
        ("CAST(99.995 AS DECIMAL(4, 2))", "99.995 does not fit in DECIMAL(4, 2)"),
        ("CAST(1e400 AS DECIMAL(38, 0))", "inf does not fit in DECIMAL(38, 0)"),
        ("CAST('2023-02-29' AS DATE)", "'2023-02-29' is not a DATE"),
        ("CAST(99999999999999999999 AS BIGINT)", "99999999999999999999 does not fit in BIGINT"),
        ("CAST('5 apples' AS INTERVAL)", "5 apples"),
    ],
)
def test_a_constant_that_does_not_fit_is_told_when_the_query_is_read(sql: str, words: str) -> None:
    with pytest.raises(BindError) as caught:
        evaluated(sql)
    assert words in str(caught.value)


@pytest.mark.parametrize("beside", ["1_000", "abc", "", "1e38"])
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("9" * 38, "DECIMAL(38, 0)"),
        ("-" + "9" * 37, "DECIMAL(37, 0)"),
        ("9" * 28 + "." + "9" * 10, "DECIMAL(38, 10)"),
        ("0." + "9" * 38, "DECIMAL(38, 38)"),
    ],
)
def test_a_text_with_all_digits_of_its_type_is_read_whatever_else_is_in_the_batch(
    text: str, kind: str, beside: str
) -> None:
    session = wm.Session()
    session.stream("s", pa.table({"v": [text, beside], "ts": [datetime(2026, 1, 1)] * 2}), time="ts")
    query = session.sql(f"SELECT TRY_CAST(v AS {kind}) AS v FROM s")
    assert query.to_arrow()["v"].to_pylist()[0] == Decimal(text)
    assert wm.check(query).equal


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_of_day_is_written_without_digits_that_say_nothing(unit: str) -> None:
    kind = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    values = pa.array([0, 61_000_000, 3_661_500_000 if unit != "s" else 1_000_000], pa.int64())
    size = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}[unit]
    ticks = pc.multiply(values, 1_000) if unit == "ns" else pc.divide(values, size)
    column = pc.cast(pc.cast(ticks, pa.int32() if unit in ("s", "ms") else pa.int64()), kind)
    table = pa.table({"v": column, "ts": [datetime(2026, 1, 1)] * 3})
    session = wm.Session()
    session.stream("s", table, time="ts")
    query = session.sql("SELECT CAST(v AS VARCHAR) AS v FROM s")
    expected = [text for (text,) in duckdb.from_arrow(table).project("CAST(v AS VARCHAR)").fetchall()]
    assert query.to_arrow()["v"].to_pylist() == expected
    assert wm.check(query).equal


def test_only_blanks_of_ascii_are_passed_over_around_a_number() -> None:
    table = pa.table({"v": [" 1\t", "\u00a02", "\u30003"], "ts": [datetime(2026, 1, 1)] * 3})
    session = wm.Session()
    session.stream("s", table, time="ts")
    query = session.sql("SELECT TRY_CAST(v AS INT) AS v FROM s")
    expected = [one for (one,) in duckdb.from_arrow(table).project("TRY_CAST(v AS INT)").fetchall()]
    assert query.to_arrow()["v"].to_pylist() == expected == [1, None, None]
    assert wm.check(query).equal
