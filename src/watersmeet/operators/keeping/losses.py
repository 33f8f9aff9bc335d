"""What it cost that rows lost their memory: the account of a join in bounded memory, and its record for an archive.

Where every row leaves a record, a combination with a member whose memory is gone is found, and counted as lost; where
rows leave counts by key and pane of time, losses are known within bounds (see recall); else nothing is known of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Counters, Positions, Rows
from watersmeet.operators.join.door import Admitted
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.keeping.allocation import Allocation
from watersmeet.operators.keeping.kernels.losses import look_up, note_flaws, take_apart
from watersmeet.operators.keeping.kernels.slots import Slots
from watersmeet.operators.keeping.recall import PaneCounts, pane_counts
from watersmeet.operators.keeping.recording import Recorder
from watersmeet.operators.keeping.store import Marks, SheddingStore
from watersmeet.operators.row_windows import Deaths
from watersmeet.physical.strategy import Code


class LossAccount:
    STATE = ("counters", "panes", "recorder")

    def __init__(
        self, layout: Layout, recall: str, stores: Mapping[str, SheddingStore], allocation: Allocation
    ) -> None:
        self.layout, self.stores = layout, stores
        self.recall = recall
        self.exact = recall == "exact"
        self.panes: dict[str, PaneCounts] = {}
        if recall == "panes":
            rows = max(allocation.rows_of(stores, alias) for alias in stores)
            self.panes = pane_counts(layout.strategy, layout.code_positions, rows)
        self.found = 0  # combinations, those with members without memory among them
        self.newly_flawed: Marks | None = None
        self.counters = self.fresh()
        self.recorder: Recorder | None = None

    @property
    def nbytes(self) -> int:
        return sum(counts.nbytes for counts in self.panes.values())

    def fresh(self) -> Counters:
        """Losses can be counted where records are kept and the kernels test everything."""
        if self.recall == "none" or self.layout.strategy.residuals:
            return Counters(lost_results=None, incomplete_rows=None)
        return Counters() if self.exact else Counters(incomplete_rows=None)

    # ---- combinations that were found -------------------------------------------------------------------------------

    def members_gone(self, visits: Sequence[str], numbers: Codes) -> Mask:
        """Which combinations have a member without memory."""
        lost = np.zeros(numbers.shape[1], np.bool_)
        for alias, members in zip(visits[1:], numbers[1:], strict=True):
            if alias in self.stores:
                look_up(members, self.stores[alias].slot_of, lost)
        return lost

    def part(self, visits: Sequence[str], numbers: Codes, lost: Mask) -> tuple[int, Codes]:
        """Move the combinations that are not lost to the front; how many they are, and the others."""
        count = numbers.shape[1]
        self.found += count
        gone = int(np.count_nonzero(lost))
        # One column more than there are, as take_apart writes before it knows.
        of_lost = np.empty((len(visits), gone and gone + 1), np.int64)
        if gone:
            for own, away in zip(numbers, of_lost, strict=True):
                take_apart(own, lost, away)
        return count - gone, of_lost[:, :gone]

    def lost(self, visits: Sequence[str], of_lost: Codes, new_rows: int, stored_at: int | None = None) -> None:
        """Combinations of new rows are lost. Every member of one is incomplete; the new rows are stored from a position
        on, or not yet."""
        if self.recorder is not None:
            self.recorder.lost(visits, of_lost, new_rows, self.stores)
        if not self.exact:
            return
        if self.counters.lost_results is not None:
            self.counters.lost_results += of_lost.shape[1]
        if stored_at is not None:
            noted = int(note_flaws(of_lost[0] + stored_at, self.stores[visits[0]].flawed))
        else:
            if self.newly_flawed is None:
                self.newly_flawed = np.zeros(new_rows, np.uint8)
            noted = int(note_flaws(of_lost[0], self.newly_flawed))
        for alias, members in zip(visits[1:], of_lost[1:], strict=True):
            if alias in self.stores:
                noted += int(note_flaws(members, self.stores[alias].flawed))
        if self.counters.incomplete_rows is not None:
            self.counters.incomplete_rows += noted

    def take_flaws(self) -> Marks | None:
        """Which of the rows that were just joined lost a combination; None: none did."""
        flawed, self.newly_flawed = self.newly_flawed, None
        return flawed

    def met(self, alias: str, joined: Admitted | None) -> None:
        """All that is stored was met by new rows of a stream, but for what went before they came; None: in another
        life."""
        if self.recorder is not None:
            self.recorder.met()
        for other, counts in self.panes.items():
            if other != alias and joined is not None and len(joined):
                counts.meet(stacked(joined.codes, self.layout.code_positions[alias], len(joined)), joined.rows.times)
                self._tell_bounds()

    def met_in_turn(self, alias: str, first: int, last: int) -> None:
        """The same where the new rows are in their store already."""
        store = self.stores[alias]
        for other, counts in self.panes.items():
            if other != alias:
                counts.meet(np.ascontiguousarray(store.codes[:, first:last]), store.times[first:last])
                self._tell_bounds()

    def _tell_bounds(self) -> None:
        if self.counters.queue_shed_rows:
            return
        losses = [counts.losses for counts in self.panes.values()]
        self.counters.lost_results = sum(one.about for one in losses)
        self.counters.lost_between = sum(one.low for one in losses), sum(one.high for one in losses)

    # ---- rows that come and go --------------------------------------------------------------------------------------

    def stored(self, alias: str, rows: Rows, flawed: Marks | None) -> None:
        """New rows of a stream are the last in its store; some of them are incomplete already."""
        store = self.stores[alias]
        if flawed is not None:
            store.store_flaws(flawed)
        if self.recorder is not None:
            self.recorder.stored(alias, store, rows, store.head - len(rows))

    def died(self, deaths: Mapping[str, Deaths]) -> None:
        """ROWS windows have pushed rows out."""
        if self.recorder is not None:
            for alias, died in deaths.items():
                self.recorder.died(alias, died)

    def went(self, alias: str, store: SheddingStore, positions: Positions, slots: Slots) -> None:
        """Rows of a stream have lost their memory; their payload is still in the slots they had."""
        if alias in self.panes:
            self.panes[alias].add(store, positions)
        if self.recorder is not None:
            self.recorder.shed(alias, store, positions, slots)
        self._count(alias, positions.size)

    def turned_away(self, alias: str, rows: int) -> None:
        """Rows of a stream were never joined."""
        self._count(alias, rows)
        self.counters.queue_shed_rows += rows
        self.counters.incomplete_rows = None  # what these would have met, nobody knows

    def missed(self, about: int | None) -> None:
        """About how many results those that are turned away would have completed, or None if nobody knows."""
        if self.counters.lost_results is None:
            return
        if about is None:
            self.counters.lost_results = self.counters.lost_between = None
        else:
            self.counters.lost_results += about

    def _count(self, alias: str, rows: int) -> None:
        self.counters.shed_rows[alias] = self.counters.shed_rows.get(alias, 0) + rows


def stacked(codes: Mapping[Code, Codes], positions: Mapping[Code, int], count: int) -> Codes:
    """The codes of rows as a store has them."""
    columns = [codes[code] for code in positions]
    return np.stack(columns) if columns else np.empty((0, count), np.int64)
