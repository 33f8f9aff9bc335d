"""A window as it is written."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.model.pace import Pace
from watersmeet.model.time import format_instant, format_interval
from watersmeet.model.windows import (
    Each,
    Hop,
    Landmark,
    Range,
    RowsWindow,
    Session,
    Stepped,
    SteppedRows,
    Unbounded,
    Until,
    Window,
)


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
        case Stepped(slide_us=slide) as latch if latch.latches:
            return f"LATCH {format_interval(slide)}"
        case Stepped(size_us=size, slide_us=slide, offset_us=offset):
            shift = f" OFFSET {format_interval(offset)}" if offset else ""
            return f"RANGE {format_interval(size)} SLIDE {format_interval(slide)}{shift}"
        case SteppedRows(count=count, slide=slide, partition_by=keys):
            by = f"PARTITION BY {', '.join(keys)} " if keys else ""
            return f"{by}ROWS {count} SLIDE {slide}"
        case Hop(calendar=Pace() as pace, steps=steps):
            whole = replace(pace, every=pace.every * steps)
            where = "" if pace.zone is None else f" in {pace.zone}"
            shift = f", OFFSET {format_interval(pace.offset_us)}" if pace.offset_us else ""
            return f"{'TUMBLE' if steps == 1 else f'HOP {pace},'} {whole}{shift}{where}"
        case Hop(size_us=size, slide_us=slide, offset_us=offset, cumulates=True):
            shift = f", OFFSET {format_interval(offset)}" if offset else ""
            return f"CUMULATE {format_interval(slide)}, {format_interval(size)}{shift}"
        case Hop(size_us=size, slide_us=slide, offset_us=offset):
            shift = f", OFFSET {format_interval(offset)}" if offset else ""
            if size == slide:
                return f"TUMBLE {format_interval(size)}{shift}"
            return f"HOP {format_interval(slide)}, {format_interval(size)}{shift}"
        case Session(gap_us=gap, partition_by=keys):
            by = f" PARTITION BY {', '.join(keys)}" if keys else ""
            return f"SESSION {format_interval(gap)}{by}"
        case Each(words=words) if words:
            return words
        case Each(column=column, within=within):
            return f"each of {column}{'' if within is None else f', {window_text(within)}'}"
        case Landmark(since_us=since, every_us=every):
            return f"LANDMARK '{format_instant(since)}'{'' if every is None else f' EVERY {format_interval(every)}'}"
        case Unbounded():
            return "UNBOUNDED"
        case Until():
            return "as long as its members"
