"""Text that is not UTF-8. Arrow takes it as it comes, from Parquet and JSON and from whoever pushes, and would write it
into files that nobody can read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.errors import DataError, SourceError
from watersmeet.model.types import is_text

_FEW = 256  # values, which Arrow looks through sooner than NumPy has begun


def holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(holds_text(kind.field(place).type) for place in range(kind.num_fields))
    return is_text(kind)


def refuse_broken_text(batch: pa.RecordBatch) -> None:
    """Raises DataError that names the column and the row."""
    for place, field in enumerate(batch.schema):
        if holds_text(field.type) and not is_sound(column := batch.column(place)):
            row = int(np.flatnonzero(_broken(column))[0])
            raise DataError(
                f"column {field.name!r} holds text that is not UTF-8, in row {row + 1} of {batch.num_rows:,}",
                hint="write it anew in UTF-8; on_bad = 'skip' leaves such rows of a stream out",
            )


def is_sound(column: pa.Array) -> bool:
    if len(column) > _FEW and pa.types.is_string(column.type) and _is_ascii(column):
        return True
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def broken_rows(batch: pa.RecordBatch) -> npt.NDArray[np.bool_] | None:
    """Which rows hold such text; None: none of them."""
    wrong = [column for column in batch.columns if holds_text(column.type) and not is_sound(column)]
    return np.logical_or.reduce([_broken(column) for column in wrong]) if wrong else None


def _broken(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Where a column is not sound: it is halved, until what is not stands alone."""
    found = np.zeros(len(column), bool)
    parts = [(0, len(column))]
    while parts:
        start, end = parts.pop()
        if is_sound(_part(column, start, end)):
            continue
        if end - start == 1:
            found[start] = True
        else:
            middle = (start + end) // 2
            parts += [(start, middle), (middle, end)]
    return found


def _part(column: pa.Array, start: int, end: int) -> pa.Array:
    """Of nested values a copy: a slice of them is looked at with all that the whole holds."""
    return (
        column.take(pa.array(range(start, end)))
        if pa.types.is_nested(column.type)
        else column.slice(start, end - start)
    )


def _is_ascii(column: pa.Array) -> bool:
    """Most texts are, and all bytes at once are looked through in a tenth of the time."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
    if data is None or not 0 <= ends[0] <= ends[-1] <= data.size:
        return False
    signed = np.frombuffer(data, np.int8, ends[-1] - ends[0], ends[0])
    return not signed.size or bool(signed.min() >= 0)


def check_names(schema: pa.Schema, what: str) -> None:
    """Refuse names of columns that are not UTF-8, which Python could not even show."""
    try:
        schema.names  # noqa: B018  decoded when asked for
    except UnicodeDecodeError:
        raise SourceError(
            f"{what} has a column whose name is not UTF-8", hint="rename it where it comes from"
        ) from None


def readable_values(column: pa.Array) -> list[Any]:
    """The values of a column with such text, in which what is none is shown as `\\xff`."""
    return [_readable(one) for one in column.cast(_as_bytes(column.type)).to_pylist()]


def _readable(value: Any) -> Any:
    match value:
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case list() | tuple():
            return [_readable(one) for one in value]
        case dict():
            return {name: _readable(one) for name, one in value.items()}
    return value


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_as_bytes(part.type)) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(_as_bytes(kind.key_type), _as_bytes(kind.item_type))
    if pa.types.is_nested(kind):
        return pa.list_(_as_bytes(kind.value_type))
    return pa.binary() if is_text(kind) else kind
