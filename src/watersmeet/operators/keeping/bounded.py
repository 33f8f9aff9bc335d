"""A join keeps no more rows than it may.

Every row is joined when it comes. Then the rows of the windows compete for memory: those with the lowest priority
lose their payload and keep a record of their time and codes, or nothing. Walks find records like rows; a combination
with a member whose payload is gone is counted as lost instead of given. So what is given is a part of the exact
answer, and given + lost is the exact answer's size, as far as kernels alone decide what matches.

With a bound on the lag, rows may be turned away before they are joined (see paced_door). They too leave a record, so
that what others lose with them is counted; what they would have found themselves can only be estimated.

    what is kept      stores whose rows can lose memory, as many as `allocation` says; `shelves` put rows there
    who goes          the `contest`, by the `valuation` of rows
    what is let in    the `door`
    what is accounted the `losses`, which are recorded where an archive is asked for
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf, log

import numpy as np

from watersmeet.operators.codes import Codes
from watersmeet.operators.contract import Counters, Rows
from watersmeet.operators.join.door import Admitted
from watersmeet.operators.join.keeping import Keeping
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.join.window_store import WindowStore
from watersmeet.operators.keeping.allocation import Allocation, check_size, least_size
from watersmeet.operators.keeping.contest import Contest
from watersmeet.operators.keeping.input_queue import InputQueue
from watersmeet.operators.keeping.known_frequencies import KnownFrequencies
from watersmeet.operators.keeping.lives import lives_of
from watersmeet.operators.keeping.losses import LossAccount
from watersmeet.operators.keeping.marginal_recall import margin_of
from watersmeet.operators.keeping.paced_door import PacedDoor
from watersmeet.operators.keeping.pieces import moments_of, parts_until, rounds
from watersmeet.operators.keeping.policies import HALF_LIFE, POLICIES
from watersmeet.operators.keeping.portions import Portions
from watersmeet.operators.keeping.recall import PaneCounts
from watersmeet.operators.keeping.recording import Recorder, columns_to_record
from watersmeet.operators.keeping.sharing import Needs
from watersmeet.operators.keeping.shelves import Shelves
from watersmeet.operators.keeping.store import SheddingStore
from watersmeet.operators.keeping.turns import Turns
from watersmeet.operators.keeping.valuation import Valuation
from watersmeet.operators.memory_bound import Came, Sharing
from watersmeet.operators.row_windows import Deaths
from watersmeet.plan.expressions import columns_of
from watersmeet.plan.memory import Memory
from watersmeet.plan.shedding import Shedding

# So many rows of a stream are in hand at most, and no more than this part of those that it may keep.
MOST_IN_HAND, PART_IN_HAND = 1 << 14, 1 / 3
FULL = 15 / 16  # of its part, by which a stream shows which of its rows go


class BoundedMemory(Keeping):
    """Static tables are kept whole and do not count."""

    STATE = ("valuation", "contest", "losses", "paced", "needs")

    def __init__(self, layout: Layout, shedding: Shedding, *, clock: Callable[[], float] | None = None) -> None:
        """clock: see PacedDoor."""
        # Before super(), which makes the stores and needs these.
        self.shedding = shedding
        self.policy = POLICIES[shedding.policy]
        selected = {c for _, e in layout.columns for c in columns_of(e)}
        streams = [one.alias for one in layout.strategy.join.streams] if shedding.archive else []
        self.recorded = {alias: columns_to_record(layout.strategy, alias, selected) for alias in streams}
        super().__init__(layout)
        self.shed = {alias: store for alias, store in self.stores.items() if isinstance(store, SheddingStore)}
        beside = PaneCounts.bytes_per_row() if shedding.recall == "panes" else 0.0
        self.allocation = Allocation(shedding.memory, shedding.allocation, tuple(self.shed), beside)
        check_size(shedding.memory, self.shed)
        self.portions = Portions(self.allocation, self.shed)
        self.lives = lives_of(layout.strategy.join, self.row_windows, self.shed)
        self.valuation = Valuation(layout, shedding, self.shed, self.lives, self.row_windows, self.allocation)
        self.losses = LossAccount(layout, shedding.recall, self.shed, self.allocation)
        self.contest = Contest(self.shed, self.allocation, self.valuation, shedding.seed, self.losses)
        self.shelves = Shelves(layout, self.portions, self.contest, self.valuation, self.losses)
        self.turns = Turns(layout, self.contest, self.valuation, self.losses)
        self.paced: PacedDoor | None = None
        if shedding.max_lag_us is not None:
            self.door = self.paced = PacedDoor(layout, shedding, self.shed, self.valuation, self.losses, clock)
        self.frequencies = KnownFrequencies(layout, self.valuation) if shedding.frequencies else None
        self.needs: Needs | None = None  # of all buckets, where several share the memory

    # ---- what it is made of -----------------------------------------------------------------------------------------

    def make_store(self, alias: str) -> WindowStore:
        layout = self.layout
        if layout.inputs[alias].is_table:
            return super().make_store(alias)
        return SheddingStore(
            len(layout.code_positions[alias]),
            *layout.index_keys(alias),
            layout.payload(alias, self.recorded.get(alias, ())),
            counted=alias in layout.mortal,
            forgetful=self.shedding.recall != "exact",
        )

    def start_recording(self) -> None:
        """From now on, write down what completion needs; whoever asks for it takes the records away."""
        everything = self.shedding.recall != "exact"
        self.losses.recorder = Recorder(self.recorded, self.layout.code_positions, everything=everything)

    @property
    def bounded(self) -> BoundedMemory:
        return self

    # ---- rows move to others ----------------------------------------------------------------------------------------

    def undivided(self, *, at_rest: bool) -> str | None:
        """Elsewhere rows compete anew, by what is found there; what was counted of them stays counted."""
        beside = (self.losses.recorder, self.paced, self.losses.panes or None, self.row_windows or None)
        if at_rest and beside == (None, None, None, None):
            return None
        return super().undivided(at_rest=at_rest)

    def be_at_rest(self) -> None:
        self.turns.keep_promises()

    def count_on(self, counters: Counters) -> None:
        self.losses.counters = counters

    def taken_over(self) -> None:
        self.contest.make_room({})

    @property
    def memory(self) -> Memory:
        """The bound, or of one that several share what is due to this one."""
        due = None if self.needs is None else self.needs.memory_due
        return due or self.allocation.memory

    @property
    def needed(self) -> dict[str, float]:
        found = {
            alias: self.allocation.sized(store, self._in_window(alias, store)) for alias, store in self.shed.items()
        }
        # Each stream has an equal share, of which another can take nothing.
        return dict.fromkeys(found, max(found.values())) if self.allocation.fixed else found

    @property
    def elasticity(self) -> float | None:
        """A result is found if all its members but the last were kept."""
        filled = [store.claimed / self.allocation.rows_of(self.shed, one) for one, store in self.shed.items()]
        if (max(filled) if self.allocation.fixed else sum(filled)) < FULL:
            return None
        sizes = [store.sizes for store in self.shed.values()]
        ranked = sizes if self.allocation.fixed else [np.sum(sizes, axis=0)]
        margins = [margin_of(one) if self.policy.keys else 1.0 for one in ranked]
        return sum(margins) / len(margins) * (len(sizes) - 1)

    def _in_window(self, alias: str, store: SheddingStore) -> float:
        """How many rows of a stream its window holds, with those that lost their memory; while it fills, how many it
        will hold if they go on to come so fast."""
        life, in_rows = self.lives[alias]
        came = store.matured + store.head - store.mature_until
        if not in_rows and self.valuation.passed_us < life < inf:
            return came * life / max(self.valuation.passed_us, 1)
        return came * self.valuation.share_in_window(life, in_rows) if store.forgetful else len(store)

    def bound_by(self, memory: Memory) -> None:
        self.turns.keep_promises()
        self.allocation.bound_by(memory)
        self.contest.make_room({})
        for store in self.shed.values():
            store.shrink()

    def let_go(self) -> None:
        self.turns.keep_promises()
        for store in self.shed.values():
            store.forget(len(store))
            store.shrink()

    def share_by(self, sharing: Sharing) -> None:
        """It is one of several that share a memory; before the first row."""
        lives = [self.lives[alias] for alias in sharing.streams]
        sizes = [self.shed[alias].bytes_per_row for alias in sharing.streams]
        # exp(-t / recent) is a half after HALF_LIFE: so counts of rows fade as fast as those of keys.
        self.needs = Needs(sharing, lives, sizes, HALF_LIFE / log(2) if self.policy.fades else 1.0)

    def take_needs(self, came: Sequence[Came], place: int) -> None:
        """What came to all who share the memory in one batch: from now on keep what the one at a place may."""
        if self.needs is not None:
            self.needs.add(came)
            share = self.needs.take_share(place)
            self.allocation.bound_by(share.memory, share.streams)
            self.contest.make_room({})

    @property
    def least_size(self) -> int:
        """The bytes that the least memory has."""
        return least_size(self.shed)

    @property
    def recorder(self) -> Recorder | None:
        return self.losses.recorder

    @property
    def queue(self) -> InputQueue | None:
        return None if self.paced is None else self.paced.queue

    @property
    def counters(self) -> Counters:
        return self.losses.counters

    @property
    def kept_rows(self) -> int:
        """The rows that have memory."""
        return sum(store.kept for store in self.shed.values())

    @property
    def state_bytes(self) -> int:
        beside = self.valuation.keys.nbytes + self.losses.nbytes
        return super().state_bytes + beside + (self.queue.nbytes if self.queue is not None else 0)

    @property
    def held_by_input(self) -> dict[str, tuple[int, int]]:
        return super().held_by_input | {alias: (store.kept, store.nbytes) for alias, store in self.shed.items()}

    @property
    def piece_rows(self) -> int:
        """So many that those of one time meet."""
        return self.portions.piece_rows()

    @property
    def rows_in_hand(self) -> int | None:
        if self.paced is not None or self.recorder is not None or self.allocation.memory.size is not None:
            return None
        # In one pool each stream would have to be ranked with the others after every few rows.
        if not self.allocation.fixed or not self.policy.is_of_turns or self.layout.mortal or len(self.shed) < 2:
            return None
        part = min(self.allocation.rows_of(self.shed, alias) for alias in self.shed) * PART_IN_HAND
        return max(1, min(MOST_IN_HAND, int(part)))

    # ---- rows come --------------------------------------------------------------------------------------------------

    def pieces(self, alias: str, rows: Rows) -> Iterator[Rows]:
        """Rows of one stream do not meet each other, so they are joined at once and only stored in portions; but the
        time they take is measured piece by piece."""
        self.losses.take_flaws()  # of a push whose results nobody read to the end
        self.turns.keep_promises()
        if alias not in self.shed or self.paced is None:
            yield rows
            return
        self.paced.expect([rows])
        yield from self.portions.pieces(alias, rows)

    def rounds(self, batch: Mapping[str, Rows], *, quietly: bool) -> Iterator[Mapping[str, Rows]]:
        """In rounds of few rows, each complete up to an instant, so that rows that come together meet."""
        self.losses.take_flaws()
        self.turns.keep_promises()
        if self.paced is not None and not quietly:
            self.paced.expect(batch.values())
        sizes = [self.portions.fitting(alias, rows) for alias, rows in batch.items() if alias in self.shed]
        for part, until_us in rounds(batch, min([self.piece_rows, *sizes]) * max(len(self.shed), 1)):
            # Of more, all of one stream or of one time, some go before others have come.
            coming = {alias: min(len(rows), self.portions.fresh(alias)) for alias, rows in part.items()}
            self.contest.make_room({alias: rows for alias, rows in coming.items() if alias in self.shed})
            yield part
            self.contest.settle(until_us)

    def steps(self, batch: Mapping[str, Rows]) -> Iterator[tuple[Mapping[str, Rows], int | None]]:
        """Rows meet before they compete for memory, and leave their windows inside a batch too."""
        if self.paced is not None:  # to know how far behind it is, it must see all there is
            yield batch, None
        else:
            yield from parts_until(batch, self.moments(batch))

    def hands(self, batch: Mapping[str, Rows]) -> Iterator[tuple[Mapping[str, Rows], int]]:
        self.turns.keep_promises()
        for part, until_us in rounds(batch, (self.rows_in_hand or 1) * len(self.shed)):
            yield part, until_us + 1

    @contextmanager
    def in_hand(self, admitted: Mapping[str, Admitted], watermarks: Mapping[str, int]) -> Iterator[None]:
        rows = {alias: one.rows for alias, one in admitted.items()}
        ends = [until_us + 1 for _, until_us in rounds(rows, self.turns.rows * len(self.shed))]
        try:
            self.turns.come(admitted, ends, watermarks)
            yield
        finally:
            self.turns.end()

    def moments(self, batch: Mapping[str, Rows]) -> Sequence[int]:
        if self.paced is not None:
            return ()
        return moments_of(batch, (life for life, in_rows in self.lives.values() if not in_rows))

    def died(self, deaths: Mapping[str, Deaths]) -> None:
        self.losses.died(deaths)

    def whole(self, visits: Sequence[str], numbers: Codes, rows: Rows) -> Iterator[Codes]:
        self.valuation.matched(visits, numbers, rows)
        if self.turns.hands:
            yield from self._whole_in_hand(visits, numbers, rows)
            return
        kept, of_lost = self.losses.part(visits, numbers, self.losses.members_gone(visits, numbers))
        if of_lost.shape[1]:
            self.losses.lost(visits, of_lost, len(rows))
        yield from self._answered(visits, numbers[:, :kept], rows)

    def _whole_in_hand(self, visits: Sequence[str], numbers: Codes, rows: Rows) -> Iterator[Codes]:
        kept, of_lost = self.losses.part(visits, numbers, self.turns.lost(visits, numbers))
        if of_lost.shape[1]:
            self.losses.lost(visits, of_lost, len(rows), self.turns.stored_at(visits[0]))
        for part in self.turns.apart(visits, numbers[:, :kept]):
            yield from self._answered(visits, part, rows)

    def _answered(self, visits: Sequence[str], numbers: Codes, rows: Rows) -> Iterator[Codes]:
        kept = numbers.shape[1]
        size = self.portions.of_results(list(visits[1:]), rows, kept)
        for first in range(0, kept, size or 1):
            yield numbers[:, first : min(first + size, kept)]

    # ---- are kept ---------------------------------------------------------------------------------------------------

    def joined(self, alias: str, admitted: Admitted) -> None:
        if self.turns.hands:
            self.losses.take_flaws()
            self.turns.joined(alias)
            return
        if alias not in self.shed:
            self.store(alias, admitted)
            return
        flawed = self.losses.take_flaws()
        self.losses.met(alias, admitted.joined)
        if self.paced is not None:
            self.paced.joined(alias, admitted)
        self.shelves.keep(alias, admitted, flawed)
        if self.paced is not None:
            self.paced.done(admitted)

    def store(self, alias: str, admitted: Admitted) -> None:
        if alias in self.shed:
            self.losses.met(alias, None)
            self.shelves.keep(alias, admitted)
        else:
            super().store(alias, admitted)

    # ---- and go -----------------------------------------------------------------------------------------------------

    def advanced(self, complete_until: int) -> None:
        self.turns.keep_promises()
        self.contest.settle(complete_until)

    def restored(self, complete_until: int) -> None:
        """Rows alone do not tell which of them were gone: they compete for memory again."""
        self.contest.settle(complete_until)
        self.contest.make_room({})
        self.losses.counters = self.losses.fresh()
