"""Numbers, and event times with intervals. Integers never wrap around: an overflow is an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.casts.decimals import (
    AWAY,
    DOWN,
    INTEGER_DIGITS,
    UP,
    from_unscaled,
    half_away,
    rounded,
    unscaled,
    with_scale,
)
from watersmeet.model.casts.outcome import Outcome, misfit
from watersmeet.operators.scalar.values import (
    Function,
    Value,
    convert,
    from_numpy,
    null_where,
    numpy_of,
    over_rows,
    per_constant,
)
from watersmeet.plan.expressions import Call

_LARGEST_EXPONENT = 308  # of a power of ten that is a double
_FACTOR_DIGITS = 37  # two such factors and a carry fill decimal256


def _checked(kernel: Callable[[Value, Value], Value]) -> Function:
    def apply(args: Sequence[Value], call: Call) -> Value:
        left, right = _operands(args, call.type)
        return kernel(left, right)

    return apply


def _operands(args: Sequence[Value], result: pa.DataType) -> list[Value]:
    """Both sides in types whose exact sum, difference or product the kernels can hold."""
    if pa.types.is_decimal(result):
        return [_widened(arg) for arg in args]
    if pa.types.is_integer(result) or pa.types.is_floating(result):
        return [convert(arg, result) for arg in args]
    return _without_zones(args)


def _widened(value: Value) -> Value:
    exact = value if pa.types.is_decimal(value.type) else convert(value, INTEGER_DIGITS)
    return pc.cast(exact, pa.decimal256(min(_FACTOR_DIGITS, exact.type.precision), exact.type.scale))


def _without_zones(args: Sequence[Value]) -> list[Value]:
    """Instants as UTC timestamps; the kernels refuse a zone on one side only."""
    return [_as_instant(arg) if pa.types.is_timestamp(arg.type) or pa.types.is_date(arg.type) else arg for arg in args]


def _as_instant(value: Value) -> Value:
    unit = value.type.unit if pa.types.is_timestamp(value.type) else "us"
    return convert(value, pa.timestamp(unit))


def divide(args: Sequence[Value], call: Call) -> Value:
    left, right = (convert(arg, pa.float64()) for arg in args)
    return pc.divide(left, _nonzero(right))


def _nonzero(value: Value) -> Value:
    # Division by zero is NULL in this language, and an error or infinity in Arrow.
    zero = pc.equal(value, pc.cast(pa.scalar(0), value.type))
    return null_where(zero, value) if pc.any(zero).as_py() else value


def modulo(args: Sequence[Value], call: Call) -> Value:
    """The remainder of a division that cuts towards zero: it has the sign of the dividend."""
    if pa.types.is_decimal(call.type):
        return _decimal_remainder(args, call.type)
    left, right = (convert(arg, call.type) for arg in args)
    if pa.types.is_floating(call.type):
        return _float_remainder(left, _nonzero(right))
    return _integer_remainder(left, _nonzero(right))


def _integer_remainder(left: Value, right: Value) -> Value:
    # Nothing remains after dividing by 1 or -1, and the smallest integer divided by -1 overflows.
    divisor = pc.if_else(pc.equal(right, -1), pa.scalar(1, right.type), right)
    return pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))


def _float_remainder(left: Value, right: Value) -> Value:
    missing = pc.or_(pc.is_null(left), pc.is_null(right))
    with np.errstate(invalid="ignore"):
        # Arrow has no remainder.
        remainder = np.fmod(_floats(left), _floats(right))
    if remainder.ndim == 0:
        return pa.scalar(None if missing.as_py() else float(remainder), pa.float64())
    return null_where(missing, pa.array(remainder))


def _floats(value: Value) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    filled = pc.fill_null(value, 1.0)
    return np.asarray(filled.as_py() if isinstance(filled, pa.Scalar) else filled.to_numpy(zero_copy_only=False))


def _decimal_remainder(args: Sequence[Value], result: pa.DataType) -> Value:
    """At a shared scale decimals are whole numbers of the last digit, so their remainder is an integer's."""
    try:
        left, right = (over_rows(convert(arg, result), _last_digits) for arg in args)
    except pa.ArrowInvalid:
        return _long_remainder(args, result)
    remainder = _integer_remainder(left, _nonzero(right))
    return over_rows(remainder, lambda rows: null_where(rows.is_null(), from_unscaled(numpy_of(rows, 0), result)))


def _long_remainder(args: Sequence[Value], result: pa.DataType) -> Value:
    """The same of more digits than an integer has. A divisor that is larger than the dividend leaves that as it is."""
    left, right = (convert(_widened(arg), pa.decimal256(76, result.scale)) for arg in args)
    right = _nonzero(right)
    smaller = pc.less(pc.abs(left), pc.abs(right))
    rest, divisor = (
        over_rows(pc.if_else(smaller, pa.scalar(1, one.type), one), lambda rows: with_scale(rows, 0))
        for one in (left, right)
    )
    rest, divisor = (pc.cast(one, pa.decimal256(_FACTOR_DIGITS, 0)) for one in (rest, divisor))
    whole = pc.cast(pc.trunc(pc.divide(rest, divisor)), rest.type)
    remainder = pc.cast(pc.subtract(rest, pc.multiply(whole, divisor)), rest.type)
    made = over_rows(remainder, lambda rows: with_scale(rows, result.scale))
    return pc.cast(pc.if_else(smaller, left, pc.cast(made, left.type)), result)


def _last_digits(rows: pa.Array) -> pa.Array:
    return null_where(rows.is_null(), pa.array(unscaled(rows)))


def _unary(kernel: Callable[[Value], Value]) -> Function:
    return lambda args, call: kernel(convert(args[0], call.type))


def _rounding(kernel: Callable[[Value], Value], mode: str) -> Function:
    """FLOOR or CEIL: integers are whole already."""

    def apply(args: Sequence[Value], call: Call) -> Value:
        if pa.types.is_decimal(args[0].type):
            return _rounded(args[0], 0, call.type, mode)
        return args[0] if pa.types.is_integer(args[0].type) else kernel(args[0])

    return apply


def _rounded(value: Value, digits: int, result: pa.DataType, mode: str) -> Value:
    return over_rows(value, lambda rows: Outcome(*rounded(rows, digits, result, mode), misfit(result)).checked(rows))


def rounding_to(mode: str) -> Function:
    """ROUND(x, digits) or TRUNC(x, digits), by Arrow's name of what is done."""

    def apply(args: Sequence[Value], call: Call) -> Value:
        digits = args[1].as_py() if len(args) > 1 else 0
        if digits is None:
            return pa.scalar(None, call.type)
        if pa.types.is_decimal(args[0].type):
            return _rounded(args[0], digits, call.type, mode)
        value = convert(args[0], call.type)
        if pa.types.is_floating(call.type):
            return from_numpy(_rounded_doubles(numpy_of(value, 0.0), digits, mode), [value], call.type)
        return pc.round(value, digits, mode)

    return apply


def _rounded_doubles(x: np.ndarray[Any, Any], digits: int, mode: str) -> np.ndarray[Any, Any]:
    """As DuckDB does it: the power of ten and the product with it are doubles. Arrow refuses, or leaves as they are,
    those that are not finite."""
    nearest = half_away if mode == AWAY else np.trunc
    with np.errstate(over="ignore", invalid="ignore"):
        power = 10.0 ** abs(digits) if abs(digits) <= _LARGEST_EXPONENT else np.inf
        if digits >= 0:
            made = nearest(x * power) / power
            return np.asarray(np.where(np.isfinite(made), made, x))
        made = nearest(x / power) * power
        return np.asarray(np.where(np.isfinite(x), np.where(np.isfinite(made), made, 0.0), x))


FUNCTIONS: dict[str, Function] = {
    "add": _checked(pc.add_checked),
    "subtract": _checked(pc.subtract_checked),
    "multiply": _checked(pc.multiply_checked),
    "divide": divide,
    "modulo": modulo,
    "negate": _unary(pc.negate_checked),
    "abs": _unary(pc.abs_checked),
    "floor": _rounding(pc.floor, DOWN),
    "ceil": _rounding(pc.ceil, UP),
    "round": per_constant(1, rounding_to(AWAY)),
}
