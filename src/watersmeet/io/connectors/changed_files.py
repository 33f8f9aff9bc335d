"""Files that were read and have changed since: whoever changed them is told. What is new in them is not read; an object
of a store that is newer than all that was read looks like any new one, and is read as a whole.

How a file looked when it was opened is noted in checkpoints, so that a later life tells, too. Sources of Spark use it,
for which processes are started: the module imports next to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from watersmeet.warning import ConnectorWarning

MOST_NOTED = 1_000  # files of a store that were read last, by which a later life sees whether they were written anew
MOST_NAMED = 10  # at a time: of a folder that was copied all files look new


class Look(NamedTuple):
    """How a file looks without opening it."""

    size: int
    changed_us: int


class Changed(NamedTuple):
    path: str
    how: str
    read_again: bool = False


def look_at(path: str) -> Look | None:
    """None if it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Look(found.st_size, found.st_mtime_ns // 1_000)


def difference(before: Look, now: Look) -> str | None:
    """What has happened to a file, in words; None if nothing has.

    >>> difference(Look(10, 1), Look(12, 2)), difference(Look(10, 1), Look(7, 2)), difference(Look(10, 1), Look(10, 1))
    ('has become longer', 'has become shorter', None)
    """
    if now == before:
        return None
    if now.size == before.size:
        return "was replaced or written anew"
    return "has become longer" if now.size > before.size else "has become shorter"


def sentences_of(stream: str, changed: Iterable[Changed]) -> list[str]:
    """A sentence for each, at most so many and one for the others."""
    found = list(changed)
    if not found:
        return []
    named = [
        f"{one.path}, which stream {stream!r} has read, {one.how} since, and is {_outcome(one)}; write rows that come "
        "later to files of their own"
        for one in found[:MOST_NAMED]
    ]
    more = len(found) - len(named)
    return named if not more else [*named, f"{more:,} more files that stream {stream!r} has read have changed since"]


def _outcome(one: Changed) -> str:
    return "read again as a whole, so its rows come twice" if one.read_again else "not read again"


def tell_of(stream: str, changed: Iterable[Changed], tell: Callable[[Warning], None]) -> None:
    for sentence in sentences_of(stream, changed):
        tell(ConnectorWarning("source_changed", sentence))
