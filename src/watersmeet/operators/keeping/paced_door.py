"""A door that lets in no more rows than there is time for: a join in bounded memory with a bound on its lag."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import time as wall_time

import numpy as np

from watersmeet.dataclass import dataclass
from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.door import Admitted, Door
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.keeping.input_queue import InputQueue
from watersmeet.operators.keeping.losses import LossAccount, stacked
from watersmeet.operators.keeping.store import SheddingStore
from watersmeet.operators.keeping.valuation import Valuation
from watersmeet.operators.row_windows import Deaths
from watersmeet.plan.shedding import Shedding


@dataclass
class _Piece:
    """Some rows of one stream on their way through the join."""

    began: float
    came: int
    codes: Codes
    found_before: int
    share: float


class PacedDoor(Door):
    STATE = ("queue",)

    def __init__(
        self,
        layout: Layout,
        shedding: Shedding,
        stores: Mapping[str, SheddingStore],
        valuation: Valuation,
        losses: LossAccount,
        clock: Callable[[], float] | None,
    ) -> None:
        """clock: tells the time in seconds, by which the lag is measured; by default the clock on the wall."""
        super().__init__(layout)
        self.clock = clock or wall_time
        self.positions, self.stores, self.valuation, self.losses = layout.code_positions, stores, valuation, losses
        self.queue = InputQueue(shedding, valuation.policy, tuple(stores), valuation.count_keys, valuation.half_life)
        self._piece: _Piece | None = None

    def expect(self, batch: Iterable[Rows]) -> None:
        """All rows that have come, before they are let in piece by piece."""
        self.queue.pace.expect(self.clock(), batch)

    def let_in(self, alias: str, rows: Rows, deaths: Deaths | None = None) -> Admitted:
        if alias not in self.stores:
            return self.admit(alias, rows, deaths)
        began, came = self.clock(), len(rows)
        share = self.queue.pace.share(began, came)
        admitted = self.admit(alias, rows, deaths)
        codes = stacked(admitted.codes, self.positions[alias], len(admitted))
        if len(admitted):
            admitted.entering = self._entering(alias, admitted.rows, codes, share)
        self._piece = _Piece(began, came, codes, self.losses.found, share)
        return admitted

    def _entering(self, alias: str, rows: Rows, codes: Codes, share: float) -> Mask | None:
        """Which rows are let in; None: all of them."""
        valuation = self.valuation
        room = self.queue.room_for(alias, codes, valuation.clock_of(rows.times), share)
        if room == len(rows):
            return None
        if room == 0:
            return np.zeros(len(rows), np.bool_)
        return self.queue.best(alias, codes, valuation.by_age(alias, rows.times), room, self.stores, valuation.keys)

    def joined(self, alias: str, admitted: Admitted) -> None:
        """The rows that were let in have found what they find: about how much did the others miss?"""
        if self._piece is None or not len(admitted) or self.losses.counters.lost_results is None:
            return
        found = self.losses.found - self._piece.found_before
        if self.losses.exact:
            self.losses.missed(self.queue.missed(alias, self._piece.codes, admitted.entering, found, self.stores))
        elif admitted.entering is not None:
            self.losses.missed(None)

    def done(self, admitted: Admitted) -> None:
        """A piece is through, and what it cost tells how many rows there will be time for."""
        piece, self._piece = self._piece, None
        if piece is None:
            return
        share = piece.share
        if len(admitted):
            entered = len(admitted) if admitted.entering is None else int(np.count_nonzero(admitted.entering))
            self.queue.entered += entered
            share = entered / len(admitted)
        self.queue.pace.worked(self.clock() - piece.began, piece.came, share)
