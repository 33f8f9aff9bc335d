"""Rows of several streams that came together, joined at once: who has memory when is decided before.

Such rows are cut into turns that are short against the memory. In each, stream by stream, rows are counted, ranked
among those in memory, and as many go as there is no room for, just as if each turn were a batch of its own. But nothing
is joined meanwhile; of a row that goes it is noted after which turn. Then all rows are joined at once, and a
combination is given if all its members were there when the last of them came. So a turn costs a few steps, and not a
whole push.

Until all are joined, rows that come are *in hand*: they have no memory, and those that went still have their values.
Who is left is given memory when time has gone on, as rows that have left their windows do not compete any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Positions
from watersmeet.operators.few_rows import taken
from watersmeet.operators.join.door import Admitted
from watersmeet.operators.join.keeping import put
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.join.reach import reach_of
from watersmeet.operators.keeping.contest import Contest
from watersmeet.operators.keeping.kernels import turns as kernel
from watersmeet.operators.keeping.kernels.losses import take_apart
from watersmeet.operators.keeping.kernels.slots import Slots
from watersmeet.operators.keeping.losses import LossAccount
from watersmeet.operators.keeping.store import SheddingStore
from watersmeet.operators.keeping.valuation import Valuation

Turn = npt.NDArray[np.int32]
ByStream = Mapping[str, Positions]


@dataclass
class Victims:
    """Rows of one stream that lost their memory, and after which turns."""

    turns: Turn
    positions: Positions
    slots: Slots


class Hand:
    """The new rows of one stream, in which turn each came and after which it was gone; and the same of stored rows that
    went meanwhile, whose slots are `old`."""

    def __init__(self, rows: pa.RecordBatch, turns: Turn, store: SheddingStore | None) -> None:
        self.rows, self.store, self.count = rows, store, turns.size
        self.first = 0 if store is None else store.head - turns.size
        self.came = np.concatenate([np.full(kernel.OTHERS, kernel.BEFORE), turns])
        self.gone = np.full(self.came.size, kernel.NEVER)
        self.gone[1] = kernel.BEFORE
        self.old: Slots = np.empty(0, np.int32)
        self.went: Positions = np.empty(0, np.int64)
        self.is_met = False  # by walks of others

    def lay_out(self, victims: Sequence[Victims]) -> None:
        """Let the store tell who is in hand, and who went after which turn."""
        if self.store is None:
            return
        count, slot_of = self.count, self.store.slot_of
        positions = np.concatenate([one.positions for one in victims]) if victims else self.went
        turns = np.concatenate([one.turns for one in victims]) if victims else np.empty(0, np.int32)
        new = positions >= self.first
        self.gone[kernel.OTHERS + positions[new] - self.first] = turns[new]
        self.gone = np.concatenate([self.gone, turns[~new]])
        self.went = positions
        if victims:
            self.old = np.concatenate([one.slots for one in victims])[~new]
        self.came = np.concatenate([self.came, np.full(self.old.size, kernel.BEFORE)])
        slot_of[self.first : self.store.head] = kernel.IN_HAND - np.arange(count, dtype=np.int32)
        slot_of[positions[~new]] = kernel.IN_HAND - np.arange(count, count + self.old.size, dtype=np.int32)
        self.store.payload = {name: _InHand(self, name) for name in self.store.columns}

    def slots_of(self, positions: Positions) -> Positions:
        """What stored rows have, or had before the first turn."""
        assert self.store is not None
        slots = np.empty(positions.size, np.int64)
        kernel.slots_before(self.store.slot_of, positions, self.count, self.old, slots)
        return slots

    def leave(self) -> None:
        """All are joined: who is left is promised memory."""
        if self.store is not None:
            self.store.leave_hand(self.first, self.went)


class _InHand:
    """A column of a store of which some rows are in hand."""

    def __init__(self, hand: Hand, name: str) -> None:
        assert hand.store is not None
        self.hand, self.column = hand, hand.store.columns[name]
        self.values = hand.rows.column(name)

    @property
    def nbytes(self) -> int:
        return self.column.nbytes

    def gather(self, positions: Positions) -> pa.Array:
        new = positions >= self.hand.first
        if not new.any():
            return self._of_stored(positions)
        if new.all():
            return self._of_new(positions)
        both = pa.concat_arrays([self._of_stored(positions[~new]), self._of_new(positions[new])])
        stored = np.cumsum(~new)
        return both.take(pa.array(np.where(new, stored[-1] + np.cumsum(new), stored) - 1))

    def _of_stored(self, positions: Positions) -> pa.Array:
        return self.column.gather_slots(self.hand.slots_of(positions))  # type: ignore[arg-type]

    def _of_new(self, positions: Positions) -> pa.Array:
        return taken(self.values, positions - self.hand.first)

    def append(self, values: pa.Array, at: int) -> None:
        raise AssertionError("no rows come while others are in hand")

    def relocate(self, tail: int, count: int, capacity: int) -> None:
        raise AssertionError("no rows move while others are in hand")

    def keep(self, positions: Positions, capacity: int) -> None:
        raise AssertionError("no rows move while others are in hand")


class Turns:
    def __init__(self, layout: Layout, contest: Contest, valuation: Valuation, losses: LossAccount) -> None:
        self.layout, self.contest, self.valuation, self.losses = layout, contest, valuation, losses
        self.stores, self.allocation = contest.stores, contest.allocation
        windows = layout.strategy.join.windows
        self.reaches = {alias: reach_of(windows, alias) for alias in self.stores}
        self.hands: dict[str, Hand] = {}
        self._left: list[Hand] = []  # of which those that are left are promised memory

    @property
    def plays_at_once(self) -> bool:
        """Whether all turns of a stream are one call."""
        return not self.losses.panes

    @property
    def rows(self) -> int:
        """How many rows of a stream come in a turn."""
        share = self.allocation.turn_rows if self.plays_at_once else self.allocation.fresh_rows
        return min(share(self.stores, alias) for alias in self.stores)

    def come(self, admitted: Mapping[str, Admitted], ends: Sequence[int], watermarks: Mapping[str, int]) -> None:
        """Rows of several streams come in turns that end before these times. Decide who has memory, and when."""
        for alias, store in self.stores.items():
            self._compete(alias, store.head)
        firsts = {alias: self._store(alias, rows) for alias, rows in admitted.items() if alias in self.stores}
        counts = {alias: np.diff(np.searchsorted(rows.rows.times, ends), prepend=0) for alias, rows in admitted.items()}
        # Streams take turns, too.
        numbers = {alias: np.arange(len(ends)) * len(admitted) + i for i, alias in enumerate(admitted)}
        stops = {alias: first + np.cumsum([0, *counts[alias]]) for alias, first in firsts.items()}
        old = {alias: self._old_before(alias, ends, watermarks) for alias in firsts}
        if self.plays_at_once:
            gone = self._play(ends, stops, numbers, old)
        else:
            gone = self._play_slowly(len(ends), stops, numbers, old)
        for alias, one in admitted.items():
            turns = np.repeat(numbers[alias], counts[alias]).astype(np.int32)
            self.hands[alias] = Hand(one.rows.data, turns, self.stores.get(alias))
        for alias, hand in self.hands.items():
            hand.lay_out(gone.get(alias, ()))

    def _store(self, alias: str, admitted: Admitted) -> int:
        """Lay rows into their store, where walks do not find them yet; where the first is."""
        store = self.stores[alias]
        store.take_in_hand(len(admitted))
        put(store, admitted, self.layout.code_positions[alias])
        self.losses.counters.stored_rows += len(admitted)
        if len(admitted):
            self.valuation.oldest_us = min(self.valuation.oldest_us, admitted.rows.first_us)
        return store.head - len(admitted)

    def _old_before(self, alias: str, ends: Sequence[int], watermarks: Mapping[str, int]) -> Positions:
        """Before which positions rows have left their window when turns begin."""
        store, others = self.stores[alias], self.reaches[alias]
        if others is None:
            return np.full(len(ends), store.tail)
        # Those that leave it within a turn may still be met in it.
        begins = [BEGINNING_US, *ends[:-1]]
        marks = [np.minimum(begins, watermarks[other]) - limit for other, limit in others]
        return store.old_before(np.min(marks, axis=0))

    def _play(self, ends: Sequence[int], stops: ByStream, numbers: ByStream, old: ByStream) -> dict[str, list[Victims]]:
        """All turns of a stream at once, as it competes with itself alone. What keys are frequent all rows tell before
        the first of them is ranked."""
        for alias, at in stops.items():
            self._count(alias, int(at[0]), int(at[-1]))
        gone, last_us = {}, np.array(ends, np.int64) - 1  # of no rows there are no turns
        for alias, at in stops.items():
            store, valuation = self.stores[alias], self.valuation
            seed = None if valuation.policy.keys else self.contest.seed_of(alias)
            positions, slots, turns, valuation.unrefreshed[alias] = store.play(
                at, old[alias], numbers[alias], last_us, self.allocation.rows_of(self.stores, alias),
                valuation.worth(alias), valuation.keys.of_partners[alias], seed, valuation.unrefreshed[alias],
                valuation.policy.refreshed_after,
            )  # fmt: skip
            gone[alias] = [Victims(turns, positions, slots)]
            self.losses.went(alias, store, positions, slots)
        return gone

    def _play_slowly(self, turns: int, stops: ByStream, numbers: ByStream, old: ByStream) -> dict[str, list[Victims]]:
        """One turn after the other, where what went is asked for in each."""
        gone: dict[str, list[Victims]] = {alias: [] for alias in self.stores}
        for k in range(turns):
            for alias, at in stops.items():
                first, last = int(at[k]), int(at[k + 1])
                if first == last:
                    continue
                store = self.stores[alias]
                self._count(alias, first, last)
                self.losses.met_in_turn(alias, first, last)
                store.stop_competing(int(old[alias][k]))
                self._compete(alias, last)
                over = store.competing - self.allocation.rows_of(self.stores, alias)
                if over > 0:
                    positions, slots = store.evict(over)
                    self.losses.went(alias, store, positions, slots)
                    gone[alias].append(Victims(np.full(over, numbers[alias][k], np.int32), positions, slots))
        return gone

    def _count(self, alias: str, first: int, last: int) -> None:
        if last > first:
            store = self.stores[alias]
            self.valuation.came(alias, store.codes, first, last, store.times[first:last])

    def _compete(self, alias: str, last: int) -> None:
        """Let the rows before a position compete."""
        valuation, store = self.valuation, self.stores[alias]
        if last > store.mature_until:
            seed = None if valuation.policy.keys else self.contest.seed_of(alias)
            soon = partial(valuation.is_due, alias)
            ranked_by = valuation.worth(alias), valuation.keys.of_partners[alias]
            valuation.matured(alias, store.mature_before(last, *ranked_by, seed, soon))

    # ---- and are joined ---------------------------------------------------------------------------------------------

    def lost(self, visits: Sequence[str], numbers: Codes) -> Mask:
        """Which combinations had lost a member when the last one came."""
        count = numbers.shape[1]
        last, first = np.empty(count, np.int32), np.empty(count, np.int32)
        origin = self.hands[visits[0]]
        kernel.begin_turns(numbers[0], origin.came, origin.gone, last, first)
        lost = np.empty(count, np.bool_)
        for alias, members in zip(visits[1:], numbers[1:], strict=True):
            if alias in self.stores:
                came, gone = self._turns_of(alias)
                kernel.meet_turns(members, self.stores[alias].slot_of, came, gone, last, first)
        kernel.lost_in_turns(last, first, lost)
        return lost

    def stored_at(self, alias: str) -> int | None:
        """Where the new rows of a stream are stored, if they are."""
        hand = self.hands[alias]
        return None if hand.store is None else hand.first

    def _turns_of(self, alias: str) -> tuple[Turn, Turn]:
        if alias in self.hands:
            return self.hands[alias].came, self.hands[alias].gone
        return _OF_STORED

    def apart(self, visits: Sequence[str], numbers: Codes) -> Iterator[Codes]:
        """Combinations with rows in hand, and those without: values that lie in one place are gathered sooner."""
        met = [(hand, members) for hand, members in self._met(visits, numbers) if hand.is_met]
        marks = np.zeros(numbers.shape[1], np.bool_)
        for hand, members in met:
            kernel.mark_from(members, hand.first, marks)
        new = int(np.count_nonzero(marks))
        if new in (0, marks.size):
            yield numbers
            return
        of_new = np.empty((len(visits), new + 1), np.int64)
        for own, away in zip(numbers, of_new, strict=True):
            take_apart(own, marks, away)
        yield numbers[:, : marks.size - new]
        yield of_new[:, :new]

    def _met(self, visits: Sequence[str], numbers: Codes) -> Iterator[tuple[Hand, Codes]]:
        return ((self.hands[a], m) for a, m in zip(visits[1:], numbers[1:], strict=True) if a in self.hands)

    def joined(self, alias: str) -> None:
        """The new rows of a stream have met the others: from now on walks find them."""
        hand = self.hands[alias]
        if hand.store is not None and not hand.is_met:
            hand.store.link_hand(hand.first)
            hand.is_met = True

    def end(self) -> None:
        """All were joined, or nobody wants the rest."""
        for alias in self.hands:
            self.joined(alias)
        for hand in self.hands.values():
            hand.leave()
        self._left += self.hands.values()
        self.hands = {}

    def keep_promises(self) -> None:
        """Time has gone on: give memory to those that are left."""
        left, self._left = self._left, []
        for hand in left:
            if hand.store is not None:
                hand.store.keep_promises(hand.rows)
                if hand.store.forgetful:
                    hand.store.squeeze_records()


_OF_STORED = (
    np.full(kernel.OTHERS, kernel.BEFORE),
    np.array([kernel.NEVER, kernel.BEFORE, kernel.NEVER]),
)
