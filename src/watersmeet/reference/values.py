"""Arrow values as plain Python ones and back.

Inside the reference every instant (timestamp or date) and every interval is an int of nanoseconds, so that
values of different units and zones compare and add exactly. Everything else is the Python value Arrow gives.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.model.types import is_instant

Value = Any  # None, bool, int, float, Decimal, str or bytes; lists of them, and structs as dicts

_UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_NS = 86_400_000_000_000


def plain_column(column: Iterable[Any]) -> list[Value]:
    """The values of one column, in order."""
    return [plain(scalar) for scalar in column]


def plain(scalar: Any) -> Value:
    """One Arrow scalar as a reference value."""
    if not scalar.is_valid:
        return None
    if tick := tick_ns(scalar.type):
        return int(scalar.value) * tick
    if pa.types.is_struct(scalar.type):
        return {name: plain(part) for name, part in scalar.items()}
    if pa.types.is_map(scalar.type):
        return [tuple(plain(part) for part in entry.values()) for entry in scalar.values]
    return [plain(entry) for entry in scalar.values] if pa.types.is_nested(scalar.type) else scalar.as_py()


def present(value: Value, data_type: pa.DataType) -> Any:
    """A reference value as the Python value that Arrow would give for this type."""
    if value is None:
        return None
    if pa.types.is_struct(data_type):
        return {part.name: present(value[part.name], part.type) for part in data_type}
    if pa.types.is_map(data_type):
        return [(present(key, data_type.key_type), present(item, data_type.item_type)) for key, item in value]
    if pa.types.is_nested(data_type):
        return [present(entry, data_type.value_type) for entry in value]
    tick = tick_ns(data_type)
    if tick is None:
        return value
    storage = pa.int32() if pa.types.is_date32(data_type) else pa.int64()
    return pa.scalar(value // tick, storage).cast(data_type).as_py()


def tick_ns(data_type: Any) -> int | None:
    """Nanoseconds in one step of an instant or interval type; None for other types."""
    if pa.types.is_date32(data_type):
        return _DAY_NS
    if pa.types.is_date64(data_type):
        return _UNIT_NS["ms"]
    if is_instant(data_type) or pa.types.is_duration(data_type):
        return _UNIT_NS[data_type.unit]
    return None


def coerce(value: Value, target: pa.DataType) -> Value:
    """A value in the wider type it is compared or computed in; instants and text are already in theirs."""
    if value is None:
        return None
    if pa.types.is_float32(target):
        # Python has no floats of 32 bits; NumPy rounds to the nearest.
        return float(np.float32(value))
    if pa.types.is_floating(target):
        return float(value)
    if pa.types.is_decimal(target):
        return value if isinstance(value, Decimal) else Decimal(value)
    return value
