"""What an algorithm gives: room for pieces of combinations, and its counts."""

from __future__ import annotations

import numpy as np

from watersmeet.papers.joins.contract import Int64s, Work

OUTPUT_ROWS = 1 << 14


class JoinOutput:
    """Room for a piece, one row of serials per input; made when first used."""

    def __init__(self, inputs: int, rows: int = OUTPUT_ROWS) -> None:
        self._shape = inputs, rows
        self._table: Int64s | None = None

    @property
    def table(self) -> Int64s:
        if self._table is None:
            self._table = np.empty(self._shape, np.int64)
        return self._table


def as_work(counts: Int64s, held: Int64s) -> Work:
    """Counts by their positions, and what is held: live ones and stale ones, in as many columns as there may be."""
    return Work(*map(int, counts), *map(int, held.sum(axis=1)))
