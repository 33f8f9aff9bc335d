"""Rows compete for memory: those of the lowest priority lose it when there is no room for the next to come."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.keeping.allocation import Allocation, Rooms
from watersmeet.operators.keeping.losses import LossAccount
from watersmeet.operators.keeping.store import SheddingStore
from watersmeet.operators.keeping.valuation import Valuation

# How often rows go before what is left fits a bound in bytes: rows of one stream differ in size.
PASSES = 8


class Contest:
    STATE = ("settled_us",)

    def __init__(
        self,
        stores: Mapping[str, SheddingStore],
        allocation: Allocation,
        valuation: Valuation,
        seed: int,
        losses: LossAccount,
    ) -> None:
        self.stores, self.allocation, self.valuation = stores, allocation, valuation
        self.seed = seed
        self.losses = losses
        self.settled_us = BEGINNING_US  # all streams have come this far: fresh rows up to here may compete

    def settle(self, until_us: int) -> None:
        self.settled_us = max(self.settled_us, until_us)

    def make_room(self, coming: Rooms) -> None:
        """If there is no room for so many more rows, let those that all streams have come up to compete for memory, and
        take it from those with the lowest priority. Those that others may still have to meet come last."""
        for patient in (True, False):
            if self.allocation.fits(self.stores, coming):
                return
            self.compete(patient=patient)
            self._shed_lowest(coming)

    def compete(self, *, patient: bool) -> None:
        """patient: some rows that not all streams have come up to wait."""
        valuation = self.valuation
        for alias, store in self.stores.items():
            room = self.allocation.fresh_rows(self.stores, alias) if patient else 0
            seed = None if valuation.policy.keys else self.seed_of(alias)
            partners = valuation.keys.of_partners[alias]
            soon = partial(valuation.is_due, alias)
            matured = store.mature(self.settled_us, room, valuation.worth(alias), partners, seed, soon)
            valuation.matured(alias, matured)

    def _shed_lowest(self, coming: Rooms) -> None:
        """Those that go may be smaller than the others, which then are larger on average: so it is looked at again."""
        for _ in range(1 if self.allocation.memory.size is None else PASSES):
            for alias, count in self.allocation.victims(self.stores, coming).items():
                store = self.stores[alias]
                self.losses.went(alias, store, *store.evict(count))
                if store.forgetful:
                    store.squeeze_records()
            if self.allocation.fits(self.stores, coming):
                break

    def seed_of(self, alias: str) -> int:
        """Where the chances of a stream begin."""
        number = list(self.stores).index(alias)
        # The constants of the MMIX generator, so that streams have numbers of their own. Below 2**63, whatever the
        # seed: an int64 to Numba.
        return (self.seed * 0x5851F42D4C957F2D + number * 0x14057B7EF767814F) % (1 << 62)
