"""How the memory of a query is shared out among buckets that work apart: by need.

Buckets cannot ask each other what their rows are worth. But whoever spreads rows over them sees rows for all of them,
and tells every bucket the same: how many rows of each stream fell into each *cell*, which is a part of a bucket by the
hash of the key. So all buckets know the same needs and work out the same shares, each for itself.

The rows of a cell are worth what their partners in the cell are. Cells are given room in the order of that, until the
memory is full, which is what a single join does with its rows. Where keys do not say what rows are worth, a bucket has
one cell, and its need is the number of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import exp, expm1, inf

import numpy as np
import numpy.typing as npt

from watersmeet.dataclass import dataclass
from watersmeet.operators.memory_bound import Came, Sharing
from watersmeet.plan.memory import Memory

Counts = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]

# A batch is taken in so many steps for each window (see batches). Rows leave their windows after a step, so there are
# more of them than a window holds.
STEPS_OF_A_WINDOW = 16
HELD = 1 + 1 / STEPS_OF_A_WINDOW


@dataclass(frozen=True)
class Share:
    """What one bucket may keep: all of it, and of that each stream, if no stream may use another's."""

    memory: Memory
    streams: Mapping[str, Memory] = field(default_factory=dict)


class Needs:
    """How many rows there are in the windows, by stream and cell, as far as counts tell: rows that came long ago fade
    away. The same counts in the same batches make the same needs, in every bucket and after every restart."""

    STATE = ("rows", "recent", "arrived", "bytes", "passed", "newest_us", "due")

    def __init__(
        self,
        sharing: Sharing,
        lives: Sequence[tuple[float, bool]],
        row_bytes: Sequence[float],
        recent: float = 1.0,
    ) -> None:
        """lives: how long rows of each stream stay in its window, and whether that is in rows, not in microseconds.
        row_bytes: what a row of each stream takes, without values of any length. recent: of how much of a window the
        counts are that tell what rows are worth; less than all of it where keys come and go."""
        self.sharing = sharing
        self.lives = tuple(lives)
        self.row_bytes = np.array(row_bytes, np.float64)
        self.rows: Amounts = np.zeros((len(sharing.streams), sharing.cells))
        self.recent_share = recent
        self.recent: Amounts | None = self.rows.copy() if recent < 1 and sharing.finer > 1 else None
        self.arrived: Amounts = np.zeros(len(sharing.streams))  # rows without copies, faded alike
        self.bytes: Amounts = np.zeros(len(sharing.streams))  # what those took on their way
        self.passed: Amounts = np.zeros(len(sharing.streams))  # since the first row, in lifetimes
        self.newest_us: int | None = None
        self.due: Counts | None = None  # what was due to the one bucket that takes its share here, in the last batch

    def add(self, batch: Sequence[Came]) -> None:
        """Rows came. All that is told of a batch must be given at once."""
        if not batch:
            return
        newest_us = max(came.newest_us for came in batch)
        since_us = min(came.oldest_us for came in batch) if self.newest_us is None else self.newest_us
        self.newest_us = max(newest_us, since_us)
        for stream, (life, in_rows) in enumerate(self.lives):
            mine = [came for came in batch if came.stream == stream]
            passed = sum(came.rows for came in mine) if in_rows else self.newest_us - since_us
            counts = np.sum([came.counts for came in mine], axis=0, dtype=np.float64) if mine else 0
            self.passed[stream] += passed / life
            _count(self.rows, stream, counts, passed / life)
            _count(self.arrived, stream, sum(came.rows for came in mine), passed / life)
            _count(self.bytes, stream, sum(came.size for came in mine), passed / life)
            if self.recent is not None:
                _count(self.recent, stream, counts, passed / life / self.recent_share)

    def share_of(self, bucket: int) -> Share:
        """What is due to a bucket now; the shares of all buckets together are the whole memory."""
        return self._share(self._due_to(bucket))

    def take_share(self, bucket: int) -> Share:
        """What a bucket may keep in this batch. What it has gained others have to give up first, whose turn in this
        batch may be later: so that comes with the next one, and all together never keep more than the memory."""
        due = self._due_to(bucket)
        kept = due if self.due is None else np.minimum(due, self.due)
        self.due = due
        return self._share(kept)

    @property
    def memory_due(self) -> Memory | None:
        """All that was due to the bucket that took its share here; None before the first batch."""
        return None if self.due is None else self._share(self.due).memory

    def _due_to(self, bucket: int) -> Counts:
        """Of the memory of each stream, or of the pool of all, the part of a bucket."""
        whole, least = self._parts()
        wanted = self._wanted(whole)
        return np.array([
            shared_out(total, each, need)[bucket] for total, each, need in zip(whole, least, wanted, strict=True)
        ])  # fmt: skip

    def _share(self, parts: Counts) -> Share:
        own = [self._memory(part) for part in parts.tolist()]
        if not self.sharing.fixed:
            return Share(own[0])
        return Share(self._memory(int(parts.sum())), dict(zip(self.sharing.streams, own, strict=True)))

    def _memory(self, amount: int) -> Memory:
        return Memory(rows=amount) if self.sharing.memory.size is None else Memory(size=amount)

    def _parts(self) -> tuple[list[int], list[int]]:
        """The memory of each stream, or of all in one pool, and the least that any bucket gets of it: a row of each
        stream."""
        memory, streams = self.sharing.memory, len(self.sharing.streams)
        if memory.size is not None:
            most = memory.size // (streams * self.sharing.buckets)
            # As in allocation.least_size: a row that is kept, and one that comes.
            rows = [min(2 * (int(size) + 1), most) for size in self.row_bytes]
            return ([memory.size // streams] * streams, rows) if self.sharing.fixed else ([memory.size], [sum(rows)])
        assert memory.rows is not None
        if not self.sharing.fixed:
            return [memory.rows], [streams]
        each, left = divmod(memory.rows, streams)
        return [each + (stream < left) for stream in range(streams)], [1] * streams

    def _wanted(self, whole: Sequence[int]) -> list[Amounts]:
        """For each stream, or the pool of all, how much of its memory should go to each bucket."""
        rows, sizes = self._in_windows(), self._row_sizes()[:, None]
        kept = (HELD * rows * sizes).reshape(len(whole), -1)
        if self.sharing.finer > 1:
            worth = self._worth(rows if self.recent is None else self.recent) / sizes
            competing = zip(kept, worth.reshape(len(whole), -1), whole, strict=True)
            kept = np.stack([filled(room, of_cells, memory) for room, of_cells, memory in competing])
        # Cell c belongs to bucket c modulo their number, so the last axis is that of the buckets.
        return list(kept.reshape(len(whole), -1, self.sharing.buckets).sum(axis=1))

    def _in_windows(self) -> Amounts:
        """The rows that the windows hold. While a window fills, rows fade that have not left it; that is put right."""
        full = [min(passed, 1.0) / -expm1(-passed) if passed > 0 else 1.0 for passed in self.passed.tolist()]
        rows: Amounts = self.rows * np.array(full)[:, None]
        return rows

    def _row_sizes(self) -> Amounts:
        if self.sharing.memory.size is None:
            return np.ones(len(self.row_bytes))
        return self.row_bytes + self.bytes / np.maximum(self.arrived, 1e-9)

    def _worth(self, rows: Amounts) -> Amounts:
        """How many results a row brings a second, by stream and cell: one of the others comes, the rest are there."""
        streams = len(self.lives)
        worth = np.zeros_like(rows)
        for stream in range(streams):
            others = [other for other in range(streams) if other != stream]
            lengths = [1.0 if in_rows or life == inf else life for life, in_rows in (self.lives[o] for o in others)]
            worth[stream] = sum(1 / length for length in lengths) * np.prod(rows[others], axis=0)
        return worth


def _count(amounts: Amounts, stream: int, new: Amounts | float, lives: float) -> None:
    faded, fresh = _fading(lives)
    amounts[stream] = amounts[stream] * faded + fresh * new


def _fading(lives: float) -> tuple[float, float]:
    """What is left of earlier rows after so many lifetimes, and of those that came steadily meanwhile.

    >>> _fading(0.0), _fading(1.0)
    ((1.0, 1.0), (0.36787944117144233, 0.6321205588285577))
    """
    return exp(-lives), -expm1(-lives) / lives if lives > 0 else 1.0


def filled(room: Amounts, worth: Amounts, memory: float) -> Amounts:
    """How much of the room each cell needs it gets, those first that are worth most.

    >>> filled(np.array([5.0, 4.0, 3.0]), np.array([1.0, 3.0, 2.0]), 6).tolist()
    [0.0, 4.0, 2.0]
    """
    order = np.argsort(-worth, kind="stable")
    wanted = room[order]
    before = np.cumsum(wanted) - wanted
    kept = np.empty_like(room)
    kept[order] = np.clip(memory - before, 0.0, wanted)
    return kept


def shared_out(total: int, least: int, wanted: Amounts) -> Counts:
    """Whole numbers, none below the least, that add up to the total if it is enough: in proportion to what is wanted
    where that is more, else what is wanted and of the rest as much for each, as it is not known who will need it.

    >>> shared_out(4, 1, np.array([9.0, 3.0, 0.0])).tolist(), shared_out(10, 1, np.array([3.0, 1.0, 0.0])).tolist()
    ([2, 1, 1], [5, 3, 2])
    """
    free = max(total - least * wanted.size, 0)
    wanted = wanted + max(total - float(wanted.sum()), 0.0) / wanted.size
    parts = np.maximum(wanted * (total / max(float(wanted.sum()), 1e-100)) - least, 0.0)
    parts *= free / max(float(parts.sum()), 1.0)
    shares = np.floor(parts).astype(np.int64)
    # What rounding left over goes where it cut off most.
    most_cut = np.argsort(shares - parts, kind="stable")[: max(free - int(shares.sum()), 0)]
    shares[most_cut] += 1
    return shares + least
