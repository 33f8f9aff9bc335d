"""Text is read in blocks, each of which must hold whole lines: those that are longer ask for larger ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from watersmeet.errors import SourceError

# The first is also what types are guessed from: Arrow looks at the first block only.
BLOCK_BYTES = (1 << 20, 1 << 24, 1 << 28)
_TOO_SHORT = "straddles two block boundaries"  # as Arrow says it
_T = TypeVar("_T")


def with_long_lines(attempt: Callable[[int], _T]) -> _T:
    """What an attempt gives with blocks of so many bytes, the fewest that will do."""
    for size in BLOCK_BYTES:
        try:
            return attempt(size)
        except pa.ArrowInvalid as error:
            _go_on_or_raise(error, size)
    raise AssertionError("the last attempt has ended it")


def batches_with_long_lines(opened: Callable[[int], Any]) -> Iterator[pa.RecordBatch]:
    """The rows of a reader that is opened with blocks of so many bytes. Behind a line that is too long for them it is
    opened again, with larger ones, and goes on where it was."""
    given = 0
    for size in BLOCK_BYTES:
        try:
            with opened(size) as reader:
                for batch in _behind(reader, given):
                    given += batch.num_rows
                    yield batch
            return
        except pa.ArrowInvalid as error:
            _go_on_or_raise(error, size)


def _behind(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        left = batch.slice(rows) if rows else batch
        rows = max(0, rows - batch.num_rows)
        if left.num_rows or not rows:
            yield left


def _go_on_or_raise(error: pa.ArrowInvalid, size: int) -> None:
    if _TOO_SHORT not in str(error):
        raise error
    if size == BLOCK_BYTES[-1]:
        raise SourceError(
            f"it has a line of more than {size >> 20} MB", hint="is it one record a line, and is every quote closed?"
        ) from None
