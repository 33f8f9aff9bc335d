"""Numbers, and event times with intervals. Integers never wrap around: an overflow is an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.scalar.values import Function, Value, convert, null_where, per_constant, rescale
from watersmeet.plan.expressions import Call

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
    exact = value if pa.types.is_decimal(value.type) else convert(value, pa.decimal128(20, 0))
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
    left, right = (_last_digits(convert(arg, result), result.scale) for arg in args)
    # 19 digits hold every int64.
    remainder = pc.cast(_integer_remainder(left, _nonzero(right)), pa.decimal256(19, 0))
    return rescale(pc.multiply(remainder, _power_of_ten(-result.scale)), result)


def _last_digits(value: Value, scale: int) -> Value:
    wide = pc.cast(value, pa.decimal256(38, scale))
    return pc.cast(pc.multiply(wide, _power_of_ten(scale)), pa.int64())


def _power_of_ten(exponent: int) -> pa.Scalar:
    scale = max(0, -exponent)
    return pa.scalar(Decimal(10) ** exponent, pa.decimal256(abs(exponent) + 1, scale))


def _unary(kernel: Callable[[Value], Value]) -> Function:
    return lambda args, call: kernel(convert(args[0], call.type))


def _rounding(kernel: Callable[[Value], Value]) -> Function:
    """FLOOR or CEIL: integers are whole already."""
    return lambda args, call: args[0] if pa.types.is_integer(args[0].type) else kernel(args[0])


def round_digits(args: Sequence[Value], call: Call) -> Value:
    """ROUND(x, digits): halves away from zero."""
    digits = args[1].as_py() if len(args) > 1 else 0
    if digits is None:
        return pa.scalar(None, call.type)
    value = args[0] if pa.types.is_decimal(args[0].type) else convert(args[0], call.type)
    return pc.round(value, digits, "half_towards_infinity")


FUNCTIONS: dict[str, Function] = {
    "add": _checked(pc.add_checked),
    "subtract": _checked(pc.subtract_checked),
    "multiply": _checked(pc.multiply_checked),
    "divide": divide,
    "modulo": modulo,
    "negate": _unary(pc.negate_checked),
    "abs": _unary(pc.abs_checked),
    "floor": _rounding(pc.floor),
    "ceil": _rounding(pc.ceil),
    "round": per_constant(1, round_digits),
}
