"""Functions of lists and structs. Places in a list count from 1, and from -1 at its end."""

from __future__ import annotations

from functools import reduce

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


def _list_of_comparable(result: pa.DataType | None) -> Signature:
    """A function of one list whose elements are compared with each other; it gives such a list if no type is said."""

    def rule(function: str, args: Types) -> pa.DataType:
        element = _extreme(function, args)
        return pa.list_(element) if result is None else result

    return Signature(rule, 1, 1)


def _both(result: pa.DataType | None) -> Signature:
    def rule(function: str, args: Types) -> pa.DataType:
        element = _common_element(function, [_extreme(function, [one]) for one in args])
        return pa.list_(element) if result is None else result

    return Signature(rule, 2, 2)


def _common_element(function: str, elements: Types) -> pa.DataType:
    for other in elements[1:]:
        if elements[0] != other and not comparable(elements[0], other):
            raise TypeError(
                f"{function.upper()} needs elements of one kind, not {sql_type(elements[0])} and {sql_type(other)}; "
                "cast one of them"
            )
    return elements[0] if all(one == elements[0] for one in elements) else reduce(common_type, elements)


def _same_list(function: str, args: Types) -> pa.DataType:
    return pa.list_(_listed(function, args[0]))


def _counted(function: str, args: Types) -> pa.DataType:
    _listed(function, args[0])
    return pa.int64()


def _mean(function: str, args: Types) -> pa.DataType:
    _total(function, args)
    return pa.float64()


def _concatenated(function: str, args: Types) -> pa.DataType:
    return pa.list_(_common_element(function, [_listed(function, one) for one in args]))


def _appended(function: str, args: Types) -> pa.DataType:
    first, last = (args[1], args[0]) if function == "list_prepend" else args
    return pa.list_(_common_element(function, [_listed(function, first), last]))


def _of_map(part: str) -> Signature:
    def rule(function: str, args: Types) -> pa.DataType:
        if not pa.types.is_map(args[0]) and not pa.types.is_null(args[0]):
            raise TypeError(f"{function.upper()} needs a map, not {sql_type(args[0])}")
        return pa.list_(pa.null() if pa.types.is_null(args[0]) else getattr(args[0], part))

    return Signature(rule, 1, 1)


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
    "list_avg": Signature(_mean, 1, 1),
    "list_count": Signature(_counted, 1, 1),
    "list_unique": _list_of_comparable(pa.int64()),
    "list_distinct": _list_of_comparable(None),
    "list_sort": _list_of_comparable(None),
    "list_reverse_sort": _list_of_comparable(None),
    "list_reverse": Signature(_same_list, 1, 1),
    "list_has_any": _both(pa.bool_()),
    "list_has_all": _both(pa.bool_()),
    "list_intersect": _both(None),
    "list_concat": Signature(_concatenated, 1, None),
    "list_append": Signature(_appended, 2, 2),
    "list_prepend": Signature(_appended, 2, 2),
    "map_keys": _of_map("key_type"),
    "map_values": _of_map("item_type"),
    "field": Signature(_field, 1, 2),
    "named_struct": Signature(_field, 2, None),
}
STRUCTS = ("struct", "named_struct", "struct_pack")
# Written x[1], x[1:2], x.name and as those; the name of a field is a constant beside it.
OPERATORS = frozenset(("element", "slice", "field", "named_struct"))
ALIASES = {
    "array_contains": "list_contains", "list_has": "list_contains", "array_has": "list_contains",
    "array_position": "list_position", "list_indexof": "list_position", "array_indexof": "list_position",
    "array_join": "array_to_string", "list_to_string": "array_to_string", "array_min": "list_min",
    "array_max": "list_max", "array_sum": "list_sum", "array_avg": "list_avg", "array_unique": "list_unique",
    "array_distinct": "list_distinct", "array_sort": "list_sort", "array_reverse_sort": "list_reverse_sort",
    "array_reverse": "list_reverse", "array_has_any": "list_has_any", "array_has_all": "list_has_all",
    "arrays_overlap": "list_has_any", "array_intersect": "list_intersect", "list_cat": "list_concat",
    "array_cat": "list_concat", "array_concat": "list_concat", "array_append": "list_append",
    "array_push_back": "list_append", "array_prepend": "list_prepend",
    "list_pack": "list_value", "make_array": "list_value",
}  # fmt: skip
