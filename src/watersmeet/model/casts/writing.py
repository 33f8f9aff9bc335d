"""Values as text, as DuckDB writes them, except that a DECIMAL always has a digit before the point, and that the
offset of an instant has minutes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.casts.outcome import Outcome, mask_of
from watersmeet.model.time import UNITS_US
from watersmeet.model.types import is_bytes

_TEXT = pa.string()
# From here and up to there Arrow writes floating numbers without exponents, as DuckDB does.
_ALIKE = (1e-4, 1e9)
_POSITIONAL = (1e-4, 1e16)


def written(values: pa.Array) -> Outcome:
    kind = values.type
    if pa.types.is_floating(kind):
        return Outcome(_floats(values))
    if pa.types.is_decimal(kind):
        return Outcome(_decimals(values))
    if pa.types.is_duration(kind):
        return Outcome(_intervals(values))
    if pa.types.is_timestamp(kind):
        return _timestamps(values)
    if pa.types.is_time(kind):
        return Outcome(_without_zeros(pc.cast(values, _TEXT), kind.unit))
    if is_bytes(kind):
        return _texts(values)
    return Outcome(pc.cast(values, _TEXT))


def _floats(values: pa.Array) -> pa.Array:
    # Arrow writes 1.0 as 1.
    texts = pc.replace_substring_regex(pc.cast(values, _TEXT), r"^(-?\d+)$", r"\1.0")
    size = pc.abs(values)
    alike = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, _ALIKE[0]), pc.less(size, _ALIKE[1])))
    return _rewritten(texts, values, mask_of(pc.invert(alike)), _float_text)


def _float_text(value: np.floating[Any]) -> str:
    """The fewest digits that are this number and no other of its type."""
    if not np.isfinite(value):
        return "nan" if np.isnan(value) else "inf" if value > 0 else "-inf"
    low, high = (type(value)(limit) for limit in _POSITIONAL)
    if low <= abs(value) < high:
        return np.format_float_positional(value, trim="0")
    return np.format_float_scientific(value, trim="-", exp_digits=2)


def _decimals(values: pa.Array) -> pa.Array:
    texts = pc.cast(values, _TEXT)
    # Arrow writes 0.0000000001 as 1E-10.
    return _rewritten(texts, values, mask_of(pc.match_substring(texts, "E")), lambda value: f"{value:f}")


def _rewritten(
    texts: pa.Array, values: pa.Array, chosen: npt.NDArray[np.bool_] | None, write: Callable[[Any], str]
) -> pa.Array:
    """The texts with those of some rows written anew, once for every value that occurs."""
    if chosen is None:
        return texts
    rows = pa.array(chosen)
    encoded = values.filter(rows).dictionary_encode()
    known = encoded.dictionary
    each = known.to_numpy() if pa.types.is_floating(values.type) else known.to_pylist()
    anew = pa.array([write(one) for one in each], _TEXT)
    return pc.replace_with_mask(texts, rows, anew.take(encoded.indices))


def _intervals(values: pa.Array) -> pa.Array:
    """Hours, minutes and seconds; an interval has no days of its own here."""
    sign, hours, minutes, seconds, fraction = _clock(values)
    clock = pc.binary_join_element_wise(_padded(hours, 2), _padded(minutes, 2), _padded(seconds, 2), ":")
    return pc.binary_join_element_wise(sign, clock, fraction, "")


def iso_intervals(values: pa.Array) -> pa.Array:
    """The same as ISO 8601 has it: PT25H, -PT0.5S, PT0S."""
    sign, hours, minutes, seconds, fraction = _clock(values)
    none_before = pc.and_(pc.equal(hours, 0), pc.equal(minutes, 0))
    has_seconds = pc.or_(pc.or_(pc.greater(seconds, 0), pc.not_equal(fraction, "")), none_before)
    of_seconds = pc.binary_join_element_wise(pc.cast(seconds, _TEXT), fraction, "S", "")
    return pc.binary_join_element_wise(
        sign, "PT", _unless_zero(hours, "H"), _unless_zero(minutes, "M"), pc.if_else(has_seconds, of_seconds, ""), ""
    )


def _clock(values: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array, pa.Array]:
    """Intervals as a sign, hours, minutes, seconds, and a fraction of a second with its point, empty if there is
    none."""
    us = pc.cast(pc.cast(values, pa.duration("us"), safe=False), pa.int64())
    size = pc.abs(us)
    hours = pc.divide(size, UNITS_US["hour"])
    minutes = pc.subtract(pc.divide(size, UNITS_US["minute"]), pc.multiply(hours, 60))
    whole = pc.divide(size, UNITS_US["second"])
    seconds = pc.subtract(whole, pc.multiply(pc.divide(whole, 60), 60))
    rest = pc.subtract(size, pc.multiply(whole, UNITS_US["second"]))
    fraction = pc.utf8_rtrim(pc.binary_join_element_wise(".", _padded(rest, 6), ""), "0")
    sign = pc.if_else(pc.less(us, 0), "-", "")
    return sign, hours, minutes, seconds, pc.if_else(pc.equal(rest, 0), "", fraction)


def _unless_zero(numbers: pa.Array, unit: str) -> pa.Array:
    return pc.if_else(pc.equal(numbers, 0), "", pc.binary_join_element_wise(pc.cast(numbers, _TEXT), unit, ""))


def _padded(numbers: pa.Array, digits: int) -> pa.Array:
    return pc.utf8_lpad(pc.cast(numbers, _TEXT), digits, "0")


def _timestamps(values: pa.Array) -> Outcome:
    text = pc.cast(values, _TEXT)
    if values.type.tz is None:
        made = _without_zeros(text, values.type.unit)
    else:
        # Arrow writes offsets without a colon.
        offset = pc.replace_substring_regex(_without_zeros(text), r"([+-]\d\d)(\d\d)$", r"\1:\2")
        made = pc.replace_substring_regex(offset, "Z$", "+00:00")
    return Outcome(made, mask_of(pc.starts_with(text, "<value out of range")), "lies in no year that can be written")


def _without_zeros(text: pa.Array, unit: str | None = None) -> pa.Array:
    """Times of a unit, or with an offset; Arrow writes every digit that the unit has."""
    if unit is not None:
        return text if unit == "s" else pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")
    cut = pc.replace_substring_regex(text, r"(\.\d*?)0+(Z|[+-]\d{4})?$", r"\1\2")
    return pc.replace_substring_regex(cut, r"\.(Z|[+-]\d{4})?$", r"\1")


def _texts(values: pa.Array) -> Outcome:
    try:
        return Outcome(pc.cast(values, _TEXT))
    except pa.ArrowInvalid:
        encoded = values.dictionary_encode()
        read = pa.array([_decoded(one) for one in encoded.dictionary.to_pylist()], _TEXT).take(encoded.indices)
        return Outcome(read, mask_of(pc.and_(read.is_null(), values.is_valid())), "is not UTF-8")


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
