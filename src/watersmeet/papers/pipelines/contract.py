"""What H04's operators have in common: GetNext, and GetTime, by which the operator above asks for the time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.continuous.node import Node
from watersmeet.papers.pipelines.tuples import Tuples

# As time passes; not before the next tuple comes; or only by the negative tuples that windows send.
Noticing = Literal["in_time", "at_next_input", "negative"]
NOTICING: dict[str, Noticing] = {"ita_scan": "at_next_input", "tpa_scan": "in_time", "nta_scan": "negative"}


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
