"""In how large portions rows come, so that memory holds meanwhile and rows of one time meet before any of them goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from watersmeet.operators.contract import Rows
from watersmeet.operators.keeping.allocation import Allocation
from watersmeet.operators.keeping.pieces import slice_of
from watersmeet.operators.keeping.store import SheddingStore

# Results come in batches of about so many bytes at most, and of so many rows at least.
RESULT_BYTES, RESULT_ROWS = 1 << 25, 1 << 10


class Portions:
    def __init__(self, allocation: Allocation, stores: Mapping[str, SheddingStore]) -> None:
        self.allocation, self.stores = allocation, stores

    def piece_rows(self) -> int:
        """How many rows of a stream are best pushed at a time."""
        return min((self.allocation.piece_rows(self.stores, alias) for alias in self.stores), default=1)

    def fresh(self, alias: str) -> int:
        """How many rows of a stream may have memory before they are ranked among the others."""
        return self.allocation.fresh_rows(self.stores, alias)

    def fitting(self, alias: str, rows: Rows) -> int:
        """How many of these rows are best taken at a time, which may be larger than those before."""
        return self._by_size(self.allocation.piece_rows(self.stores, alias), alias, rows)

    def stored_at_once(self, alias: str, rows: Rows, *, values_of_all: bool) -> int:
        """How many of these rows are stored at once. A bound in rows takes any number: they have no memory until it is
        known who is worth it. What those take that are worth it is not known of a bound in bytes; and the values of
        those that go are there only if they had memory."""
        if self.allocation.memory.size is None and not values_of_all:
            return len(rows)
        return self._by_size(self.fresh(alias), alias, rows)

    def _by_size(self, count: int, alias: str, rows: Rows) -> int:
        if not len(rows):
            return count
        return max(1, int(count * len(rows) / self.allocation.room_for(self.stores, alias, rows)))

    def pieces(self, alias: str, rows: Rows) -> Iterator[Rows]:
        size = self.fitting(alias, rows)
        return (slice_of(rows, start, start + size) for start in range(0, len(rows), size))

    def of_results(self, stored: list[str], rows: Rows, count: int) -> int:
        """How many of so many results are made at a time, of new rows and stored ones of these inputs: where values are
        long, a few thousand are larger than the memory."""
        if count <= RESULT_ROWS:
            return count
        each = rows.data.nbytes / len(rows)
        for alias in stored:
            if alias in self.stores:
                each += sum(column.bytes_per_row for column in self.stores[alias].columns.values())
        return min(count, max(RESULT_ROWS, int(RESULT_BYTES / max(each, 1.0))))
