"""Rows sorted by time in bounded memory: what is too much goes to disk as sorted runs, which are merged.

Rows are ordered by their keys: event time, then place in the order of arrival. Merging is by pieces, never by rows: of
all runs everything comes out that is not beyond the piece which ends first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError, SetupError
from watersmeet.model.time import FOREVER_US, Times
from watersmeet.plan.memory import Memory
from watersmeet.private_folders import temporary_root
from watersmeet.temporary_folders import TemporaryFolder

SORT_MEMORY = "WATERSMEET_SORT_MEMORY"
DEFAULT_BYTES = 256 << 20
# Sorting holds the rows up to three times: as they came, in one piece, and in order.
COPIES = 3
# So many runs of a size are merged into one, and each is read in pieces of this part of the memory.
FAN_IN = 32
PIECE_OF_MEMORY = 1 / 128
LARGEST_BUFFER = 1 << 30  # one column of text must not pass 2 GB

Key = tuple[int, int]
END: Key = (FOREVER_US, 0)


def sort_memory() -> int:
    """How many bytes sorting may take: what the environment says, or else 256 MB."""
    written = os.environ.get(SORT_MEMORY)
    if written is None:
        return DEFAULT_BYTES
    try:
        size = Memory.parse(written).size
    except OptionError:
        size = None
    if not size:
        raise SetupError(
            f"the environment says {SORT_MEMORY}={written!r}, which is no number of bytes", hint="write '256 MB'"
        )
    return size


@dataclass(frozen=True)
class Piece:
    """Some rows with their event times, and their places in the order of arrival."""

    data: pa.RecordBatch
    times: Times
    arrivals: Times

    def __len__(self) -> int:
        return int(self.times.size)

    def slice(self, start: int, stop: int) -> Piece:
        return Piece(self.data.slice(start, stop - start), self.times[start:stop], self.arrivals[start:stop])

    @property
    def smallest(self) -> Key:
        least = int(self.times.min())
        return least, int(self.arrivals[self.times == least].min())

    def before(self, key: Key) -> int:
        """How many rows of a sorted piece are before a key."""
        at, arrival = key
        start, stop = np.searchsorted(self.times, at), np.searchsorted(self.times, at, side="right")
        return int(start + np.searchsorted(self.arrivals[start:stop], arrival))


def sorted_piece(pieces: Sequence[Piece]) -> Piece:
    """All rows of some pieces in order."""
    one = pieces[0]
    if len(pieces) > 1:
        one = Piece(
            pa.concat_batches([piece.data for piece in pieces]),
            np.concatenate([piece.times for piece in pieces]),
            np.concatenate([piece.arrivals for piece in pieces]),
        )
    later, same = one.times[1:] > one.times[:-1], one.times[1:] == one.times[:-1]
    # Most input is in order already, and a sort copies every column.
    if bool((later | (same & (one.arrivals[1:] > one.arrivals[:-1]))).all()):
        return one
    order = np.lexsort((one.arrivals, one.times))
    return Piece(one.data.take(pa.array(order)), one.times[order], one.arrivals[order])


class SortedRun:
    """Sorted rows that are read a piece at a time."""

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self._pieces = pieces
        self._piece = next(pieces, None)

    @property
    def first(self) -> Key:
        """The key of its next row; the end if there is none."""
        piece = self._piece
        return END if piece is None else (int(piece.times[0]), int(piece.arrivals[0]))

    @property
    def end(self) -> Key:
        """The key after the last row of the piece in hand."""
        piece = self._piece
        # Rows have different places, so the next key is one place further.
        return END if piece is None else (int(piece.times[-1]), int(piece.arrivals[-1]) + 1)

    def take(self, until: Key) -> Piece | None:
        """The rows of the piece in hand that are before a key."""
        piece = self._piece
        ready = 0 if piece is None else piece.before(until)
        if piece is None or not ready:
            return None
        # The next piece is read at once: `first` must always be known.
        self._piece = piece.slice(ready, len(piece)) if ready < len(piece) else next(self._pieces, None)
        return piece.slice(0, ready)

    def rest(self) -> Piece | None:
        """What is left of the piece in hand."""
        return self._piece


def merged(runs: Sequence[SortedRun], until: Key) -> Iterator[Piece]:
    """The rows of all runs before a key, in order."""
    while True:
        live = [run for run in runs if run.first < until]
        if not live:
            return
        # Of every run all rows before this fence are in hand, so none before it can still be on disk.
        fence = min(until, *(run.end for run in live))
        taken = [run.take(fence) for run in live]
        yield sorted_piece([piece for piece in taken if piece is not None])


class TimeSorter:
    """Takes rows in any order and gives them out in that of their keys, as soon as none before them can come."""

    def __init__(self, memory_bytes: int) -> None:
        # Text has 32-bit offsets in Arrow, and a piece is made of all that is held.
        self._buffer_bytes = min(memory_bytes // COPIES, LARGEST_BUFFER)
        self._piece_bytes = int(memory_bytes * PIECE_OF_MEMORY)
        self._held: list[Piece] = []
        self._held_bytes = 0
        self._held_first = END
        self._spilled: list[list[SortedRun]] = [[]]
        self._folder: TemporaryFolder | None = None
        self._files = 0
        self.spilled_rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Runs hold their files open, so they go before the folder does.
        self._spilled = [[]]
        if self._folder is not None:
            self._folder.remove()

    @property
    def first(self) -> Key:
        """The smallest key of all rows inside."""
        return min([self._held_first, *(run.first for level in self._spilled for run in level)])

    def add(self, piece: Piece) -> None:
        if not len(piece):
            return
        self._held.append(piece)
        self._held_bytes += int(piece.data.nbytes) + piece.times.nbytes + piece.arrivals.nbytes
        self._held_first = min(self._held_first, piece.smallest)
        if self._held_bytes > self._buffer_bytes:
            self._spill()

    def release(self, until: Key) -> Iterator[pa.RecordBatch]:
        """The rows before a key, in order; no such row will be added any more."""
        if self.first >= until:
            return
        # Rows that are held are sorted only when some of them are due.
        held = SortedRun(iter([sorted_piece(self._held)] if self._held_first < until else []))
        keeps = self._held if self._held_first >= until else None
        for piece in merged([held, *(run for level in self._spilled for run in level)], until):
            yield piece.data
        if keeps is None:
            rest = held.rest()
            self._hold([] if rest is None else [rest])
        self._spilled = [[run for run in level if run.first < END] for level in self._spilled]

    def _hold(self, pieces: list[Piece]) -> None:
        self._held, self._held_bytes, self._held_first = [], 0, END
        for piece in pieces:
            self.add(piece)

    def _spill(self) -> None:
        everything = sorted_piece(self._held)
        self.spilled_rows += len(everything)
        self._hold([])
        self._put(0, self._written(iter([everything])))

    def _put(self, level: int, run: SortedRun) -> None:
        """Keep a run; where there are too many of a size they become one of the next."""
        if level == len(self._spilled):
            self._spilled.append([])
        self._spilled[level].append(run)
        # Every run keeps a file open and a piece in memory, so there must not be many.
        if len(self._spilled[level]) >= FAN_IN:
            runs, self._spilled[level] = self._spilled[level], []
            self._put(level + 1, self._written(merged(runs, END)))

    def _written(self, pieces: Iterator[Piece]) -> SortedRun:
        """The rows of a file of its own, in a folder that only this user can read."""
        if self._folder is None:
            self._folder = TemporaryFolder("watersmeet-sort-", temporary_root())
        self._files += 1
        path = self._folder.path / f"{self._files}.arrow"
        first = next(pieces)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, _stored(first).schema) as writer:
            self._write(first, writer)
            for piece in pieces:
                self._write(piece, writer)
        return SortedRun(_read(path))

    def _write(self, piece: Piece, writer: pa.ipc.RecordBatchWriter) -> None:
        row_bytes = max(1, int(piece.data.nbytes) // len(piece))
        rows = max(1, self._piece_bytes // row_bytes)
        for start in range(0, len(piece), rows):
            writer.write_batch(_stored(piece.slice(start, min(start + rows, len(piece)))))


def _stored(piece: Piece) -> pa.RecordBatch:
    """A piece as one batch: its keys stand behind its columns."""
    fields = [*piece.data.schema, pa.field("time", pa.int64()), pa.field("arrival", pa.int64())]
    keys = [pa.array(piece.times, pa.int64()), pa.array(piece.arrivals, pa.int64())]
    return pa.RecordBatch.from_arrays([*piece.data.columns, *keys], schema=pa.schema(fields))


def _read(path: Path) -> Iterator[Piece]:
    """The pieces of a file, which is gone once they are read."""
    with pa.OSFile(str(path), "rb") as file:
        reader = pa.ipc.open_file(file)
        columns = len(reader.schema) - 2
        schema = pa.schema([reader.schema.field(k) for k in range(columns)])
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            data = pa.RecordBatch.from_arrays(batch.columns[:columns], schema=schema)
            yield Piece(data, batch.column(columns).to_numpy(), batch.column(columns + 1).to_numpy())
    path.unlink()
