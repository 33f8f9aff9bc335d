"""What a host may ask of an operator whose memory is bounded, and the values that they exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.plan.memory import Memory


@dataclass(frozen=True)
class Sharing:
    """A memory, and among how many buckets it is shared; `fixed` gives every stream the same part of it. A bucket has
    `finer` cells: cell c belongs to bucket c modulo `buckets`."""

    memory: Memory
    fixed: bool
    streams: tuple[str, ...]
    buckets: int
    finer: int = 1

    @property
    def cells(self) -> int:
        return self.buckets * self.finer


@dataclass(frozen=True)
class Came:
    """Rows of a stream that came: how many, their bytes and times, and how many are in each cell, copies included."""

    stream: int
    rows: int
    size: int
    oldest_us: int
    newest_us: int
    counts: npt.NDArray[np.int64]


@dataclass
class Page:
    """Records of some batches, with what the join gave and lost meanwhile; `lost` is None if that is not known."""

    records: pa.Table
    results: int
    lost: int | None


class Records(Protocol):
    """What was written down of rows that were let go of."""

    recorded_rows: int
    taken_rows: int
    waiting_bytes: int

    def take(self, results: int, lost: int | None) -> Page:
        """All since the last time; the operator has given and lost so many results in all, as far as it knows."""
        ...


class MemoryBound(Protocol):
    """An operator that keeps no more than it may."""

    @property
    def memory(self) -> Memory:
        """The bound, or of one that several share what is due to this one."""
        ...

    @property
    def needed(self) -> Mapping[str, float]:
        """What the windows of each stream take if all rows are kept, in rows or in bytes, as the bound is."""
        ...

    @property
    def elasticity(self) -> float | None:
        """By how many percent about its recall grows with a percent of memory; None while it is not full."""
        ...

    def bound_by(self, memory: Memory) -> None:
        """From now on it may keep so much, of the rows that are there too; between two batches."""
        ...

    def let_go(self) -> None:
        """Nothing more comes, and no row that is there is asked for."""
        ...

    @property
    def least_size(self) -> int:
        """The bytes that it cannot do with less than."""
        ...

    @property
    def recorder(self) -> Records | None:
        """There once `start_recording` was called."""
        ...

    def start_recording(self) -> None:
        """From now on, write down what is needed to find later what is missing."""
        ...

    def share_by(self, sharing: Sharing) -> None:
        """It is one of several that share a memory; before the first row."""
        ...

    def take_needs(self, came: Sequence[Came], place: int) -> None:
        """What came to all who share the memory in one batch: from now on keep what the one at a place may."""
        ...
