"""Functions of lists and structs on plain values, and others that have their own way with NULLs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from watersmeet.errors import DataError, UnsupportedError
from watersmeet.model.types import is_text
from watersmeet.plan.expressions import Call, Literal
from watersmeet.reference.casts import cast
from watersmeet.reference.text_functions import json_written
from watersmeet.reference.values import Value

Rule = Callable[[list[Value], Call], Value]


def _element(values: list[Value], call: Call) -> Value:
    items, place = values
    if pa.types.is_map(call.args[0].type):
        return next((value for key, value in items if key == place), None)
    index = place - 1 if place > 0 else len(items) + place
    if place == 0 or not 0 <= index < len(items):
        return "" if isinstance(items, str) else None
    return items[index]


def _slice(values: list[Value], call: Call) -> Value:
    items, first, last = values
    for value, given in ((items, None), (first, call.args[1]), (last, call.args[2])):
        if value is None and not _left_out(given):
            return None
    low = _place(items, 1 if first is None else first)
    high = _place(items, len(items) if last is None else last)
    return items[max(low, 1) - 1 : max(high, 0)]


def _place(items: Any, place: int) -> int:
    return place if place >= 0 else len(items) + place + 1


def _left_out(given: Any) -> bool:
    return isinstance(given, Literal) and str(given.type) == "null"


def _position(values: list[Value], call: Call) -> int | None:
    items, wanted = values
    return next((place + 1 for place, item in enumerate(items) if item is not None and item == wanted), None)


def _concat_ws(values: list[Value], call: Call) -> str | None:
    between, *texts = values
    return None if between is None else between.join(text for text in texts if text is not None)


def _known(items: list[Value]) -> list[Value]:
    return [item for item in items if item is not None]


def _series(values: list[Value], call: Call) -> list[Value]:
    first, last, step = (*values, 1)[:3]
    return [] if step == 0 else list(range(first, last + (1 if step > 0 else -1), step))


def _same(left: Value, right: Value) -> bool:
    return bool(left == right or (left != left and right != right))


def _mean(items: list[Value]) -> float | None:
    return float(sum(items)) / len(items) if items else None


def _distinct(items: list[Value]) -> list[Value]:
    made: list[Value] = []
    for item in _known(items):
        if not any(_same(item, one) for one in made):
            made.append(item)
    return made


def _sorted(items: list[Value], downwards: bool) -> list[Value]:
    known = sorted(_known(items), key=lambda item: (item != item, item), reverse=downwards)
    return known + [None] * (len(items) - len(known))


def _shared(values: list[Value]) -> list[Value]:
    return [item for item in _distinct(values[0]) if any(_same(item, one) for one in _known(values[1]))]


def _concat(values: list[Value], call: Call) -> Value:
    lists = _known(values)
    return [item for one in lists for item in one] if lists else None


def json_text(value: Value, kind: pa.DataType) -> str:
    """As JSON, without spaces, which has no NaN and no infinity."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "null"
    if pa.types.is_struct(kind):
        return "{" + ",".join(f"{json_written(f.name)}:{json_text(value[f.name], f.type)}" for f in kind) + "}"
    if pa.types.is_map(kind):
        return "{" + ",".join(f"{json_text(k, kind.key_type)}:{json_text(v, kind.item_type)}" for k, v in value) + "}"
    if pa.types.is_nested(kind):
        return "[" + ",".join(json_text(one, kind.value_type) for one in value) + "]"
    if is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return json_written(value)
    if isinstance(value, float):
        return json_written(value)
    if pa.types.is_duration(kind):
        raise UnsupportedError("the reference does not write intervals as JSON")
    text = str(cast(value, kind, pa.string()))
    return text if pa.types.is_decimal(kind) else f'"{text}"'


def _to_json(value: Value, kind: pa.DataType) -> str | None:
    text = json_text(value, kind)
    return None if text == "null" else text


def _json_object(values: list[Value], call: Call) -> str:
    if any(name is None for name in values[::2]):
        raise DataError("a field needs a name")
    pairs = zip(values[::2], values[1::2], strict=True)
    return "{" + ",".join(f"{json_written(name)}:{'null' if one is None else one}" for name, one in pairs) + "}"


STRICT: dict[str, Rule] = {
    "element": _element,
    "list_contains": lambda values, call: _position(values, call) is not None,
    "list_position": _position,
    "array_to_string": lambda values, call: values[1].join(str(item) for item in _known(values[0])),
    "list_sum": lambda values, call: sum(_known(values[0])) if _known(values[0]) else None,
    "list_min": lambda values, call: min(_known(values[0]), default=None),
    "list_max": lambda values, call: max(_known(values[0]), default=None),
    "generate_series": _series,
    "field": lambda values, call: values[0][values[1]],
    "list_avg": lambda values, call: _mean(_known(values[0])),
    "list_count": lambda values, call: len(_known(values[0])),
    "list_unique": lambda values, call: len(_distinct(values[0])),
    "list_distinct": lambda values, call: _distinct(values[0]),
    "list_sort": lambda values, call: _sorted(values[0], downwards=False),
    "list_reverse_sort": lambda values, call: _sorted(values[0], downwards=True),
    "list_reverse": lambda values, call: values[0][::-1],
    "list_has_any": lambda values, call: bool(_shared(values)),
    "list_has_all": lambda values, call: len(_shared(values[::-1])) == len(_distinct(values[1])),
    "list_intersect": lambda values, call: _shared(values),
    "map_keys": lambda values, call: [key for key, _ in values[0]],
    "map_values": lambda values, call: [value for _, value in values[0]],
    "to_json": lambda values, call: _to_json(values[0], call.args[0].type),
}
NULL_AWARE: dict[str, Rule] = {
    "slice": _slice,
    "concat_ws": _concat_ws,
    "pack": lambda values, call: tuple(values),
    "named_struct": lambda values, call: dict(zip(values[::2], values[1::2], strict=True)),
    "list_value": lambda values, call: list(values),
    "list_concat": _concat,
    "list_append": lambda values, call: [*(values[0] or []), values[1]],
    "list_prepend": lambda values, call: [values[0], *(values[1] or [])],
    "json_object": _json_object,
    "json_array": lambda values, call: "[" + ",".join("null" if one is None else one for one in values) + "]",
}
