"""Between Arrow columns and the arrays that kernels read and write."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.codes import Mask
from watersmeet.operators.continuous.aggregates.contract import Cells, Int64s, frozen
from watersmeet.operators.kernels.digits import decimals_to_doubles

TEN_DIGITS = 9  # powers of ten up to 10**9 are divisors below 2**31


def live(changes: Cells, values: pa.Array | None) -> Int64s:
    """The diffs, with 0 where the value is NULL and the change therefore none."""
    if values is None or not values.null_count:
        return changes.diffs
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return frozen(np.where(valid, changes.diffs, 0))


def column(data_type: pa.DataType, data: npt.NDArray[Any], valid: Mask) -> pa.Array:
    """A column of fixed-width values over the bytes of an array."""
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(data_type, valid.size, [bitmap, pa.py_buffer(data)])


def words_of(values: pa.Array, width: int = 1) -> Int64s:
    """The int64 words of a column of 64-bit values, or of 128-bit ones with width 2."""
    if not len(values):
        return frozen(np.empty(0, np.int64))
    raw = np.frombuffer(values.buffers()[1], np.int64)
    return frozen(raw[width * values.offset : width * (values.offset + len(values))])


def wide_decimals(values: pa.Array) -> pa.Array:
    """Decimals of any width as 128-bit ones."""
    return values.cast(pa.decimal128(values.type.precision, values.type.scale))


def powers_of_ten(exponent: int) -> list[int]:
    """Divisors below 2**31 that multiply to a power of ten."""
    whole, rest = divmod(exponent, TEN_DIGITS)
    return [10**TEN_DIGITS] * whole + ([10**rest] if rest else [])


def to_doubles(values: pa.Array) -> npt.NDArray[np.float64]:
    """The nearest double of every number; what stands at NULLs is arbitrary."""
    if pa.types.is_decimal(values.type):
        bits = np.empty(len(values), np.int64)
        divisors = np.array(powers_of_ten(values.type.scale), np.int64)
        decimals_to_doubles(words_of(wide_decimals(values), 2), frozen(divisors), bits)
        return bits.view(np.float64)
    doubles: npt.NDArray[np.float64] = words_of(values.cast(pa.float64(), safe=False)).view(np.float64)
    return doubles


def grown(array: Int64s, rows: int, by: float = 1.0) -> Int64s:
    """The array with room for at least so many rows, or `by` more than it has; zeros where there was nothing."""
    if rows <= array.shape[0]:
        return array
    larger = np.zeros((max(rows, int((1 + by) * array.shape[0])), *array.shape[1:]), np.int64)
    larger[: array.shape[0]] = array
    return larger
