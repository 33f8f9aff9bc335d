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
        if len(admitted) == 0:
            return
        store, times = self.stores[alias], admitted.rows.times
        # First, as all that follows reads the rows in their store.
        self._put(alias, admitted)
        self.losses.stored(alias, admitted.rows, flawed)
        self.valuation.oldest_us = min(self.valuation.oldest_us, int(times.min()))
        self.valuation.came(alias, store.codes, store.head - len(admitted), store.head, times)

    def keep_in_portions(self, alias: str, admitted: Admitted, flawed: Marks | None) -> None:
        """As many at once as there is room for, so that memory holds however many come."""
        if len(admitted) == 0:
            return
        room, size = self.portions.fresh(alias), self.portions.stored_at_once(alias, admitted.rows)
        for first in range(0, len(admitted), size):
            last = min(first + size, len(admitted))
            # More than there is room for (see stored_at_once) come in first, and the bound is kept afterwards.
            if last - first <= room:
                self.contest.make_room({alias: last - first})
            self.keep(alias, admitted.between(first, last), None if flawed is None else flawed[first:last])
            if last - first > room:
                self.contest.shed_to_bound()

    def keep_entered(self, alias: str, admitted: Admitted, flawed: Marks | None) -> None:
        """Keep the rows that were let in; of the others leave a record, if losses are to be known."""
        if admitted.entering is None:
            self.keep(alias, admitted, flawed)
            return
        self.losses.turned_away(alias, int(np.count_nonzero(~admitted.entering)))
        if self.losses.exact:
            self._record(alias, admitted, flawed)
        else:
            self.keep(alias, admitted.joined, flawed)

    def _record(self, alias: str, admitted: Admitted, flawed: Marks | None) -> None:
        """Store rows in the order they came, and take the memory of those that are turned away."""
        self._put(alias, admitted)
        store, entering = self.stores[alias], admitted.entering
        assert entering is not None
        if flawed is not None:
            of_all = np.zeros(len(admitted), np.uint8)
            of_all[entering] = flawed
            store.store_flaws(of_all)
        first = store.head - len(admitted)
        store.turn_away(first + np.flatnonzero(~entering))
        if entering.any():
            inside = store.codes[:, first : store.head][:, entering]
            self.valuation.came(alias, inside, 0, inside.shape[1], admitted.rows.times[entering])

    def _put(self, alias: str, admitted: Admitted) -> None:
        put(self.stores[alias], admitted, self.positions[alias])
        self.losses.counters.stored_rows += len(admitted)
