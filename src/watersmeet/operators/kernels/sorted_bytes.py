"""Byte strings in their order: finding some among sorted ones, and numbers in the same order."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel

SIGN = np.uint64(1 << 63)


@kernel
def first_bytes(data, offsets, out):
    """The first eight bytes of every slice as a number, in the order of the slices; what differs only behind them, or
    by zeros at the end, is equal."""
    for i in range(len(out)):
        start, end = offsets[i], offsets[i + 1]
        code = np.uint64(0)
        for p in range(start, start + 8):
            code = code << np.uint64(8)
            if p < end:
                code |= np.uint64(data[p])
        out[i] = np.int64(code ^ SIGN)


@kernel
def compare(left, a, a_end, right, b, b_end):
    """Below, at or above 0 as one slice of bytes comes before, equals or comes after another."""
    while a < a_end and b < b_end:
        if left[a] != right[b]:
            return -1 if left[a] < right[b] else 1
        a += 1
        b += 1
    return (a_end - a) - (b_end - b)


@kernel
def find_sorted(data, offsets, wanted, wanted_offsets, places, found):
    """The place of every wanted slice among sorted ones, and whether it is there; the wanted are sorted too."""
    count = len(offsets) - 1
    low = 0
    for i in range(len(places)):
        first, last = wanted_offsets[i], wanted_offsets[i + 1]
        # The wanted ascend, so each is looked for in ever larger steps from where the last one was.
        step, high = 1, low
        while high < count and compare(data, offsets[high], offsets[high + 1], wanted, first, last) < 0:
            low = high + 1
            high += step
            step *= 2
        high = min(high, count)
        while low < high:
            middle = (low + high) >> 1
            if compare(data, offsets[middle], offsets[middle + 1], wanted, first, last) < 0:
                low = middle + 1
            else:
                high = middle
        places[i] = low
        found[i] = low < count and compare(data, offsets[low], offsets[low + 1], wanted, first, last) == 0
