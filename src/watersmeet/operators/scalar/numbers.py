"""Roots, logarithms, angles, whole numbers and their bits. What is not defined is an error, as in DuckDB."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.casts.decimals import CUT
from watersmeet.operators.scalar.arithmetic import rounding_to
from watersmeet.operators.scalar.values import (
    Function,
    Value,
    convert,
    from_numpy,
    known_everywhere,
    null_where,
    numpy_of,
    over_unique,
    per_constant,
    refuse_where,
)
from watersmeet.plan.expressions import Call

_LONG, _DOUBLE = pa.int64(), pa.float64()
_LARGEST_FACTORIAL = 20  # that fits BIGINT
_BITS = 64
_LOGARITHM = {
    "logarithm of zero": "there is no logarithm of zero",
    "logarithm of negative number": "there is no logarithm of a negative number",
    "square root of negative number": "there is no square root of a negative number",
}


def _doubles(kernel: Callable[..., Value], outside: str | None = None) -> Function:
    """A kernel of doubles; `outside` says what is wrong with what it refuses."""

    def apply(args: Sequence[Value], call: Call) -> Value:
        try:
            return kernel(*(convert(arg, _DOUBLE) for arg in args))
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(_LOGARITHM.get(str(error), outside or str(error))) from None

    return apply


_INFINITE = "an infinite number has no angle"
_UNIT = "it is defined between -1 and 1 only"


def power(base: Value, exponent: Value) -> Value:
    refuse_where(pc.and_(pc.equal(base, 0.0), pc.less(exponent, 0.0)), "zero has no negative powers")
    return pc.power(base, exponent)


def logarithm(args: Sequence[Value], call: Call) -> Value:
    """LOG(x) is of base 10, LOG(b, x) of base b."""
    *base, value = (convert(arg, _DOUBLE) for arg in args)
    ten = _doubles(pc.log10_checked)
    if not base:
        return ten([value], call)
    below = ten(base, call)
    refuse_where(pc.equal(below, 0.0), "there is no logarithm of base 1")
    return pc.divide(ten([value], call), below)


def cotangent(value: Value) -> Value:
    refuse_where(pc.equal(value, 0.0), "zero has no cotangent")
    return pc.divide(pa.scalar(1.0), pc.tan_checked(value))


def area_tangent(value: Value) -> Value:
    refuse_where(pc.greater(pc.abs(value), 1.0), _UNIT)
    return pc.atanh(value)


def _by_numpy(ufunc: Callable[..., np.ndarray[tuple[int, ...], np.dtype[np.float64]]]) -> Callable[[Value], Value]:
    return lambda value: from_numpy(np.asarray(ufunc(numpy_of(value, 0.0))), [value], _DOUBLE)


def sign(args: Sequence[Value], call: Call) -> Value:
    found = pc.sign(args[0])
    if pa.types.is_floating(found.type):
        found = pc.if_else(pc.is_nan(found), pa.scalar(0.0, found.type), found)
    return pc.cast(found, _LONG)


def _test(kernel: Callable[[Value], Value]) -> Function:
    return lambda args, call: kernel(convert(args[0], _DOUBLE))


# -- whole numbers --------------------------------------------------------------------------------------------------


def _whole(function: Callable[..., Value]) -> Function:
    return lambda args, call: function(*(convert(arg, _LONG) for arg in args))


def int_divide(left: Value, right: Value) -> Value:
    """The quotient, cut towards zero; NULL by zero."""
    return pc.divide_checked(left, null_where(pc.equal(right, 0), right))


def gcd(left: Value, right: Value) -> Value:
    shared = np.asarray(np.gcd(_magnitude(left), _magnitude(right)))
    if np.any(shared > np.uint64(np.iinfo(np.int64).max)):
        raise pa.ArrowInvalid("overflow")
    return from_numpy(shared.astype(np.int64), [left, right], _LONG)


def _magnitude(value: Value) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """Numbers without their signs; unsigned, as the smallest has no positive twin."""
    number = np.asarray(numpy_of(value, 1), np.int64)
    # A negative number minus itself as 64 bits wraps around to what it is without its sign.
    bits = number.view(np.uint64)
    return np.where(number < 0, ~bits + np.uint64(1), bits)


def width_bucket(args: Sequence[Value], call: Call) -> Value:
    """In which of so many parts of equal width a number lies, 0 before the first and one more behind the last; the
    bounds may come the other way round."""
    x, low, high = (np.asarray(numpy_of(convert(arg, pa.float64()), 0.5)) for arg in args[:3])
    count = np.asarray(numpy_of(convert(args[3], _LONG), 1))
    known = known_everywhere(args)
    if np.any(known & (count <= 0)):
        raise pa.ArrowInvalid("there must be at least one part")
    if np.any(known & ((low == high) | ~np.isfinite(low) | ~np.isfinite(high) | np.isnan(x))):
        raise pa.ArrowInvalid("the bounds must be two finite numbers, and the value one")
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        before, behind = np.where(low < high, x < low, x > low), np.where(low < high, x >= high, x <= high)
        share = np.where(before | behind | ~known, 0.0, (x - low) / (high - low))
    inside = np.minimum((share * count).astype(np.int64), count - 1) + 1
    return from_numpy(np.asarray(np.where(before, 0, np.where(behind, count + 1, inside))), args, _LONG)


def lcm(left: Value, right: Value) -> Value:
    shared = gcd(left, right)
    some = pc.if_else(pc.equal(shared, 0), pa.scalar(1, _LONG), shared)
    return pc.multiply_checked(pc.divide(pc.abs_checked(left), some), pc.abs_checked(right))


def factorial(value: Value) -> Value:
    refuse_where(pc.less(value, 0), "a negative number has no factorial")
    refuse_where(pc.greater(value, _LARGEST_FACTORIAL), f"from {_LARGEST_FACTORIAL + 1} on it does not fit in BIGINT")
    return over_unique(value, math.factorial, _LONG)


def shift_left(value: Value, by: Value) -> Value:
    known = pc.and_(pc.is_valid(value), pc.is_valid(by))
    refuse_where(pc.and_(known, pc.less(value, 0)), "a negative number cannot be shifted to the left")
    # Zero stays zero by however many bits.
    too_far = pc.and_(pc.greater_equal(by, _BITS), pc.not_equal(value, 0))
    refuse_where(pc.and_(known, pc.or_(pc.less(by, 0), too_far)), "a shift is by 0 to 63 bits")
    # By NumPy: Arrow leaves a number as it is that is shifted by 63 bits.
    number, bits = np.asarray(numpy_of(value, 0)), np.asarray(numpy_of(by, 0))
    if np.any(number > np.right_shift(np.int64(np.iinfo(np.int64).max), bits)):
        raise pa.ArrowInvalid("overflow")
    return from_numpy(np.asarray(np.left_shift(number, bits)), [value, by], _LONG)


def shift_right(value: Value, by: Value) -> Value:
    """By more bits than there are nothing is left."""
    number, bits = np.asarray(numpy_of(value, 0)), np.asarray(numpy_of(by, 0))
    within = (bits >= 0) & (bits < _BITS)
    moved = np.where(within, np.right_shift(number, np.where(within, bits, 0)), 0)
    return from_numpy(np.asarray(moved), [value, by], _LONG)


def bit_count(value: Value) -> Value:
    # NumPy would count the bits of what is left of a negative number without its sign.
    bits = np.asarray(numpy_of(value, 0), np.int64).view(np.uint64)
    return from_numpy(np.bitwise_count(bits).astype(np.int64), [value], _LONG)


FUNCTIONS: dict[str, Function] = {
    "sqrt": _doubles(pc.sqrt_checked),
    "cbrt": _doubles(_by_numpy(np.cbrt)),
    "exp": _doubles(pc.exp),
    "ln": _doubles(pc.ln_checked),
    "log": logarithm,
    "log2": _doubles(pc.log2_checked),
    "log10": _doubles(pc.log10_checked),
    "power": _doubles(power),
    "sin": _doubles(pc.sin_checked, _INFINITE),
    "cos": _doubles(pc.cos_checked, _INFINITE),
    "tan": _doubles(pc.tan_checked, _INFINITE),
    "cot": _doubles(cotangent, _INFINITE),
    "asin": _doubles(pc.asin_checked, _UNIT),
    "acos": _doubles(pc.acos_checked, _UNIT),
    "atan": _doubles(pc.atan),
    "atan2": _doubles(pc.atan2),
    "sinh": _doubles(pc.sinh),
    "cosh": _doubles(pc.cosh),
    "tanh": _doubles(pc.tanh),
    "asinh": _doubles(pc.asinh),
    "acosh": _doubles(pc.acosh),
    "atanh": _doubles(area_tangent),
    "degrees": _doubles(_by_numpy(np.degrees)),
    "radians": _doubles(_by_numpy(np.radians)),
    "pi": lambda args, call: pa.scalar(math.pi),
    "trunc": per_constant(1, rounding_to(CUT)),
    "sign": sign,
    "isnan": _test(pc.is_nan),
    "isinf": _test(pc.is_inf),
    "isfinite": _test(pc.is_finite),
    "int_divide": _whole(int_divide),
    "width_bucket": width_bucket,
    "gcd": _whole(gcd),
    "lcm": _whole(lcm),
    "factorial": _whole(factorial),
    "bit_and": _whole(pc.bit_wise_and),
    "bit_or": _whole(pc.bit_wise_or),
    "xor": _whole(pc.bit_wise_xor),
    "bit_not": _whole(pc.bit_wise_not),
    "shift_left": _whole(shift_left),
    "shift_right": _whole(shift_right),
    "bit_count": _whole(bit_count),
}
