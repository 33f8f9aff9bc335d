"""Batches as Python rows, for outputs that are text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def python_rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """The rows as tuples. Python's times end at the microsecond, so finer digits are cut off."""
    columns = [_without_nanoseconds(column).to_pylist() for column in batch.columns]
    return zip(*columns, strict=True)


def _without_nanoseconds(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return column.cast(pa.timestamp("us", tz=kind.tz), safe=False)
    if pa.types.is_duration(kind) and kind.unit == "ns":
        return column.cast(pa.duration("us"), safe=False)
    return column
