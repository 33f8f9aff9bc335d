"""Scans by two columns at once: bounds that are worked out of the rows that are held, on either side of the new row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm

ROWS, WINDOW_US = 3_000, 200


def stream(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    low = random.integers(0, 1_000, ROWS)
    return pa.table({
        "id": np.arange(ROWS), "v": random.integers(0, 1_000, ROWS),
        "low": low, "high": low + random.integers(0, 90, ROWS),
        "f": random.choice([0.5, -0.0, 0.0, np.inf, 3.25, 700.0], ROWS) + low,
        "ts": pa.array(np.sort(random.integers(0, 4_000, ROWS)), pa.timestamp("us")),
    })  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "fits"),
    [
        ("a.v BETWEEN b.low AND b.high", lambda a, b: (a["v"] >= b["low"]) & (a["v"] <= b["high"])),
        ("a.f BETWEEN b.f - 2.5 AND b.f + 2.5", lambda a, b: (a["f"] >= b["f"] - 2.5) & (a["f"] <= b["f"] + 2.5)),
        ("a.v > b.low AND a.low < b.v AND a.high > b.high",
         lambda a, b: (a["v"] > b["low"]) & (a["low"] < b["v"]) & (a["high"] > b["high"])),
    ],
    ids=["interval", "band", "three"],
)  # fmt: skip
@pytest.mark.parametrize("first", ["a", "b"])
def test_rows_are_found_by_two_columns(condition: str, fits, first: str):
    tables = {"a": stream(1), "b": stream(2)}
    session = wm.Session()
    for name in (first, "b" if first == "a" else "a"):
        session.stream(name, tables[name], time="ts")
    sql = f"SELECT a.id AS x, b.id AS y FROM {first}, {'b' if first == 'a' else 'a'} WHERE {condition}"
    found = session.sql(f"{sql} WINDOW = {WINDOW_US} MICROSECONDS").to_arrow()
    columns = [
        {
            name: np.asarray(one).astype("i8") if name == "ts" else np.asarray(one)
            for name, one in zip(t.column_names, t.columns, strict=True)
        }
        for t in tables.values()
    ]
    a = {name: values[:, None] for name, values in columns[0].items()}
    b = {name: values[None, :] for name, values in columns[1].items()}
    expected = np.argwhere(fits(a, b) & (np.abs(a["ts"] - b["ts"]) <= WINDOW_US))
    assert len(expected) > 1_000
    assert sorted(zip(found["x"].to_pylist(), found["y"].to_pylist(), strict=True)) == list(
        map(tuple, expected.tolist())
    )
