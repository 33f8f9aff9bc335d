"""Numbers and truth values as other numbers: to whole ones rounded, and never cut to what fits."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.casts import decimals
from watersmeet.model.casts.decimals import Made
from watersmeet.model.casts.outcome import mask_of


def numbers(values: pa.Array, target: pa.DataType) -> Made:
    """Of decimals halves are rounded away from zero, of floating numbers to even, as in DuckDB."""
    if pa.types.is_boolean(values.type):
        values = pc.cast(values, pa.uint8())
    if pa.types.is_boolean(target):
        return pc.not_equal(values, pa.scalar(0, values.type)), None
    if pa.types.is_decimal(values.type):
        return _of_decimals(values, target)
    if pa.types.is_floating(values.type):
        return _of_floats(values, target)
    return _of_integers(values, target)


def _of_decimals(values: pa.Array, target: pa.DataType) -> Made:
    if pa.types.is_floating(target):
        return decimals.nearest_floats(values, target), None
    return (decimals.rescaled if pa.types.is_decimal(target) else decimals.to_integers)(values, target)


def _of_floats(values: pa.Array, target: pa.DataType) -> Made:
    if pa.types.is_decimal(target):
        return decimals.from_floats(values, target)
    if pa.types.is_floating(target):
        made = pc.cast(values, target, safe=False)
        return made, mask_of(pc.and_(pc.is_inf(made), pc.is_finite(values)))
    lowest, highest = decimals.integer_limits(target)
    nearest = pc.round(values, 0, "half_to_even")
    # Both limits are powers of two, which are doubles; the highest integer itself need not be one. NaN is not within.
    fits = pc.and_(pc.greater_equal(nearest, float(lowest)), pc.less(nearest, float(highest + 1)))
    whole = pc.cast(pc.if_else(fits, nearest, pa.scalar(None, values.type)), target)
    return whole, mask_of(pc.invert(fits))


def _of_integers(values: pa.Array, target: pa.DataType) -> Made:
    if pa.types.is_decimal(target):
        return decimals.from_integers(values, target)
    if pa.types.is_floating(target):
        return pc.cast(values, target, safe=False), None
    try:
        return pc.cast(values, target), None
    except pa.ArrowInvalid:  # which does not say of how many rows
        return decimals.to_integers(pc.cast(values, decimals.INTEGER_DIGITS), target)
