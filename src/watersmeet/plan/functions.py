"""The scalar functions and aggregates of the language: canonical names, SQL names and type rules.

A type rule maps argument types to the result type, or raises TypeError with a sentence for the user. NULL
literals have Arrow's null type and fit anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce

import pyarrow as pa

from watersmeet.model.types import (
    common_type,
    comparable,
    family,
    is_bytes,
    is_instant,
    is_number,
    is_text,
    sql_type,
)
from watersmeet.plan.arithmetic import arithmetic_type, promoted

Types = Sequence[pa.DataType]
Rule = Callable[[str, Types], pa.DataType]
TRUNCATION_UNITS = (
    "microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year",
)  # fmt: skip


@dataclass(frozen=True)
class Signature:
    """How many arguments a function takes and what type comes out; `at_most` None means any number."""

    rule: Rule
    at_least: int
    at_most: int | None


def _comparison(function: str, args: Types) -> pa.DataType:
    for other in args[1:]:
        if not comparable(args[0], other):
            raise TypeError(f"{sql_type(args[0])} and {sql_type(other)} cannot be compared; {_way_out(args[0], other)}")
    if any(pa.types.is_nested(t) for t in args):
        raise TypeError(f"{sql_type(args[0])} values cannot be compared")
    return pa.bool_()


def _way_out(left: pa.DataType, right: pa.DataType) -> str:
    """What would make two values comparable that are not."""
    kinds = {family(left), family(right)}
    if kinds == {"interval", "number"}:
        return "write an interval such as INTERVAL 5 SECONDS"
    if kinds == {"instant", "number"}:
        return "write a time such as '2026-01-01 12:00:00', or compare EPOCH_US(…), which is a number"
    if kinds == {"instant", "interval"}:
        return "two times that are subtracted give an interval"
    return "cast one of them"


def _logic(function: str, args: Types) -> pa.DataType:
    for t in args:
        if not (pa.types.is_boolean(t) or pa.types.is_null(t)):
            raise TypeError(f"{function.upper()} needs conditions (BOOLEAN), not {sql_type(t)}")
    return pa.bool_()


def _any_to_boolean(function: str, args: Types) -> pa.DataType:
    return pa.bool_()


def _common(function: str, args: Types) -> pa.DataType:
    for other in args[1:]:
        if not comparable(args[0], other):
            raise TypeError(
                f"{function.upper()} needs values of one kind, not {sql_type(args[0])} and {sql_type(other)}; "
                f"cast one of them"
            )
    return reduce(common_type, args)


def _nullif(function: str, args: Types) -> pa.DataType:
    _comparison(function, args)
    return args[0]


def _case(function: str, args: Types) -> pa.DataType:
    for condition in args[0:-1:2]:
        if not (pa.types.is_boolean(condition) or pa.types.is_null(condition)):
            raise TypeError(f"WHEN needs a condition (BOOLEAN), not {sql_type(condition)}")
    return _common("case", [*args[1:-1:2], args[-1]])


def _number_in(function: str, args: Types) -> pa.DataType:
    for t in args:
        if not (is_number(t) or pa.types.is_null(t)):
            raise TypeError(f"{function.upper()} needs a number, not {sql_type(t)}")
    return promoted(args[0])


def _to_double(function: str, args: Types) -> pa.DataType:
    _number_in(function, args)
    return pa.float64()


def _abs(function: str, args: Types) -> pa.DataType:
    return args[0] if pa.types.is_duration(args[0]) else _number_in(function, args)


def _rounding(function: str, args: Types) -> pa.DataType:
    result = _number_in(function, args[:1])
    if len(args) > 1 and not pa.types.is_integer(args[1]):
        raise TypeError(f"{function.upper()} needs a whole number of digits, not {sql_type(args[1])}")
    if pa.types.is_decimal(result) and len(args) == 1:
        # One digit more before the point, as 9.9 becomes 10.
        return pa.decimal128(min(38, result.precision - result.scale + 1), 0)
    return result


def _text(result: pa.DataType) -> Rule:
    def rule(function: str, args: Types) -> pa.DataType:
        for t in args:
            if not (is_text(t) or pa.types.is_null(t)):
                raise TypeError(
                    f"{function.upper()} needs text (STRING), not {sql_type(t)}; CAST(… AS STRING) would do"
                )
        return result

    return rule


def _length(function: str, args: Types) -> pa.DataType:
    return pa.int64() if is_bytes(args[0]) else _text(pa.int64())(function, args)


def _substring(function: str, args: Types) -> pa.DataType:
    _text(pa.string())(function, args[:1])
    for t in args[1:]:
        if not (pa.types.is_integer(t) or pa.types.is_null(t)):
            raise TypeError(f"SUBSTRING needs a whole start and length, not {sql_type(t)}")
    return pa.string()


def _instant_part(function: str, args: Types) -> pa.DataType:
    if not (is_instant(args[0]) or pa.types.is_null(args[0])):
        raise TypeError(f"{function.upper()} needs a TIMESTAMP or DATE, not {sql_type(args[0])}")
    return pa.int64()


def _date_trunc(function: str, args: Types) -> pa.DataType:
    if not is_text(args[0]):
        raise TypeError("DATE_TRUNC needs a unit first, for example DATE_TRUNC('hour', ts)")
    if not (is_instant(args[1]) or pa.types.is_null(args[1])):
        raise TypeError(f"DATE_TRUNC needs a TIMESTAMP or DATE, not {sql_type(args[1])}")
    return pa.timestamp("us", tz=getattr(args[1], "tz", None))


FUNCTIONS: dict[str, Signature] = {
    **{name: Signature(_comparison, 2, 2) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "and": Signature(_logic, 2, None),
    "or": Signature(_logic, 2, None),
    "not": Signature(_logic, 1, 1),
    "is_null": Signature(_any_to_boolean, 1, 1),
    "in": Signature(_comparison, 2, None),
    "like": Signature(_text(pa.bool_()), 2, 2),
    **{name: Signature(arithmetic_type, 2, 2) for name in ("add", "subtract", "multiply", "divide", "modulo")},
    "negate": Signature(_abs, 1, 1),
    "abs": Signature(_abs, 1, 1),
    "floor": Signature(_rounding, 1, 1),
    "ceil": Signature(_rounding, 1, 1),
    "round": Signature(_rounding, 1, 2),
    "sqrt": Signature(_to_double, 1, 1),
    "power": Signature(_to_double, 2, 2),
    "greatest": Signature(_common, 1, None),
    "least": Signature(_common, 1, None),
    "concat": Signature(_text(pa.string()), 2, None),
    "lower": Signature(_text(pa.string()), 1, 1),
    "upper": Signature(_text(pa.string()), 1, 1),
    "trim": Signature(_text(pa.string()), 1, 1),
    "length": Signature(_length, 1, 1),
    "substring": Signature(_substring, 2, 3),
    "starts_with": Signature(_text(pa.bool_()), 2, 2),
    "contains": Signature(_text(pa.bool_()), 2, 2),
    "replace": Signature(_text(pa.string()), 3, 3),
    "coalesce": Signature(_common, 1, None),
    "nullif": Signature(_nullif, 2, 2),
    "case": Signature(_case, 3, None),
    **{name: Signature(_instant_part, 1, 1) for name in ("year", "month", "day", "hour", "minute", "second")},
    "date_trunc": Signature(_date_trunc, 2, 2),
    "epoch_us": Signature(_instant_part, 1, 1),
}

# Written with signs or words of their own, so they cannot be called by name; modulo and concat can be both.
_OPERATORS = frozenset(
    ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "is_null", "in", "like", "add", "subtract", "multiply",
     "divide", "negate", "case")
)  # fmt: skip
_ALIASES = {
    "mod": "modulo", "pow": "power", "ceiling": "ceil", "substr": "substring", "len": "length",
    "char_length": "length", "lcase": "lower", "ucase": "upper", "ifnull": "coalesce", "nvl": "coalesce",
    "startswith": "starts_with", "character_length": "length", "strlen": "length",
}  # fmt: skip


def _sum(function: str, args: Types) -> pa.DataType:
    result = _number_in(function, args)
    # A sum may need any number of digits, so it gets all there are.
    return pa.decimal128(38, result.scale) if pa.types.is_decimal(result) else result


def _count(function: str, args: Types) -> pa.DataType:
    return pa.int64()


def _same(function: str, args: Types) -> pa.DataType:
    return args[0]


def _ordered(function: str, args: Types) -> pa.DataType:
    if pa.types.is_nested(args[0]):
        raise TypeError(f"{function.upper()} needs values that have an order, not {sql_type(args[0])}")
    return args[0]


AGGREGATES: dict[str, Signature] = {
    "count": Signature(_count, 0, 1),
    "sum": Signature(_sum, 1, 1),
    # As a double, also of decimals: the exact sum is divided at the very end.
    "avg": Signature(_to_double, 1, 1),
    "min": Signature(_ordered, 1, 1),
    "max": Signature(_ordered, 1, 1),
    "median": Signature(_to_double, 1, 1),
    "percentile": Signature(_to_double, 2, 2),
    "stddev": Signature(_to_double, 1, 1),
    "variance": Signature(_to_double, 1, 1),
    "first": Signature(_same, 1, 1),
    "last": Signature(_same, 1, 1),
}
_AGGREGATE_ALIASES = {
    "mean": "avg", "stddev_samp": "stddev", "var_samp": "variance", "quantile": "percentile",
    "quantile_cont": "percentile", "percentile_cont": "percentile", "stdev": "stddev", "var": "variance",
    "first_value": "first", "last_value": "last",
}  # fmt: skip


def scalar_name(sql_name: str) -> str | None:
    """The canonical name of a scalar function as written in SQL, or None if there is no such function."""
    name = _ALIASES.get(sql_name.lower(), sql_name.lower())
    return name if name in FUNCTIONS and name not in _OPERATORS else None


def aggregate_name(sql_name: str) -> str | None:
    """The canonical name of an aggregate as written in SQL, or None."""
    name = _AGGREGATE_ALIASES.get(sql_name.lower(), sql_name.lower())
    return name if name in AGGREGATES else None


def near_name(sql_name: str) -> str | None:
    """The function nearest to a misspelt one."""
    known = [*(set(FUNCTIONS) - _OPERATORS), *_ALIASES, *AGGREGATES, *_AGGREGATE_ALIASES, "event_time"]
    near = get_close_matches(sql_name.lower(), sorted(known), n=1)
    return near[0].upper() if near else None


def result_type(function: str, args: Types) -> pa.DataType:
    """The type of a scalar call, by canonical name. CAST is not here: its type is what it says.

    >>> result_type("divide", [pa.int32(), pa.int64()])
    DataType(double)
    """
    return _apply(FUNCTIONS, function, args)


def aggregate_type(function: str, args: Types) -> pa.DataType:
    """The type of an aggregate, by canonical name; COUNT(*) has no arguments."""
    return _apply(AGGREGATES, function, args)


def _apply(registry: dict[str, Signature], function: str, args: Types) -> pa.DataType:
    signature = registry.get(function)
    if signature is None:
        raise TypeError(f"there is no function {function}")
    if len(args) < signature.at_least or (signature.at_most is not None and len(args) > signature.at_most):
        raise TypeError(f"{function.upper()} takes {_arity(signature)}, not {len(args)}")
    return signature.rule(function, args)


def _arity(signature: Signature) -> str:
    low, high = signature.at_least, signature.at_most
    if high is None:
        return f"at least {low} argument{'s' if low != 1 else ''}"
    if low == high:
        return f"{low} argument{'s' if low != 1 else ''}"
    return f"{low} to {high} arguments"


def check_cast(source: pa.DataType, target: pa.DataType) -> None:
    """Refuse casts that have no meaning. Text casts to and from everything plain."""
    # A text may hold anything: whether it fits is seen row by row.
    if source == target or pa.types.is_null(source) or is_text(source) or is_text(target):
        return
    plain = is_number(source) or pa.types.is_boolean(source)
    if plain and (is_number(target) or pa.types.is_boolean(target)):
        return
    if is_instant(source) and is_instant(target):
        return
    if is_bytes(source) and is_bytes(target):
        return
    raise TypeError(f"{sql_type(source)} cannot be cast to {sql_type(target)}")
