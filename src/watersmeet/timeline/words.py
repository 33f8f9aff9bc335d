"""Rows and times in a few words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from watersmeet.model.time import UNITS_US, format_instant


def shown(value: Any) -> str:
    return "NULL" if value is None else str(value)


def values_text(names: Sequence[str], row: Iterable[Any]) -> str:
    """`shop a, n 3`"""
    return ", ".join(f"{name} {shown(value)}" for name, value in zip(names, row, strict=True))


def instant_text(us: int) -> str:
    """A time without the zeros at its end.

    >>> instant_text(1_500_000)
    '1970-01-01 00:00:01.5'
    """
    whole, _, fine = format_instant(us).partition(".")
    fine = fine.rstrip("0")
    return f"{whole}.{fine}" if fine else whole


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def clock_text(us: int, step_us: int) -> str:
    """The time of day, as exactly as steps of that size ask for.

    >>> clock_text(3_661_500_000, 500_000), clock_text(3_660_000_000, 60_000_000)
    ('01:01:01.5', '01:01')
    """
    day, time = format_instant(us).split(" ")
    if step_us >= UNITS_US["day"]:
        return day
    if step_us % UNITS_US["minute"] == 0:
        return time[:5]
    fine = time.partition(".")[2].rstrip("0")
    return time[:8] + (f".{fine}" if fine else "")
