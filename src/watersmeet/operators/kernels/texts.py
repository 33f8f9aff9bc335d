"""Texts gathered from several columns of Arrow's, whose buffers are read by their addresses."""

from __future__ import annotations

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.memory import load8, load32, load64, move8, prefetch

# chunks[c]: the position of its first text, where its offsets lie, and its bytes, and its bits of validity (0: all are
# valid); how many texts lie before its first in these
FIRST, OFFSETS, BYTES, VALID, SKIPPED = range(5)
CHUNK_FIELDS = 5
AHEAD = 8  # texts


@kernel
def find_texts(positions, chunks, wide, where, ends, valid):
    """Of every position where the bytes of its text lie, where they end in a row of all, which begins with ends[0], and
    whether it is there. wide: offsets have 64 bits. Returns how many bytes they are together."""
    total, c, last = 0, 0, len(chunks) - 1
    ends[0] = 0
    for i in range(len(positions)):
        p = positions[i]
        if p < chunks[c, FIRST] or (c < last and p >= chunks[c + 1, FIRST]):
            low, high = 0, last
            while low < high:
                c = (low + high + 1) // 2
                if p < chunks[c, FIRST]:
                    high = c - 1
                else:
                    low = c
            c = low
        at = p - chunks[c, FIRST] + chunks[c, SKIPPED]
        valid[i] = chunks[c, VALID] == 0 or (load8(chunks[c, VALID], at >> 3) >> (at & 7)) & 1
        if wide:
            begin, end = load64(chunks[c, OFFSETS], at), load64(chunks[c, OFFSETS], at + 1)
        else:
            begin, end = load32(chunks[c, OFFSETS], at), load32(chunks[c, OFFSETS], at + 1)
        where[i] = chunks[c, BYTES] + begin
        total += end - begin
        ends[i + 1] = total
    return total


@kernel
def copy_texts(where, ends, out):
    """The bytes of texts one after the other."""
    n, base = len(where), out.ctypes.data
    for i in range(n):
        prefetch(where[min(i + AHEAD, n - 1)])
        move8(base + ends[i], where[i], ends[i + 1] - ends[i])
