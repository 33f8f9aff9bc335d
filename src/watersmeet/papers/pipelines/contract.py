"""What H04's operators have in common: GetNext, and GetTime, by which the operator above asks for the time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.continuous.node import Node
from watersmeet.papers.pipelines.tuples import Tuples


class PublishedOperator(Protocol):
    """An operator of the paper. `windows` says how long each constituent of its tuples lasts after its timestamp."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def windows(self) -> Int64s: ...

    def get_next(self, until: int) -> Tuples:
        """The tuples output before an instant that were not given yet."""
        ...

    def get_time(self) -> int:
        """LocalClock: all that happened before it has been output."""
        ...

    @property
    def held_rows(self) -> int:
        """The tuples of all states below and here."""
        ...

    @property
    def nbytes(self) -> int: ...

    def next_event(self) -> int: ...

    def nodes(self) -> Iterator[Node]:
        """The engine's own nodes at the bottom."""
        ...


def grown(array: Int64s, room: int, fill: int) -> Int64s:
    """The array with room for so many slots."""
    if array.size >= room:
        return array
    return np.concatenate([array, np.full(room - array.size, fill, np.int64)])
