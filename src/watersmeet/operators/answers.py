"""Rows of an answer whose columns are not made yet.

To make columns of a handful of rows costs as much as to find them, and whoever takes the answers of many pushes makes
those of all at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.few_rows import cell_of, one_letter_texts

_TEXT = pa.string()
Words = npt.NDArray[np.int64]


class FewAnswers:
    """A few rows without NULLs, a row of `words` for each of their columns: int64s that end in the bytes of a value. Of
    texts only those of one letter are there."""

    __slots__ = ("num_rows", "schema", "words")

    def __init__(self, schema: pa.Schema, words: Words) -> None:
        self.schema, self.words = schema, words
        self.num_rows: int = words.shape[1]


Answer: TypeAlias = pa.RecordBatch | FewAnswers


def as_batch(answer: Answer) -> pa.RecordBatch:
    return _made(answer.schema, answer.words) if isinstance(answer, FewAnswers) else answer


def as_batches(answers: Iterable[Answer]) -> list[pa.RecordBatch]:
    """All rows in their order; neighbours whose columns are not made yet become one batch."""
    batches: list[pa.RecordBatch] = []
    for kind, group in groupby(answers, type):
        some = list(group)
        batches += [_together(some)] if kind is FewAnswers else some
    return batches


def _together(answers: Sequence[FewAnswers]) -> pa.RecordBatch:
    # All are of one query, and so of one schema.
    return _made(answers[0].schema, np.concatenate([one.words for one in answers], axis=1))


def _made(schema: pa.Schema, words: Words) -> pa.RecordBatch:
    rows = words.shape[1]
    whole = pa.py_buffer(np.ascontiguousarray(words))
    arrays = []
    for place, kind in enumerate(schema.types):
        if kind == _TEXT:
            arrays.append(one_letter_texts(words[place].astype(np.uint8)))
        elif kind.bit_width == 64:  # as most are: its words are its values
            arrays.append(pa.Array.from_buffers(kind, rows, [None, whole.slice(8 * place * rows, 8 * rows)]))
        else:
            arrays.append(pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(words[place].astype(cell_of(kind)))]))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
