"""Logs of changes of several parts of an answer as the log of all of it: in the order of its instants, what leaves
before what enters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import FOREVER_US, times_of
from watersmeet.operators.few_rows import fresh, in_a_row, one_letter_texts, picked_from, taken_of_all
from watersmeet.operators.kernels.changes import merge_runs

Int64s = npt.NDArray[np.int64]
_PLUS = np.uint8(ord("+"))


@dataclass(frozen=True)
class Log:
    """at: which column has the instants; sign: which has the signs, if any."""

    at: int
    sign: int | None

    def merged(self, streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Blocks of each stream in order; blocks without rows are handed on, so that whoever takes them may stop."""
        ahead = [_Ahead(stream) for stream in streams]
        for one in ahead:
            yield from one.look()
        held: list[list[pa.RecordBatch]] = [[] for _ in streams]
        while any(one.block is not None for one in ahead):
            # Of the one that is furthest behind the next block is taken up. All before what then lies ahead is certain.
            first = min(range(len(ahead)), key=lambda i: self._first(ahead[i].block))
            block = ahead[first].block
            assert block is not None
            held[first].append(block)
            yield from ahead[first].look()
            until = min(self._first(one.block) for one in ahead)
            ready: list[list[pa.RecordBatch]] = []
            for i, blocks in enumerate(held):
                before, held[i] = self._cut(blocks, until)
                if before:
                    ready.append(before)
            if ready:
                yield self._as_one(ready)

    def _first(self, block: pa.RecordBatch | None) -> int:
        return FOREVER_US + 1 if block is None else int(self._instants(block)[0])

    def _instants(self, block: pa.RecordBatch) -> Int64s:
        return times_of(block.column(self.at))

    def _cut(self, blocks: list[pa.RecordBatch], until: int) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
        before, behind = [], []
        for block in blocks:
            at = int(np.searchsorted(self._instants(block), until))
            if at:
                before.append(block.slice(0, at))
            if at < block.num_rows:
                behind.append(block.slice(at))
        return before, behind

    def _as_one(self, logs: Sequence[Sequence[pa.RecordBatch]]) -> pa.RecordBatch:
        blocks = [block for log in logs for block in log]
        if len(blocks) == 1:
            return blocks[0]
        instants = in_a_row([self._instants(block) for block in blocks])
        letters = in_a_row([self._letters(block) for block in blocks])
        starts = np.cumsum([0, *(sum(block.num_rows for block in log) for log in logs)])
        order = fresh(instants.size)
        merge_runs(instants, letters == _PLUS, starts, order)
        columns = [
            one_letter_texts(picked_from(letters, order))
            if at == self.sign
            else taken_of_all([block.column(at) for block in blocks], order)
            for at in range(blocks[0].num_columns)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=blocks[0].schema)

    def _letters(self, block: pa.RecordBatch) -> npt.NDArray[np.uint8]:
        """The signs of its changes."""
        if self.sign is None:
            return np.full(block.num_rows, _PLUS, np.uint8)
        column = block.column(self.sign)
        _, ends, letters = column.buffers()
        first = int(np.frombuffer(ends, np.int32, 1, 4 * column.offset)[0])
        return np.frombuffer(letters, np.uint8, block.num_rows, first)


class _Ahead:
    """A stream with its next block that has rows, or None at its end."""

    def __init__(self, stream: Iterator[pa.RecordBatch]) -> None:
        self._stream = stream
        self.block: pa.RecordBatch | None = None

    def look(self) -> Iterator[pa.RecordBatch]:
        """Gives the blocks without rows that are passed over."""
        while (block := next(self._stream, None)) is not None and not block.num_rows:
            yield block
        self.block = block
