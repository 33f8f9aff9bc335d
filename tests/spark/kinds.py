"""A table with a column of every type that Spark and Arrow share."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

AT = datetime(2024, 3, 10, 7, 30, 0, 123_456)

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False, None]),
    "tiny": (pa.int8(), [-128, 127, None]),
    "small": (pa.int16(), [-(2**15), 2**15 - 1, None]),
    "medium": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "big": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "half": (pa.float32(), [0.5, float("inf"), None]),
    "real": (pa.float64(), [-0.1, 1e300, None]),
    "text": (pa.string(), ["", "naïve ☃ 𝄞", None]),
    "raw": (pa.binary(), [b"", b"\x00\xff\x00", None]),
    "money": (pa.decimal128(10, 2), [Decimal("-12345678.90"), Decimal("0.01"), None]),
    "huge": (pa.decimal128(38, 18), [Decimal("12345678901234567890.123456789012345678"), Decimal(0), None]),
    "day": (pa.date32(), [date(1900, 1, 1), date(2024, 2, 29), None]),
    "local": (pa.timestamp("us"), [AT, datetime(1969, 12, 31, 23, 59, 59, 999_999), None]),
    "instant": (pa.timestamp("us", tz="UTC"), [AT.replace(tzinfo=UTC), datetime(1, 1, 2, tzinfo=UTC), None]),
    "span": (pa.duration("us"), [timedelta(days=-1, microseconds=1), timedelta(hours=5), None]),
    "many": (pa.list_(pa.int32()), [[1, None, 3], [], None]),
    "nested": (pa.list_(pa.list_(pa.string())), [[["a"], None, []], [], None]),
    "pair": (pa.struct([("x", pa.int64()), ("y", pa.string())]), [{"x": 1, "y": None}, {"x": None, "y": "z"}, None]),
    "lookup": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], [], None]),
    "deep": (
        pa.struct([("l", pa.list_(pa.struct([("d", pa.decimal128(5, 1))])))]),
        [{"l": [{"d": Decimal("1.5")}, None]}, {"l": None}, None],
    ),
}
# Equality and ordering make sense for these.
KEYS = [
    "flag", "tiny", "small", "medium", "big", "half", "real", "text", "raw", "money", "huge", "day", "local", "instant",
]  # fmt: skip


def every_kind() -> pa.Table:
    """Three rows, the last one all NULL, with event times one second apart."""
    columns = {name: pa.array(values, kind) for name, (kind, values) in KINDS.items()}
    times = pa.array([AT + timedelta(seconds=i) for i in range(3)], pa.timestamp("us"))
    return pa.table({"id": pa.array([0, 1, 2], pa.int64()), "ts": times, **columns})
