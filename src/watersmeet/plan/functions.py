"""The scalar functions and aggregates of the language: canonical names, SQL names and type rules.

Families of functions have files of their own beside this one; what is here is written with signs or words, and what
belongs to no family. `plan.signatures` says what a rule is.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
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
from watersmeet.plan import nested_functions, number_functions, text_functions, time_functions
from watersmeet.plan.arithmetic import arithmetic_type
from watersmeet.plan.signatures import TEXT, Signature, Types, check, number_in, rounding, to_double
from watersmeet.plan.time_functions import TRUNCATION_UNITS

__all__ = [
    "AGGREGATES", "FUNCTIONS", "PAIRED", "TRUNCATION_UNITS", "Signature", "aggregate_name",
    "aggregate_type", "check_cast", "exact_share", "is_known", "near_name", "result_type",
    "scalar_name",
]  # fmt: skip
_FAMILIES = (text_functions, number_functions, time_functions, nested_functions)


def _comparison(function: str, args: Types) -> pa.DataType:
    for other in args[1:]:
        if not comparable(args[0], other):
            raise TypeError(f"{sql_type(args[0])} and {sql_type(other)} cannot be compared; {_way_out(args[0], other)}")
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


def _list_value(function: str, args: Types) -> pa.DataType:
    return pa.list_(_common("a list", args))


def _largest(function: str, args: Types) -> pa.DataType:
    for t in args:
        _ordered(function, [t])
    return _common(function, args)


def _nullif(function: str, args: Types) -> pa.DataType:
    _comparison(function, args)
    return args[0]


def _case(function: str, args: Types) -> pa.DataType:
    for condition in args[0:-1:2]:
        if not (pa.types.is_boolean(condition) or pa.types.is_null(condition)):
            raise TypeError(f"WHEN needs a condition (BOOLEAN), not {sql_type(condition)}")
    return _common("case", [*args[1:-1:2], args[-1]])


def _pack(function: str, args: Types) -> pa.DataType:
    """Several arguments of an aggregate as one."""
    return pa.struct([pa.field(f"f{place}", t) for place, t in enumerate(args)])


def _abs(function: str, args: Types) -> pa.DataType:
    return args[0] if pa.types.is_duration(args[0]) else number_in(function, args)


FUNCTIONS: dict[str, Signature] = {
    **{name: Signature(_comparison, 2, 2) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "and": Signature(_logic, 2, None),
    "or": Signature(_logic, 2, None),
    "not": Signature(_logic, 1, 1),
    "is_null": Signature(_any_to_boolean, 1, 1),
    "in": Signature(_comparison, 2, None),
    **{name: Signature(arithmetic_type, 2, 2) for name in ("add", "subtract", "multiply", "divide", "modulo")},
    "negate": Signature(_abs, 1, 1),
    "abs": Signature(_abs, 1, 1),
    "floor": Signature(rounding, 1, 1),
    "ceil": Signature(rounding, 1, 1),
    "round": Signature(rounding, 1, 2),
    "greatest": Signature(_largest, 1, None),
    "least": Signature(_largest, 1, None),
    "coalesce": Signature(_common, 1, None),
    "list_value": Signature(_list_value, 1, None),
    "nullif": Signature(_nullif, 2, 2),
    "case": Signature(_case, 3, None),
    "pack": Signature(_pack, 1, None),
    **{name: signature for one in _FAMILIES for name, signature in one.FUNCTIONS.items()},
}

# Written with signs or words of their own, so they cannot be called by name; modulo and concat can be both.
_OPERATORS = frozenset(
    ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "is_null", "in", "like", "add", "subtract", "multiply",
     "divide", "negate", "case", "pack", *text_functions.OPERATORS,
     *number_functions.OPERATORS, *time_functions.OPERATORS,
     *nested_functions.OPERATORS)
)  # fmt: skip
_ALIASES = {
    "mod": "modulo", "ceiling": "ceil", "ifnull": "coalesce", "nvl": "coalesce",
    **{alias: name for one in _FAMILIES for alias, name in one.ALIASES.items()},
}  # fmt: skip


def _sum(function: str, args: Types) -> pa.DataType:
    if pa.types.is_duration(args[0]):
        return args[0]
    result = number_in(function, args)
    # A sum may need any number of digits, so it gets all there are.
    return pa.decimal128(38, result.scale) if pa.types.is_decimal(result) else result


def _mean(function: str, args: Types) -> pa.DataType:
    return args[0] if pa.types.is_duration(args[0]) else to_double(function, args)


def _percentile_disc(function: str, args: Types) -> pa.DataType:
    number_in(function, args[1:])
    return _ordered(function, args)


def _entropy(function: str, args: Types) -> pa.DataType:
    _ordered(function, args)
    return pa.float64()


def _bits(function: str, args: Types) -> pa.DataType:
    if not pa.types.is_integer(args[0]) and not pa.types.is_null(args[0]):
        raise TypeError(f"{function.upper()} needs whole numbers, not {sql_type(args[0])}")
    return args[0]


def _count(function: str, args: Types) -> pa.DataType:
    return pa.int64()


def _same(function: str, args: Types) -> pa.DataType:
    return args[0]


def _ordered(function: str, args: Types) -> pa.DataType:
    if pa.types.is_nested(args[0]):
        raise TypeError(f"{function.upper()} needs values that have an order, not {sql_type(args[0])}")
    return args[0]


def _string_agg(function: str, args: Types) -> pa.DataType:
    for position, given in enumerate(args, start=1):
        check(function, position, given, TEXT)
    return pa.string()


def _array_agg(function: str, args: Types) -> pa.DataType:
    return pa.list_(args[0])


def _text_of_all(function: str, args: Types) -> pa.DataType:
    return pa.string()


def _map_agg(function: str, args: Types) -> pa.DataType:
    return pa.map_(_ordered(function, args), args[1])


def _arg_extreme(function: str, args: Types) -> pa.DataType:
    by = args[1]
    short = pa.types.is_decimal(by) and by.precision <= 18
    if not (pa.types.is_integer(by) or pa.types.is_floating(by) or is_instant(by) or short):
        raise TypeError(f"{function.upper()} goes by a number or a time, not by {sql_type(by)}")
    return args[0]


AGGREGATES: dict[str, Signature] = {
    "count": Signature(_count, 0, 1),
    "sum": Signature(_sum, 1, 1),
    # As a double, also of decimals: the exact sum is divided at the very end.
    "avg": Signature(_mean, 1, 1),
    "min": Signature(_ordered, 1, 1),
    "max": Signature(_ordered, 1, 1),
    "median": Signature(to_double, 1, 1),
    "percentile": Signature(to_double, 2, 2),
    "percentile_disc": Signature(_percentile_disc, 2, 2),
    "covar_pop": Signature(to_double, 2, 2),
    "covar_samp": Signature(to_double, 2, 2),
    "skewness": Signature(to_double, 1, 1),
    "kurtosis": Signature(to_double, 1, 1),
    "kurtosis_pop": Signature(to_double, 1, 1),
    "entropy": Signature(_entropy, 1, 1),
    "bit_and": Signature(_bits, 1, 1),
    "bit_or": Signature(_bits, 1, 1),
    "bit_xor": Signature(_bits, 1, 1),
    "stddev": Signature(to_double, 1, 1),
    "variance": Signature(to_double, 1, 1),
    "var_pop": Signature(to_double, 1, 1),
    "stddev_pop": Signature(to_double, 1, 1),
    "first": Signature(_same, 1, 1),
    "last": Signature(_same, 1, 1),
    "bool_and": Signature(_logic, 1, 1),
    "bool_or": Signature(_logic, 1, 1),
    "string_agg": Signature(_string_agg, 1, 2),
    "mode": Signature(_same, 1, 1),
    "arg_min": Signature(_arg_extreme, 2, 2),
    "arg_max": Signature(_arg_extreme, 2, 2),
    "array_agg": Signature(_array_agg, 1, 1),
    "json_agg": Signature(_text_of_all, 1, 1),
    "json_object_agg": Signature(_text_of_all, 2, 2),
    "jsonb_object_agg": Signature(_text_of_all, 2, 2),
    "map_agg": Signature(_map_agg, 2, 2),
}
# Of two numbers in a row, neither of them NULL.
PAIRED = frozenset(("covar_pop", "covar_samp"))
_AGGREGATE_ALIASES = {
    "mean": "avg", "stddev_samp": "stddev", "var_samp": "variance", "quantile": "percentile",
    "quantile_cont": "percentile", "percentile_cont": "percentile", "stdev": "stddev", "var": "variance",
    "first_value": "first", "last_value": "last", "any_value": "first", "arbitrary": "first", "every": "bool_and",
    "logical_and": "bool_and", "logical_or": "bool_or", "bool_any": "bool_or", "group_concat": "string_agg",
    "listagg": "string_agg", "max_by": "arg_max", "argmax": "arg_max", "min_by": "arg_min", "argmin": "arg_min",
    "quantile_disc": "percentile_disc", "list": "array_agg", "list_agg": "array_agg",
    "approx_median": "median", "jsonb_agg": "json_agg", "json_group_array": "json_agg",
    "json_arrayagg": "json_agg", "json_group_object": "json_object_agg", "json_objectagg": "json_object_agg",
    "approx_quantile": "percentile", "approx_percentile": "percentile", "percentile_approx": "percentile",
}  # fmt: skip


def exact_share(share: float) -> Fraction:
    """The share of a percentile as it was written, which a double only comes near to."""
    return Fraction(Decimal(repr(share)))


def scalar_name(sql_name: str) -> str | None:
    """The canonical name of a scalar function as written in SQL, or None if there is no such function."""
    name = _ALIASES.get(sql_name.lower(), sql_name.lower())
    return name if name in FUNCTIONS and name not in _OPERATORS else None


def aggregate_name(sql_name: str) -> str | None:
    """The canonical name of an aggregate as written in SQL, or None."""
    name = _AGGREGATE_ALIASES.get(sql_name.lower(), sql_name.lower())
    return name if name in AGGREGATES else None


def is_known(sql_name: str) -> bool:
    """Whether a name stands for something in the language, so that no user can give it to something else."""
    named = scalar_name(sql_name) is not None or aggregate_name(sql_name) is not None
    return named or sql_name.lower() in ("event_time", *nested_functions.STRUCTS)


def near_name(sql_name: str, others: Iterable[str] = ()) -> str | None:
    """The function nearest to a misspelt one, among those of the language and others."""
    known = [*(set(FUNCTIONS) - _OPERATORS), *_ALIASES, *AGGREGATES, *_AGGREGATE_ALIASES, "event_time", *others]
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
    if source != target and (pa.types.is_nested(source) or pa.types.is_nested(target)) and not pa.types.is_null(source):
        raise TypeError(f"{sql_type(source)} cannot be cast to {sql_type(target)}")
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
