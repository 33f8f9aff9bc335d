"""How far back a row to come can still reach."""

from __future__ import annotations

from collections.abc import Mapping

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.model.windows import ClosedWindows


def cutoff_us(windows: ClosedWindows, alias: str, watermarks: Mapping[str, int]) -> int:
    """Rows of an input that are older than this can no longer be reached by a row to come."""
    others = reach_of(windows, alias)
    if others is None:
        return BEGINNING_US
    # A result to come has a new member of another stream v, at its watermark or later, which reaches back by the limit.
    # Which stream that will be is open, so the one that reaches furthest counts. Beside tables alone a row is never
    # met.
    return min([watermarks[v] - limit for v, limit in others], default=FOREVER_US)


def reach_of(windows: ClosedWindows, alias: str) -> list[tuple[str, int]] | None:
    """How much later than a row of an input those of each other may be; None if there is no end to it."""
    reach = windows.limits[windows.streams.index(alias)]
    others = [(v, limit) for v, limit in zip(windows.streams, reach, strict=True) if v != alias]
    return None if any(limit >= FOREVER_US for _, limit in others) else others
