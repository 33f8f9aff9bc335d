"""Functions of numbers: roots, logarithms, angles, whole numbers and their bits."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.plan.signatures import NUMBER, WHOLE, Signature, gives, rounding, to_double

_LONG, _DOUBLE, _BOOL = pa.int64(), pa.float64(), pa.bool_()
_OF_ONE_DOUBLE = (
    "sqrt", "cbrt", "exp", "ln", "log2", "log10", "sin", "cos", "tan", "cot", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "asinh", "acosh", "atanh", "degrees", "radians",
)  # fmt: skip

FUNCTIONS: dict[str, Signature] = {
    **{name: Signature(to_double, 1, 1) for name in _OF_ONE_DOUBLE},
    "power": Signature(to_double, 2, 2),
    "log": Signature(to_double, 1, 2),
    "atan2": Signature(to_double, 2, 2),
    "pi": gives(_DOUBLE),
    "trunc": Signature(rounding, 1, 2),
    "sign": gives(_LONG, NUMBER),
    "isnan": gives(_BOOL, NUMBER),
    "isinf": gives(_BOOL, NUMBER),
    "isfinite": gives(_BOOL, NUMBER),
    "int_divide": gives(_LONG, WHOLE, WHOLE),
    "width_bucket": gives(_LONG, NUMBER, NUMBER, NUMBER, WHOLE),
    "gcd": gives(_LONG, WHOLE, WHOLE),
    "lcm": gives(_LONG, WHOLE, WHOLE),
    "factorial": gives(_LONG, WHOLE),
    "bit_and": gives(_LONG, WHOLE, WHOLE),
    "bit_or": gives(_LONG, WHOLE, WHOLE),
    "xor": gives(_LONG, WHOLE, WHOLE),
    "bit_not": gives(_LONG, WHOLE),
    "shift_left": gives(_LONG, WHOLE, WHOLE),
    "shift_right": gives(_LONG, WHOLE, WHOLE),
    "bit_count": gives(_LONG, WHOLE),
}
# Written //, DIV, & | ~ << >>.
OPERATORS = frozenset(("int_divide", "bit_and", "bit_or", "bit_not"))
ALIASES = {
    "pow": "power", "truncate": "trunc", "is_nan": "isnan", "is_inf": "isinf", "is_finite": "isfinite",
    "signum": "sign", "greatest_common_divisor": "gcd", "least_common_multiple": "lcm", "shiftleft": "shift_left",
    "shiftright": "shift_right", "bitwise_xor": "xor",
}  # fmt: skip
