"""Room for a piece of combinations, one row of serials per input."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.classic.contract import Int64s

OUTPUT_ROWS = 1 << 14


class Output:
    """Made when first used; a saved algorithm leaves it behind."""

    def __init__(self, inputs: int, rows: int = OUTPUT_ROWS) -> None:
        self._shape = inputs, rows
        self._table: Int64s | None = None

    @property
    def table(self) -> Int64s:
        if self._table is None:
            self._table = np.empty(self._shape, np.int64)
        return self._table

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_table": None}
