"""Functions of lists and structs on plain values, and others that have their own way with NULLs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from watersmeet.plan.expressions import Call, Literal
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
}
NULL_AWARE: dict[str, Rule] = {
    "slice": _slice,
    "concat_ws": _concat_ws,
    "pack": lambda values, call: tuple(values),
    "list_value": lambda values, call: list(values),
}
