"""From when to when each row of an input is in its window, from what the window means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.model.time import FOREVER_US, Times
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
    counting,
)
from watersmeet.plan.nodes import Input, Join

Marks = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Lives:
    """Of each row the first instant and the last at which it is there; FOREVER_US where it stays, and `never` for rows
    that are in no window at all."""

    since: Times
    until: Times
    never: Marks


def lives_of(join: Join, one: Input, rows: pa.Table, times: Times, counts: Marks, *, changing: bool) -> Lives | None:
    """counts: which rows take part at all, as those that are late or left out push no others out of a window. changing:
    whether the answer is what windows hold at an instant; else rows are there for as long as others can still meet
    them. None where nothing holds rows."""
    since, until = times.copy(), np.full(times.size, FOREVER_US, np.int64)
    never = ~counts
    window = counting(one.window) or one.window
    closed = join.boundary != "half_open"
    match window:
        case Stepped():
            since, until = window.births(times), _before(window.deaths(times))
        case Landmark():
            never = never | (times < window.since_us)
            until = _before(window.deaths(times))
        case Hop(at_once=False):
            until = window.ends(window.last_holding(times)) - 1
            never = never | (window.copies(times) == 0)
        case Session(at_once=False):
            until = _session_ends(window, rows, times, counts) - 1
        case Each():
            until = times.copy()
        case RowsWindow():
            until = _before(_deaths(_turns(rows, times, counts, window.partition_by), times, window.count))
        case SteppedRows():
            since, until = _stepped(window, rows, times, counts)
            until = _before(until)
            never = never | (since == FOREVER_US)
        case Range() if changing:
            until = times + window.size_us - (not closed)
        case None if len(join.streams) < 2:
            return None
        case Unbounded():
            pass
    if not changing and len(join.streams) > 1 and not isinstance(window, Stepped | Landmark):
        reach_us = join.windows.retention_us(one.alias)
        if reach_us < FOREVER_US:
            until = np.minimum(until, times + reach_us)
    return Lives(since, until, never)


def _before(deaths: Times) -> Times:
    """The last instant before the one at which rows leave."""
    return np.where(deaths == FOREVER_US, FOREVER_US, deaths - 1)


@dataclass(frozen=True)
class _Turns:
    """The rows that count, partition by partition in the order of time and arrival: `order` are their places in the
    input, `ends` is for each of them where its partition ends."""

    order: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]


def _turns(rows: pa.Table, times: Times, counts: Marks, by: Sequence[str]) -> _Turns:
    codes = _partitions(rows, by)
    places = np.flatnonzero(counts)
    order = places[np.lexsort((places, times[places], codes[places]))]
    sorted_codes = codes[order]
    starts = np.searchsorted(sorted_codes, sorted_codes, side="left")
    return _Turns(order, starts, np.searchsorted(sorted_codes, sorted_codes, side="right"))


def _partitions(rows: pa.Table, by: Sequence[str]) -> npt.NDArray[np.int64]:
    """A number for each value of some columns, the same for rows that have the same; NULL is a value like others."""
    codes = np.zeros(rows.num_rows, np.int64)
    for name in by:
        indices = pc.dictionary_encode(rows[name].combine_chunks(), null_encoding="encode").indices
        both = np.stack([codes, indices.to_numpy(zero_copy_only=False).astype(np.int64)])
        codes = np.unique(both, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return codes


def _deaths(turns: _Turns, times: Times, count: int) -> Times:
    """When the so-manyth row after each comes."""
    deaths = np.full(times.size, FOREVER_US, np.int64)
    place = np.arange(turns.order.size)
    dies = place + count < turns.ends
    deaths[turns.order[dies]] = times[turns.order[place[dies] + count]]
    return deaths


def _stepped(window: SteppedRows, rows: pa.Table, times: Times, counts: Marks) -> tuple[Times, Times]:
    """Rows enter with the last of their m, and leave with the m that leaves fewer than n after them."""
    turns = _turns(rows, times, counts, window.partition_by)
    since, until = (np.full(times.size, FOREVER_US, np.int64) for _ in range(2))
    place = np.arange(turns.order.size)
    nth = place - turns.starts
    enters = turns.starts + nth // window.slide * window.slide + window.slide - 1
    # With the first full m after which at least n rows follow.
    steps = -(-(nth + 1 + window.count) // window.slide)
    leaves = turns.starts + steps * window.slide - 1
    for moments, at in ((since, enters), (until, leaves)):
        there = at < turns.ends
        moments[turns.order[there]] = times[turns.order[at[there]]]
    return since, until


def _session_ends(window: Session, rows: pa.Table, times: Times, counts: Marks) -> Times:
    turns = _turns(rows, times, counts, window.partition_by)
    ends = times + window.gap_us
    if not turns.order.size:
        return ends
    at = times[turns.order]
    # A session ends with the last row of its partition, or where the next one is the gap or more away.
    last = np.append((np.diff(at) >= window.gap_us) | (turns.starts[1:] != turns.starts[:-1]), True)
    lasts = np.flatnonzero(last)
    ends[turns.order] = at[lasts[np.searchsorted(lasts, np.arange(at.size))]] + window.gap_us
    return ends
