"""Passwords and the like: known by the names of options, and never printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from watersmeet.io.connectors.contract import Options

# Whoever declares no secrets may still have some.
_ALWAYS = re.compile(r"passw|secret|token|credential|private.?key|access.?key", re.IGNORECASE)
HIDDEN = "***"
_SHORTEST = 4  # shorter ones would be found in every other word


def is_secret(name: str, own: Iterable[Options]) -> bool:
    name = name.lower().removeprefix("history_")
    return bool(_ALWAYS.search(name)) or any(name == one.lower() for options in own for one in options.secret)


def secret_values(options: Mapping[str, str], own: Options) -> tuple[str, ...]:
    """The values that must not be printed; the longest first, as one may be in another."""
    found = {value for name, value in options.items() if len(value) >= _SHORTEST and is_secret(name, [own])}
    return tuple(sorted(found, key=len, reverse=True))


def without(text: str, secrets: Iterable[str]) -> str:
    """
    >>> without("no such user: postgres://me:pw@here", ["postgres://me:pw@here"])
    'no such user: ***'
    """
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text
