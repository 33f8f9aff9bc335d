"""Windows that move in steps, by their definition: when each row enters, and what is there at an instant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from watersmeet.model.windows import WINDOW_COLUMNS, Each, Hop, Landmark, Session, Stepped, SteppedRows
from watersmeet.reference.inputs import NS_PER_US, Member
from watersmeet.reference.order import Row, same

InSteps = Stepped | SteppedRows | Hop | Session | Landmark | Each


def entering(rows: Sequence[Member], window: InSteps) -> list[Member]:
    """The rows that are ever in the window, each with the instant at which it enters."""
    if isinstance(window, Hop):
        return [_in_window(row, end_us, window) for row in rows for end_us in _ends(row.at_ns // NS_PER_US, window)]
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
        return [row for row in rows if end_ns - window.size_us * NS_PER_US < row.at_ns <= end_ns]
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
    if isinstance(window, Stepped):
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


def _ends(at_us: int, window: Hop) -> Iterator[int]:
    """The ends of the windows that hold a time."""
    first = at_us + 1
    first += (window.offset_us + window.size_us - first) % window.slide_us
    return iter(range(first, at_us + window.size_us + 1, window.slide_us))


def _in_window(row: Member, end_us: int, window: Hop) -> Member:
    placed = _placed(row, (end_us - window.size_us) * NS_PER_US, end_us * NS_PER_US)
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
