"""What goes beside an answer, and where to: records that could not be read, and rows that came too late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from watersmeet.dataclass import dataclass

SINK = "sink"


@dataclass(frozen=True)
class SideSink:
    """CREATE SINK without a query: takes what goes beside answers. `options` are those of WITH."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords may be among them


def parse_policy(words: tuple[str, ...], given: object) -> str:
    """One of some words, or 'sink NAME'. Raises ValueError with a sentence.

    >>> parse_policy(("count", "error"), "Sink  late_rows"), parse_policy(("count", "error"), "ERROR")
    ('sink late_rows', 'error')
    """
    written = str(given).strip()
    if written.lower() in words:
        return written.lower()
    first, _, name = written.partition(" ")
    name = name.strip().strip('"')
    if first.lower() == SINK and name:
        return f"{SINK} {name}"
    raise ValueError(f"{given!r} is not one of {', '.join(map(repr, words))} and 'sink NAME'")


def sink_named(policy: str) -> str | None:
    """The name of the sink that a policy speaks of.

    >>> sink_named("sink late_rows"), sink_named("count")
    ('late_rows', None)
    """
    return policy.removeprefix(f"{SINK} ") if policy.startswith(f"{SINK} ") else None
