"""What the engine asks of an operator: take batches and time, give batches. Nothing about hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.model.time import Times
from watersmeet.operators.counters import Counters as Counters

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Rows of one input in arrival order, with their event times."""

    data: pa.RecordBatch
    times: Times

    def __len__(self) -> int:
        return int(self.times.size)

    def take(self, positions: Positions) -> Rows:
        return Rows(self.data.take(pa.array(positions)), self.times[positions])


class Operator(Protocol):
    """Inputs are named by their alias in the query."""

    @property
    def counters(self) -> Counters: ...

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Take new rows; results that are certain come at once."""
        ...

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        """No row before these times will come any more: emit what waited for that, forget what it makes useless."""
        ...

    def restore(self, log: Mapping[str, Rows], complete_until: int) -> None:
        """Take back rows that were pushed before, and time that had come this far, without answering again."""
        ...

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> npt.NDArray[np.bool_]:
        """Which of all the rows ever pushed for an input a restore would miss, now that time has come this far."""
        ...

    @property
    def window_rows(self) -> int: ...

    @property
    def state_bytes(self) -> int: ...
