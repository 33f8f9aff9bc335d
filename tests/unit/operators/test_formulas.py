"""Formulas of numbers give for a few rows what Arrow gives for many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases
from watersmeet.operators.answers import as_batch
from watersmeet.operators.contract import Rows
from watersmeet.operators.select import Select
from watersmeet.plan.nodes import Project

SCHEMA = pa.schema({"k": pa.int64(), "i": pa.int32(), "b": pa.int8(), "x": pa.float64(), "y": pa.float64(),
                    "f": pa.float32(), "ts": pa.timestamp("us")})  # fmt: skip
LARGEST = 2**63 - 1


def select_of(sql: str) -> Select:
    session = wm.Session()
    session.stream("a", schema=SCHEMA, time="ts")
    root = session.sql(sql).plan.root
    assert isinstance(root, Project)
    return Select(root.child.predicates, root.columns)  # type: ignore[union-attr]


def rows_of(values: dict[str, list[Any]]) -> Rows:
    count = len(values["k"])
    times = np.arange(count) + 10**15
    columns = [pa.array(values[name], SCHEMA.field(name).type) for name in SCHEMA.names[:-1]]
    return Rows(pa.record_batch([*columns, pa.array(times).cast(SCHEMA.field("ts").type)], schema=SCHEMA), times)


def results(found: list[Any]) -> list[Any]:
    made = [as_batch(one) for one in found]
    return [tuple(map(repr, row.values())) for batch in made for row in batch.to_pylist()]


def outcome(push: Callable[[], list[Any]]) -> list[Any] | str:
    try:
        return results(push())
    except wm.DataError as error:
        return str(error)


NUMBERS = ["k", "i", "b", "x", "y", "1", "(-3)", "2.5", "0", "9007199254740993"]


@st.composite
def numbers(draw: st.DrawFn, depth: int = 2) -> str:
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(NUMBERS))
    if draw(st.integers(0, 5)) == 0:
        return f"(- {draw(numbers(depth - 1))})"
    return f"({draw(numbers(depth - 1))} {draw(st.sampled_from('+-*'))} {draw(numbers(depth - 1))})"


@st.composite
def truths(draw: st.DrawFn, depth: int = 2) -> str:
    if depth == 0 or draw(st.booleans()):
        sign = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
        return f"({draw(numbers(1))} {sign} {draw(numbers(1))})"
    if draw(st.integers(0, 4)) == 0:
        return f"(NOT {draw(truths(depth - 1))})"
    return f"({draw(truths(depth - 1))} {draw(st.sampled_from(['AND', 'OR']))} {draw(truths(depth - 1))})"


@st.composite
def some_rows(draw: st.DrawFn) -> dict[str, list[Any]]:
    count = draw(st.integers(1, 5))
    odd = st.sampled_from([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e308, 5e-324, 9007199254740992.0])
    real = odd | st.integers(-4, 4).map(float) | st.floats()
    kinds = {
        "k": st.sampled_from([LARGEST, -LARGEST - 1, 9007199254740993]) | st.integers(-4, 4),
        "i": st.sampled_from([2**31 - 1, -(2**31)]) | st.integers(-4, 4),
        "b": st.integers(-128, 127), "x": real, "y": real, "f": st.floats(width=32),
    }  # fmt: skip
    return {name: draw(st.lists(one, min_size=count, max_size=count)) for name, one in kinds.items()}


@random_cases(150)
@given(st.lists(numbers(), min_size=1, max_size=3), st.lists(truths(), max_size=2), some_rows())
def test_a_few_rows_are_chosen_and_computed_as_many_are(columns: list[str], tests: list[str], given: Any) -> None:
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    select = select_of(f"SELECT f, ts, {', '.join(f'{e} AS c{n}' for n, e in enumerate(columns))} FROM a{where}")
    rows = rows_of(given)
    assert outcome(lambda: list(select.answers_to("a", rows))) == outcome(lambda: list(select.push("a", rows)))


@pytest.mark.parametrize(
    ("sql", "is_formula"),
    [
        ("SELECT k, x * 2 AS y2, f, ts FROM a WHERE x > 1 AND NOT (k = i OR b < 3)", True),
        ("SELECT k / 2 AS h FROM a", False),
        ("SELECT k FROM a WHERE f > 1", False),
        ("SELECT k FROM a WHERE x IS NULL", False),
        ("SELECT x > 1 AS flag FROM a", False),
        ("SELECT EVENT_TIME() AS at FROM a", False),
    ],
)
def test_numbers_are_formulas_and_all_else_is_not(sql: str, is_formula: bool) -> None:
    assert (select_of(sql)._few is not None) == is_formula


def test_rows_with_a_null_go_the_usual_way() -> None:
    select = select_of("SELECT k + i AS z FROM a WHERE x > 1")
    given = {"k": [1, None, 3], "i": [1, 2, 3], "b": [0] * 3, "x": [2.0, 3.0, None], "y": [0.0] * 3, "f": [0.0] * 3}
    assert results(select.answers_to("a", rows_of(given))) == [("2",), ("None",)]
    assert select.counters.results == 2
