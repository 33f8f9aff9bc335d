"""Windows that move in steps, by their definition: when each row enters, and what is there at an instant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from watersmeet.model.windows import Stepped, SteppedRows
from watersmeet.reference.inputs import NS_PER_US, Member
from watersmeet.reference.order import Row, same


def entering(rows: Sequence[Member], window: Stepped | SteppedRows) -> list[Member]:
    """The rows that are ever in the window, each with the instant at which it enters."""
    if isinstance(window, SteppedRows):
        return [replace(row, since_ns=block[-1].at_ns) for block in _blocks(rows, window) for row in block]
    return [replace(row, since_ns=_last_step(row.at_ns // NS_PER_US + window.slide_us - 1, window)) for row in rows]


def held(rows: Sequence[Member], window: Stepped | SteppedRows, at_us: int) -> list[Member]:
    """Of rows that know when they enter, those in the window at an instant."""
    if isinstance(window, Stepped):
        end_ns = _last_step(at_us, window)
        return [row for row in rows if end_ns - window.size_us * NS_PER_US < row.at_ns <= end_ns]
    entered: dict[Row, list[Member]] = {}
    for row in sorted(rows, key=lambda row: (row.at_ns, row.arrival)):
        if row.since_ns is not None and row.since_ns <= at_us * NS_PER_US:
            entered.setdefault(_partition(row, window), []).append(row)
    return [row for partition in entered.values() for row in partition[-window.count :]]


def leaving_us(rows: Sequence[Member], window: Stepped | SteppedRows) -> Iterator[int]:
    """Instants, among others, at which rows of a window in time leave it. In a window of rows they do when others
    enter."""
    if isinstance(window, Stepped):
        for row in rows:
            yield _last_step(row.at_ns // NS_PER_US + window.size_us + window.slide_us - 1, window) // NS_PER_US


def _last_step(at_us: int, window: Stepped) -> int:
    """In nanoseconds the last multiple of the slide, shifted by the offset, at or before an instant."""
    return ((at_us - window.offset_us) // window.slide_us * window.slide_us + window.offset_us) * NS_PER_US


def _blocks(rows: Sequence[Member], window: SteppedRows) -> Iterator[list[Member]]:
    """So many rows at a time as the window moves by; the last ones may still wait for others."""
    partitions: dict[Row, list[Member]] = {}
    for row in sorted(rows, key=lambda row: (row.at_ns, row.arrival)):
        partitions.setdefault(_partition(row, window), []).append(row)
    for partition in partitions.values():
        for start in range(0, len(partition) - window.slide + 1, window.slide):
            yield partition[start : start + window.slide]


def _partition(row: Member, window: SteppedRows) -> Row:
    return same([row.values[name] for name in window.partition_by])
