"""A window as it is written."""

from __future__ import annotations

from watersmeet.model.time import format_interval
from watersmeet.model.windows import Range, RowsWindow, Unbounded, Until, Window


def window_text(window: Window | None) -> str:
    match window:
        case None:
            return "-"
        case Range(size_us=0):
            return "NOW"
        case Range(size_us=size):
            return f"RANGE {format_interval(size)}"
        case RowsWindow(count=count, partition_by=()):
            return f"ROWS {count}"
        case RowsWindow(count=count, partition_by=keys):
            return f"PARTITION BY {', '.join(keys)} ROWS {count}"
        case Unbounded():
            return "UNBOUNDED"
        case Until():
            return "as long as its members"
