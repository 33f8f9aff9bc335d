"""Functions of lists and structs. Places in a list count from 1, and from -1 at its end."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.model.types import common_type, comparable, is_number, is_text, sql_type
from watersmeet.plan.signatures import TEXT, WHOLE, Signature, Types, check


def is_list(t: pa.DataType) -> bool:
    return bool(pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t))


def _listed(function: str, t: pa.DataType) -> pa.DataType:
    """The type of the elements."""
    if pa.types.is_null(t):
        return t
    if not is_list(t):
        raise TypeError(f"{function.upper()} needs a list, not {sql_type(t)}")
    return t.value_type


def _element(function: str, args: Types) -> pa.DataType:
    if pa.types.is_map(args[0]):
        if not comparable(args[0].key_type, args[1]):
            raise TypeError(f"the keys of {sql_type(args[0])} are not {sql_type(args[1])}")
        return args[0].item_type
    if not pa.types.is_integer(args[1]) and not pa.types.is_null(args[1]):
        raise TypeError(f"a place in a list is a whole number, not {sql_type(args[1])}")
    return pa.string() if is_text(args[0]) else _listed(function, args[0])


def _slice(function: str, args: Types) -> pa.DataType:
    for t in args[1:]:
        check(function, 0, t, WHOLE)
    if is_text(args[0]):
        return pa.string()
    return pa.list_(_listed(function, args[0]))


def _sought(result: pa.DataType) -> Signature:
    def rule(function: str, args: Types) -> pa.DataType:
        element = _listed(function, args[0])
        if pa.types.is_nested(element):
            raise TypeError(f"{function.upper()} cannot look for {sql_type(element)}")
        if not comparable(element, args[1]):
            raise TypeError(f"a list of {sql_type(element)} cannot hold {sql_type(args[1])}; cast one of them")
        common_type(element, args[1])
        return result

    return Signature(rule, 2, 2)


def _joined(function: str, args: Types) -> pa.DataType:
    element = _listed(function, args[0])
    check(function, 2, args[1], TEXT)
    if not (is_text(element) or pa.types.is_integer(element) or pa.types.is_null(element)):
        raise TypeError(f"{function.upper()} joins texts or whole numbers, not {sql_type(element)}")
    return pa.string()


def _total(function: str, args: Types) -> pa.DataType:
    element = _listed(function, args[0])
    if not is_number(element) and not pa.types.is_null(element):
        raise TypeError(f"{function.upper()} needs a list of numbers, not of {sql_type(element)}")
    if pa.types.is_decimal(element):
        return pa.decimal128(38, element.scale)
    return pa.float64() if pa.types.is_floating(element) else pa.int64()


def _extreme(function: str, args: Types) -> pa.DataType:
    element = _listed(function, args[0])
    if pa.types.is_nested(element):
        raise TypeError(f"{function.upper()} needs values that have an order, not {sql_type(element)}")
    return element


def _series(function: str, args: Types) -> pa.DataType:
    for place, t in enumerate(args, 1):
        check(function, place, t, WHOLE)
    return pa.list_(pa.int64())


def _field(function: str, args: Types) -> pa.DataType:
    raise TypeError("a field of a struct is written s.field or s['field']")


FUNCTIONS: dict[str, Signature] = {
    "element": Signature(_element, 2, 2),
    "slice": Signature(_slice, 3, 3),
    "list_contains": _sought(pa.bool_()),
    "list_position": _sought(pa.int64()),
    "array_to_string": Signature(_joined, 2, 2),
    "list_sum": Signature(_total, 1, 1),
    "list_min": Signature(_extreme, 1, 1),
    "list_max": Signature(_extreme, 1, 1),
    "generate_series": Signature(_series, 2, 3),
    "field": Signature(_field, 1, 2),
}
# Written x[1], x[1:2] and x.name; the name of a field is a constant beside it.
OPERATORS = frozenset(("element", "slice", "field"))
ALIASES = {
    "array_contains": "list_contains", "list_has": "list_contains", "array_has": "list_contains",
    "array_position": "list_position", "list_indexof": "list_position", "array_indexof": "list_position",
    "array_join": "array_to_string", "list_to_string": "array_to_string", "array_min": "list_min",
    "array_max": "list_max", "array_sum": "list_sum", "list_pack": "list_value", "make_array": "list_value",
}  # fmt: skip
