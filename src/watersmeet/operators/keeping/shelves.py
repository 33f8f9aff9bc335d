"""How rows that were joined come to lie in the stores of a join in bounded memory."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.join.door import Admitted
from watersmeet.operators.join.keeping import put
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.keeping.contest import Contest
from watersmeet.operators.keeping.losses import LossAccount
from watersmeet.operators.keeping.portions import Portions
from watersmeet.operators.keeping.store import Marks
from watersmeet.operators.keeping.valuation import Valuation


class Shelves:
    """Puts rows into their stores and tells the other parts. `flawed` are those that lost a combination already."""

    def __init__(
        self, layout: Layout, portions: Portions, contest: Contest, valuation: Valuation, losses: LossAccount
    ) -> None:
        self.positions, self.stores = layout.code_positions, contest.stores
        self.portions, self.contest, self.valuation, self.losses = portions, contest, valuation, losses

    def keep(self, alias: str, admitted: Admitted, flawed: Marks | None = None) -> None:
        """Keep rows so that memory holds however many come. Of those that were not let in only a record is left, if
        losses are to be known."""
        entering = admitted.entering
        if entering is not None:
            self.losses.turned_away(alias, int(np.count_nonzero(~entering)))
            if not self.losses.exact:
                admitted = admitted.joined
            elif flawed is not None:
                of_all = np.zeros(len(admitted), np.uint8)
                of_all[entering] = flawed
                flawed = of_all
        if len(admitted) == 0:
            return
        recorded = self.losses.recorder is not None
        size = self.portions.stored_at_once(alias, admitted.rows, values_of_all=recorded)
        for first in range(0, len(admitted), size):
            last = min(first + size, len(admitted))
            self._keep_some(alias, admitted.between(first, last), None if flawed is None else flawed[first:last])

    def _keep_some(self, alias: str, admitted: Admitted, flawed: Marks | None) -> None:
        store, entering = self.stores[alias], admitted.entering
        allocation = self.contest.allocation
        room = {alias: allocation.room_for(self.stores, alias, admitted.rows)}
        is_too_many = room[alias] > self.portions.fresh(alias) and not allocation.fits(self.stores, room)
        if is_too_many or entering is not None:
            store.promise(len(admitted))
        else:
            self.contest.make_room(room)
        put(store, admitted, self.positions[alias])
        self.losses.counters.stored_rows += len(admitted)
        # All that follows reads the rows in their store.
        self.losses.stored(alias, admitted.rows, flawed)
        self._count(alias, admitted)
        if store.promised:
            if entering is not None:
                store.break_promises(~entering)
            self.contest.make_room({})
            store.keep_promises(admitted.rows.data)

    def _count(self, alias: str, admitted: Admitted) -> None:
        """What rows that entered tell of those to come."""
        store, times, entering = self.stores[alias], admitted.rows.times, admitted.entering
        first = store.head - len(admitted)
        if entering is None:
            self.valuation.oldest_us = min(self.valuation.oldest_us, int(times.min()))
            self.valuation.came(alias, store.codes, first, store.head, times)
        elif entering.any():
            inside = np.ascontiguousarray(store.codes[:, first : store.head][:, entering])
            self.valuation.came(alias, inside, 0, inside.shape[1], times[entering])
