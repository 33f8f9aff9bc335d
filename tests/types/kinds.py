"""Columns of every type that Arrow has, each beside its rank: a whole number in whose place the same query must give
the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

AT = datetime(2026, 1, 1)
DAY = 86_400_000_000_000
# Which of the three values the rows of the two streams have; the last has none.
OF_A = (0, 1, 2, 1, None, 0)
OF_B = (1, None, 0, 2, 1)


@dataclass(frozen=True)
class Kind:
    """A type, and three values of it in their order; `inside` are the values as a query shows them."""

    type: pa.DataType
    values: Sequence[Any]
    inside: Sequence[Any]

    @property
    def is_nested(self) -> bool:
        return bool(pa.types.is_nested(self.type)) and not pa.types.is_run_end_encoded(self.type)

    @property
    def ranks(self) -> tuple[int | None, ...]:
        return tuple(_rank(self, place) for place in range(3))

    def rank(self, value: Any) -> int:
        """Of the values that are the same the first is asked for."""
        if isinstance(value, datetime) and value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return [repr(one) for one in self.inside].index(repr(value))

    def column(self, places: Sequence[int | None]) -> pa.Array:
        return made([None if place is None else self.values[place] for place in places], self.type)


def made(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pc.dictionary_encode(made(values, kind.value_type)).cast(kind)
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(made(values, kind.value_type), run_end_type=kind.run_end_type)
    if all(value is None for value in values):
        return pa.nulls(len(values), kind)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, made(values, kind.storage_type))
    return pa.array(values, kind)


def _kind(kind: pa.DataType, values: Sequence[Any], inside: Sequence[Any] | None = None) -> Kind:
    return Kind(kind, values, values if inside is None else inside)


def _times(unit: str) -> list[datetime]:
    finer = {"s": 0, "ms": 1_000, "us": 1, "ns": 1}[unit]
    return [datetime(1969, 12, 31, 23, 59, 59), AT, AT + timedelta(microseconds=finer or 1_000_000)]


_SPANS = [timedelta(days=-1), timedelta(seconds=1), timedelta(hours=30)]
_CLOCKS = [time(0), time(1, 2, 3), time(23, 59, 59)]
_DAYS = [date(1900, 1, 1), date(1970, 1, 1), date(2026, 2, 28)]
_TEXTS = ["", "A", "naïve ☃"]
_BYTES = [b"", b"\x00", b"\xff\x00"]
_LISTS = [[], [1], [2, 1]]
_PRICES = [Decimal("-1.50"), Decimal("0.00"), Decimal("12.25")]
_UUIDS = [UUID(int=1), UUID(int=2**127), UUID(int=2**128 - 1)]

KINDS: dict[str, Kind] = {
    "null": _kind(pa.null(), [None, None, None]),
    "bool": _kind(pa.bool_(), [False, True, True]),
    **{
        str(kind): _kind(kind, [-(2 ** (kind.bit_width - 1)), 0, 2 ** (kind.bit_width - 1) - 1])
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    },
    **{
        str(kind): _kind(kind, [0, 1, 2**kind.bit_width - 1])
        for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    },
    "float16": _kind(pa.float16(), [np.float16(-1.5), np.float16(0), np.float16("inf")], [-1.5, 0.0, float("inf")]),
    "float32": _kind(pa.float32(), [-1.5, 0.0, float("inf")]),
    "float64": _kind(pa.float64(), [float("-inf"), 0.1, 1e300]),
    "decimal32": _kind(pa.decimal32(5, 2), _PRICES),
    "decimal64": _kind(pa.decimal64(15, 2), _PRICES),
    "decimal128 short": _kind(pa.decimal128(18, 2), _PRICES),
    "decimal128": _kind(pa.decimal128(38, 2), _PRICES),
    "decimal256 short": _kind(pa.decimal256(38, 2), _PRICES),
    "date32": _kind(pa.date32(), _DAYS),
    "date64": _kind(pa.date64(), _DAYS),
    "time32[s]": _kind(pa.time32("s"), _CLOCKS),
    "time32[ms]": _kind(pa.time32("ms"), _CLOCKS),
    "time64[us]": _kind(pa.time64("us"), _CLOCKS),
    "time64[ns]": _kind(pa.time64("ns"), _CLOCKS),
    **{f"timestamp[{unit}]": _kind(pa.timestamp(unit), _times(unit)) for unit in ("s", "ms", "us", "ns")},
    **{
        f"timestamp[{unit}, {zone}]": _kind(pa.timestamp(unit, tz=zone), _times(unit))
        for unit, zone in (("s", "UTC"), ("ms", "+01:00"), ("us", "Europe/Berlin"), ("ns", "America/New_York"))
    },
    **{f"duration[{unit}]": _kind(pa.duration(unit), _SPANS) for unit in ("s", "ms", "us", "ns")},
    "interval": _kind(
        pa.month_day_nano_interval(),
        [(0, -1, 0), (0, 0, 1_000_000_000), (0, 1, DAY // 4)],
        [timedelta(days=-1), timedelta(seconds=1), timedelta(hours=30)],
    ),
    "string": _kind(pa.string(), _TEXTS),
    "large_string": _kind(pa.large_string(), _TEXTS),
    "string_view": _kind(pa.string_view(), _TEXTS),
    "binary": _kind(pa.binary(), _BYTES),
    "large_binary": _kind(pa.large_binary(), _BYTES),
    "binary_view": _kind(pa.binary_view(), _BYTES),
    "fixed binary": _kind(pa.binary(2), [b"\x00\x00", b"\x00\x01", b"\xff\x00"]),
    "list": _kind(pa.list_(pa.int32()), _LISTS),
    "large_list": _kind(pa.large_list(pa.int32()), _LISTS),
    "list_view": _kind(pa.list_view(pa.int32()), _LISTS),
    "large_list_view": _kind(pa.large_list_view(pa.int32()), _LISTS),
    "fixed list": _kind(pa.list_(pa.int32(), 2), [[0, 0], [0, 1], [1, 0]]),
    "list of odd": _kind(pa.list_(pa.dictionary(pa.int8(), pa.large_string())), [[], ["a"], ["b", None]]),
    "struct": _kind(pa.struct([("x", pa.int64())]), [{"x": 0}, {"x": 1}, {"x": 2}]),
    "map": _kind(pa.map_(pa.string(), pa.int8()), [[], [("a", 1)], [("b", 2)]]),
    "dictionary of text": _kind(pa.dictionary(pa.int8(), pa.string()), _TEXTS),
    "dictionary of large text": _kind(pa.dictionary(pa.uint32(), pa.large_string()), _TEXTS),
    "dictionary of numbers": _kind(pa.dictionary(pa.int32(), pa.int64()), [-1, 0, 2**62]),
    "dictionary of times": _kind(pa.dictionary(pa.int32(), pa.timestamp("ns")), _times("ns")),
    "run-end encoded": _kind(pa.run_end_encoded(pa.int32(), pa.int64()), [-1, 0, 2**62]),
    "run-end encoded text": _kind(pa.run_end_encoded(pa.int16(), pa.large_string()), _TEXTS),
    "run-end encoded times": _kind(pa.run_end_encoded(pa.int64(), pa.timestamp("ns")), _times("ns")),
    "uuid": _kind(pa.uuid(), [one.bytes for one in _UUIDS], [str(one) for one in _UUIDS]),
    "json": _kind(pa.json_(), ['"a"', "1", "{}"]),
    "bool8": _kind(pa.bool8(), [0, 1, 1], [False, True, True]),
    "opaque": _kind(pa.opaque(pa.binary(), "bignum", "DuckDB"), _BYTES),
}  # fmt: skip

# Types that no column of a query has, and why: more digits than are counted, values of several types, or what Arrow
# cannot cast inside of others.
UNKNOWN: dict[str, Kind] = {
    str(kind): _kind(kind, [None, None, None])
    for kind in (
        pa.decimal256(60, 2),
        pa.sparse_union([pa.field("k", pa.int32())]),
        pa.list_(pa.uuid()),
        pa.list_(pa.month_day_nano_interval()),
        pa.list_(pa.list_view(pa.int8())),
    )
}


def stream(kind: Kind, places: Sequence[int | None]) -> pa.Table:
    """Rows a second apart: `v` and `w` are of the kind, and `r` and `q` rank them."""
    count = len(places)
    turned = [*places[1:], places[0]]
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "ts": pa.array([AT + timedelta(seconds=one) for one in range(count)], pa.timestamp("us")),
            "v": kind.column(places),
            "w": kind.column(turned),
            "r": pa.array([_rank(kind, one) for one in places], pa.int64()),
            "q": pa.array([_rank(kind, one) for one in turned], pa.int64()),
        }
    )


def _rank(kind: Kind, place: int | None) -> int | None:
    """The first of the values that is the same; NULL for what is NULL."""
    if place is None or kind.values[place] is None:
        return None
    return list(kind.values).index(kind.values[place])
