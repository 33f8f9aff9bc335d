"""Values inside JSON texts. A text that occurs several times is read once."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa

from watersmeet.operators.scalar.values import Function, Value, as_text, over_unique, per_constant
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
        try:
            steps = json_path(path)
        except ValueError as error:
            raise pa.ArrowInvalid(str(error)) from None

        def one(text: str) -> str | None:
            value = _at(text, steps)
            if value is _ABSENT or (as_string and value is None):
                return None
            return value if as_string and isinstance(value, str) else written(value)

        return over_unique(as_text(args[0]), one, pa.string())

    return per_constant(1, apply)


def array_length(args: Sequence[Value], call: Call) -> Value:
    path = args[1].as_py() if len(args) > 1 else "$"
    if path is None:
        return pa.scalar(None, call.type)
    steps = json_path(path)

    def one(text: str) -> int | None:
        value = _at(text, steps)
        return None if value is _ABSENT else len(value) if isinstance(value, list) else 0

    return over_unique(as_text(args[0]), one, pa.int64())


def _valid(text: str) -> bool:
    try:
        _read(text)
    except pa.ArrowInvalid:
        return False
    return True


FUNCTIONS: dict[str, Function] = {
    "json_extract": _extract(as_string=False),
    "json_extract_string": _extract(as_string=True),
    "json_array_length": per_constant(1, array_length),
    "json_valid": lambda args, call: over_unique(as_text(args[0]), _valid, pa.bool_()),
}
