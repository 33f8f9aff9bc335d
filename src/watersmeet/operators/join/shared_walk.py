"""One walk for several joins that look for the same rows by the same keys, in windows of different widths.

Rows that joins keep together (shared_window.py) lie once in a window for each stream. Joins whose new rows go through
these windows by the same steps differ in how far back they look, in whose rows are theirs, and in what they test and
show afterwards. So their new rows walk once, as far back as the widest window asks; each join has of what is found what
lies in its own windows and is of its own rows. Of that it has no more than its own walk would give, in the same order.

Who walks together is decided from outside (optimizer/share_walks.py), by what the walks are expected to find, then by
what they were seen to.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Protocol

import numpy as np
import numpy.typing as npt

from watersmeet.dataclass import dataclass
from watersmeet.model.windows import ClosedWindows
from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.join.program import OUTPUT_ROWS, Program
from watersmeet.operators.join.shared_window import WHO, SharedWindow, WindowView
from watersmeet.operators.join.staged_program import StagedProgram
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.payload import FixedColumn
from watersmeet.physical.strategy import Code, JoinStrategy, Route

Views = Mapping[str, WindowView]
Matrix = tuple[tuple[int, ...], ...]
Ways = npt.NDArray[np.unsignedinteger]

# What is found for several joins waits until the last of them has looked at it. Where it is more, each walks by itself.
MOST_FOUND = 1 << 20
LOOKED_AT_EVERY = 16  # pieces of a stream


@dataclass(frozen=True)
class WalkSeen:
    """So many rows have searched so many windows one after the other, and so many combinations were found."""

    steps: int
    rows: float = 0
    found: float = 0


class Decider(Protocol):
    """Decides who walks together."""

    def expected(self, strategy: JoinStrategy, origin: str) -> WalkSeen:
        """What the new rows of a stream will find, before any has come."""

    def together(self, walks: Sequence[WalkSeen]) -> list[list[int]]:
        """The places of walks in groups."""


@dataclass(frozen=True)
class Found:
    """Combinations of the new rows: of each input, the new rows first, where its rows lie in the window; how much later
    those of one input are than those of another; and the ways by which they came, where there are several."""

    numbers: Codes
    later: Mapping[tuple[int, int], Codes]
    ways: Sequence[Ways | None]


class Walker:
    """A join as its new rows of one stream walk: along which windows, by which codes, and within which limits."""

    def __init__(self, join: WindowJoin, alias: str, views: Views, expected: WalkSeen) -> None:
        self.join, self.program = join, join.programs[alias]
        visits = self.program.visits
        self.views = [views[one] for one in visits]
        windows = [_window_of(view) for view in self.views]
        self.origin = windows[0]
        self.limits = _limits(visits, join.windows)
        self.key = _steps(self.program, windows)
        self.expected = expected
        # Since it was last decided who walks together: new rows, and what its own walk finds or would find of them.
        self.rows = self.found = 0
        self.walk: SharedWalk | None = None

    @property
    def seen(self) -> WalkSeen:
        return WalkSeen(len(self.views) - 1, self.rows, self.found) if self.found else self.expected

    def walk_with(self, walk: SharedWalk | None) -> None:
        self.walk = walk
        self.rows = self.found = 0

    def own(self, found: Found) -> Codes:
        """What its own walk would find."""
        mask: Mask | None = None
        for (d, b), later in found.later.items():
            near = (later <= self.limits[b][d]) & (later >= -self.limits[d][b])
            mask = near if mask is None else mask & near
        assert mask is not None
        self.found += int(np.count_nonzero(mask))
        for view, ways in zip(self.views, found.ways, strict=True):
            if ways is not None:
                mask &= (ways & ways.dtype.type(view.bit)) != 0
        return found.numbers if bool(mask.all()) else np.compress(mask, found.numbers, axis=1)


class SharedWalk:
    """A walk as wide as any of its walkers needs, done once for each piece of their stream."""

    def __init__(self, walkers: Sequence[Walker]) -> None:
        first = walkers[0]
        self._walkers, self._stores = len(walkers), first.join.stores
        self._windows = [_window_of(view) for view in first.views]
        self._visits = first.program.visits
        positions = first.join.layout.code_positions
        closed = ClosedWindows(tuple(self._visits), (_widest([one.limits for one in walkers]),))
        self._program = Program(first.program.route, closed, positions, counted=False)
        bound = {code for code, _, _ in compared(self._program.route) if code.stream == self._visits[0]}
        self._codes = {code: positions[code.stream][code] for code in bound}
        self._piece, self._looked = -1, 0
        self._found: Found | None = None

    def found(self) -> Found | None:
        """What the rows that came last find, to be asked for once by each; None: it is too much to wait here."""
        if self._piece != self._windows[0].pieces:
            self._piece, self._looked = self._windows[0].pieces, 0
            self._found = self._walked()
        self._looked += 1
        found = self._found
        if self._looked == self._walkers:
            self._found = None
        return found

    def _walked(self) -> Found | None:
        first, head = self._windows[0].newest
        own = self._windows[0].store
        probing = {code: own.codes[position, first:head] for code, position in self._codes.items()}
        parts, total = [], 0
        for numbers in self._program.run(own.times[first:head], None, probing, self._stores, OUTPUT_ROWS):
            parts.append(numbers.copy())
            total += numbers.shape[1]
            if total > MOST_FOUND:
                return None
        found = np.concatenate(parts, axis=1) if parts else np.empty((len(self._visits), 0), np.int64)
        found[0] += first
        times = [one.store.times[rows] for one, rows in zip(self._windows, found, strict=True)]
        later = {(d, b): times[d] - times[b] for b, d in combinations(range(len(times)), 2)}
        return Found(found, later, [_ways(one, rows) for one, rows in zip(self._windows, found, strict=True)])


class SharedWalks:
    """Who walks together, of joins that keep rows together. They are given the same pieces, one after the other."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._views: dict[WindowJoin, Views] = {}
        # By how they walk; None: as no other can.
        self._walkers: dict[Program, Walker | None] = {}
        self._due: dict[SharedWindow, int] = {}  # at which piece of it it is decided again who walks together
        self._changed = False

    def add(self, join: WindowJoin, views: Views) -> None:
        self._views[join] = views

    def leave(self, join: WindowJoin) -> None:
        del self._views[join]
        self._changed = True

    def change(self) -> None:
        """One goes by other routes."""
        self._changed = True

    def walked(self, join: WindowJoin, alias: str, rows: int) -> Codes | None:
        """What new rows of an input find for a join: where their rows lie in the windows; None: it walks itself."""
        walker = self._walker(join, alias)
        if walker is None:
            return None
        walker.rows += rows
        found = None if walker.walk is None else walker.walk.found()
        return None if found is None else walker.own(found)

    def walked_alone(self, join: WindowJoin, alias: str, found: int) -> None:
        """A join has found so many by its own walk."""
        walker = self._walkers.get(join.programs[alias])
        if walker is not None:
            walker.found += found

    def _walker(self, join: WindowJoin, alias: str) -> Walker | None:
        program = join.programs[alias]
        if self._changed:
            used = {one for each in self._views for one in each.programs.values()}
            self._walkers = {one: walker for one, walker in self._walkers.items() if one in used}
            self._due, self._changed = {}, False
        if program not in self._walkers:
            for one, views in self._views.items():
                self._add_walkers(one, views)
        walker = self._walkers[program]
        if walker is not None and walker.origin.pieces >= self._due.get(walker.origin, 0):
            self._decide(walker.origin)
        return walker

    def _add_walkers(self, join: WindowJoin, views: Views) -> None:
        for alias, program in join.programs.items():
            if program not in self._walkers:
                may = _may_share(join, program, views)
                expected = self._decider.expected
                made = Walker(join, alias, views, expected(join.strategy, alias)) if may else None
                self._walkers[program] = made

    def _decide(self, window: SharedWindow) -> None:
        # Soon after the first, as the others may have been empty then.
        self._due[window] = window.pieces + min(window.pieces, LOOKED_AT_EVERY)
        alike: dict[Hashable, list[Walker]] = {}
        for one in self._walkers.values():
            if one is not None and one.origin is window:
                alike.setdefault(one.key, []).append(one)
        for walkers in alike.values():
            for group in self._decider.together([one.seen for one in walkers]):
                members = [walkers[place] for place in group]
                walk = SharedWalk(members) if len(members) > 1 else None
                for one in members:
                    one.walk_with(walk)


def _may_share(join: WindowJoin, program: Program, views: Views) -> bool:
    """Whether all that a walk visits is kept together, and one matrix of limits says how far apart rows may be."""
    # One that tests combinations on their way goes on with its own alone.
    if len(join.windows.alternatives) > 1 or isinstance(program, StagedProgram):
        return False
    if not all(one in views and views[one].window is not None for one in program.visits):
        return False
    origin = program.visits[0]
    bound = {code for code, _, _ in compared(program.route) if code.stream == origin}
    return bound <= join.layout.code_positions[origin].keys()


def compared(route: Route) -> Iterator[tuple[Code, str, Code]]:
    """What is compared along a route: a code of a row that is bound, how, and a code of one that is looked for."""
    for step in route.steps:
        yield from ((bound, "eq", own) for bound, own in step.equalities)
        yield from ((one.bound, one.operator, one.own) for one in step.comparisons)


def _steps(program: Program, windows: Sequence[SharedWindow]) -> Hashable:
    """What must be the same for two joins, so that they may walk together."""
    places = {alias: place for place, alias in enumerate(program.visits)}

    def at(code: Code) -> tuple[int, int]:
        return places[code.stream], program.positions[code.stream][code]

    accesses = [(step.access, None if step.sorted_by is None else at(step.sorted_by)) for step in program.route.steps]
    codes = [(at(bound), how, at(own)) for bound, how, own in compared(program.route)]
    return tuple(map(id, windows)), tuple(accesses), tuple(codes)


def _limits(visits: Sequence[str], windows: ClosedWindows) -> Matrix:
    at = [windows.streams.index(one) for one in visits]
    return tuple(tuple(windows.limits[u][v] for v in at) for u in at)


def _widest(limits: Sequence[Matrix]) -> Matrix:
    inputs = range(len(limits[0]))
    return tuple(tuple(max(one[u][v] for one in limits) for v in inputs) for u in inputs)


def _window_of(view: WindowView) -> SharedWindow:
    assert view.window is not None
    return view.window


def _ways(window: SharedWindow, rows: Codes) -> Ways | None:
    column = window.store.payload.get(WHO)
    if column is None:
        return None
    assert isinstance(column, FixedColumn)
    ways: Ways = column.values[rows]
    return ways
