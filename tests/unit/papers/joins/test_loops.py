"""Joins by loops that go on from a state."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.saving import Saved
from watersmeet.runtime.build import build

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])


def results(operator: Operator, alias: str, second: int) -> int:
    times = np.array([second * 1_000_000])
    rows = Rows(pa.record_batch([pa.array([1]), pa.array(times, pa.timestamp("us"))], schema=SCHEMA), times)
    found = [*operator.push(alias, rows), *operator.advance(dict.fromkeys("ab", second * 1_000_000 + 1))]
    return sum(batch.num_rows for batch in found)


@pytest.mark.parametrize("method", ["nested_loop", "hash"])
@pytest.mark.parametrize("arrivals", [1, 2, 3])
def test_what_was_cleaned_before_a_restart_is_cleaned_again(method: str, arrivals: int):
    """Arrivals are counted from the beginning again, so that marks of before mean others."""
    session = wm.Session()
    for name in "ab":
        session.stream(name, schema=SCHEMA, time="ts")
    windows = "a [RANGE 30 SECONDS], b [RANGE 30 SECONDS]"
    plan = session.sql(f"SELECT a.k, b.ts AS t FROM {windows} WHERE a.k = b.k OPTIONS (join = '{method}')").plan
    one, other = build(plan), build(plan)
    for second in range(arrivals):
        results(one, "ab"[second % 2], second)
    other.load(Saved.from_bytes(one.save().to_bytes()))
    assert [results(other, alias, 100 + i) for i, alias in enumerate("abab")] == [0, 1, 1, 2]
