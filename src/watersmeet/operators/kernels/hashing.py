"""Hashes of keys: one multiplication for the buckets, a byte-wise mix for values that are not integers."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel

# 2**64 divided by the golden ratio (Fibonacci hashing), and the two factors of splitmix64's last steps.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)


@kernel(inline="always")
def combine(hash_so_far, code):
    """Fold one more code into a hash; order matters."""
    # A product carries bits upwards only. Whoever wants a bucket takes the upper ones, or calls `finish`.
    return (hash_so_far ^ np.uint64(code)) * GOLDEN


@kernel(inline="always")
def finish(x):
    """Spread the bits so that any slice of them is fit to be a bucket number."""
    x = (x ^ (x >> np.uint64(30))) * MIX_1
    x = (x ^ (x >> np.uint64(27))) * MIX_2
    return x ^ (x >> np.uint64(31))


@kernel(borrows=True)
def hash_bytes(data, offsets, out):
    """A 64-bit hash of every slice data[offsets[i]:offsets[i + 1]]."""
    for i in range(len(out)):
        start, end = offsets[i], offsets[i + 1]
        # The length counts too, as zeros at the front of the last word do not. These hashes lie in checkpoints and
        # saved states as codes of text: others would be another format.
        h = np.uint64(end - start) * GOLDEN
        word = np.uint64(0)
        filled = 0
        for p in range(start, end):
            word = (word << np.uint64(8)) | np.uint64(data[p])
            filled += 1
            if filled == 8:
                h = finish(h ^ word)
                word = np.uint64(0)
                filled = 0
        out[i] = np.int64(finish(h ^ word))
