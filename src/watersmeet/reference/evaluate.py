"""One expression for one combination of rows, in plain Python, with SQL's three-valued logic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import UnsupportedError
from watersmeet.model.types import common_type
from watersmeet.plan.expressions import Aggregate, Call, Column, EventTime, Expression, Literal
from watersmeet.plan.user_functions import UserFunction
from watersmeet.reference import nested_functions, time_functions
from watersmeet.reference.casts import cast, zone_of
from watersmeet.reference.functions import FUNCTIONS, date_trunc
from watersmeet.reference.order import rank
from watersmeet.reference.values import Value, coerce, plain, present
from watersmeet.reference.zones import shown

Row = Mapping[str, Value]
# Two decimals of 38 digits make a product of 76: nothing is rounded before its type is known.
_EXACT = Context(prec=100, rounding=ROUND_HALF_UP)
_PARTS = ("year", "month", "day", "hour", "minute", "second")


@dataclass(frozen=True)
class Combination:
    """One row of each input by alias, and the newest member's time in nanoseconds."""

    rows: Mapping[str, Row]
    event_time_ns: int | None = None


def holds(predicate: Expression, combination: Combination) -> bool:
    """Whether a predicate is true; false and NULL both reject."""
    return evaluate(predicate, combination) is True


def evaluate(expression: Expression, combination: Combination) -> Value:
    match expression:
        case Column(stream=stream, name=name):
            return combination.rows[stream][name]
        case Literal(value=value, type=kind):
            return plain(pa.scalar(value, kind))
        case EventTime():
            return combination.event_time_ns
        case Call():
            return _call(expression, combination)
        case Aggregate(function=function):
            raise UnsupportedError(f"{function.upper()} is an aggregate; it has no value for a single combination")


def _call(call: Call, combination: Combination) -> Value:
    if call.function in _LAZY:
        return _LAZY[call.function](call, combination)
    values = [evaluate(arg, combination) for arg in call.args]
    if call.user is not None:
        return by_user(call.user, [[value] for value in values])
    if call.function in _COMPARISONS:
        return _COMPARISONS[call.function](_order(values, call.args))
    if call.function == "in":
        return _in(values, call.args)
    if call.function in _NULL_AWARE:
        return _NULL_AWARE[call.function](values, call)
    # Before NULLs are looked at, so that an unknown function is told on any data.
    if call.function not in _STRICT and call.function not in FUNCTIONS:
        raise UnsupportedError(f"the reference does not know the function {call.function!r}")
    if any(v is None for v in values):
        return None
    if call.function in _STRICT:
        return _STRICT[call.function](values, call)
    # Parts are of what clocks of the zone show.
    if call.function in _PARTS:
        values = [shown(values[0], zone_of(call.args[0].type))]
    return FUNCTIONS[call.function](values, call.type)


def by_user(user: UserFunction, columns: list[list[Value]]) -> Value:
    """What a function that a user has brought gives for one row, or an aggregate for a group."""
    arrays = [
        pa.array([present(coerce(value, kind), kind) for value in column], kind)
        for column, kind in zip(columns, user.arguments, strict=True)
    ]
    if user.is_incremental:
        instance = user.body()
        instance.add(*arrays)
        made = instance.result()
    else:
        made = user.body(*arrays)
    if user.kind == "function":
        made = made if isinstance(made, pa.Scalar) else made[0]
    scalar = made.cast(user.result) if isinstance(made, pa.Scalar) else pa.scalar(made, user.result)
    return plain(scalar)


def _case(call: Call, combination: Combination) -> Value:
    for condition, value in zip(call.args[0:-1:2], call.args[1:-1:2], strict=True):
        if holds(condition, combination):
            return coerce(evaluate(value, combination), call.type)
    return coerce(evaluate(call.args[-1], combination), call.type)


def _and(call: Call, combination: Combination) -> bool | None:
    """False as soon as one part is, so that what stands after a guard is not evaluated."""
    return _until(False, (evaluate(arg, combination) for arg in call.args))


def _or(call: Call, combination: Combination) -> bool | None:
    return _until(True, (evaluate(arg, combination) for arg in call.args))


def _until(decisive: bool, values: Iterable[bool | None]) -> bool | None:
    """The decisive value if it occurs, else NULL if that occurs, else the other value."""
    unknown = False
    for value in values:
        if value is decisive:
            return decisive
        unknown = unknown or value is None
    return None if unknown else not decisive


def _coalesce(call: Call, combination: Combination) -> Value:
    values = (evaluate(arg, combination) for arg in call.args)
    return coerce(next((v for v in values if v is not None), None), call.type)


_LAZY: dict[str, Callable[[Call, Combination], Value]] = {
    "case": _case,
    "and": _and,
    "or": _or,
    "coalesce": _coalesce,
}


def _order(values: list[Value], args: tuple[Expression, ...]) -> int | None:
    """The order of two values in the type they are compared in; None if one of them is NULL."""
    if any(v is None for v in values):
        return None
    kind = common_type(args[0].type, args[1].type)
    return _sign(coerce(values[0], kind), coerce(values[1], kind))


def _sign(left: Value, right: Value) -> int:
    """-1, 0 or 1 as left is smaller than, equal to or larger than right. NaN equals NaN and exceeds every number."""
    first, second = rank(left), rank(right)
    return (first > second) - (first < second)


def _test(test: Callable[[int], bool]) -> Callable[[int | None], bool | None]:
    return lambda order: None if order is None else test(order)


_COMPARISONS: dict[str, Callable[[int | None], bool | None]] = {
    "eq": _test(lambda order: order == 0),
    "ne": _test(lambda order: order != 0),
    "lt": _test(lambda order: order < 0),
    "le": _test(lambda order: order <= 0),
    "gt": _test(lambda order: order > 0),
    "ge": _test(lambda order: order >= 0),
}


def _in(values: list[Value], args: tuple[Expression, ...]) -> bool | None:
    pairs = zip(values[1:], args[1:], strict=True)
    return _until(True, [_COMPARISONS["eq"](_order([values[0], v], (args[0], arg))) for v, arg in pairs])


def _not(values: list[Value], call: Call) -> bool | None:
    return None if values[0] is None else not values[0]


def _is_null(values: list[Value], call: Call) -> bool:
    return values[0] is None


def _nullif(values: list[Value], call: Call) -> Value:
    return None if _order(values, call.args) == 0 else values[0]


def _extreme(sign: int) -> Callable[[list[Value], Call], Value]:
    """GREATEST (1) or LEAST (-1) of the values that are not NULL."""

    def pick(values: list[Value], call: Call) -> Value:
        best: Value = None
        for value in (coerce(v, call.type) for v in values if v is not None):
            if best is None or sign * _sign(value, best) > 0:
                best = value
        return best

    return pick


_NULL_AWARE: dict[str, Callable[[list[Value], Call], Value]] = {
    "not": _not,
    "is_null": _is_null,
    "nullif": _nullif,
    "greatest": _extreme(1),
    "least": _extreme(-1),
    **nested_functions.NULL_AWARE,
}


def _add(values: list[Value], call: Call) -> Value:
    left, right = _operands(values, call)
    return _fit(_EXACT.add(left, right) if isinstance(left, Decimal) else left + right, call.type)


def _subtract(values: list[Value], call: Call) -> Value:
    left, right = _operands(values, call)
    return _fit(_EXACT.subtract(left, right) if isinstance(left, Decimal) else left - right, call.type)


def _multiply(values: list[Value], call: Call) -> Value:
    left, right = _operands(values, call)
    return _fit(_EXACT.multiply(left, right) if isinstance(left, Decimal) else left * right, call.type)


def _divide(values: list[Value], call: Call) -> Value:
    left, right = _operands(values, call)
    if right == 0:
        return None
    if isinstance(left, Decimal):
        return _fit(_EXACT.divide(left, right), call.type)
    return _fit(left / right if isinstance(left, float) else _truncating_quotient(left, right), call.type)


def _modulo(values: list[Value], call: Call) -> Value:
    """The remainder has the sign of the dividend, as SQL says."""
    left, right = _operands(values, call)
    if right == 0:
        return None
    if isinstance(left, Decimal):
        return _fit(_EXACT.remainder(left, right), call.type)
    if isinstance(left, float):
        # math.fmod raises for an infinite dividend, where IEEE 754 has NaN.
        return _fit(math.nan if math.isinf(left) else math.fmod(left, right), call.type)
    return left - right * _truncating_quotient(left, right)


def _truncating_quotient(left: int, right: int) -> int:
    # Python's // would round down; SQL cuts off.
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _operands(values: list[Value], call: Call) -> list[Value]:
    """Both numbers in the family of the result, so that 1 / 2 is exact, decimal or floating as its type says."""
    return [coerce(v, call.type) for v in values]


def _fit(value: Value, kind: pa.DataType) -> Value:
    """A result at the precision its type can hold."""
    if pa.types.is_decimal(kind):
        return Decimal(value).quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
    return coerce(value, kind)


def _negate(values: list[Value], call: Call) -> Value:
    return _EXACT.minus(values[0]) if isinstance(values[0], Decimal) else -values[0]


def _abs(values: list[Value], call: Call) -> Value:
    return _EXACT.abs(values[0]) if isinstance(values[0], Decimal) else abs(values[0])


_STRICT: dict[str, Callable[[list[Value], Call], Value]] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "modulo": _modulo,
    "negate": _negate,
    "abs": _abs,
    "date_trunc": lambda values, call: date_trunc(values[0], values[1], zone_of(call.args[1].type)),
    "cast": lambda values, call: cast(values[0], call.args[0].type, call.type),
    **time_functions.FUNCTIONS,
    **nested_functions.STRICT,
}
