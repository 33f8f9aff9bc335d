"""In how large portions rows come, so that memory holds meanwhile and rows of one time meet before any of them goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from watersmeet.operators.contract import Rows
from watersmeet.operators.keeping.allocation import Allocation
from watersmeet.operators.keeping.pieces import slice_of
from watersmeet.operators.keeping.store import SheddingStore

# So few rows are ranked together with those in memory, where there is room for fewer: one by one they would take long.
FEW_ROWS = 64
# Results come in batches of about so many bytes at most, and of so many rows at least.
RESULT_BYTES, RESULT_ROWS = 1 << 25, 1 << 10


class Portions:
    def __init__(self, allocation: Allocation, stores: Mapping[str, SheddingStore]) -> None:
        self.allocation, self.stores = allocation, stores

    def piece_rows(self, *, at_first: bool) -> int:
        """How many rows of a stream are best pushed at a time; `at_first`, as long as none had to go, fewer, so that
        windows that are nearly as large as the memory lose nothing."""
        fresh = min((self.fresh(alias) for alias in self.stores), default=1)
        return max(1, fresh // 2) if at_first else fresh

    def fresh(self, alias: str) -> int:
        """How many rows of a stream there is room for at a time."""
        return self.allocation.fresh_rows(self.stores, alias)

    def fitting(self, alias: str, rows: Rows) -> int:
        """How many of these rows may come at once, which may be larger than those before."""
        if not len(rows):
            return self.fresh(alias)
        return max(1, int(self.fresh(alias) * len(rows) / self.allocation.room_for(self.stores, alias, rows)))

    def pieces(self, alias: str, rows: Rows) -> Iterator[Rows]:
        size = self.fitting(alias, rows)
        return (slice_of(rows, start, start + size) for start in range(0, len(rows), size))

    def ranked_at_once(self, alias: str) -> int:
        """How many rows of a stream may come at once if they have no memory until it is known who is worth it."""
        return FEW_ROWS if self.allocation.memory.size is None and self.fresh(alias) < FEW_ROWS else 0

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
