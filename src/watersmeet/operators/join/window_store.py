"""The rows of one stream that can still match: times, codes, indexes and payload, in arrival order.

Rows lie at positions tail..head-1 of flat arrays. Expiry moves the tail; when the arrays are full the live rows
move to the front (or into larger arrays), so every scan is over one contiguous piece of memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, FOREVER_US, Times
from watersmeet.operators.few_rows import FEW, Cells
from watersmeet.operators.join.hash_index import HashIndex
from watersmeet.operators.join.positions import MOST_ROWS, check_positions
from watersmeet.operators.join.sorted_index import SortedIndex
from watersmeet.operators.kernels.rows import disorder, old_rows
from watersmeet.operators.keyed_state import KeyedRows
from watersmeet.operators.payload import Positions, moved, payload_column, picked

MIN_CAPACITY = 1024
GROWTH = 1.3
# Of few rows arrays have more room: they move less often then, and that is not much memory.
GROWTH_OF_FEW, FEW_ROWS = 2, 1 << 16
SHRINK_BELOW = 0.25


class WindowStore:
    """`codes` columns of int64, the indexes over them, and the payload columns results are gathered from.

    With `counted`, each row also has its serial number in the stream and a death: the time from which newer rows
    have pushed it out of its ROWS window (FOREVER_US while it is among the newest).

    `generation` counts the changes after which addresses and positions that were taken before may not be used;
    `moves` those among them after which an array lies elsewhere.
    """

    generation = 0
    moves = 0
    STATE: ClassVar[tuple[str, ...]] = (
        "capacity", "tail", "head", "times", "codes", "deaths", "serials", "hash_indexes", "sorted_indexes", "payload",
        "disorder_us", "newest_us",
    )  # fmt: skip

    def __init__(
        self,
        code_count: int,
        hash_keys: Sequence[tuple[int, ...]] = (),
        sorted_keys: Sequence[int] = (),
        payload: Mapping[str, pa.DataType] | None = None,
        *,
        counted: bool = False,
    ) -> None:
        self.capacity = MIN_CAPACITY
        self.tail = self.head = 0
        self.times: Times = np.empty(self.capacity, np.int64)
        self.codes: npt.NDArray[np.int64] = np.empty((code_count, self.capacity), np.int64)
        self.deaths: Times | None = np.empty(self.capacity, np.int64) if counted else None
        self.serials: npt.NDArray[np.int64] | None = np.empty(self.capacity, np.int64) if counted else None
        self.hash_indexes = {key: HashIndex(key, self.capacity) for key in hash_keys}
        self.sorted_indexes = {key: SortedIndex(key) for key in sorted_keys}
        self.payload = {name: payload_column(kind, self.capacity) for name, kind in (payload or {}).items()}
        # How far a row has ever been behind the newest before it: a walk that looks for old rows may stop only
        # that much past the oldest it wants.
        self.disorder_us = 0
        self.newest_us = BEGINNING_US
        # The number of the row at position 0, of all that ever were put in.
        self.numbered_from = 0

    def loaded(self) -> None:
        """Other arrays took the place of its own."""
        self.moves += 1

    def __len__(self) -> int:
        return self.head - self.tail

    @property
    def nbytes(self) -> int:
        parts = [self.times.nbytes, self.codes.nbytes]
        parts += [array.nbytes for array in (self.deaths, self.serials) if array is not None]
        parts += [index.nbytes for index in self.hash_indexes.values()]
        parts += [index.nbytes for index in self.sorted_indexes.values()]
        return sum(parts) + sum(column.nbytes for column in self.payload.values())

    @property
    def live_times(self) -> Times:
        return self.times[self.tail : self.head]

    @property
    def live_deaths(self) -> Times:
        assert self.deaths is not None
        return self.deaths[self.tail : self.head]

    def append(
        self,
        times: Times,
        codes: Sequence[npt.NDArray[np.int64]],
        payload: Mapping[str, pa.Array | Cells],
        serials: npt.NDArray[np.int64] | None = None,
        deaths: Times | None = None,
    ) -> None:
        """Add rows in arrival order."""
        count = times.size
        if count == 0:
            return
        self.generation += 1
        self._make_room(count)
        first, last = self.head, self.head + count
        self.times[first:last] = times
        for i, column in enumerate(codes):
            self.codes[i, first:last] = column
        if self.deaths is not None and self.serials is not None:
            assert deaths is not None
            assert serials is not None
            self.deaths[first:last] = deaths
            self.serials[first:last] = serials
        self._append_payload(payload, first)
        furthest, newest = disorder(times, self.newest_us)
        self.disorder_us, self.newest_us = max(self.disorder_us, int(furthest)), int(newest)
        self.head = last
        self._link(first, last)

    def _link(self, first: int, last: int) -> None:
        """Put the rows at first..last-1 into the indexes."""
        for hashed in self.hash_indexes.values():
            self.moves += hashed.add(self.codes, first, last, self.tail)
        for ordered in self.sorted_indexes.values():
            ordered.add(self.codes, first, last, self.tail)

    def _append_payload(self, payload: Mapping[str, pa.Array | Cells], first: int) -> None:
        for name, stored in self.payload.items():
            stored.append(payload[name], first)

    def took(self, count: int, furthest_us: int, newest_us: int) -> None:
        """A kernel has put so many rows at the head, and into the hash indexes (see kernels/few)."""
        self.generation += 1
        self.head += count
        self.newest_us = newest_us
        if furthest_us > self.disorder_us:
            self.disorder_us = furthest_us

    def keyed(self, key: int | None) -> KeyedRows:
        """The rows, by the code at this place; without one, rows that may lie anywhere."""
        live = slice(self.tail, self.head)
        numbers = {"times": self.times[live], **{f"code_{i}": column[live] for i, column in enumerate(self.codes)}}
        if self.deaths is not None and self.serials is not None:
            numbers |= {"deaths": self.deaths[live], "serials": self.serials[live]}
        positions = np.arange(self.tail, self.head)
        data = pa.RecordBatch.from_arrays([one.gather(positions) for one in self.payload.values()], list(self.payload))
        keys = np.arange(len(self)) if key is None else self.codes[key, live]
        return KeyedRows.of(keys, data, **numbers)

    def take_over(self, rows: KeyedRows) -> None:
        """Hold rows of one or several other stores, of which it is not known who came first: as if in time order."""
        rows = rows.sorted_by("times", *(("serials",) if self.serials is not None else ()))
        numbers = rows.numbers
        codes = [numbers[f"code_{i}"] for i in range(len(self.codes))]
        payload = {name: rows.data.column(name) for name in self.payload}
        self.append(numbers["times"], codes, payload, numbers.get("serials"), numbers.get("deaths"))

    def index_by(self, hash_keys: Sequence[tuple[int, ...]], sorted_keys: Sequence[int]) -> None:
        """Have just these indexes: build what is missing over the rows held, drop the rest."""
        self.generation += 1
        self.moves += 1
        self.hash_indexes = {key: self.hash_indexes.get(key) or self._hashed(key) for key in hash_keys}
        self.sorted_indexes = {key: self.sorted_indexes.get(key) or self._sorted(key) for key in sorted_keys}

    def _hashed(self, key: tuple[int, ...]) -> HashIndex:
        index = HashIndex(key, self.capacity)
        index.rebuild(self.codes, self.tail, self.head, self.capacity)
        return index

    def _sorted(self, key: int) -> SortedIndex:
        index = SortedIndex(key)
        index.rebuild(self.codes, self.tail, self.head)
        return index

    def expire(self, cutoff_us: int) -> int:
        """Forget rows older than the cutoff, from the tail; returns how many.

        A row behind a younger one (disorder) waits for its turn; its time keeps it out of results meanwhile.
        """
        return self._drop(self.old_rows(self.tail, cutoff_us))

    def old_rows(self, first: int, cutoff_us: int) -> int:
        """How many rows from this position on are older than the cutoff, before one that is not."""
        if first == self.head or self.times.item(first) >= cutoff_us:
            return 0
        gone = int(old_rows(self.times, first, min(self.head, first + FEW), cutoff_us))
        if gone == FEW:
            times = self.times[first : self.head]
            gone = int(times.searchsorted(cutoff_us)) if self.disorder_us == 0 else first_at_least(times, cutoff_us)
        return gone

    def forget(self, count: int) -> None:
        """Forget the oldest so many rows, whatever their times."""
        self._drop(count)

    def since(self, instant_us: int) -> Positions:
        """Where the rows lie that are not older than an instant, in the order of their times."""
        times = self.live_times
        young = np.flatnonzero(times >= instant_us)
        if self.disorder_us:
            young = young[np.argsort(times[young], kind="stable")]
        return young + self.tail

    def kill(self, serials: npt.NDArray[np.int64], at: Times) -> None:
        """Set the deaths of rows by serial number; rows that are not stored are passed over."""
        assert self.serials is not None
        self.generation += 1
        # Serials ascend, as rows that are counted come in time order.
        live = self.serials[self.tail : self.head]
        found = np.searchsorted(live, serials)
        stored = found < live.size
        stored[stored] = live[found[stored]] == serials[stored]
        self.live_deaths[found[stored]] = at[stored]

    def expire_dead(self) -> int:
        """Forget rows that a ROWS window has pushed out; exact only once no older row can arrive."""
        alive = self.live_deaths == FOREVER_US
        total, kept = alive.size, int(np.count_nonzero(alive))
        # In partitions rows die out of turn. Those between live ones stay until they outnumber them.
        gone = int(alive.argmax()) if kept else total
        if total - kept - gone > max(kept, MIN_CAPACITY):
            self._keep_only(self.tail + np.flatnonzero(alive))
            return int(total - kept)
        return self._drop(gone)

    def _drop(self, gone: int) -> int:
        if gone:
            self.generation += 1
            self.tail += gone
        # Among no rows none is out of order.
        if gone and self.tail == self.head:
            self.disorder_us = 0
        if self.sorted_indexes:
            for index in self.sorted_indexes.values():
                index.expire(self.tail)
        return gone

    def _make_room(self, count: int) -> None:
        if self.head + count <= self.capacity:
            return
        self.moves += 1
        live = len(self)
        check_positions(live + count)
        wanted = _capacity_for(live + count)
        # The same arrays are used again only if they have room for more than these rows: else all would move again
        # soon.
        capacity = self.capacity if self.capacity * SHRINK_BELOW <= wanted <= self.capacity else wanted
        by = self.tail
        self.numbered_from += by
        self.times = moved(self.times, by, live, capacity)
        self.codes = moved(self.codes, by, live, capacity)
        if self.deaths is not None and self.serials is not None:
            self.deaths = moved(self.deaths, by, live, capacity)
            self.serials = moved(self.serials, by, live, capacity)
        for column in self.payload.values():
            column.relocate(by, live, capacity)
        for hashed in self.hash_indexes.values():
            hashed.relocate(self.codes, by, live, capacity)
        for ordered in self.sorted_indexes.values():
            ordered.relocate(by)
        self.tail, self.head, self.capacity = 0, live, capacity

    def _keep_only(self, positions: Positions) -> None:
        """Squeeze out dead rows from between live ones."""
        self.generation += 1
        self.moves += 1
        capacity = _capacity_for(positions.size)
        self.times = picked(self.times, positions, capacity)
        self.codes = picked(self.codes, positions, capacity)
        if self.deaths is not None and self.serials is not None:
            self.deaths = picked(self.deaths, positions, capacity)
            self.serials = picked(self.serials, positions, capacity)
        for column in self.payload.values():
            column.keep(positions, capacity)
        self.tail, self.head, self.capacity = 0, int(positions.size), capacity
        for hashed in self.hash_indexes.values():
            hashed.rebuild(self.codes, 0, self.head, capacity)
        for ordered in self.sorted_indexes.values():
            ordered.rebuild(self.codes, 0, self.head)


def first_at_least(times: Times, cutoff_us: int) -> int:
    """Where the first young row of an unordered array is, looking at ever larger pieces from the front."""
    start, size = 0, 1024
    while start < times.size:
        young = times[start : start + size] >= cutoff_us
        if young.any():
            return start + int(young.argmax())
        start, size = start + size, size * 2
    return int(times.size)


def _capacity_for(rows: int) -> int:
    few = min(rows * GROWTH_OF_FEW, FEW_ROWS)
    return min(max(MIN_CAPACITY, int(rows * GROWTH), few), MOST_ROWS)
