"""Every way to write a window, as one graph of difference bounds.

A bound says `t_later - t_earlier <= at_most_us`. The bounds of a join form a simple temporal problem: closing
them under shortest paths gives the tightest implied bound for every pair, finds contradictions, and tells how
long each stream's rows must be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import cached_property
from itertools import chain, permutations, product
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from watersmeet.dataclass import dataclass
from watersmeet.errors import WindowError
from watersmeet.model.pace import Pace
from watersmeet.model.time import FOREVER_US, Times, format_interval

Boundary = Literal["closed", "half_open"]
Matrix = tuple[tuple[int, ...], ...]
_T = TypeVar("_T", int, npt.NDArray[np.int64])

MAX_ALTERNATIVES = 62  # kernels hold a set of them in one int64


@dataclass(frozen=True)
class Range:
    """`[RANGE d]`: a row counts until d after its own time. `[NOW]` is `Range(0)`."""

    size_us: int


@dataclass(frozen=True)
class RowsWindow:
    """`[ROWS n]` or `[PARTITION BY k ROWS n]`: the n latest rows, in all or for each value of k."""

    count: int
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stepped:
    """`[RANGE w SLIDE s OFFSET d]`: at T the rows of (T' - w, T'], T' being the last multiple of s, shifted by d, at or
    before T. So a row is there from the first multiple at or after its time, until the first at or after its time + w.
    Where it `cumulates` rows leave together, at the first step after the w that they came in; these begin right behind
    multiples of w, shifted as the steps are. Times may be a number or an array of them.

    `[LATCH s]` is as long as time: it moves by steps and keeps what it has held (w is FOREVER_US)."""

    size_us: int
    slide_us: int
    offset_us: int = 0
    cumulates: bool = False

    @property
    def latches(self) -> bool:
        """Whether rows never leave."""
        return self.size_us >= FOREVER_US

    def births(self, times: _T) -> _T:
        return self.offset_us - (self.offset_us - times) // self.slide_us * self.slide_us

    def deaths(self, times: _T) -> _T:
        if self.latches:
            return times * 0 + FOREVER_US
        if self.cumulates:
            begin_us = self.offset_us + 1
            return self.births((times - begin_us) // self.size_us * self.size_us + (self.size_us + begin_us))
        return self.births(times + self.size_us)

    @property
    def longest_us(self) -> int:
        """How long a row is there at most."""
        return FOREVER_US if self.latches else -(-self.size_us // self.slide_us) * self.slide_us


@dataclass(frozen=True)
class SteppedRows:
    """`[ROWS n SLIDE m]` or `[PARTITION BY k ROWS n SLIDE m]`: the n latest rows as of the last m-th row."""

    count: int
    slide: int
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Hop:
    """`HOP(s, slide, size)`, and `TUMBLE(s, size)` where both are the same: a row is in every window [start, end) that
    holds its time, whose starts are multiples of the slide, shifted by the offset; it has a copy for each. `at_once`:
    it is there from its own time on, for good; else at the last instant before the end, when the window is complete.

    Windows are numbered in the order of their ends. With a calendar they begin by its pace, and so many `steps` of it
    are one window; the sizes are then as long as they may be. `CUMULATE(s, step, size)` is one that `cumulates`: its
    windows begin at multiples of the size only, and end one slide after the other."""

    size_us: int
    slide_us: int
    offset_us: int = 0
    at_once: bool = False
    zone: str | None = None  # that of the times
    calendar: Pace | None = None
    steps: int = 1
    cumulates: bool = False

    @property
    def most_copies(self) -> int:
        """In how many windows a row may be."""
        return self.steps if self.calendar is not None else self.size_us // self.slide_us

    @property
    def repeats(self) -> bool:
        """Whether a row may be in more windows than one."""
        return self.steps > 1 if self.calendar is not None else self.slide_us < self.size_us

    @property
    def ends_us(self) -> int:
        """One of the ends, from which the others are multiples of the slide away."""
        return self.offset_us + self.size_us

    def starts(self, numbers: Times) -> Times:
        if self.calendar is not None:
            return self.calendar.at(numbers)
        if self.cumulates:
            return numbers // self.most_copies * self.size_us + self.offset_us
        return numbers * self.slide_us + self.offset_us

    def ends(self, numbers: Times) -> Times:
        if self.calendar is not None:
            return self.calendar.at(numbers + self.steps)
        return numbers * self.slide_us + (self.offset_us + self.slide_us if self.cumulates else self.ends_us)

    def last_over(self, times: Times) -> Times:
        """The number of the last window that ends at a time or before it."""
        if self.calendar is not None:
            return self.calendar.numbers(times) - self.steps
        return (times - (self.offset_us + self.slide_us if self.cumulates else self.ends_us)) // self.slide_us

    def last_holding(self, times: Times) -> Times:
        """The number of the last window that a row is in, if it is in any; the first is the one after `last_over`."""
        if self.calendar is not None:
            return self.calendar.numbers(times)
        if self.cumulates:
            return (times - self.offset_us) // self.size_us * self.most_copies + (self.most_copies - 1)
        return (times - self.offset_us) // self.slide_us

    def copies(self, times: Times) -> Times:
        """How many windows a row is in."""
        return self.last_holding(times) - self.last_over(times)


@dataclass(frozen=True)
class Session:
    """`SESSION(s, gap PARTITION BY k)`: rows of which each comes before the gap after the one before it has passed. The
    window is [first, last + gap). A row is there at the last instant before the end; with `at_once` from its own time
    on, for good, in the session as it is then: its start is known, its end moves on as rows come."""

    gap_us: int
    partition_by: tuple[str, ...] = ()
    at_once: bool = False
    zone: str | None = None  # that of the times


@dataclass(frozen=True)
class Landmark:
    """`[LANDMARK 't' EVERY d]`: at T the rows since t, or since the last instant at or before T that is a multiple of d
    after t. Rows before t are never there, the others from their own time on until the next such instant."""

    since_us: int
    every_us: int | None = None

    def deaths(self, times: Times) -> Times:
        if self.every_us is None:
            return np.full(times.size, FOREVER_US, np.int64)
        past: Times = (times - self.since_us) // self.every_us
        return (past + 1) * self.every_us + self.since_us


@dataclass(frozen=True)
class Each:
    """What UNNEST makes of rows: one for each entry of a list. `names` are those of the entry and, if asked for, of its
    number. Entries are there at the time of their row and at no other instant; or while their row is in a window that
    counts rows, those without entries among them, and not entries."""

    column: str
    names: tuple[str, ...]
    within: RowsWindow | SteppedRows | None = None
    words: str = field(default="", compare=False)  # for what nobody wrote as a list

    @property
    def partition_by(self) -> tuple[str, ...]:
        return () if self.within is None else self.within.partition_by


WINDOW_COLUMNS = ("window_start", "window_end")


@dataclass(frozen=True)
class Unbounded:
    """`[UNBOUNDED]`: every row since the start."""


@dataclass(frozen=True)
class Until:
    """Not written in SQL: rows that are combinations, each counting until the first of its members leaves its window.
    `ends` names the columns with the members' times, and the lengths of their windows."""

    ends: tuple[tuple[str, int], ...]


Window = Range | RowsWindow | Stepped | SteppedRows | Hop | Session | Landmark | Each | Unbounded | Until


def counting(window: Window | None) -> RowsWindow | SteppedRows | None:
    """The window of so many rows that a stream has, whatever its rows are taken apart into."""
    window = window.within if isinstance(window, Each) else window
    return window if isinstance(window, RowsWindow | SteppedRows) else None


def is_counted(window: Window | None) -> bool:
    """Whether rows leave because others come, so that nobody can say beforehand when."""
    return counting(window) is not None


def moves_in_steps(window: Window | None) -> bool:
    """Whether rows may enter later than at their own time, as several, or never; or leave together."""
    return isinstance(window, Stepped | SteppedRows | Hop | Session | Landmark | Each)


def dies_in_turn(window: Window | None) -> bool:
    """Whether rows leave in the order in which they came."""
    counts = counting(window)
    apart = counts is not None and bool(counts.partition_by)
    # A PARTITION BY keeps the old rows of quiet keys, and a combination ends with its member that leaves first.
    several = isinstance(window, Hop) and window.at_once and window.repeats
    growing = isinstance(window, Session) and window.at_once
    return not apart and not several and not growing and not isinstance(window, Until)


@dataclass(frozen=True)
class Bound:
    """`t_later - t_earlier <= at_most_us`, with the words it came from."""

    earlier: str
    later: str
    at_most_us: int
    written: str

    def __str__(self) -> str:
        return f"{self.later} - {self.earlier} <= {format_interval(self.at_most_us)}"


@dataclass(frozen=True)
class Choice:
    """Alternatives of which at least one must hold: what `WINDOW PATH` means."""

    alternatives: tuple[tuple[Bound, ...], ...]


def range_words(stream: str, window: Range | Stepped | Landmark) -> str:
    """The words by which errors know the window of a stream."""
    if isinstance(window, Landmark):
        return f"{stream} [LANDMARK … EVERY {format_interval(window.every_us or 0)}]"
    if isinstance(window, Stepped) and window.latches:
        return f"{stream} [LATCH {format_interval(window.slide_us)}]"
    slide = f" SLIDE {format_interval(window.slide_us)}" if isinstance(window, Stepped) else ""
    return f"{stream} [RANGE {format_interval(window.size_us)}{slide}]"


def _within(size_us: int, boundary: Boundary, written: str) -> int:
    """`<= size` for closed windows, `< size` for half-open ones, as an inclusive number of microseconds."""
    if size_us < 0:
        raise WindowError(
            f"{written} has a negative length ({format_interval(size_us)}); a window is zero or longer",
            written=(written,),
        )
    if boundary == "closed":
        return size_us
    if size_us == 0:
        raise WindowError(
            f"{written} has length zero, and with boundary='half_open' it holds nothing",
            hint="give it a length, or use boundary='closed'",
            written=(written,),
        )
    return size_us - 1


def range_bounds(
    stream: str, window: Range | Stepped | Landmark, others: Iterable[str], boundary: Boundary
) -> tuple[Bound, ...]:
    """A window per stream, measured from the newest member (K05, GO03, H04)."""
    written = range_words(stream, window)
    if isinstance(window, Landmark):
        if window.every_us is None:
            return ()
        limit = window.every_us - 1
    elif isinstance(window, Stepped):
        if window.latches:
            return ()
        # A row that is there with another comes before the step at which that one is gone.
        limit = window.size_us + window.slide_us - 2
    else:
        limit = _within(window.size_us, boundary, written)
    return tuple(Bound(stream, other, limit, written) for other in others if other != stream)


def single_window(streams: Sequence[str], size_us: int, boundary: Boundary) -> tuple[Bound, ...]:
    """`WINDOW = w`: every pair within w (H02 form 1)."""
    written = f"WINDOW = {format_interval(size_us)}"
    limit = _within(size_us, boundary, written)
    return tuple(Bound(u, v, limit, written) for u, v in permutations(streams, 2))


def pair_window(left: str, right: str, size_us: int, boundary: Boundary) -> tuple[Bound, ...]:
    """`WINDOW (A,B) = w`: this pair within w (H02 forms 2 and 3)."""
    written = f"WINDOW ({left}, {right}) = {format_interval(size_us)}"
    limit = _within(size_us, boundary, written)
    return (Bound(left, right, limit, written), Bound(right, left, limit, written))


def directed_window(first: str, then: str, size_us: int, boundary: Boundary) -> tuple[Bound, ...]:
    """`DWINDOW (A,B) = w`: A first, then B at most w later; equal times allowed."""
    written = f"DWINDOW ({first}, {then}) = {format_interval(size_us)}"
    limit = _within(size_us, boundary, written)
    # Half-open windows lose their far end only: equal times stay allowed, so the zero is no length.
    return (Bound(first, then, limit, written), Bound(then, first, 0, written))


def path_window(streams: Sequence[str], sizes_us: Sequence[int], boundary: Boundary) -> Choice:
    """`WINDOW PATH (A,B,C) = (w1,w2)`: the directed chain A→B→C, or the same chain backwards."""
    sizes = ", ".join(map(format_interval, sizes_us))
    written = f"WINDOW PATH ({', '.join(streams)}) = ({sizes})"
    forward: list[Bound] = []
    backward: list[Bound] = []
    # The last stream has no successor, so the first list is one longer.
    for u, v, size in zip(streams, streams[1:], sizes_us, strict=False):
        limit = _within(size, boundary, written)
        forward += [Bound(u, v, limit, written), Bound(v, u, 0, written)]
        backward += [Bound(v, u, limit, written), Bound(u, v, 0, written)]
    return Choice((tuple(forward), tuple(backward)))


@dataclass(frozen=True)
class ClosedWindows:
    """The closure: for each alternative the tightest bound of every ordered pair of streams.

    `alternatives[k][u][v]` bounds `t_v - t_u`; `limits` is the loosest over the alternatives, which is what a
    row must satisfy to be of any use. Infinity is FOREVER_US.
    """

    streams: tuple[str, ...]
    alternatives: tuple[Matrix, ...]

    @cached_property
    def limits(self) -> Matrix:
        n = len(self.streams)
        # Entry by entry, so it may admit what no single alternative does: kernels still test the alternatives.
        return tuple(tuple(max(m[u][v] for m in self.alternatives) for v in range(n)) for u in range(n))

    def retention_us(self, stream: str) -> int:
        """How long after its own time a row of `stream` can still meet a new row; FOREVER_US if always."""
        u = self.streams.index(stream)
        return max((limit for v, limit in enumerate(self.limits[u]) if v != u), default=0)


def close(streams: Sequence[str], bounds: Sequence[Bound], choices: Sequence[Choice] = ()) -> ClosedWindows:
    """Close the bounds under shortest paths, once per combination of path directions.

    Raises WindowError naming the constraints on the cycle if no alternative is consistent.
    """
    # A contradiction among the bounds alone is found here, before any path could be blamed for it.
    ways = {_shortest_paths(streams, bounds): tuple(bounds)}
    for choice in choices:
        ways = _extended(streams, list(ways.values()), choice)
        # Counted after each choice: every further one may double the ways.
        if len(ways) > MAX_ALTERNATIVES:
            raise WindowError(
                f"the directions of the {len(choices)} WINDOW PATHs combine in more than {MAX_ALTERNATIVES} ways",
                hint="use fewer of them, or say which stream comes first with DWINDOW",
            )
    return ClosedWindows(tuple(streams), tuple(ways))


def _extended(
    streams: Sequence[str], ways: Sequence[tuple[Bound, ...]], choice: Choice
) -> dict[Matrix, tuple[Bound, ...]]:
    """Every way so far with every alternative of one more choice, by closure; none lies inside another."""
    found: dict[Matrix, tuple[Bound, ...]] = {}
    contradiction: WindowError | None = None
    for way, alternative in product(ways, choice.alternatives):
        chosen = (*way, *alternative)
        try:
            # Two directions may close to the same matrix, which is then one way.
            found.setdefault(_shortest_paths(streams, chosen), chosen)
        except WindowError as error:
            contradiction = error
    if not found:
        assert contradiction is not None
        raise contradiction
    # What lies inside another adds no combination, and there is room for MAX_ALTERNATIVES only.
    return {m: chosen for m, chosen in found.items() if not any(_is_inside(m, other) for other in found)}


def _is_inside(matrix: Matrix, other: Matrix) -> bool:
    """Whether every combination that satisfies one closure satisfies another, different one."""
    pairs = zip(chain(*matrix), chain(*other), strict=True)
    return matrix != other and all(mine <= theirs for mine, theirs in pairs)


def _shortest_paths(streams: Sequence[str], bounds: Sequence[Bound]) -> Matrix:
    """Floyd–Warshall in integers, keeping the bound that starts each path so that a cycle can be named."""
    position = {stream: i for i, stream in enumerate(streams)}
    n = len(streams)
    distance = [[0 if u == v else FOREVER_US for v in range(n)] for u in range(n)]
    path: list[list[tuple[Bound, ...]]] = [[() for _ in range(n)] for _ in range(n)]
    for bound in bounds:
        u, v = position[bound.earlier], position[bound.later]
        if bound.at_most_us < distance[u][v]:
            distance[u][v], path[u][v] = bound.at_most_us, (bound,)
    # The middle stream is the outermost loop, as Floyd–Warshall needs.
    for k, u, v in product(range(n), repeat=3):
        through = distance[u][k] + distance[k][v]
        if distance[u][k] < FOREVER_US and distance[k][v] < FOREVER_US and through < distance[u][v]:
            distance[u][v], path[u][v] = through, path[u][k] + path[k][v]
            # Raised at once: with a negative cycle in them, distances fall in every further round and paths repeat.
            if u == v:
                raise _contradiction(path[u][v])
    return tuple(tuple(row) for row in distance)


def _contradiction(cycle: Sequence[Bound]) -> WindowError:
    written = tuple(dict.fromkeys(bound.written for bound in cycle))
    inequalities = "; ".join(map(str, cycle))
    return WindowError(
        f"the windows contradict each other, so no combination can ever match: {' and '.join(written)}",
        hint=f"together they ask for {inequalities}, which no times satisfy; widen or drop one of them",
        written=written,
    )


def check_retention(
    closed: ClosedWindows, windows: dict[str, Window | None], original: Sequence[Bound], choices: Sequence[Choice] = ()
) -> None:
    """Refuse a stream whose rows could never be forgotten, unless it says [UNBOUNDED] or counts rows."""
    # Rows of a single stream meet nobody, so none is kept for a join.
    if len(closed.streams) == 1:
        return
    for u, stream in enumerate(closed.streams):
        window = windows.get(stream)
        latches = isinstance(window, Stepped) and window.latches
        if latches or is_counted(window) or isinstance(window, Hop | Session | Landmark | Unbounded):
            continue
        unreached = [v for i, v in enumerate(closed.streams) if i != u and closed.limits[u][i] >= FOREVER_US]
        if unreached:
            given = list(dict.fromkeys(b.written for b in original if b.written))
            given += [c.alternatives[0][0].written for c in choices]
            if stream.startswith("#") or unreached[0].startswith("#"):
                # What was joined before has no name that was written.
                one, other = ("the join before" if name.startswith("#") else name for name in (stream, unreached[0]))
                raise WindowError(
                    f"rows of {one} could never be forgotten: nothing bounds how much later a row of {other} may be, "
                    f"whoever of them has no partner",
                    hint="add a bound to ON, between streams that are there in any case; or give the streams windows, "
                    "as in a [RANGE 1 MINUTE]",
                )
            raise WindowError(
                f"rows of {stream} could never be forgotten: nothing bounds how much later than {stream} "
                f"a row of {unreached[0]} may be (windows given: {', '.join(given) or 'none'})",
                hint=f"write {stream} [RANGE 30 SECONDS], or WINDOW ({stream}, {unreached[0]}) = 30 SECONDS, "
                f"or declare it {stream} [UNBOUNDED]",
                alias=stream,
            )
