"""Type rules: what each function takes and gives."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.plan.functions import aggregate_name, aggregate_type, check_cast, near_name, result_type, scalar_name

INT, LONG, DOUBLE, TEXT, BOOL = pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_()
TIME, ZONED, SPAN, DAY = pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.duration("us"), pa.date32()


@pytest.mark.parametrize(
    ("function", "args", "result"),
    [
        ("add", [INT, INT], LONG), ("add", [INT, pa.float32()], DOUBLE), ("divide", [INT, INT], DOUBLE),
        ("add", [TIME, SPAN], TIME), ("add", [SPAN, ZONED], ZONED), ("subtract", [TIME, SPAN], TIME),
        ("subtract", [TIME, ZONED], SPAN), ("subtract", [DAY, TIME], SPAN), ("add", [DAY, SPAN], TIME),
        ("add", [SPAN, SPAN], SPAN), ("multiply", [SPAN, INT], SPAN), ("multiply", [LONG, SPAN], SPAN),
        ("add", [pa.decimal128(5, 2), pa.decimal128(5, 3)], pa.decimal128(7, 3)),
        ("multiply", [pa.decimal128(30, 2), pa.decimal128(30, 2)], pa.decimal128(38, 4)),
        ("add", [pa.null(), INT], LONG), ("eq", [INT, DOUBLE], BOOL), ("eq", [pa.null(), TEXT], BOOL),
        ("lt", [DAY, TIME], BOOL), ("in", [TEXT, TEXT, pa.null()], BOOL), ("abs", [SPAN], SPAN),
        ("case", [BOOL, INT, BOOL, LONG, pa.null()], LONG), ("greatest", [INT, DOUBLE], DOUBLE),
        ("floor", [pa.decimal128(5, 2)], pa.decimal128(4, 0)), ("date_trunc", [TEXT, ZONED], ZONED),
    ],
)  # fmt: skip
def test_result_types(function: str, args: list[pa.DataType], result: pa.DataType) -> None:
    assert result_type(function, args) == result


@pytest.mark.parametrize(
    ("function", "args"),
    [
        ("eq", [TEXT, INT]), ("eq", [TIME, INT]), ("lt", [BOOL, INT]), ("in", [INT, TEXT]), ("add", [TIME, TIME]),
        ("add", [TIME, INT]), ("add", [TEXT, TEXT]), ("subtract", [SPAN, TIME]), ("multiply", [SPAN, SPAN]),
        ("and", [INT, BOOL]), ("lower", [INT]), ("sqrt", [TEXT]), ("year", [INT]), ("coalesce", [INT, TEXT]),
        ("case", [INT, INT, INT]), ("substring", [TEXT, TEXT]), ("round", []), ("lower", [TEXT, TEXT]), ("nothing", []),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(function: str, args: list[pa.DataType]) -> None:
    with pytest.raises(TypeError):
        result_type(function, args)


def test_aggregates_need_numbers_where_they_compute() -> None:
    assert aggregate_type("sum", [INT]) == LONG
    assert aggregate_type("count", []) == LONG
    assert aggregate_type("max", [TEXT]) == TEXT
    for function in ("sum", "avg", "median", "stddev", "variance"):
        with pytest.raises(TypeError, match="needs a number"):
            aggregate_type(function, [TEXT])


def test_sql_names_lead_to_canonical_ones() -> None:
    assert scalar_name("SUBSTR") == "substring"
    assert scalar_name("eq") is None
    assert aggregate_name("Mean") == "avg"
    assert near_name("coalese") == "COALESCE"


def test_casts_between_kinds_are_refused() -> None:
    check_cast(TEXT, TIME)
    check_cast(INT, TEXT)
    with pytest.raises(TypeError):
        check_cast(INT, TIME)
