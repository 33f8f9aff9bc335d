"""Decimals among each other, and to and from whole and floating numbers: rounded once, and checked.

Arrow's own kernels round a decimal several times on its way to a double, lose the error where rounding needs one digit
more, and divide some decimals wrongly. So digits are counted here, as limbs: the 32 bits that begin at bit 0, 32, 64, …
of every magnitude, each in a uint64 that has room for a carry. What is made comes with a mask of the rows that do not
fit, None if all do.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.casts.outcome import Mask

Made = tuple[pa.Array, Mask]
Limb = npt.NDArray[np.uint64]

# How digits are dropped, by Arrow's names for it: halves away from zero; all towards zero, up, or down.
AWAY, CUT, UP, DOWN = "half_towards_infinity", "towards_zero", "up", "down"
INTEGER_DIGITS = pa.decimal128(20, 0)  # holds every integer type
_SHORT = 18  # digits that an int64 holds
_WIDE, _WIDEST = 38, 76  # and those of decimals of 128 and 256 bits
_LONGEST = 77  # nothing is left of any decimal of which so many digits are dropped
_MASK, _BITS = np.uint64(0xFFFFFFFF), np.uint64(32)
_STEP = 9  # powers of ten up to this one are less than a limb
# Of floating numbers: up to which whole numbers, and which powers of ten, they hold exactly.
_EXACT = {pa.float64(): (2**53, 22), pa.float32(): (2**24, 10)}
_WORD = 2.0**64


def rounded(values: pa.Array, digits: int, target: pa.DataType, mode: str = AWAY) -> Made:
    """Decimals at so many digits behind the point, or before it if negative, in a type of at least as many."""
    kept = max(min(digits, values.type.scale), values.type.scale - _LONGEST)
    dropped, added = values.type.scale - kept, target.scale - kept
    if values.type.precision + added <= _SHORT and dropped <= _SHORT and target.bit_width == 128:
        return _rounded_words(values, dropped, added, target, mode)
    negative, limbs = _limbs(values)
    return _composed(negative, _multiplied(_dropped(limbs, negative, dropped, mode), added), target, values)


def _rounded_words(values: pa.Array, dropped: int, added: int, target: pa.DataType, mode: str) -> Made:
    """The same where all digits, and those that are added, are within a word."""
    numbers, _ = _words(values)
    size = np.abs(numbers)
    if dropped:
        more = np.where(_is_raised(numbers < 0, mode), _more(dropped, mode), 0)
        size = (size + more) // 10**dropped
    size = size * 10**added
    wrong = size >= 10 ** min(target.precision, _SHORT) if target.precision <= _SHORT else np.zeros(len(size), np.bool_)
    low = np.where(wrong, 0, np.where(numbers < 0, -size, size))
    return _made(_array(np.stack([low, low >> 63], axis=1), target, values), wrong, values)


def rescaled(values: pa.Array, target: pa.DataType) -> Made:
    """Decimals with other digits, halves away from zero."""
    source = values.type
    if source.scale <= target.scale and source.precision - source.scale <= target.precision - target.scale:
        return pc.cast(values, target), None  # there is room for all of them
    return rounded(values, target.scale, target)


def from_integers(values: pa.Array, target: pa.DataType) -> Made:
    return rescaled(pc.cast(values, INTEGER_DIGITS), target)


def to_integers(values: pa.Array, target: pa.DataType) -> Made:
    """The nearest whole numbers, halves away from zero."""
    whole = _whole(values)
    lowest, highest = integer_limits(target)
    if whole.type.precision <= _SHORT:
        low, _ = _words(whole)
        wrong = (low < lowest) | (low > highest)
        return _made(pa.array(low.astype(target.to_pandas_dtype()), target, mask=_nulls(values)), wrong, values)
    negative, limbs = _limbs(whole)
    wrong = np.where(negative, _at_least(limbs, 1 - lowest), _at_least(limbs, highest + 1))
    numbers = _signed(negative, limbs[0] | limbs[1] << _BITS).astype(target.to_pandas_dtype())
    return _made(pa.array(numbers, target, mask=_nulls(values)), wrong, values)


def _whole(values: pa.Array) -> pa.Array:
    """Without digits behind the point, and with room for one more before it."""
    before = max(values.type.precision - values.type.scale, 0) + 1
    return rounded(values, 0, pa.decimal128(before, 0) if before <= _WIDE else pa.decimal256(min(before, _WIDEST), 0))[
        0
    ]


def unscaled(values: pa.Array) -> npt.NDArray[np.int64]:
    """The digits of decimals without their point. Raises ArrowInvalid if they are not int64s."""
    numbers, wrong = to_integers(with_scale(values, 0), pa.int64())
    if wrong is not None:
        raise pa.ArrowInvalid("overflow")
    found: npt.NDArray[np.int64] = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    return found


def from_unscaled(digits: npt.NDArray[np.int64], target: pa.DataType) -> pa.Array:
    whole = pc.cast(pa.array(digits), INTEGER_DIGITS)
    return pc.cast(with_scale(whole, target.scale), target)


def with_scale(values: pa.Array, scale: int) -> pa.Array:
    """The same digits with the point elsewhere."""
    kind = type(values.type)
    other = (pa.decimal256 if kind is pa.Decimal256Type else pa.decimal128)(values.type.precision, scale)
    return pa.Array.from_buffers(other, len(values), values.buffers(), offset=values.offset)


def integer_limits(kind: pa.DataType) -> tuple[int, int]:
    limits = np.iinfo(kind.to_pandas_dtype())
    return int(limits.min), int(limits.max)


# -- limbs ----------------------------------------------------------------------------------------------------------


def _limbs(values: pa.Array) -> tuple[npt.NDArray[np.bool_], list[Limb]]:
    """Which decimals are negative, and the limbs of their magnitudes, lowest first."""
    if values.type.bit_width < 128:
        values = pc.cast(values, pa.decimal128(values.type.precision, values.type.scale))
    count = values.type.bit_width // 32
    buffer = values.buffers()[1] if len(values) else b""
    rows = np.frombuffer(buffer, np.uint32)[count * values.offset : count * (values.offset + len(values))]
    limbs = [rows[place::count].astype(np.uint64) for place in range(count)]
    negative = limbs[-1] >> np.uint64(31) == 1
    if negative.any():
        limbs = [np.where(negative, limb ^ _MASK, limb) for limb in limbs]
        limbs = _carried(limbs, negative.astype(np.uint64))[:count]
    return negative, limbs


def _words(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The lower and the upper word of every decimal of 128 bits."""
    if values.type.bit_width != 128:
        values = pc.cast(values, pa.decimal128(values.type.precision, values.type.scale))
    buffer = values.buffers()[1] if len(values) else b""
    words = np.frombuffer(buffer, np.int64)[2 * values.offset : 2 * (values.offset + len(values))]
    return words[0::2], words[1::2]


def _carried(limbs: list[Limb], carry: Limb) -> list[Limb]:
    """The limbs with what is carried from the lowest on."""
    made = []
    for limb in limbs:
        total = limb + carry
        made.append(total & _MASK)
        carry = total >> _BITS
    return [*made, carry]


def _dropped(limbs: list[Limb], negative: npt.NDArray[np.bool_], digits: int, mode: str) -> list[Limb]:
    """Magnitudes without their last digits."""
    if digits <= 0:
        return limbs
    digits = min(digits, _LONGEST)
    if mode != CUT:
        limbs = _plus(limbs, _more(digits, mode), _is_raised(negative, mode))
    while digits:
        step = min(digits, _STEP)
        limbs = _divided(limbs, 10**step)
        digits -= step
    return limbs


def _more(digits: int, mode: str) -> int:
    """What is added to a magnitude, so that cutting its last digits off rounds it."""
    power: int = 10**digits
    return {AWAY: power // 2, CUT: 0, UP: power - 1, DOWN: power - 1}[mode]


def _is_raised(negative: npt.NDArray[np.bool_], mode: str) -> npt.NDArray[np.bool_]:
    return {UP: ~negative, DOWN: negative}.get(mode, np.ones_like(negative))


def _plus(limbs: list[Limb], number: int, where: npt.NDArray[np.bool_]) -> list[Limb]:
    parts = [number >> 32 * place & 0xFFFFFFFF for place in range(max(len(limbs), -(-number.bit_length() // 32)))]
    limbs = [*limbs, *(np.zeros_like(limbs[0]) for _ in parts[len(limbs) :])]
    made, carry = [], np.zeros_like(limbs[0])
    for limb, part in zip(limbs, parts, strict=True):
        total = limb + np.where(where, np.uint64(part), np.uint64(0)) + carry
        made.append(total & _MASK)
        carry = total >> _BITS
    return [*made, carry]


def _divided(limbs: list[Limb], divisor: int) -> list[Limb]:
    by, rest, made = np.uint64(divisor), np.zeros_like(limbs[0]), []
    for limb in reversed(limbs):
        part = rest << _BITS | limb
        quotient = part // by
        rest = part - quotient * by
        made.append(quotient)
    return made[::-1]


def _multiplied(limbs: list[Limb], digits: int) -> list[Limb]:
    """Magnitudes with so many zeros behind them."""
    while digits > 0:
        step = min(digits, _STEP)
        by, carry, made = np.uint64(10**step), np.zeros_like(limbs[0]), []
        for limb in limbs:
            total = limb * by + carry
            made.append(total & _MASK)
            carry = total >> _BITS
        limbs = [*made, carry]
        digits -= step
    return limbs


def _at_least(limbs: list[Limb], number: int) -> npt.NDArray[np.bool_]:
    """Where magnitudes are no less than a number."""
    above, same = np.zeros(len(limbs[0]), np.bool_), np.ones(len(limbs[0]), np.bool_)
    for place in reversed(range(max(len(limbs), -(-number.bit_length() // 32)))):
        part = np.uint64(number >> 32 * place & 0xFFFFFFFF)
        limb = limbs[place] if place < len(limbs) else np.zeros_like(limbs[0])
        above |= same & (limb > part)
        same &= limb == part
    return above | same


def _signed(negative: npt.NDArray[np.bool_], words: Limb) -> npt.NDArray[np.int64 | np.uint64]:
    return np.where(negative, ~words + np.uint64(1), words)


def _composed(negative: npt.NDArray[np.bool_], limbs: list[Limb], target: pa.DataType, values: pa.Array) -> Made:
    """Decimals of these limbs; zero where they have too many digits."""
    count = target.bit_width // 32
    if count < 4:
        wide, wrong = _composed(negative, limbs, pa.decimal128(target.precision, target.scale), values)
        return pc.cast(wide, target), wrong
    wrong = _at_least(limbs, 10**target.precision)
    zero = np.zeros_like(limbs[0])
    kept = [np.where(wrong, zero, limb) for limb in (*limbs, *[zero] * count)][:count]
    if negative.any():
        kept = _carried([np.where(negative, limb ^ _MASK, limb) for limb in kept], negative.astype(np.uint64))[:count]
    rows = np.stack(kept, axis=1).astype(np.uint32)
    return _made(_array(rows, target, values), wrong, values)


def _array(rows: npt.NDArray[np.generic], kind: pa.DataType, values: pa.Array) -> pa.Array:
    """Decimals of these bytes, NULL where the values are."""
    nulls = _nulls(values)
    bitmap = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(kind, len(rows), [bitmap, pa.py_buffer(np.ascontiguousarray(rows))])


def _made(made: pa.Array, wrong: npt.NDArray[np.bool_], values: pa.Array) -> Made:
    """What was made; what stands at NULLs is never wrong."""
    nulls = _nulls(values)
    wrong = wrong if nulls is None else wrong & ~nulls
    return made, wrong if wrong.any() else None


def _nulls(values: pa.Array) -> npt.NDArray[np.bool_] | None:
    return values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None


# -- floating numbers -----------------------------------------------------------------------------------------------


def nearest_floats(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The floating number nearest to every decimal, of two equally near the even one."""
    if kind not in _EXACT or not 0 <= values.type.scale <= _EXACT[kind][1] or values.type.bit_width > 128:
        return _by_text(values, kind)
    largest, _ = _EXACT[kind]
    low, high = _words(values)
    large = (high != low >> 63) | (low >= largest) | (low <= -largest)
    floating = kind.to_pandas_dtype()
    # One division of two exact numbers rounds once.
    made = low.astype(floating) / floating(10**values.type.scale)
    if large.any():
        made[large] = _by_text(values.filter(pa.array(large)), kind).fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(made, kind, mask=_nulls(values))


def _by_text(values: pa.Array, kind: pa.DataType) -> pa.Array:
    # Arrow reads the nearest number from any digits.
    return pc.cast(pc.cast(values, pa.string()), kind)


def half_away(doubles: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The nearest whole numbers, halves away from zero."""
    cut = np.trunc(doubles)
    return np.asarray(cut + np.where(np.abs(doubles - cut) >= 0.5, np.sign(doubles), 0.0))


def from_floats(values: pa.Array, target: pa.DataType) -> Made:
    """As DuckDB does it: the product with the power of ten in doubles, then its nearest whole number, halves away
    from zero."""
    doubles = pc.cast(values, pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore", invalid="ignore"):
        shifted = doubles * 10.0**target.scale
        whole = half_away(shifted)
        fits = np.abs(whole) < 10.0**target.precision
    size = np.abs(np.where(fits, whole, 0.0))
    upper = np.floor(size / _WORD)
    # Each step is exact: a power of two moves the point, and what is left has no more bits than there were.
    words = [(size - upper * _WORD).astype(np.uint64), upper.astype(np.uint64)]
    limbs = [part for word in words for part in (word & _MASK, word >> _BITS)]
    made, _ = _composed(whole < 0, limbs, target, values)
    return _made(made, ~fits, values)
