"""In how large portions rows come, so that memory holds meanwhile and rows of one time meet before any of them goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from watersmeet.operators.contract import Rows
from watersmeet.operators.keeping.allocation import SLACK, Allocation
from watersmeet.operators.keeping.pieces import slice_of
from watersmeet.operators.keeping.store import SheddingStore

# So few rows, of so few bytes, are stored at once even where the memory is smaller.
FEW_ROWS, FEW_BYTES = 64, 1 << 16
UNLIMITED = 1 << 62
# Results come in batches of about so many bytes at most, and of so many rows at least.
RESULT_BYTES, RESULT_ROWS = 1 << 25, 1 << 10


class Portions:
    def __init__(self, allocation: Allocation, stores: Mapping[str, SheddingStore]) -> None:
        self.allocation, self.stores = allocation, stores

    def piece_rows(self, *, at_first: bool) -> int:
        """How many rows of a stream are best pushed at a time; `at_first`: as long as none had to go."""
        size = self.allocation.at_first if at_first else self.allocation.fresh_rows
        return min((size(self.stores, alias) for alias in self.stores), default=1)

    def fresh(self, alias: str) -> int:
        """How many rows of a stream there is room for at a time."""
        return self.allocation.fresh_rows(self.stores, alias)

    def fitting(self, rows: Rows) -> int:
        """How many new rows may come at once by their own size, which may be larger than that of the rows before."""
        size = self.allocation.memory.size
        if size is None or not len(rows):
            return UNLIMITED
        return max(1, int(SLACK * size * len(rows) / max(int(rows.data.nbytes), 1)))

    def pieces(self, alias: str, rows: Rows) -> Iterator[Rows]:
        size = min(self.fresh(alias), self.fitting(rows))
        return (slice_of(rows, start, start + size) for start in range(0, len(rows), size))

    def stored_at_once(self, alias: str, rows: Rows) -> int:
        """How many of these rows are stored before others must make room. To store rows one by one takes long, so a few
        may be too many for a moment."""
        size = min(self.fresh(alias), self.fitting(rows))
        if size >= FEW_ROWS:
            return size
        each = max(self.stores[alias].bytes_per_row, rows.data.nbytes / len(rows))
        return max(size, 1, min(FEW_ROWS, int(FEW_BYTES / each)))

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
