"""Random rows: bursts and silences, equal times, NULLs, copies, large and odd numbers, lists, streams without rows."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

SECOND = 1_000_000
EPOCH = dt.datetime(1970, 1, 1)
STARTS = (
    dt.datetime(2026, 1, 1, 12),
    dt.datetime(2024, 2, 28, 23, 59, 58),
    EPOCH,
    dt.datetime(1969, 12, 31, 23, 59, 50),
)
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("x", pa.int32()),
        ("y", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float64()),
        ("d", pa.decimal128(8, 2)),
        ("s", pa.string()),
        ("l", pa.list_(pa.int64())),
        ("ts", pa.timestamp("us")),
    ]
)
NAMES = pa.schema([("k", pa.int64()), ("name", pa.string()), ("rate", pa.decimal128(10, 4))])
HUGE = (0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, -(2**62), 2**31, -(2**31) - 1)
ODD = (0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), float("-inf"), 1e300, 5e-324, 0.1)
WORDS = ("", "a", "b", "ab", "a b", "Zürich", "b b a", "a,b", "%", "A")

Row = dict[str, Any]


@dataclass(frozen=True)
class Streams:
    """Rows of each stream in the order of their arrival, and of a static table."""

    rows: dict[str, list[Row]]
    lateness_us: int
    names: list[Row]

    def table(self, stream: str) -> pa.Table:
        return pa.Table.from_pylist(self.rows[stream], SCHEMA)

    def static(self) -> pa.Table:
        return pa.Table.from_pylist(self.names, NAMES)

    def replaced(self, stream: str, rows: list[Row]) -> Streams:
        return Streams({**self.rows, stream: rows}, self.lateness_us, self.names)


def micros(time: dt.datetime) -> int:
    return (time - EPOCH) // dt.timedelta(microseconds=1)


def moment(us: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=us)


def draw_streams(draw: random.Random, most: int = 25) -> Streams:
    start = micros(draw.choice(STARTS if draw.random() < 0.5 else STARTS[:1]))
    lateness = draw.choice((0, 0, SECOND, 7 * SECOND))
    rows = {stream: _arriving(draw, _draw_rows(draw, start, most), lateness) for stream in "abc"}
    names = [
        {
            "k": maybe(draw, lambda: draw.randint(0, 4)),
            "name": maybe(draw, lambda: draw.choice(WORDS)),
            "rate": maybe(draw, lambda: Decimal(draw.randint(-20000, 20000)).scaleb(-4)),
        }
        for _ in range(draw.choice((0, 1, 3, 6)))
    ]
    return Streams(rows, lateness, names)


def maybe(draw: random.Random, make: Any, share: float = 0.12) -> Any:
    return None if draw.random() < share else make()


def _draw_rows(draw: random.Random, start: int, most: int) -> list[Row]:
    count = draw.choice((0, 1, 2, most // 2, most, most))
    keys = draw.choice((1, 2, 5))
    gaps = draw.choice(
        (
            (0, 0, SECOND, 2 * SECOND),
            (1, SECOND // 4, SECOND, 3 * SECOND),
            (0, 1, SECOND, 4 * SECOND, 40 * SECOND),
            (0, 0, 0, 1000 * SECOND),
            (SECOND,),
        )
    )
    at, rows = start + draw.choice((0, 0, SECOND // 2, 5 * SECOND, 60 * SECOND)), list[Row]()
    for _ in range(count):
        if rows and draw.random() < 0.1:
            rows.append({**draw.choice(rows), "ts": moment(at)})
        else:
            rows.append(_draw_row(draw, keys, at))
        at += draw.choice(gaps)
    return rows


def _draw_row(draw: random.Random, keys: int, at: int) -> Row:
    return {
        "k": maybe(draw, lambda: draw.randint(0, keys)),
        "x": maybe(
            draw, lambda: draw.choice((draw.randint(-3, 5), draw.randint(-3, 5), draw.randint(-(10**6), 10**6)))
        ),
        "y": maybe(draw, lambda: draw.choice(HUGE)),
        "f": maybe(draw, lambda: draw.choice((draw.randint(-8, 8) / 4, draw.uniform(-1e6, 1e6)))),
        "g": maybe(draw, lambda: draw.choice(ODD)),
        "d": maybe(
            draw, lambda: Decimal(draw.choice((draw.randint(-300, 500), draw.randint(-(10**8), 10**8)))).scaleb(-2)
        ),
        "s": maybe(draw, lambda: draw.choice(WORDS)),
        "l": maybe(
            draw, lambda: [maybe(draw, lambda: draw.randint(0, 3)) for _ in range(draw.choice((0, 1, 1, 2, 5)))]
        ),
        "ts": moment(at),
    }


def _arriving(draw: random.Random, rows: list[Row], lateness_us: int) -> list[Row]:
    """Out of order by no more than the lateness."""
    order = {id(row): micros(row["ts"]) + (draw.randint(0, lateness_us) if lateness_us else 0) for row in rows}
    return sorted(rows, key=lambda row: order[id(row)])
