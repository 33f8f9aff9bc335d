"""The two halves of a connector: a reader whose rows can be read again, and a sink that takes numbered batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

# What a reader tells of where rows lie, as JSON: only the reader itself understands it.
Range = Any
Position = Any


@dataclass(frozen=True)
class Piece:
    """Rows that were read, and where they lie: `again` gives the same rows for the same range."""

    rows: pa.RecordBatch
    range: Range


class Reader(Protocol):
    """The rows of one stream in the order they came. Used by one thread at a time. `tell` is called with what whoever
    runs it should know."""

    tell: Callable[[Warning], None]

    def poll(self, most_rows: int) -> Piece | None:
        """The next rows, so many at most; None if there is nothing now. Does not wait."""

    def again(self, range: Range) -> pa.RecordBatch:
        """The rows of a range that was read before, in another life maybe. What comes next is what came after them."""

    def position_after(self, range: Range) -> Position:
        """What had been read when these rows were: for `resume`. May be called while another thread reads."""

    def resume(self, position: Position) -> None:
        """Go on behind what had been read."""

    def close(self) -> None: ...


def untold(what: Warning) -> None:
    """Nobody listens."""


class NumberedSink(Protocol):
    """Takes the rows of batches, in order, under the number of the last batch they are of. What it has taken is there
    for good, whole or not at all."""

    @property
    def last_number(self) -> int:
        """The last number it has taken from this run, or -1."""

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        """Take rows, whole or not at all. A number that it has taken before is passed over."""

    def close(self) -> None: ...
