"""Tables whose rows are looked up far from each other, and lie in as few lines of the cache as they fill."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

LINE = 8  # words


def zeros_in_lines(rows: int, fields: int) -> npt.NDArray[np.int64]:
    """Rows of int64s from the beginning of a line on. NumPy's own begin anywhere, so that of rows of half a line every
    other one lies across two, and takes twice as long to be read."""
    size = rows * fields
    words = np.zeros(size + LINE, np.int64)
    begin = -(words.ctypes.data // words.itemsize) % LINE
    return words[begin : begin + size].reshape(rows, fields)
