"""Batches as Python rows, for outputs that are text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from watersmeet.model.time import cast_timestamps


def python_rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """The rows as tuples. Python's times end at the microsecond, so finer digits are cut off."""
    columns = [_values(_without_nanoseconds(column)) for column in batch.columns]
    return zip(*columns, strict=True)


def _values(column: pa.Array) -> list[Any]:
    """Python's dates end with the year 9999; a column with others becomes text."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return list(column.cast(pa.string()).to_pylist())


def _without_nanoseconds(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return cast_timestamps(column, pa.timestamp("us", tz=kind.tz))
    if pa.types.is_duration(kind) and kind.unit == "ns":
        return column.cast(pa.duration("us"), safe=False)
    return column
