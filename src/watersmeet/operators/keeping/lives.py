"""How long rows stay in their windows, which tells what those are worth that have just come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from watersmeet.model.time import FOREVER_US
from watersmeet.operators.keeping.policies import HALF_LIFE
from watersmeet.operators.row_windows import RowWindow
from watersmeet.plan.nodes import Join

Life = tuple[float, bool]  # how long, and whether that is in rows; infinite where it cannot be known
ROWS_OF_UNKNOWN = 1024.0


def lives_of(join: Join, row_windows: Mapping[str, RowWindow], streams: Iterable[str]) -> dict[str, Life]:
    return {alias: _life(join, row_windows.get(alias), alias) for alias in streams}


def _life(join: Join, window: RowWindow | None, alias: str) -> Life:
    if window is not None and not window.partition_by:
        return float(window.count), True
    retention_us = join.retention_us(alias)
    # A row that nothing may follow is never met again.
    return (inf if retention_us >= FOREVER_US else max(retention_us, 0) + 1.0), False


def are_in_time(lives: Mapping[str, Life]) -> bool:
    """Whether all windows have a length in time."""
    return all(life < inf and not in_rows for life, in_rows in lives.values())


def half_life(lives: Mapping[str, Life]) -> float:
    """After how long what a key did counts half: in time where all windows have a length, else in rows of all streams
    together."""
    if are_in_time(lives):
        return max(1.0, HALF_LIFE * max(life for life, _ in lives.values()))
    rows = sum(life for life, in_rows in lives.values() if in_rows and life < inf)
    return max(1.0, HALF_LIFE * rows) if rows else ROWS_OF_UNKNOWN
