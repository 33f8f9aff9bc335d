"""Rows of groups that come and go in numbers: more groups than there is room for at first, and rows that leave with the
batch they came in."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.plain_sql import said_by_duckdb
from watersmeet.operators.continuous.expiry import Born
from watersmeet.operators.continuous.grouped_rows import GroupedRows
from watersmeet.operators.continuous.row_table import RowTable

ROWS, GROUPS = 4_000, 1_500
VALUES = {
    "numbers": "COUNT(x) AS n, SUM(x) AS s, MIN(i) AS i, MAX(d) AS d",
    "one column": "AVG(i) AS m, COUNT(i) AS c, MIN(i) AS l, MAX(i) AS g, SUM(x) AS s",
    "texts": "MAX(t) AS t, COUNT(*) AS n",
    "nothing": "",
}


def rows_of(window_us: int) -> pa.Table:
    """With NULLs, zeros of both signs and NaNs among the values, in windows that hold few rows or many."""
    rng = np.random.default_rng(window_us)
    x = rng.choice([0.0, -0.0, math.nan, 1.5, 2.5], ROWS)
    return pa.table({
        "k": pa.array(rng.integers(0, GROUPS, ROWS), mask=rng.random(ROWS) < 0.01),
        "x": pa.array(x, mask=rng.random(ROWS) < 0.2, from_pandas=False),
        "i": pa.array(rng.integers(0, 5, ROWS), pa.int16(), mask=rng.random(ROWS) < 0.2),
        "d": pa.array(rng.integers(0, 9, ROWS), pa.int32()).cast(pa.date32()),
        "t": pa.array([f"text {n}" for n in rng.integers(0, 9, ROWS)], mask=rng.random(ROWS) < 0.2),
        "ts": pa.array(np.sort(rng.integers(0, ROWS, ROWS)), pa.timestamp("us")),
    })  # fmt: skip


@pytest.mark.parametrize("window_us", [3, 3_000])
@pytest.mark.parametrize("values", VALUES)
def test_what_enters_is_what_leaves_and_all_is_right_at_an_instant(values: str, window_us: int) -> None:
    session = wm.Session()
    table = rows_of(window_us)
    session.stream("a", table, time="ts")
    selected = f"k, {VALUES[values]}" if VALUES[values] else "k"
    sql = f"SELECT {'' if VALUES[values] else 'DISTINCT '}{selected} FROM a [RANGE {window_us} MICROSECONDS]"
    query = session.sql(sql + (" GROUP BY k" if VALUES[values] else ""))
    there: Counter[str] = Counter()
    instant, checked = 2_000, False
    for row in [one for batch in query.batches() for one in batch.to_pylist()]:
        op, at = row.pop("_op"), row.pop("_ts")
        if not checked and at.microsecond + 1_000_000 * at.second > instant:
            checked = True
            assert +there == expected_at(table, instant, window_us, values)
        said = str({name: 0.0 if value == 0 and name == "s" else value for name, value in row.items()})
        if op == "-":
            assert there[said] > 0, f"{said} leaves and is not there"
        there[said] += 1 if op == "+" else -1
    assert checked
    assert not +there


def expected_at(table: pa.Table, instant: int, window_us: int, values: str) -> Counter[str]:
    inside = f"epoch_us(ts) BETWEEN {instant - window_us} AND {instant}"
    sums = VALUES[values].replace("SUM(x)", "SUM(x) + 0.0")
    sql = f"SELECT k, {sums} FROM a WHERE {inside} GROUP BY k" if sums else f"SELECT DISTINCT k FROM a WHERE {inside}"
    return Counter(str(row) for row in said_by_duckdb(sql, {"a": table}).to_pylist())


def test_arguments_that_are_equal_are_held_once() -> None:
    keys = pa.schema([("key_0", pa.int64())])
    schema = pa.schema([*keys, ("arg_0", pa.int64()), ("arg_1", pa.int64()), ("arg_2", pa.string())])
    same = {"arg_0": "arg_0", "arg_1": "arg_0", "arg_2": "arg_2"}
    rows = GroupedRows(schema, 1, lambda data, count: np.zeros(count, np.int64), RowTable(keys), same)
    one, other, _ = rows.columns
    assert one is other
    count = 5_000  # more than there is room for at first
    numbers = np.arange(count)
    words = pa.array([str(n) for n in range(count)])
    data = pa.record_batch([pa.array(0 * numbers), pa.array(numbers), pa.array(numbers), words], schema=schema)
    rows.enter(Born(data, numbers, numbers + 1_000, numbers, {}))
    left = rows.leave(2_000).data
    assert left.column(1).to_pylist() == left.column(2).to_pylist() == list(range(1_000))
    assert left.column(3).to_pylist() == words.to_pylist()[:1_000]
