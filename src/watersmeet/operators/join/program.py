"""A route over the stores as they stand now, written down as the tables that the kernels read."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import call, is_
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from watersmeet.model.time import FOREVER_US, Times
from watersmeet.model.windows import ClosedWindows
from watersmeet.operators.codes import Codes
from watersmeet.operators.join.door import Admitted
from watersmeet.operators.join.unmoved import Unmoved
from watersmeet.operators.join.window_store import WindowStore
from watersmeet.operators.kernels import pair as pair_kernel
from watersmeet.operators.kernels import star as star_kernel
from watersmeet.operators.kernels import walk as kernel
from watersmeet.operators.kernels.memory import HALF_WORDS, address, writable_address
from watersmeet.physical.strategy import Code, Comparison, Route, Step
from watersmeet.plan.expressions import Expression

Table = npt.NDArray[np.int64]
Stores = Mapping[str, WindowStore]
CodePositions = Mapping[str, Mapping[Code, int]]

# Kernels add limits to times, so "no limit" must dwarf any time yet not overflow.
NO_LIMIT = 2 * FOREVER_US
ORDERS = {"lt": kernel.LESS, "le": kernel.AT_MOST, "gt": kernel.MORE, "ge": kernel.AT_LEAST}
ACCESSES = {"hash": kernel.HASH, "sorted": kernel.SORTED, "scan": kernel.SCAN}
FIRST_LIST_ROOM = 1024
OUTPUT_ROWS = 1 << 16  # that a walk gives at a time


class _Addresses(NamedTuple):
    """Where the tables of a program lie."""

    steps: int
    equals: int
    unequals: int
    ranges: int
    tests: int
    runs: int
    limits: int
    state: int


class Program:
    """One route: what never changes is set up once, what depends on the stores is refreshed by `_aim`.

    A program is one run at a time: `generation` counts how often it was aimed.
    """

    generation = 0
    aims = 0  # how often all tables were written, or lie elsewhere

    def __init__(
        self,
        route: Route,
        windows: ClosedWindows,
        positions: CodePositions,
        residuals: Sequence[Expression] = (),
        *,
        counted: bool,
    ) -> None:
        """residuals: the conditions that what is found is still to be tested on."""
        self.route = route
        self.residuals = self.untested = tuple(residuals)  # in all, and of the combinations that were given last
        self.visits = [route.origin, *(step.stream for step in route.steps)]
        self.positions = positions
        self.counted = counted
        self.limits = limits_of(self.visits, windows)
        self.choices = self.limits.shape[0] - 1
        self.equals: list[tuple[int, Code, Code]] = []
        self.unequals: list[tuple[int, Code, Code]] = []
        self.ranges: list[tuple[Code, list[Comparison]]] = []
        self.steps = np.zeros((len(route.steps), kernel.STEP_FIELDS), np.int64)
        for d, step in enumerate(route.steps):
            self._describe(d, step)
        # Only the walk looks at deaths and at alternatives of windows.
        self.is_star = (
            not counted and self.choices == 0 and all(_by_one_key(route.origin, step) for step in route.steps)
        )
        # Limits against the new row are tested as its lists are made. Are there others, among the rows it meets?
        self.pairwise = int(bool((self.limits[0, 1 : len(route.steps), 1:] < NO_LIMIT).any()))
        self._make_lists(FIRST_LIST_ROOM)
        self._out = np.empty((len(self.visits), 0), np.int64)
        self._new_codes: dict[Code, Codes] = {}
        self._state = np.zeros((kernel.STATE_FIELDS, kernel.MAX_DEPTH + 1), np.int64)
        self._rows_of_steps = list(self.steps)
        # The stores in the order of visits, each with the key of the hash index that is used, if one is.
        self._looks_at = [(step.stream, self._hash_key(step)) for step in route.steps]
        self._aimed_at: list[Callable[[], Any]] | None = None  # the arrays whose addresses are written down
        # Which entries of the tables are addresses of new rows: the table, its row and column, and the code.
        self._from_new_rows: list[tuple[Table, int, int, Code]] = []

    def _make_lists(self, room: int) -> None:
        self.aims += 1
        self.lists = np.empty((len(self.route.steps), room), np.int64)
        self._lists_at = writable_address(self.lists)

    def _hash_key(self, step: Step) -> tuple[int, ...]:
        return tuple(self.positions[step.stream][code] for code in step.key) if step.access == "hash" else ()

    def _describe(self, d: int, step: Step) -> None:
        row = self.steps[d]
        row[kernel.ACCESS] = ACCESSES[step.access]
        row[kernel.EQUAL_FROM] = len(self.equals)
        self.equals += [(self.visits.index(bound.stream), bound, own) for bound, own in step.equalities]
        row[kernel.EQUAL_TO] = len(self.equals)
        row[kernel.UNEQUAL_FROM] = len(self.unequals)
        different = [c for c in step.comparisons if c.operator == "ne"]
        self.unequals += [(self.visits.index(c.bound.stream), c.bound, c.own) for c in different]
        row[kernel.UNEQUAL_TO] = len(self.unequals)
        row[kernel.RANGE_FROM] = len(self.ranges)
        self.ranges += _grouped([c for c in step.comparisons if c.operator != "ne"])
        row[kernel.RANGE_TO] = len(self.ranges)
        keyed = step.access == "hash" and all(bound.stream == self.route.origin for bound, _ in step.equalities)
        row[kernel.ORIGIN_KEYED] = int(keyed)

    def found(self, admitted: Admitted, stores: Stores, capacity: int) -> Iterator[Table]:
        """All combinations with new rows, as `run` gives them; `untested` says what is to be tested of a piece."""
        deaths = None if admitted.deaths is None else admitted.deaths.times
        return self.run(admitted.rows.times, deaths, admitted.codes, stores, capacity)

    def run(
        self, times: Times, deaths: Times | None, probing: Mapping[Code, Codes], stores: Stores, capacity: int
    ) -> Iterator[npt.NDArray[np.int64]]:
        """Row numbers of all combinations with the new rows, in pieces of at most `capacity`.

        Each piece has a row per visited input, the new rows first; it is overwritten by the next piece. Until the
        last one was asked for, the stores may not change.
        """
        self._aim(stores, probing)
        unmoved: Unmoved | None = None
        state = self._state
        state.fill(0)
        state[kernel.SCALARS, kernel.AT_DEPTH] = -1
        if self._out.shape[1] != capacity:
            self._out = np.empty((len(self.visits), capacity), np.int64)
        out = self._out
        while True:
            count = self._find(address(times), times.size, 0 if deaths is None else address(deaths), out)
            if count == star_kernel.LISTS_FULL:
                # Nothing is copied, as each call makes its lists anew.
                self._make_lists(4 * self.lists.shape[1])
                continue
            # The count does not tell: a star also stops when its lists are full.
            ended = state[kernel.SCALARS, kernel.AT_ROW] >= times.size
            if count:
                if unmoved is None:
                    unmoved = Unmoved([self, *(stores[step.stream] for step in self.route.steps)])
                yield out[:, :count]
                unmoved.check()
            if ended:
                return

    def aim(self, stores: Stores, probing: Mapping[Code, Codes]) -> list[tuple[Table, int, int, Code]]:
        """Write down where everything lies. Gives the entries that are addresses of new rows, with their codes."""
        self.generation += 1
        self._aim_at_all(stores, probing)
        return self._from_new_rows

    def aim_at_ends(self, stores: Stores) -> None:
        """Where rows begin and end in the stores, which changes with every append and expiry."""
        for row, (stream, _) in zip(self._rows_of_steps, self._looks_at, strict=True):
            self._aim_at_ends(row, stores[stream])

    @property
    def tables(self) -> list[int]:
        """Where they lie, in the order in which a kernel has them that walks for a few rows (kernels/few)."""
        at = self._addresses
        steps = self.steps.shape[0]
        return [
            at.steps,
            steps,
            at.equals,
            at.unequals,
            at.ranges,
            at.tests,
            at.runs,
            at.limits,
            self.choices,
            at.state,
        ]

    @property
    def lists_at(self) -> tuple[int, int]:
        """Where the lists of a star lie, and for how many rows they have room."""
        return self._lists_at, self.lists.shape[1]

    @property
    def steps_to(self) -> list[tuple[str, Table]]:
        """The row of each step, with the store that it looks into."""
        return [(stream, row) for row, (stream, _) in zip(self._rows_of_steps, self._looks_at, strict=True)]

    def _find(self, times_at: int, rows: int, deaths_at: int, out: Table) -> int:
        if self.is_star:
            return self._star(times_at, rows, out)
        return self._walk(times_at, rows, deaths_at, out)

    def _walk(self, times_at: int, rows: int, deaths_at: int, out: Table) -> int:
        at = self._addresses
        return int(
            kernel.walk(
                times_at,
                deaths_at,
                rows,
                at.steps,
                self.steps.shape[0],
                at.equals,
                at.unequals,
                at.ranges,
                at.tests,
                at.runs,
                at.limits,
                self.choices,
                at.state,
                out,
            )
        )

    def _star(self, times_at: int, rows: int, out: Table) -> int:
        at = self._addresses
        if self.steps.shape[0] == 1:
            return int(pair_kernel.pair(times_at, rows, at.steps, at.equals, at.limits, at.state, out))
        return int(
            star_kernel.star(
                times_at,
                rows,
                at.steps,
                self.steps.shape[0],
                at.equals,
                at.limits,
                self.pairwise,
                at.state,
                self._lists_at,
                self.lists.shape[1],
                out,
            )
        )

    def _aim(self, stores: Stores, probing: Mapping[Code, Codes]) -> None:
        """Write down where everything lies now; appends and expiry move it."""
        self.generation += 1
        # The tables hold addresses, which keep no array alive: those of the stores their stores do. Codes may be made
        # anew each time they are asked for, so these are kept, and the addresses taken are theirs.
        self._new_codes = dict(probing)
        if self._is_aimed(stores):
            self._aim_at_rows(stores, self._new_codes)
        else:
            self._aim_at_all(stores, self._new_codes)

    def _is_aimed(self, stores: Stores) -> bool:
        """Whether all arrays that the tables hold addresses of are where they were, those of new rows aside."""
        if self._aimed_at is None:
            return False
        return all(map(is_, map(call, self._aimed_at), self._arrays(stores)))

    def _arrays(self, stores: Stores) -> list[Any]:
        arrays: list[Any] = []
        for stream, key in self._looks_at:
            store = stores[stream]
            arrays += (store.times, store.codes, store.deaths)
            if key:
                index = store.hash_indexes[key]
                arrays += (index.heads, index.following)
        return arrays

    def _aim_at_rows(self, stores: Stores, probing: Mapping[Code, Codes]) -> None:
        """The arrays lie where they lay: only the new rows are elsewhere, and the ends of the stores."""
        for table, row, column, code in self._from_new_rows:
            table[row, column] = address(probing[code])
        self.aim_at_ends(stores)

    def _aim_at_all(self, stores: Stores, probing: Mapping[Code, Codes]) -> None:
        self.aims += 1
        own = {d + 1: stores[step.stream] for d, step in enumerate(self.route.steps)}

        def bound_at(depth: int, code: Code) -> int:
            return address(probing[code]) if depth == 0 else self._own(stores, code)

        self._equals = _table([[d, bound_at(d, b), self._own(stores, o)] for d, b, o in self.equals])
        self._unequals = _table([[d, bound_at(d, b), self._own(stores, o)] for d, b, o in self.unequals])
        tests: list[list[int]] = []
        ranges: list[list[int]] = []
        from_new_rows: list[tuple[Table, int, int, Code]] = []
        bound_codes: list[tuple[int, Code]] = []
        for code, comparisons in self.ranges:
            start = len(tests)
            for c in comparisons:
                depth = self.visits.index(c.bound.stream)
                bound_codes.append((depth, c.bound))
                tests.append([ORDERS[c.operator], depth, bound_at(depth, c.bound)])
            ranges.append([self._own(stores, code), start, len(tests), 0, 0])
        self._tests, self._ranges = _table(tests), _table(ranges)
        runs: list[list[int]] = []
        for d, step in enumerate(self.route.steps):
            self._aim_step(self.steps[d], step, own[d + 1], runs)
        self._runs = _table(runs)
        for table, column, bound in (
            (self._equals, kernel.BOUND_CODES, [(d, b) for d, b, _ in self.equals]),
            (self._unequals, kernel.BOUND_CODES, [(d, b) for d, b, _ in self.unequals]),
            (self._tests, 2, bound_codes),
        ):
            from_new_rows += [(table, row, column, code) for row, (depth, code) in enumerate(bound) if depth == 0]
        self._from_new_rows = from_new_rows
        self._addresses = _Addresses(
            address(self.steps),
            address(self._equals),
            address(self._unequals),
            writable_address(self._ranges),
            address(self._tests),
            address(self._runs),
            address(self.limits),
            writable_address(self._state),
        )
        if not runs and all(step.access != "sorted" for step in self.route.steps):  # sorted runs change with every row
            self._aimed_at = [_reference(array) for array in self._arrays(stores)]

    def _aim_at_ends(self, row: Table, store: WindowStore) -> None:
        row[kernel.TAIL], row[kernel.HEAD], row[kernel.SLACK] = store.tail, store.head, store.disorder_us

    def _aim_step(self, row: Table, step: Step, store: WindowStore, runs: list[list[int]]) -> None:
        row[kernel.TIME] = address(store.times)
        row[kernel.DEATH] = 0 if store.deaths is None else address(store.deaths)
        self._aim_at_ends(row, store)
        if step.access == "hash":
            index = store.hash_indexes[tuple(self.positions[step.stream][code] for code in step.key)]
            row[kernel.HEADS], row[kernel.SHIFT] = address(index.heads, HALF_WORDS), index.shift
            row[kernel.FOLLOWING] = address(index.following, HALF_WORDS)
        elif step.access == "sorted":
            assert step.sorted_by is not None
            row[kernel.RUN_FROM] = len(runs)
            for run in store.sorted_indexes[self.positions[step.stream][step.sorted_by]].runs:
                runs.append([address(run.values), address(run.rows, HALF_WORDS), run.values.size])
            row[kernel.RUN_TO] = len(runs)

    def _own(self, stores: Stores, code: Code) -> int:
        return address(stores[code.stream].codes[self.positions[code.stream][code]])


def _reference(array: Any) -> Callable[[], Any]:
    """Knows an array again without keeping it."""
    return (lambda: None) if array is None else weakref.ref(array)


def _by_one_key(origin: str, step: Step) -> bool:
    """Whether a step finds its rows by one key of the new row and by nothing else."""
    return len(step.equalities) == 1 and step.equalities[0][0].stream == origin and not step.comparisons


def _grouped(comparisons: Sequence[Comparison]) -> list[tuple[Code, list[Comparison]]]:
    """Comparisons by the code they narrow, in the order given."""
    groups: dict[Code, list[Comparison]] = {}
    for comparison in comparisons:
        groups.setdefault(comparison.own, []).append(comparison)
    return list(groups.items())


def limits_of(visits: Sequence[str], windows: ClosedWindows) -> Table:
    """How much later and earlier than each bound row the next may be; static tables have no limits."""
    several = len(windows.alternatives) > 1
    matrices = [windows.limits, *(windows.alternatives if several else ())]
    limits = np.full((len(matrices), kernel.MAX_DEPTH, kernel.MAX_DEPTH, 2), NO_LIMIT, np.int64)
    index = {stream: i for i, stream in enumerate(windows.streams)}
    for k, matrix in enumerate(matrices):
        for d, own in enumerate(visits[1:]):
            for b, bound in enumerate(visits[: d + 1]):
                if own in index and bound in index:
                    # matrix[u][v] is the most that v may be later than u.
                    limits[k, d, b, kernel.LATER] = _finite(matrix[index[bound]][index[own]])
                    limits[k, d, b, kernel.EARLIER] = _finite(matrix[index[own]][index[bound]])
    return limits


def _finite(limit_us: int) -> int:
    return NO_LIMIT if limit_us >= FOREVER_US else limit_us


def _table(rows: list[list[int]]) -> Table:
    # A table that no step refers to has an address all the same.
    return np.array(rows, np.int64) if rows else np.zeros((1, 5), np.int64)
