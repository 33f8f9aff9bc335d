"""Streams drawn as timelines.

`timeline("a: 1@0 2@5")` is stream `a` whose first row has value 1 at second 0 and whose second has value 2 at second
5, in the order they arrive. `-` is NULL. Each row also carries its name (`a1`, `a2`, …) and its second:

    v BIGINT, ts TIMESTAMP, id STRING, t DOUBLE
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import pyarrow as pa

from tests.runners import Bag, Source

EPOCH = datetime(1970, 1, 1)
SCHEMA = pa.schema([("v", pa.int64()), ("ts", pa.timestamp("us")), ("id", pa.string()), ("t", pa.float64())])


def timeline(drawing: str, **lateness: str) -> list[Source]:
    """One source for each line of a drawing; `lateness` by stream name."""
    lines = [line.partition(":") for line in drawing.strip().splitlines()]
    names = [name.strip() for name, _, _ in lines]
    rows = [row.split() for _, _, row in lines]
    return [
        Source(name, _table(name, row), "ts", lateness.get(name, "0 seconds"))
        for name, row in zip(names, rows, strict=True)
    ]


def static_table(name: str, /, **columns: list[object]) -> Source:
    return Source(name, pa.table(columns), time=None)


def _table(name: str, row: list[str]) -> pa.Table:
    cells = [cell.split("@") for cell in row]
    seconds = [None if t == "-" else float(t) for _, t in cells]
    columns = {
        "v": [None if v == "-" else int(v) for v, _ in cells],
        "ts": [None if s is None else EPOCH + timedelta(seconds=s) for s in seconds],
        "id": [f"{name}{i + 1}" for i in range(len(cells))],
        "t": seconds,
    }
    return pa.table(columns, schema=SCHEMA)


def combinations(bag: Bag) -> list[str]:
    """The rows of an answer as words, sorted, repeated as often as they occur."""
    return sorted(" ".join(map(str, row)) for row in bag.elements())


def changes(bag: Bag) -> list[str]:
    """A change log as words, such as `2 -7`: at second 2 the row 7 leaves. In order of time, what leaves first."""
    log = sorted(bag.elements(), key=lambda row: (row[1], row[0] == "+", str(row[2:])))
    return [f"{(at - EPOCH).total_seconds():.10g} {op}{' '.join(map(str, row))}" for op, at, *row in log]


def answer_at(bag: Bag, second: float) -> list[str]:
    """A change log summed up to a second: the rows of the answer there, as words, sorted."""
    until = EPOCH + timedelta(seconds=second)
    answer: Bag = Counter()
    for (op, at, *row), times in bag.items():
        if at <= until:
            answer[tuple(row)] += times if op == "+" else -times
    assert all(times >= 0 for times in answer.values()), "a row left that was not there"
    return sorted(" ".join(map(str, row)) for row in answer.elements())
