"""What the papers' join algorithms have in common: rows arrive one at a time in one order, and work is counted.

An algorithm knows rows by *serials*: the rows of a stream that were let in are numbered 0, 1, 2, … in the order
they came. Where a row's time and codes lie is read from a `Shelf` table of biased addresses, so that
`load64(address, serial)` is the row's value wherever the store has moved it meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from watersmeet.dataclass import dataclass

Int64s = npt.NDArray[np.int64]

# Columns of a shelf table, one row per input: where times and deaths lie (deaths: 0 if the window counts no rows),
# then the codes, in the order of JoinStrategy.stored_codes.
TIMES, DEATHS, FIRST_CODE = range(3)

# Positions in an algorithm's int64 vector of counts, which its kernels add to.
ATTRIBUTE_COMPARISONS, WINDOW_COMPARISONS, SCANNED, INSERTED, INVALIDATED, INVALIDATION_COMPARISONS, RESULTS = range(7)
COUNTS = 7


@dataclass(frozen=True)
class ArrivedRows:
    """New rows of all streams in one order: (time, place in FROM, arrival)."""

    streams: Int64s  # the place of the row's stream in FROM, among all inputs
    serials: Int64s
    times: Int64s

    def __len__(self) -> int:
        return int(self.streams.size)


@dataclass(frozen=True)
class Work:
    """Exact counts, with one meaning for every algorithm.

    A *scanned* row is one looked at as a candidate; a *window comparison* tests a candidate's time, an *attribute
    comparison* its join attributes (once per candidate, however many attributes); *invalidation comparisons* look
    whether a held row has expired. *Inserted* and *invalidated* rows enter and leave the algorithm's buffers.
    *Live* rows held can still match a row that arrives now; *stale* ones are held although they cannot.
    """

    attribute_comparisons: int = 0
    window_comparisons: int = 0
    scanned: int = 0
    inserted: int = 0
    invalidated: int = 0
    invalidation_comparisons: int = 0
    results: int = 0
    live_held: int = 0
    stale_held: int = 0

    def as_dict(self) -> dict[str, int]:
        return dict(vars(self))


class Algorithm(Protocol):
    """One way to join arrivals. `shelf` is the table described above, valid during the call only."""

    def arrive(self, arrivals: ArrivedRows, shelf: Int64s) -> Iterator[Int64s]:
        """Join and keep the arrivals; pieces of combinations, one row of serials per input in FROM order.

        Each combination comes exactly once. A piece is overwritten by the next.
        """
        ...

    def take_back(self, arrivals: ArrivedRows, shelf: Int64s) -> None:
        """Keep rows that were joined before (after a restart), without joining them again."""
        ...

    def finish(self, shelf: Int64s) -> Iterator[Int64s]:
        """The inputs have ended: what still waited for a later moment."""
        ...

    def oldest_needed(self, place: int) -> int:
        """The smallest serial of an input that may still be asked for; older rows may leave the store."""
        ...

    def work(self, now_us: int, shelf: Int64s) -> Work:
        """The counts so far; live and stale as of this instant."""
        ...


@runtime_checkable
class Lazy(Algorithm, Protocol):
    """An algorithm that lets rows wait until a later moment."""

    @property
    def lag_us(self) -> int:
        """How long at most, in event time."""
        ...

    def advance(self, until_us: int, shelf: Int64s) -> Iterator[Int64s]:
        """Every row before this time has arrived: join what was to be joined by then."""
        ...

    def resume(self, until_us: int, shelf: Int64s) -> None:
        """After rows were taken back: those whose moment had not come before this time still have to be joined."""
        ...


@runtime_checkable
class TakesAnyOrder(Algorithm, Protocol):
    """An algorithm that finds everything in whatever order rows come, of one input or of several.

    What it may forget follows from the rows to come. As long as it is told nothing, the rows of each input are in order
    of time, so that the newest one tells; from `expect` on only what it is told does.
    """

    def expect(self, from_us: int) -> None:
        """From here on no row before this time comes; others in any order."""
        ...

    def pass_by(self, until_us: int, shelf: Int64s) -> Iterator[Int64s]:
        """All rows before this time have arrived: let go of those that none to come can reach, and find what waited for
        that."""
        ...


@runtime_checkable
class Observable(Algorithm, Protocol):
    """An algorithm that can say what it holds of each input."""

    def occupancy(self, now_us: int, shelf: Int64s) -> tuple[Int64s, Int64s]:
        """Rows held per input: live and stale as of this instant."""
        ...
