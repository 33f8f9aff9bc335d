"""Where the rows of a join by one of the papers' algorithms lie: a plain store per input, rows known by serials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from watersmeet.operators.codes import Codes
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.window_store import WindowStore
from watersmeet.operators.kernels.memory import address
from watersmeet.operators.row_windows import Deaths
from watersmeet.papers.joins.contract import DEATHS, FIRST_CODE, TIMES, Int64s
from watersmeet.physical.strategy import Code, JoinStrategy

WORD = 8


def shelf_codes(strategy: JoinStrategy, alias: str) -> tuple[Code, ...]:
    """The codes on the shelf: those of stored rows, then those that only new rows are compared by."""
    return tuple(dict.fromkeys((*strategy.stored_codes(alias), *strategy.probing_codes(alias))))


class Shelf:
    """The stores of all inputs in FROM order. A row's serial is its number among all rows ever put here."""

    STATE = ("stores", "oldest")

    def __init__(self, stores: Mapping[str, WindowStore]) -> None:
        self.stores = stores
        self._by_place = list(stores.values())
        self.oldest = [0] * len(stores)  # the serial of the row at each store's tail

    def next_serial(self, place: int) -> int:
        return self.oldest[place] + len(self._store(place))

    def append(
        self, place: int, rows: Rows, codes: Sequence[Codes], payload: Mapping[str, object], deaths: Deaths | None
    ) -> Int64s:
        """Put rows at the end; their serials."""
        first = self.next_serial(place)
        store = self._store(place)
        if deaths is None:
            store.append(rows.times, codes, payload)
        else:
            store.append(rows.times, codes, payload, deaths.serials, deaths.times)
        return np.arange(first, first + len(rows), dtype=np.int64)

    def table(self) -> Int64s:
        """The table of biased addresses, valid until rows are put here or forgotten."""
        widest = max(store.codes.shape[0] for store in self.stores.values())
        table = np.zeros((len(self.stores), FIRST_CODE + widest), np.int64)
        for place, store in enumerate(self.stores.values()):
            # May point before the array; it is only ever read at serials that are held.
            bias = WORD * (store.tail - self.oldest[place])
            table[place, TIMES] = address(store.times) + bias
            table[place, DEATHS] = 0 if store.deaths is None else address(store.deaths) + bias
            for i in range(store.codes.shape[0]):
                table[place, FIRST_CODE + i] = address(store.codes[i]) + bias
        return table

    def positions(self, serials: Int64s) -> Int64s:
        """Where in their stores the rows of combinations lie; one row of serials per input."""
        shifts = [self._store(place).tail - self.oldest[place] for place in range(len(self.stores))]
        return serials + np.array(shifts, np.int64)[:, None]

    def forget(self, place: int, oldest: int) -> int:
        """Forget the rows before a serial; returns how many."""
        count = min(oldest - self.oldest[place], len(self._store(place)))
        if count <= 0:
            return 0
        self._store(place).forget(count)
        self.oldest[place] += count
        return count

    def _store(self, place: int) -> WindowStore:
        return self._by_place[place]
