"""The latest answers of a query, for those who listen and for those who come back.

Answers are cut into events with an id: the run, the batch, and which part of it, if not the last. A batch that is
repeated after a crash has the same ids. All who listen read the same log, each from a place of their own, so nobody is
waited for and nothing is kept twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from threading import Lock

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.io.row_texts import json_objects

EVENT_ROWS = 500
ALL_PARTS = 1 << 60

Place = tuple[int, int]  # a batch and a part of it


@dataclass
class Event:
    place: Place
    id: str
    rows: pa.RecordBatch
    nbytes: int
    _text: bytes | None = field(default=None, repr=False)

    def text(self) -> bytes:
        """As server-sent events are written; made when somebody first asks."""
        if self._text is None:
            rows = ",".join(json_objects(self.rows).to_pylist())
            self._text = f'id: {self.id}\ndata: {{"batch":{self.place[0]},"rows":[{rows}]}}\n\n'.encode()
        return self._text


@dataclass(frozen=True)
class Missed:
    """Events that are gone: those behind `after` (None: from the first) up to `until`."""

    after: str | None
    until: str


class ChangeLog:
    def __init__(self, run: str, schema: pa.Schema, most_rows: int, most_bytes: int) -> None:
        """run: the name of the run, which is new for a new checkpoint."""
        self.run = run
        self._schema = schema
        self._most_rows, self._most_bytes = most_rows, most_bytes
        self._events: deque[Event] = deque()
        self._first = 0  # how many events were dropped, so the number of the first that is here
        self._rows = self._bytes = 0
        self._gone: Place = (-1, ALL_PARTS)  # up to here nothing is here any more
        self._lock = Lock()
        self.on_more: Callable[[], None] | None = None

    def begin_after(self, number: int) -> None:
        """Of batches up to this one nothing will ever be here."""
        with self._lock:
            self._gone = max(self._gone, (number, ALL_PARTS))

    def add(self, number: int, batches: Sequence[pa.RecordBatch]) -> None:
        """The answers of a batch; by the thread of the run."""
        parts = [batch.slice(at, EVENT_ROWS) for batch in batches for at in range(0, batch.num_rows, EVENT_ROWS)]
        # Who has the last part has the whole batch, also where nobody knows any more how many parts it had.
        places: list[Place] = [(number, part) for part in range(len(parts) - 1)] + [(number, ALL_PARTS)]
        made = [Event(place, self._id_of(place), rows, rows.nbytes) for place, rows in zip(places, parts, strict=False)]
        with self._lock:
            self._events += made
            self._rows += sum(one.rows.num_rows for one in made)
            self._bytes += sum(one.nbytes for one in made)
            while self._events and (self._rows > self._most_rows or self._bytes > self._most_bytes):
                self._drop()
        if made and self.on_more is not None:
            self.on_more()

    def _drop(self) -> None:
        gone = self._events.popleft()
        self._first += 1
        self._rows -= gone.rows.num_rows
        self._bytes -= gone.nbytes
        self._gone = max(self._gone, gone.place)

    # ---- for those who listen ---------------------------------------------------------------------------------------

    def now(self) -> int:
        """The number of the event that will come next."""
        with self._lock:
            return self._first + len(self._events)

    def behind(self, after: str) -> tuple[int, Place, Missed | None]:
        """Where to go on behind an event that somebody has: the number of the next one; up to which place events are to
        be passed over, as they may not have come yet; and what is gone by now."""
        place = self._place_of(after)
        with self._lock:
            if place is None or place < self._gone:
                return self._first, self._gone, Missed(after if place else None, self._id_of(self._gone))
            passed = sum(one.place <= place for one in self._events)
            return self._first + passed, place, None

    def since(self, number: int, most_bytes: int = 1 << 16) -> tuple[list[Event], int] | None:
        """Events from a number on, not all at once, and the number behind them; None if the first of them is gone."""
        with self._lock:
            if number < self._first:
                return None
            found: list[Event] = []
            size = 0
            while number + len(found) < self._first + len(self._events) and size < most_bytes:
                found.append(self._events[number + len(found) - self._first])
                size += found[-1].nbytes
            return found, number + len(found)

    def last_rows(self, most: int) -> pa.Table:
        """The last rows that were given."""
        with self._lock:
            found: list[pa.RecordBatch] = []
            rows = 0
            for event in reversed(self._events):
                if rows >= most:
                    break
                found.append(event.rows)
                rows += event.rows.num_rows
        table = pa.Table.from_batches(found[::-1], self._schema)
        return table.slice(max(table.num_rows - most, 0))

    def id_after(self, number: int) -> str:
        """What to say to get all that comes after a batch."""
        return f"{self.run}-{number}"

    def _id_of(self, place: Place) -> str:
        number, part = place
        return f"{self.run}-{number}" if part == ALL_PARTS else f"{self.run}-{number}-{part}"

    def _place_of(self, id: str) -> Place | None:
        """None if it is of another run, or no id of ours."""
        run, _, rest = id.strip().partition("-")
        number, _, part = rest.partition("-")
        # A number may be -1: nothing has come yet.
        if rest == "-1":
            return (-1, ALL_PARTS) if run == self.run else None
        if run != self.run or not _is_number(number) or not (part == "" or _is_number(part)):
            return None
        return int(number), int(part) if part else ALL_PARTS


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 18
