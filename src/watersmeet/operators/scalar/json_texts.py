"""Values inside JSON texts. A text that occurs several times is read once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.casts.json_values import json_values
from watersmeet.operators.scalar.values import (
    Function,
    Value,
    as_array,
    as_given,
    as_text,
    convert,
    over_unique,
    per_constant,
    rows_of,
)
from watersmeet.plan.expressions import Call

Step = str | int

_PIECE = re.compile(
    r"""\.(?:"(?P<quoted>[^"]*)"|(?P<name>[^.\["]+))|\[(?:\#?(?P<index>-?\d+)|["'](?P<key>[^"']*)["'])\]"""
)


@cache
def json_path(path: str | int) -> tuple[Step, ...]:
    """The steps of a path into JSON: `$.a.b[0]`, `/a/b/0`, a bare name of a field, or a place in a list. Raises
    ValueError if it cannot be read.

    >>> json_path("$.a[0].b"), json_path("/a/0"), json_path("a.b")
    (('a', 0, 'b'), ('a', 0), ('a.b',))
    """
    if isinstance(path, int):
        return (path,)
    if path.startswith("/"):
        return tuple(int(one) if one.isdecimal() else one for one in path[1:].split("/"))
    if not path.startswith("$"):
        return (path,)
    steps: list[Step] = []
    position = 1
    while position < len(path):
        found = _PIECE.match(path, position)
        if found is None:
            raise ValueError(f"{path!r} is not a path into JSON from place {position + 1} on; write '$.a.b[0]'")
        name = next((found[group] for group in ("quoted", "name", "key") if found[group] is not None), None)
        steps.append(int(found["index"]) if name is None else name)
        position = found.end()
    return tuple(steps)


_ABSENT = object()


def _first_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two fields with one name the first counts, as in DuckDB."""
    return dict(reversed(pairs)) if len(pairs) != len(dict(pairs)) else dict(pairs)


_DECODER = json.JSONDecoder(object_pairs_hook=_first_of_each)


@lru_cache(maxsize=1024)
def _read(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        shown = text if len(text) < 60 else f"{text[:60]}…"
        raise pa.ArrowInvalid(f"{shown!r} is not JSON: {error}") from None


def _at(text: str, steps: Sequence[Step]) -> Any:
    value = _read(text)
    for step in steps:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step, _ABSENT)
        elif isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return _ABSENT
    return value


def written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _extract(as_string: bool) -> Function:
    def apply(args: Sequence[Value], call: Call) -> Value:
        path = args[1].as_py()
        if path is None:
            return pa.scalar(None, call.type)
        steps = _steps(path)

        def one(text: str) -> str | None:
            value = _at(text, steps)
            if value is _ABSENT or (as_string and value is None):
                return None
            return value if as_string and isinstance(value, str) else written(value)

        return over_unique(as_text(args[0]), one, pa.string())

    return per_constant(1, apply)


def _looked_at(look: Callable[[Any], Any]) -> Function:
    """Something of the value at a path; NULL where there is none."""

    def apply(args: Sequence[Value], call: Call) -> Value:
        path = args[1].as_py() if len(args) > 1 else "$"
        if path is None:
            return pa.scalar(None, call.type)
        steps = _steps(path)

        def one(text: str) -> Any:
            value = _at(text, steps)
            return None if value is _ABSENT else look(value)

        return over_unique(as_text(args[0]), one, call.type)

    return per_constant(1, apply)


def _steps(path: str | int) -> tuple[Step, ...]:
    try:
        return json_path(path)
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from None


def _exists(args: Sequence[Value], call: Call) -> Value:
    path = args[1].as_py()
    if path is None:
        return pa.scalar(None, call.type)
    steps = _steps(path)
    return over_unique(as_text(args[0]), lambda text: _at(text, steps) is not _ABSENT, pa.bool_())


def _scalar(value: Any) -> str | None:
    if value is None or isinstance(value, dict | list):
        return None
    return value if isinstance(value, str) else written(value)


def _type_name(value: Any) -> str:
    """As DuckDB calls it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return "BIGINT" if -(2**63) <= value < 0 else "UBIGINT" if 0 <= value < 2**64 else "DOUBLE"
    return _TYPES[type(value)]


_TYPES = {dict: "OBJECT", list: "ARRAY", str: "VARCHAR", float: "DOUBLE", bool: "BOOLEAN", type(None): "NULL"}


def to_json(args: Sequence[Value], call: Call) -> Value:
    return as_given(args, json_values(as_array(args[0], rows_of(args))))


def json_object(args: Sequence[Value], call: Call) -> Value:
    """Of names and of values that are JSON already."""
    rows = rows_of(args)
    parts: list[Value] = []
    for name, value in zip(args[::2], args[1::2], strict=True):
        names = as_array(name, rows)
        if names.null_count:
            raise pa.ArrowInvalid("a field needs a name, and one is NULL")
        parts += [pa.scalar(","), json_values(names), pa.scalar(":"), _text(value, rows)]
    made = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*parts, ""), 1)
    return as_given(args, pc.binary_join_element_wise("{", made, "}", ""))


def json_array(args: Sequence[Value], call: Call) -> Value:
    rows = rows_of(args)
    made = pc.binary_join_element_wise(*(_text(value, rows) for value in args), ",")
    return as_given(args, pc.binary_join_element_wise("[", made, "]", ""))


def _text(value: Value, rows: int) -> pa.Array:
    """What is JSON already, or NULL."""
    return pc.fill_null(as_array(convert(value, pa.string()), rows), "null")


def _valid(text: str) -> bool:
    try:
        _read(text)
    except pa.ArrowInvalid:
        return False
    return True


FUNCTIONS: dict[str, Function] = {
    "json_extract": _extract(as_string=False),
    "json_extract_string": _extract(as_string=True),
    "json_array_length": _looked_at(lambda value: len(value) if isinstance(value, list) else 0),
    "json_value": _looked_at(_scalar),
    "json_type": _looked_at(_type_name),
    "json_keys": _looked_at(lambda value: list(value) if isinstance(value, dict) else []),
    "json_exists": per_constant(1, _exists),
    "to_json": to_json,
    "json_enclosed": lambda args, call: pc.binary_join_element_wise(*args, ""),
    "json_valid": lambda args, call: over_unique(as_text(args[0]), _valid, pa.bool_()),
}
# Where a value is NULL it is null in JSON.
LENIENT: dict[str, Function] = {"json_object": json_object, "json_array": json_array}
