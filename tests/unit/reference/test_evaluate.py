"""The reference evaluates one row at a time; DuckDB says the same of every row."""

from __future__ import annotations

import math
from datetime import datetime

import pyarrow as pa
import pytest

from tests.unit.operators.test_evaluate import CASES, ROWS, SIGNS, TABLE, call, col, duck, lit, same
from watersmeet.plan.expressions import Column, EventTime, Expression
from watersmeet.reference.evaluate import Combination, evaluate, holds
from watersmeet.reference.values import plain_column, present

PAIRS = ["i j", "f g", "i f", "r f", "s t", "b c", "ts us", "ts d", "m n", "m i", "m f", "j m"]
COMPARISONS: dict[str, Expression] = {
    f"{left} {sign} {right}": call(function, col(left), col(right))
    for function, sign in SIGNS.items()
    for left, right in map(str.split, PAIRS)
}
VALUES = {name: plain_column(TABLE[name]) for name in TABLE.schema.names}


def row(k: int) -> Combination:
    return Combination({"x": {name: values[k] for name, values in VALUES.items()}})


@pytest.mark.parametrize("sql", [*CASES, *COMPARISONS])
def test_every_expression_has_the_value_duckdb_gives_it(sql):
    expression = {**CASES, **COMPARISONS}[sql]
    ours = [present(evaluate(expression, row(k)), expression.type) for k in range(ROWS)]
    different = [(k, a, b) for k, (a, b) in enumerate(zip(ours, duck(sql), strict=True)) if not same(a, b)]
    assert not different, f"row, ours, DuckDB's: {different[:5]}"


def test_nan_equals_itself_and_is_larger_than_infinity():
    nothing = Combination({})
    assert holds(call("eq", lit(math.nan), lit(math.nan)), nothing)
    assert holds(call("gt", lit(math.nan), lit(math.inf)), nothing)


def test_integers_are_exact_beyond_what_doubles_hold():
    assert not holds(call("eq", lit(2**53), lit(2**53 + 1)), Combination({}))


def test_division_and_modulo_by_zero_are_null():
    for function in ("divide", "modulo"):
        for zero in (lit(0), lit(0.0), lit(0, pa.decimal128(4, 2))):
            assert evaluate(call(function, lit(7), zero), Combination({})) is None


def test_a_guard_keeps_what_it_guards_from_being_evaluated():
    number = call("eq", Column("absent", "x", pa.int64()), lit(1))
    assert evaluate(call("and", lit(False), number), Combination({})) is False
    assert evaluate(call("or", lit(True), number), Combination({})) is True
    assert evaluate(call("coalesce", lit(3), Column("absent", "x", pa.int64())), Combination({})) == 3


def test_event_time_is_presented_as_a_timestamp():
    value = evaluate(EventTime(), Combination({}, 1_500_000_000))
    assert present(value, EventTime().type) == datetime(1970, 1, 1, 0, 0, 1, 500_000)
