"""Paths into JSON: `$.a.b[0]`, `/a/b/0`, a bare name of a field, or a place in a list."""

from __future__ import annotations

import re
from functools import cache

Step = str | int

_PIECE = re.compile(
    r"""\.(?:"(?P<quoted>[^"]*)"|(?P<name>[^.\["]+))|\[(?:\#?(?P<index>-?\d+)|["'](?P<key>[^"']*)["'])\]"""
)


@cache
def json_path(path: str | int) -> tuple[Step, ...]:
    """The steps of a path. Raises ValueError if it cannot be read.

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
