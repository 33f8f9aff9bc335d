"""What happened in a run: plain values, with everything a picture of it shows."""

from __future__ import annotations

from typing import Literal

from watersmeet.dataclass import dataclass

# late: below the watermark when it came. other: left out by a condition on its own columns. duplicate: of a key that
# was there already.
Fate = Literal["held", "late", "other", "duplicate"]


@dataclass(frozen=True)
class Row:
    """A row of a stream: its number, counted from 1 in the order of its input, its time, a few of its values, all of
    them, and from when to when its window holds it; None: no end is in sight."""

    number: int
    at_us: int
    label: str
    values: str
    fate: Fate = "held"
    since_us: int | None = None
    until_us: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether it is ever in a window."""
        return self.fate == "held" and self.since_us is not None


@dataclass(frozen=True)
class Lane:
    """An input of the query: what it is called, its window in words, its rows in the order of their times, and the
    columns whose values stand beside them."""

    alias: str
    name: str
    window: str
    rows: tuple[Row, ...]
    is_table: bool = False
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Match:
    """Rows that met: of each lane the number of one, or None where an outer join found no partner. lost: they would
    have, but bounded memory had let go of one of them."""

    rows: tuple[int | None, ...]
    at_us: int
    values: str
    lost: bool = False


@dataclass(frozen=True)
class Answer:
    """A row of the answer, from when it is there and until when; None: it stays. moment: it is only told, at one
    instant, as by ISTREAM."""

    values: str
    since_us: int
    until_us: int | None = None
    moment: bool = False


@dataclass(frozen=True)
class Story:
    """A run: its inputs, who met, the answer, and notes on what is left out. given: the answer is who met, each row
    that of a match in the same place. is_cut: more rows follow than are told of."""

    sql: str
    lanes: tuple[Lane, ...]
    matches: tuple[Match, ...]
    answers: tuple[Answer, ...]
    given: bool = False
    is_cut: bool = False
    notes: tuple[str, ...] = ()

    @property
    def forgotten(self) -> frozenset[tuple[int, int]]:
        """Rows, by lane and number, that bounded memory must have let go of: when the newer of two came and they did
        not meet, it was the older that was gone. Of three or more nobody can say which."""
        times = [{row.number: row.at_us for row in lane.rows} for lane in self.lanes]
        found = set()
        for one in self.matches:
            members = [(lane, number) for lane, number in enumerate(one.rows) if number is not None]
            if one.lost and len(members) == 2:
                older, newer = sorted((times[lane][number], lane, number) for lane, number in members)
                if older[0] < newer[0]:
                    found.add(older[1:])
        return frozenset(found)
