"""Windows that move in steps, by their definition: when each row enters, and what is there at an instant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from watersmeet.model.pace import Pace
from watersmeet.model.windows import WINDOW_COLUMNS, Each, Hop, Landmark, Session, Stepped, SteppedRows
from watersmeet.reference.inputs import NS_PER_US, Member
from watersmeet.reference.order import Row, same
from watersmeet.reference.zones import first_past, moment, nanoseconds, shown

InSteps = Stepped | SteppedRows | Hop | Session | Landmark | Each


def entering(rows: Sequence[Member], window: InSteps) -> list[Member]:
    """The rows that are ever in the window, each with the instant at which it enters."""
    if isinstance(window, Hop):
        return [_in_window(row, held, window) for row in rows for held in _holding(row.at_ns // NS_PER_US, window)]
    if isinstance(window, Each):
        rows = entering(rows, window.within) if isinstance(window.within, SteppedRows) else rows
        return [entry for row in rows for entry in _entries(row, window)]
    if isinstance(window, Landmark):
        return [row for row in rows if row.at_ns >= window.since_us * NS_PER_US]
    if isinstance(window, Session):
        return [_in_session(row, s, window) for s in _sessions(rows, window) for row in s]
    if isinstance(window, SteppedRows):
        return [replace(row, since_ns=block[-1].at_ns) for block in _blocks(rows, window) for row in block]
    return [replace(row, since_ns=_last_step(row.at_ns // NS_PER_US + window.slide_us - 1, window)) for row in rows]


def held(rows: Sequence[Member], window: InSteps, at_us: int) -> list[Member]:
    """Of rows that know when they enter, those in the window at an instant."""
    if isinstance(window, Hop | Session):
        # What is complete is there at one instant, what is given at once for good.
        lasts = window.at_once
        entered = [(row, (row.entered_ns or 0) // NS_PER_US) for row in rows]
        return [row for row, since_us in entered if since_us == at_us or (lasts and since_us < at_us)]
    if isinstance(window, Each):
        return [row for row in rows if row.at_ns == at_us * NS_PER_US]
    if isinstance(window, Landmark):
        return [row for row in rows if _begun_us(window, at_us) <= row.at_ns // NS_PER_US <= at_us]
    if isinstance(window, Stepped):
        end_ns = _last_step(at_us, window)
        return [
            row
            for row in rows
            if (window.latches or end_ns - window.size_us * NS_PER_US < row.at_ns) and row.at_ns <= end_ns
        ]
    partitions: dict[Row, list[Member]] = {}
    for row in sorted(rows, key=lambda row: (row.at_ns, row.arrival)):
        if row.since_ns is not None and row.since_ns <= at_us * NS_PER_US:
            partitions.setdefault(_partition(row, window), []).append(row)
    return [row for partition in partitions.values() for row in partition[-window.count :]]


def leaving_us(rows: Sequence[Member], window: InSteps) -> Iterator[int]:
    """Instants, among others, at which rows of a window in time leave it. In a window of rows they do when others
    enter."""
    if isinstance(window, Hop | Session) and not window.at_once:
        yield from ((row.entered_ns or 0) // NS_PER_US + 1 for row in rows)
    if isinstance(window, Each):
        yield from (row.at_ns // NS_PER_US + 1 for row in rows)
    if isinstance(window, Landmark) and window.every_us is not None:
        yield from (_begun_us(window, row.at_ns // NS_PER_US) + window.every_us for row in rows)
    if isinstance(window, Stepped) and not window.latches:
        for row in rows:
            yield _last_step(row.at_ns // NS_PER_US + window.size_us + window.slide_us - 1, window) // NS_PER_US


def _entries(row: Member, window: Each) -> Iterator[Member]:
    """A row for each entry of its list."""
    values = row.values[window.column]
    for number, value in enumerate(values or [], 1):
        yield replace(row, values={**row.values, **dict(zip(window.names, (value, number), strict=False))})


def _begun_us(window: Landmark, at_us: int) -> int:
    """When the window began that is there at an instant."""
    if window.every_us is None or at_us < window.since_us:
        return window.since_us
    return window.since_us + (at_us - window.since_us) // window.every_us * window.every_us


def _holding(at_us: int, window: Hop) -> Iterator[tuple[int, int]]:
    """The starts and ends of the windows that hold a time."""
    if window.calendar is not None:
        yield from _holding_by_calendar(at_us, window.calendar, window.steps)
        return
    first = at_us + 1
    if window.cumulates:
        start = at_us - (at_us - window.offset_us) % window.size_us
        first += (start - first) % window.slide_us
        yield from ((start, end) for end in range(first, start + window.size_us + 1, window.slide_us))
        return
    first += (window.offset_us + window.size_us - first) % window.slide_us
    ends = range(first, at_us + window.size_us + 1, window.slide_us)
    yield from ((end - window.size_us, end) for end in ends)


def _holding_by_calendar(at_us: int, pace: Pace, steps: int) -> Iterator[tuple[int, int]]:
    near = _near(at_us, pace)
    for number in range(near - steps - 1, near + 2):
        start, end = (begins_us(one, pace) for one in (number, number + steps))
        if start <= at_us < end:
            yield start, end


def _near(at_us: int, pace: Pace) -> int:
    """Which of the days or months it is, as clocks show it; around a change of clocks one of those beside it."""
    reading = moment(shown(at_us * NS_PER_US, pace.zone) - pace.offset_us * NS_PER_US)
    months = (reading.year - 1970) * 12 + reading.month - 1
    return ((reading - moment(0)).days if pace.unit == "day" else months) // pace.every


def between_us(first_us: int, last_us: int, pace: Pace) -> Iterator[int]:
    """The instants of a pace from one to another, both included."""
    if pace.unit == "us":
        yield from range(first_us + (pace.offset_us - first_us) % pace.every, last_us + 1, pace.every)
        return
    number = _near(first_us, pace) - 2
    while (begins := begins_us(number, pace)) <= last_us:
        if begins >= first_us:
            yield begins
        number += 1


def begins_us(number: int, pace: Pace) -> int:
    """When so many days or months since 1970 have passed, as clocks show it."""
    of_unit = number * pace.every
    if pace.unit == "day":
        midnight = moment(0) + timedelta(days=of_unit)
    else:
        midnight = datetime(1970 + of_unit // 12, of_unit % 12 + 1, 1, tzinfo=UTC)
    reading_ns = nanoseconds(midnight) + pace.offset_us * NS_PER_US
    return (reading_ns if pace.zone is None else first_past(reading_ns, pace.zone)) // NS_PER_US


def _in_window(row: Member, held: tuple[int, int], window: Hop) -> Member:
    start_us, end_us = held
    placed = _placed(row, start_us * NS_PER_US, end_us * NS_PER_US)
    return replace(placed, since_ns=None) if window.at_once else placed


def _placed(row: Member, start_ns: int, end_ns: int) -> Member:
    """A row in a window, which is complete at the last instant before its end."""
    columns = dict(zip(WINDOW_COLUMNS, (start_ns, end_ns), strict=True))
    return replace(row, values={**row.values, **columns}, since_ns=end_ns - NS_PER_US)


def _sessions(rows: Sequence[Member], window: Session) -> Iterator[list[Member]]:
    partitions: dict[Row, list[Member]] = {}
    for row in sorted(rows, key=lambda row: (row.at_ns, row.arrival)):
        partitions.setdefault(_partition(row, window), []).append(row)
    for partition in partitions.values():
        session: list[Member] = []
        for row in partition:
            if session and row.at_ns >= _end(session, window):
                yield session
                session = []
            session.append(row)
        yield session


def _in_session(row: Member, session: Sequence[Member], window: Session) -> Member:
    if not window.at_once:
        return _placed(row, session[0].at_ns, _end(session, window))
    # As of its own time: a session begins with the first of its rows, and this one is its last.
    return replace(_placed(row, session[0].at_ns, _end([row], window)), since_ns=None)


def _end(session: Sequence[Member], window: Session) -> int:
    return session[-1].at_ns + window.gap_us * NS_PER_US


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


def _partition(row: Member, window: SteppedRows | Session) -> Row:
    return same([row.values[name] for name in window.partition_by])
