"""Names as users write them: which known one was meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_DELIMITERS = ";\t|"


def column_named(name: str, columns: Sequence[str]) -> str | None:
    """The column of a name in any case; the same case wins, and without it only one may be meant.

    >>> column_named("TS", ["k", "ts"]), column_named("K", ["k", "K"]), column_named("TS", ["ts", "Ts"])
    ('ts', 'K', None)
    """
    if name in columns:
        return name
    alike = [one for one in columns if one.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def columns_hint(columns: Sequence[str]) -> str:
    """Which columns there are; and if they seem to be one because another mark separates them, what to say then.

    >>> columns_hint(["k", "ts"]), columns_hint(["k;ts"])
    ('its columns are k, ts', "its only column is 'k;ts': say delimiter = ';' in the WITH (…) of a CREATE")
    """
    mark = next((mark for mark in _DELIMITERS if len(columns) == 1 and mark in columns[0]), None)
    if mark is None:
        return f"its columns are {', '.join(columns)}"
    written = "\\t" if mark == "\t" else mark
    return f"its only column is {columns[0]!r}: say delimiter = '{written}' in the WITH (…) of a CREATE"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelt one is most like, whatever its case; None if none is like it.

    >>> nearest("latenes", ["time", "lateness"]), nearest("colour", ["time", "lateness"])
    ('lateness', None)
    """
    by_lower = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None
