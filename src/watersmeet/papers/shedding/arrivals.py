"""Two streams of keys as they arrived, and what a join finds when its rows are forgotten early.

Time is cut into instants. The rows of one instant meet each other and whatever is in memory; then it is decided what
stays. What a strategy did is one array, `until`: for each row the last instant at which it was in memory, which is
the row's own instant if it was never kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Rows of streams 0 and 1 in the order of their times, with keys numbered from 0.

    A row of stream x meets partners while its age is below `windows[x]`; times are integers, so a closed window of d
    is a window of d + 1. Results found before `counted_from` do not count. Rows of one time are one instant, unless
    `one_by_one` says that they come in the order given and each is an instant of its own. `values` are the keys
    behind the numbers, if they are known.
    """

    times: Numbers
    streams: Numbers
    keys: Numbers
    windows: tuple[int, int]
    counted_from: int | None = None
    one_by_one: bool = False
    values: pa.Array | None = None

    def __post_init__(self) -> None:
        if not self.times.size == self.streams.size == self.keys.size:
            sizes = f"{self.times.size} times, {self.streams.size} streams and {self.keys.size} keys"
            raise DataError(f"every row has a time, a stream and a key, but there are {sizes}")
        if np.any(self.times[1:] < self.times[:-1]):
            raise DataError("rows must come in the order of their times; sort them by time first")
        if self.streams.size and not 0 <= self.streams.min() <= self.streams.max() <= 1:
            raise DataError(f"streams are 0 and 1, but {sorted(set(self.streams.tolist()) - {0, 1})[0]} was given")
        if self.keys.size and self.keys.min() < 0:
            raise DataError(f"keys are numbered from 0, but {self.keys.min()} was given; `arrivals` numbers any keys")
        if min(self.windows) < 1:
            raise DataError(f"a window lasts at least 1, but {min(self.windows)} was given")

    def __len__(self) -> int:
        return int(self.times.size)

    @cached_property
    def instants(self) -> Numbers:
        """The number of each row's instant."""
        if self.one_by_one or not len(self):
            return np.arange(len(self))
        return np.concatenate([[0], np.cumsum(self.times[1:] > self.times[:-1])]).astype(np.int64)

    @cached_property
    def instant_times(self) -> Numbers:
        if self.one_by_one:
            return self.times
        return self.times[np.flatnonzero(np.diff(self.instants, prepend=-1))]

    @cached_property
    def first_counted(self) -> int:
        """The first instant whose results count."""
        if self.counted_from is None:
            return 0
        return int(np.searchsorted(self.instant_times, self.counted_from))

    @cached_property
    def last(self) -> Numbers:
        """The last instant each row can meet: the `until` of a join that forgets nothing early."""
        ends = self.times + np.asarray(self.windows, np.int64)[self.streams]
        # A row lives while its age is below its window, so the first instant at `ends` is one too late.
        return np.searchsorted(self.instant_times, ends) - 1

    @cached_property
    def key_count(self) -> int:
        return int(self.keys.max()) + 1 if len(self) else 0

    @cached_property
    def chains(self) -> Numbers:
        """The number of each row's (stream, key)."""
        return self.streams * self.key_count + self.keys

    @cached_property
    def partner_chains(self) -> Numbers:
        return (1 - self.streams) * self.key_count + self.keys

    def results_by_row(self, until: Numbers) -> Numbers:
        """In how many counted results each row takes part."""
        begun, met, _ = self._met
        counts = self.instants >= self.first_counted
        left = np.sort(self.chains * self.instant_times.size + until)
        as_newer = begun - self._places(left, self.instants)
        return self._as_older(until) + np.where(counts, as_newer + met - begun, 0)

    def results(self, until: Numbers) -> int:
        """How many results count."""
        begun, met, _ = self._met
        as_equal = (met - begun)[self.instants >= self.first_counted]
        # Each result once: by its older member, and those of one instant, which both members count, halved.
        return int(self._as_older(until).sum() + as_equal.sum() // 2)

    @cached_property
    def exact_results(self) -> int:
        return self.results(self.last)

    @cached_property
    def free_results(self) -> int:
        """The results within one instant, which no strategy can lose."""
        return self.results(self.instants)

    def stored(self, until: Numbers) -> Numbers:
        """How many rows of each stream are in memory after each instant, as two rows of counts."""
        instants = self.instant_times.size
        change = np.zeros((2, instants + 1), np.int64)
        np.add.at(change, (self.streams, self.instants), 1)
        np.add.at(change, (self.streams, until), -1)
        return np.cumsum(change, axis=1)[:, :instants]

    def _as_older(self, until: Numbers) -> Numbers:
        """For each row the counted results with later partners."""
        found: Numbers = np.maximum(self._places(self._arrived, until, side="right") - self._met[2], 0)
        return found

    @cached_property
    def _arrived(self) -> Numbers:
        """Instants of all chains laid end to end, so that one sorted array answers how many rows of a chain came by an
        instant."""
        return np.sort(self.chains * self.instant_times.size + self.instants)

    @cached_property
    def _met(self) -> tuple[Numbers, Numbers, Numbers]:
        """For each row how many entries of `_arrived` lie before its partners of its own instant, before its later
        partners, and before those of them that count."""
        begun = self._places(self._arrived, self.instants)
        met = self._places(self._arrived, self.instants, side="right")
        first = self._places(self._arrived, np.full(len(self), self.first_counted))
        # Partners that came with the row or before it, or before results count, are no later partners that do.
        return begun, met, np.maximum(met, first)

    def _places(self, among: Numbers, instants: Numbers, side: Literal["left", "right"] = "left") -> Numbers:
        """Where an instant of each row lies among the sorted instants of its partners' chains."""
        order = self._by_partners
        found = np.empty(len(self), np.int64)
        sought = (self.partner_chains * self.instant_times.size + instants)[order]
        found[order] = np.searchsorted(among, sought, side=side)
        return found

    @cached_property
    def _by_partners(self) -> Numbers:
        """The rows in such an order that searches for them go from left to right: many times faster than at random."""
        return np.argsort(self.partner_chains, kind="stable")


def arrivals(
    times: Sequence[int] | Numbers,
    streams: Sequence[int] | Numbers,
    keys: object,
    window: int | tuple[int, int],
    *,
    counted_from: int | None = None,
    one_by_one: bool = False,
) -> Arrivals:
    """Rows with keys of any type Arrow knows; NULL keys meet nothing.

    >>> arrivals([0, 3, 3, 9], [0, 1, 0, 1], ["a", "a", "b", "a"], window=9).exact_results
    1
    """
    which = np.asarray(streams, np.int64)
    pair = window if isinstance(window, tuple) else (window, window)
    numbers, values = _numbered(keys, which)
    return Arrivals(np.asarray(times, np.int64), which, numbers, pair, counted_from, one_by_one, values)


def one_per_tick(r: object, s: object, window: int | tuple[int, int], *, counted_from: int | None = None) -> Arrivals:
    """DGR03's model: at each tick 0, 1, … one row of each stream.

    >>> one_per_tick([1, 1, 1, 3, 2], [2, 3, 1, 1, 3], window=3).exact_results
    7
    """
    left, right = as_array(r), as_array(s)
    if len(left) != len(right):
        raise DataError(f"one row of each stream comes at every tick, but there are {len(left)} and {len(right)} rows")
    alternating = np.arange(2 * len(left)).reshape(2, -1).T.ravel()  # r(0), s(0), r(1), s(1), …
    keys = pa.concat_arrays([left, right]).take(pa.array(alternating))
    ticks = np.repeat(np.arange(len(left)), 2)
    return arrivals(ticks, np.tile([0, 1], len(left)), keys, window, counted_from=counted_from)


def as_array(keys: object) -> pa.Array:
    if isinstance(keys, pa.ChunkedArray):
        return keys.combine_chunks()
    return keys if isinstance(keys, pa.Array) else pa.array(keys)


def _numbered(keys: object, streams: Numbers) -> tuple[Numbers, pa.Array]:
    """Equal keys get equal numbers. NULL equals nothing: the NULLs of the two streams are numbered apart."""
    encoded = pc.dictionary_encode(as_array(keys))
    known = len(encoded.dictionary)
    numbers = encoded.indices.cast(pa.int64()).fill_null(known).to_numpy()
    if encoded.null_count and numbers.size == streams.size:
        numbers = np.where(numbers == known, known + streams, numbers)
    return numbers, encoded.dictionary
