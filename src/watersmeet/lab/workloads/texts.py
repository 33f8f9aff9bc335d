"""Random texts, many at a time: letters in one piece of memory, cut at random lengths."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.lab.workloads.making import Numbers

SHORTEST = 3
GAPS = 13  # one letter in so many is a gap instead
_A, _LETTERS = ord("a"), 26


def letters(rng: np.random.Generator, lengths: Numbers) -> pa.Array:
    """Texts of letters from a to z, of exactly these lengths.

    >>> letters(np.random.default_rng(1), np.array([3, 0, 5])).to_pylist()
    ['zxd', '', 'mytan']
    """
    return _cut(rng.integers(_A, _A + _LETTERS, int(lengths.sum()), np.uint8), lengths)


def words(rng: np.random.Generator, size: int, longest: int, gap: str = " ") -> pa.Array:
    """Texts of at least three letters and fewer than `longest`, some of them gaps; blanks at the ends are cut off."""
    lengths = rng.integers(SHORTEST, longest, size)
    total = int(lengths.sum())
    drawn = rng.integers(_A, _A + _LETTERS, total, np.uint8)
    drawn[rng.integers(0, GAPS, total) == 0] = ord(gap)
    return pc.utf8_trim_whitespace(_cut(drawn, lengths))


def filled_up(rng: np.random.Generator, sizes: Numbers, average: int) -> pa.Array:
    """Texts that bring rows of these sizes, in bytes, to an average: what is missing, give or take a fifth."""
    missing = np.maximum(average - sizes, 0)
    spread = np.round(missing * 0.2).astype(np.int64)
    return letters(rng, missing - spread + (rng.random(sizes.size) * 2 * spread).astype(np.int64))


def joined(between: str, *parts: pa.Array | str) -> pa.Array:
    """Texts side by side, row by row."""
    return pc.binary_join_element_wise(*parts, between)


def _cut(drawn: np.typing.NDArray[np.uint8], lengths: Numbers) -> pa.Array:
    # Offsets of 64 bits, as a few million rows have more letters than 31 bits count.
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    texts = pa.LargeStringArray.from_buffers(lengths.size, pa.py_buffer(offsets), pa.py_buffer(drawn))
    return texts if offsets[-1] >= 2**31 else texts.cast(pa.string())
