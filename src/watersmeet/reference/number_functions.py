"""Functions of numbers on plain values, none of them NULL."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, Context, Decimal

import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.model.types import sql_type
from watersmeet.reference.values import Value, coerce

Rule = Callable[[list[Value], pa.DataType], Value]
_EXACT = Context(prec=100)


def _refused(what: str) -> DataError:
    return DataError(what)


def square_root(value: float) -> float:
    if value < 0:
        raise _refused("there is no square root of a negative number")
    return math.sqrt(value)


def power(base: float, exponent: float) -> float:
    if base == 0 and exponent < 0:
        raise _refused("zero has no negative powers")
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf if base > 0 or exponent % 2 == 0 else -math.inf
    except ValueError:
        return math.nan  # a root of a negative number


def _logarithm(log: Callable[[float], float]) -> Callable[[float], float]:
    def apply(value: float) -> float:
        if value <= 0:
            raise _refused("there is no logarithm of zero or of a negative number")
        return log(value)

    return apply


def _log(*values: float) -> float:
    ten = _logarithm(math.log10)
    if len(values) == 1:
        return ten(values[0])
    base, value = ten(values[0]), ten(values[1])
    if base == 0:
        raise _refused("there is no logarithm of base 1")
    return value / base


def _angle(function: Callable[[float], float]) -> Callable[[float], float]:
    def apply(value: float) -> float:
        if math.isinf(value):
            raise _refused("an infinite number has no angle")
        return function(value)

    return apply


def _within_one(function: Callable[[float], float]) -> Callable[[float], float]:
    def apply(value: float) -> float:
        if abs(value) > 1:
            raise _refused("it is defined between -1 and 1 only")
        return function(value)

    return apply


def _cot(value: float) -> float:
    if value == 0:
        raise _refused("zero has no cotangent")
    return 1 / math.tan(value)


def _growing(function: Callable[[float], float]) -> Callable[[float], float]:
    """Where Python raises for a result that is too large, it is infinite."""

    def apply(value: float) -> float:
        try:
            return function(value)
        except OverflowError:
            return -math.inf if function is math.sinh and value < 0 else math.inf

    return apply


def _atanh(value: float) -> float:
    return math.copysign(math.inf, value) if abs(value) == 1 else math.atanh(value)


def rounded(value: Value, mode: str, digits: int, kind: pa.DataType) -> Value:
    """A number at so many decimal digits, by a rounding mode of the decimal module."""
    if isinstance(value, int) and digits >= 0:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return value
    if isinstance(value, float):
        return _rounded_double(value, mode, digits)
    exact = Decimal(value)
    result = exact.quantize(Decimal(1).scaleb(-digits), rounding=mode, context=_EXACT)
    if pa.types.is_decimal(kind) and result.copy_abs() >= 10 ** (kind.precision - kind.scale):
        raise DataError(f"{result} does not fit in {sql_type(kind)}")
    return int(result) if isinstance(value, int) else coerce(result, kind)


def _rounded_double(value: float, mode: str, digits: int) -> float:
    """By a power of ten, and a product or quotient with it, that are doubles, as in DuckDB."""
    power = 10.0 ** abs(digits) if abs(digits) <= 308 else math.inf
    moved = value * power if digits >= 0 else value / power
    if not math.isfinite(moved):
        return value
    whole = math.copysign(float(Decimal(moved).to_integral_value(mode)), value)
    if digits >= 0:
        return whole / power
    return whole * power if math.isfinite(whole * power) else 0.0


def _truncated(value: Value, digits: int, kind: pa.DataType) -> Value:
    return rounded(value, ROUND_DOWN, digits, kind)


def _sign(value: Value) -> int:
    return int(value > 0) - int(value < 0)


def _quotient(left: int, right: int) -> int | None:
    if right == 0:
        return None
    return _long(abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1))


def _long(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise _refused(f"{value} does not fit in BIGINT")
    return value


def _gcd(left: int, right: int) -> int:
    return _long(math.gcd(left, right))


def _factorial(value: int) -> int:
    if not 0 <= value <= 20:
        raise _refused(f"the factorial of {value} does not fit in BIGINT")
    return math.factorial(value)


def _shift_left(value: int, by: int) -> int:
    if value == 0 and by >= 0:
        return 0
    if value < 0 or not 0 <= by < 64:
        raise _refused(f"{value} cannot be shifted to the left by {by} bits")
    return _long(value << by)


def _width_bucket(x: float, low: float, high: float, count: int) -> int:
    if count <= 0 or low == high or not (math.isfinite(low) and math.isfinite(high)) or math.isnan(x):
        raise _refused("the bounds must be two finite numbers, with at least one part between them")
    if x < low if low < high else x > low:
        return 0
    if x >= high if low < high else x <= high:
        return count + 1
    return min(int((x - low) / (high - low) * count), count - 1) + 1


def _doubles(function: Callable[..., float]) -> Rule:
    return lambda values, kind: function(*map(float, values))


def _longs(function: Callable[..., Value]) -> Rule:
    return lambda values, kind: function(*values)


FUNCTIONS: dict[str, Rule] = {
    "sqrt": _doubles(square_root),
    "cbrt": _doubles(math.cbrt),
    "power": _doubles(power),
    "exp": _doubles(_growing(math.exp)),
    "ln": _doubles(_logarithm(math.log)),
    "log2": _doubles(_logarithm(math.log2)),
    "log10": _doubles(_logarithm(math.log10)),
    "log": _doubles(_log),
    "sin": _doubles(_angle(math.sin)),
    "cos": _doubles(_angle(math.cos)),
    "tan": _doubles(_angle(math.tan)),
    "cot": _doubles(_angle(_cot)),
    "asin": _doubles(_within_one(math.asin)),
    "acos": _doubles(_within_one(math.acos)),
    "atan": _doubles(math.atan),
    "atan2": _doubles(math.atan2),
    "sinh": _doubles(_growing(math.sinh)),
    "cosh": _doubles(_growing(math.cosh)),
    "tanh": _doubles(math.tanh),
    "asinh": _doubles(math.asinh),
    "acosh": _doubles(lambda x: math.acosh(x) if x >= 1 else math.nan),
    "atanh": _doubles(_within_one(_atanh)),
    "degrees": _doubles(math.degrees),
    "radians": _doubles(math.radians),
    "pi": lambda values, kind: math.pi,
    "trunc": lambda values, kind: _truncated(values[0], values[1] if len(values) > 1 else 0, kind),
    "sign": _longs(_sign),
    "isnan": _doubles(math.isnan),
    "isinf": _doubles(math.isinf),
    "isfinite": _doubles(math.isfinite),
    "int_divide": _longs(_quotient),
    "width_bucket": lambda values, kind: _width_bucket(float(values[0]), float(values[1]), float(values[2]), values[3]),
    "gcd": _longs(_gcd),
    "lcm": _longs(lambda left, right: _long(math.lcm(_long(abs(left)), _long(abs(right))))),
    "factorial": _longs(_factorial),
    "bit_and": _longs(lambda left, right: left & right),
    "bit_or": _longs(lambda left, right: left | right),
    "xor": _longs(lambda left, right: left ^ right),
    "bit_not": _longs(lambda value: ~value),
    "shift_left": _longs(_shift_left),
    "shift_right": _longs(lambda value, by: value >> by if 0 <= by < 64 else 0),
    "bit_count": _longs(lambda value: (value & (2**64 - 1)).bit_count()),
}
