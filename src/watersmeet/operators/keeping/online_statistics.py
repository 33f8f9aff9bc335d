"""How often keys come, learnt while they come, in memory that does not grow.

Every key of a join that several streams share has a row of counters; a key's counter is found by its hash. There is
a counter or two for each row in memory, so that keys that matter seldom share one; if two do, a row may be
kept for the wrong reason, but no answer is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from watersmeet.dataclass import dataclass
from watersmeet.operators.keeping.kernels.priorities import count_keys, know_keys, weigh
from watersmeet.physical.strategy import Code, Equality

Table = npt.NDArray[np.int64]

COUNTERS_PER_ROW = 1
MIN_BITS, MAX_BITS = 12, 20
# What a key that never came counts for, against one that came once.
UNSEEN = 1 / 64
# Later rows count for more; before the numbers get too large all are made smaller.
MOST_HALF_LIVES = 40.0
# Counters are floats of 24 bits, to which 1 adds nothing beyond 2**24. So that no key stands still while others catch
# up, all are halved in good time; what came before then counts for half, which matters little among so many rows.
MOST_COUNTED = 2.0**23


@dataclass
class Factors:
    """What the kernels need to weigh the rows of one stream, or to count them."""

    rows: Table  # [which counters, first column, past the last column]
    columns: Table
    counts: npt.NDArray[np.float32]
    shift: np.uint64
    unseen: float = UNSEEN

    def weights(self, codes: Table) -> npt.NDArray[np.float64]:
        """How often partners of each row came, up to a constant of its stream."""
        found = np.ones(codes.shape[1])
        weigh(np.arange(found.size), codes, *self.of_rows, found)
        return found

    @property
    def of_rows(self) -> tuple[Table, Table, npt.NDArray[np.float32], np.uint64, float]:
        return self.rows, self.columns, self.counts, self.shift, self.unseen


class KeyCounts:
    """Counts of the keys that equalities compare, for every stream; `half_life` in the unit of its times, or none."""

    STATE: tuple[str, ...] = ("since", "total", "counts", "unseen")
    LEAST_ROWS = 1

    def __init__(
        self,
        streams: Sequence[str],
        equalities: Sequence[Equality],
        positions: Mapping[str, Mapping[Code, int]],
        memory_rows: int,
        half_life: float | None = None,
        *,
        own_too: bool = False,
    ) -> None:
        """own_too: with the factors of a stream, as the last, how often a key comes in the stream itself."""
        self.half_life = half_life
        memory_rows = max(memory_rows, self.LEAST_ROWS)
        self.since: int | None = None
        self.total = 0.0  # for how much all rows that came count together
        pairs = shared_keys(streams, equalities, positions)
        # Where several streams ask for one key of another, it is counted once.
        counted = list(dict.fromkeys((v, theirs) for (_, v), (_, theirs) in pairs.items()))
        bits = int(np.clip((COUNTERS_PER_ROW * memory_rows).bit_length(), MIN_BITS, MAX_BITS))
        self.counts = np.zeros((max(len(counted), 1), 1 << bits), np.float32)
        self.shift = np.uint64(64 - bits)
        linked = {(u, v) for u, v in pairs}
        self._typical = {u: [i for i, (v, _) in enumerate(counted) if v != u and (u, v) not in linked] for u in streams}
        self.own = {u: self._factors([(i, k) for i, (v, k) in enumerate(counted) if v == u]) for u in streams}
        self.of_partners = {
            u: self._factors(
                [(counted.index((v, theirs)), own) for (w, v), (own, theirs) in pairs.items() if w == u]
                + [(i, k) for i, (v, k) in enumerate(counted) if v == u and own_too][:1]
            )
            for u in streams
        }

    def _factors(self, entries: Sequence[tuple[int, tuple[int, ...]]]) -> Factors:
        rows: list[list[int]] = []
        columns: list[int] = []
        for which, key in entries:
            rows.append([which, len(columns), len(columns) + len(key)])
            columns += key
        table = np.array(rows, np.int64).reshape(-1, 3)
        return Factors(table, np.array(columns, np.int64), self.counts, self.shift)

    @property
    def unseen(self) -> dict[str, float]:
        """What a key that never came counts for now, by stream."""
        return {stream: factors.unseen for stream, factors in self.of_partners.items()}

    @unseen.setter
    def unseen(self, by_stream: Mapping[str, float]) -> None:
        for stream, unseen in by_stream.items():
            self.of_partners[stream].unseen = unseen

    def loaded(self) -> None:
        """The counts lie elsewhere now."""
        for factors in (*self.own.values(), *self.of_partners.values()):
            factors.counts = self.counts

    @property
    def nbytes(self) -> int:
        return int(self.counts.nbytes)

    def typical(self, stream: str) -> float:
        """How often a key of streams that this one shares none with comes, as a match would find it: of all rows."""
        found = 1.0
        for which in self._typical[stream]:
            total = float(self.counts[which].sum())
            found *= float(self.counts[which] @ self.counts[which]) / total / self.total if total else 1.0
        return found

    def per_count(self, stream: str) -> float:
        """What turns the weight of a stream's row into how often its partners come, of all rows: so what was worked out
        before compares with what is now, although counts grow."""
        return float(max(self.total, 1.0) ** -self.of_partners[stream].rows.shape[0])

    def add(self, stream: str, codes: Table, first: int, last: int, clock: Table) -> None:
        """Count the rows of a stream at first..last-1 of its codes, which came at the times in `clock`."""
        own = self.own[stream]
        if not own.rows.shape[0]:
            return
        half_life = self.half_life or 0.0
        self.since = int(clock[0]) if self.since is None else self.since
        if half_life:
            # Before they are counted: a row that comes long after the others would weigh more than a number can be.
            self._rescale(int(clock.max()))
        elif self.total > MOST_COUNTED:
            self.counts *= np.float32(0.5)
            self.total *= 0.5
        self.total += count_keys(codes, first, last, *own.of_rows[:4], clock, self.since, half_life)

    def _rescale(self, newest: int) -> None:
        assert self.half_life is not None
        assert self.since is not None
        half_lives = (newest - self.since) / self.half_life
        if half_lives > MOST_HALF_LIVES:
            self.counts *= np.float32(2.0**-half_lives)
            self.total *= 2.0**-half_lives
            self.since, half_lives = newest, 0.0
        for factors in self.of_partners.values():
            factors.unseen = UNSEEN * 2.0**half_lives


class GivenFrequencies(KeyCounts):
    """The same as tables of a user say it, whatever comes."""

    STATE = ()
    TABLES = ("total", "counts", "unseen")
    LEAST_ROWS = 1 << MAX_BITS  # a table may have many more keys than there is memory for

    def add(self, stream: str, codes: Table, first: int, last: int, clock: Table) -> None:
        """Nothing is learnt."""

    def read(self, stream: str, codes: Table, amounts: npt.NDArray[np.float64]) -> None:
        """Rows of the table of a stream, whose keys come so often."""
        some = amounts[amounts > 0]
        if not some.size:
            return
        know_keys(codes, amounts, *self.own[stream].of_rows[:4])
        # Amounts may be counts or shares: what no table has is worth less than the least that one has.
        least = float(some.min()) * UNSEEN
        for factors in self.of_partners.values():
            factors.unseen = min(factors.unseen, least) if self.total else least
        self.total += float(some.sum())

    def forget(self) -> None:
        self.counts[:] = 0
        self.total = 0.0


def shared_keys(
    streams: Sequence[str], equalities: Sequence[Equality], positions: Mapping[str, Mapping[Code, int]]
) -> dict[tuple[str, str], tuple[tuple[int, ...], tuple[int, ...]]]:
    """For each ordered pair of streams that equalities connect: the columns of codes that make up the key, in each."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for equality in equalities:
        for own, theirs in ((equality.left, equality.right), (equality.right, equality.left)):
            u, v = own.stream, theirs.stream
            if u in streams and v in streams and own in positions[u] and theirs in positions[v]:
                found.setdefault((u, v), []).append((positions[u][own], positions[v][theirs]))
    keys = {}
    for (u, v), columns in found.items():
        # The same order from either side, so that both find one counter for a key.
        ordered = sorted(set(columns), key=lambda pair: pair if u < v else pair[::-1])
        keys[u, v] = tuple(own for own, _ in ordered), tuple(theirs for _, theirs in ordered)
    return keys
