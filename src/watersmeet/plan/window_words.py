"""A window as it is written."""

from __future__ import annotations

from watersmeet.model.time import format_interval
from watersmeet.model.windows import Range, RowsWindow, Stepped, SteppedRows, Unbounded, Until, Window


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
        case Stepped(size_us=size, slide_us=slide, offset_us=offset):
            shift = f" OFFSET {format_interval(offset)}" if offset else ""
            return f"RANGE {format_interval(size)} SLIDE {format_interval(slide)}{shift}"
        case SteppedRows(count=count, slide=slide, partition_by=keys):
            by = f"PARTITION BY {', '.join(keys)} " if keys else ""
            return f"{by}ROWS {count} SLIDE {slide}"
        case Unbounded():
            return "UNBOUNDED"
        case Until():
            return "as long as its members"
