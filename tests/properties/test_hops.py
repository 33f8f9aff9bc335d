"""The windows of TUMBLE and HOP, counted out: one begins at every multiple of the slide, shifted by the offset."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases

EPOCH = datetime(1970, 1, 1)
GROUPS = "SELECT window_start, window_end, COUNT(*) AS n FROM {} GROUP BY window_start, window_end"
BY_WAY = {
    "once": GROUPS,
    "once, a copy for each": GROUPS.replace("COUNT(*)", "COUNT(window_end)"),
    "as changes": GROUPS + " OPTIONS (emit = 'changes')",
    "as rows": "SELECT window_start, window_end, 1 AS n FROM {}",
}


@pytest.mark.parametrize("way", BY_WAY)
@random_cases(15)
@given(st.lists(st.integers(-20, 20), max_size=6), st.integers(1, 6), st.integers(0, 9), st.integers(-5, 5))
def test_a_row_is_in_the_windows_that_hold_its_time(
    way: str, seconds: list[int], slide: int, more: int, offset: int
) -> None:
    size = slide + more
    session = wm.Session()
    times = pa.array([EPOCH + timedelta(seconds=second) for second in sorted(seconds)], pa.timestamp("us"))
    session.stream("a", pa.table({"ts": times}), time="ts")
    query = session.sql(BY_WAY[way].format(f"HOP(a, {slide} SECONDS, {size} SECONDS, OFFSET {offset} SECONDS)"))
    found: Counter[datetime] = Counter()
    for row in query.to_arrow().to_pylist():
        assert row["window_end"] - row["window_start"] == timedelta(seconds=size)
        found[row["window_start"]] += -row["n"] if row.get("_op") == "-" else row["n"]
    starts = [offset + slide * n for n in range(-40, 41)]
    held = (
        EPOCH + timedelta(seconds=start) for second in seconds for start in starts if start <= second < start + size
    )
    assert +found == Counter(held)
    assert wm.check(query).equal
