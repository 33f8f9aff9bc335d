"""CAST of every type to every other: the engine over columns, the binder over constants, the reference and DuckDB give
the same for the same value, or all refuse it. What is different on purpose stands in the tables below."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from watersmeet.errors import DataError
from watersmeet.model.types import arrow_type, sql_type
from watersmeet.operators.evaluate import evaluate
from watersmeet.plan.expressions import Call, Column, Literal
from watersmeet.plan.functions import check_cast
from watersmeet.reference.evaluate import Combination
from watersmeet.reference.evaluate import evaluate as evaluate_row
from watersmeet.reference.values import plain, present
from watersmeet.sql import literals

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


def by_duckdb(value: Any, source: pa.DataType, target: pa.DataType) -> Any:
    database().register("a", pa.table({"x": pa.array([value], source)}))
    name = {pa.uint32(): "UINTEGER"}.get(target, sql_type(target))
    try:
        found = database().sql(f"SELECT CAST(x AS {name}) AS v FROM a").to_arrow_table()["v"]
        return found.cast(target)[0].as_py()
    except duckdb.Error:
        return REFUSED
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
    for value in values:
        made = REFUSED if refused(source, target) else by_column([value], source, target)
        ours.append(made if made == REFUSED else made[0])
        if not refused(source, target):
            assert same(ours[-1], by_constant(value, source, target)), f"a constant {value!r}"
            assert same(ours[-1], by_reference(value, source, target)), f"the reference of {value!r}"
        theirs = by_duckdb(value, source, target)
        assert same(ours[-1], theirs) == (value not in different), f"{value!r}: {ours[-1]!r}, DuckDB {theirs!r}"
        assert value not in different or same(ours[-1], different[value]), f"{value!r}: {ours[-1]!r}"
    if not refused(source, target):
        tried = by_column([*values, None], source, target, "try_cast")
        assert all(map(same, tried, [*(None if one == REFUSED else one for one in ours), None]))
