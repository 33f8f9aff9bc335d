"""Shedding before the join: which rows are let in when there is no time for all of them (DGR03's slow CPU).

`modular`: the queue goes by its own counts of all rows that came, those it turned away among them, and knows nothing of
the join. `integrated`: it goes by what the join knows: the partners that a row would find in memory now, and those to
be expected while it stays, by the keys of the rows that were let in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from watersmeet.operators.codes import Mask
from watersmeet.operators.keeping.kernels.priorities import count_held
from watersmeet.operators.keeping.online_statistics import KeyCounts, Table
from watersmeet.operators.keeping.pace import Pace
from watersmeet.operators.keeping.policies import Policy
from watersmeet.operators.keeping.store import SheddingStore
from watersmeet.plan.shedding import Shedding

Weights = npt.NDArray[np.float64]
Stores = Mapping[str, SheddingStore]

# What is in memory is counted anew when so large a part of it as this has come since.
RECOUNTED = 1 / 2
# How much what earlier pieces found counts against the present one.
REMEMBERED_YIELD = 0.95


class Census:
    """How many rows of each key the stores hold now, or hold in memory. It may be a little behind."""

    STATE = ("counts", "due")

    def __init__(self, counts: KeyCounts, *, in_memory: bool) -> None:
        self.counts = counts
        self.in_memory = in_memory
        self.due = 0.0

    def came(self, rows: int) -> None:
        self.due -= rows

    def refresh(self, stores: Stores) -> bool:
        """Count anew if it is time to."""
        if self.due > 0:
            return False
        self.counts.counts[:] = 0
        held = 0
        for stream, store in stores.items():
            tracked = self.counts.own[stream].of_rows[:4]
            count_held(store.codes, store.tail, store.head, store.slot_of, self.in_memory, *tracked)
            held += store.kept if self.in_memory else len(store)
        self.due = RECOUNTED * held
        return True

    def weights(self, stream: str, codes: Table) -> Weights:
        return self.counts.of_partners[stream].weights(codes)


class Yield:
    """What the rows of a stream find for their weight, from those that were let in: what the others would have."""

    STATE = ("found", "weight", "left_over")

    def __init__(self) -> None:
        self.found = 0.0
        self.weight = 0.0
        self.left_over = 0.0

    def add(self, weight: float, found: int) -> None:
        """Rows were let in. Weights are relative: those of all rows that came at a time are 1 on average."""
        self.found = REMEMBERED_YIELD * self.found + found
        self.weight = REMEMBERED_YIELD * self.weight + weight

    def missed(self, weight: float, partners: float) -> int:
        """About how many results rows that were turned away would have completed, in whole numbers over time. As long
        as no row has found anything, as many as they have partners."""
        self.left_over += weight * self.found / self.weight if self.found else partners
        whole = int(self.left_over)
        self.left_over -= whole
        return whole


class InputQueue:
    """Stands before a join in bounded memory. A piece is some rows of one stream that can match at all."""

    STATE = ("pace", "came", "present", "records", "left_over", "to_come", "yields", "chance", "entered")

    def __init__(
        self,
        shedding: Shedding,
        policy: Policy,
        streams: tuple[str, ...],
        make_counts: Callable[[float | None], KeyCounts],
        half_life: float | None,
    ) -> None:
        assert shedding.max_lag_us is not None
        self.pace = Pace(shedding.max_lag_us)
        self.by_keys = policy.keys
        integrated = shedding.queue == "integrated"
        self.came = make_counts(half_life) if policy.keys and not integrated else None
        self.present = Census(make_counts(None), in_memory=True) if policy.keys and integrated else None
        self.records = Census(make_counts(None), in_memory=False) if shedding.recall == "exact" else None
        self.left_over = dict.fromkeys(streams, 0.0)
        self.to_come = dict.fromkeys(streams, 1.0)
        self.yields = {stream: Yield() for stream in streams}
        self.random = np.random.default_rng(shedding.seed)
        self.entered = 0

    @property
    def chance(self) -> dict[str, Any]:
        """Where the random numbers have come to."""
        return dict(self.random.bit_generator.state)

    @chance.setter
    def chance(self, state: dict[str, Any]) -> None:
        self.random.bit_generator.state = state

    @property
    def nbytes(self) -> int:
        censuses = [census.counts for census in (self.present, self.records) if census is not None]
        return sum(counts.nbytes for counts in (*censuses, self.came) if counts is not None)

    def room_for(self, stream: str, codes: Table, clock: Table, share: float) -> int:
        """How many rows of a piece, about a share of them, are let in. `clock` are their times, as counts have them."""
        count = int(codes.shape[1])
        for census in (self.present, self.records):
            if census is not None:
                census.came(count)
        if self.came is not None:
            self.came.add(stream, codes, 0, count, clock)
        return min(self._room(stream, share * count), count)

    def best(self, stream: str, codes: Table, by_age: Weights, room: int, stores: Stores, known: KeyCounts) -> Mask:
        """The rows to let in. `by_age` is what their ages make them worth; `known` are the join's own counts."""
        # Rows of equal worth are taken by chance, as those that come first in a piece are no better.
        shuffled = self.random.permutation(codes.shape[1])
        worth = self._worth(stream, codes, by_age, stores, known)[shuffled]
        entering = np.zeros(worth.size, np.bool_)
        entering[shuffled[np.argpartition(-worth, room)[:room]]] = True
        return entering

    def _room(self, stream: str, wanted: float) -> int:
        """A whole number of rows; what is left over is for the next piece."""
        if wanted <= 0:
            return 0
        wanted += self.left_over[stream]
        # Shares that add up to a whole number may fall short of it by a rounding.
        room = int(wanted + 1e-9)
        self.left_over[stream] = max(wanted - room, 0.0)
        return room

    def _worth(self, stream: str, codes: Table, by_age: Weights, stores: Stores, known: KeyCounts) -> Weights:
        if self.came is not None:
            own: Weights = self.came.of_partners[stream].weights(codes) * by_age
            return own
        if self.present is not None:
            if self.present.refresh(stores):
                self._expect(stores, known)
            later = known.of_partners[stream].weights(codes) * (self.to_come[stream] * by_age)
            total: Weights = self.present.weights(stream, codes) + later
            return total
        return np.zeros(codes.shape[1])

    def _expect(self, stores: Stores, known: KeyCounts) -> None:
        """What turns counts of the past into rows to come: as many rows of a partner as it has in memory."""
        totals = known.counts.sum(axis=1, dtype=np.float64)
        held = np.ones(totals.size)
        for stream, store in stores.items():
            held[known.own[stream].rows[:, 0]] = store.kept
        shares = held / np.maximum(totals, 1e-30)
        for stream in stores:
            self.to_come[stream] = float(np.prod(shares[known.of_partners[stream].rows[:, 0]]))

    def missed(self, stream: str, codes: Table, entered: Mask | None, found: int, stores: Stores) -> int:
        """About how many results were lost because rows were turned away, where all that came left a record. `found`
        is what the others found."""
        came, yields = int(codes.shape[1]), self.yields[stream]
        if entered is None:
            yields.add(came, found)
            return 0
        assert self.records is not None
        self.records.refresh(stores)
        weights = self.records.weights(stream, codes)
        inside = float(weights[entered].sum() / weights.mean())
        yields.add(inside, found)
        keyed = self.records.counts.of_partners[stream].rows.size > 0
        return yields.missed(came - inside, float(weights[~entered].sum()) if keyed else 0.0)
