"""Names that nobody knows: which known one was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelt one is most like, whatever its case; None if none is like it.

    >>> nearest("latenes", ["time", "lateness"]), nearest("colour", ["time", "lateness"])
    ('lateness', None)
    """
    by_lower = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None
