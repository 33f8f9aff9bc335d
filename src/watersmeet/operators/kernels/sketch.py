"""How many different values there are, in a fixed small space: HyperLogLog."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import GOLDEN, finish

# The standard error is 1.04 / sqrt(REGISTERS), 2.3 %.
BITS = 11
REGISTERS = 1 << BITS


@kernel
def note_values(codes, registers):
    """Each register keeps the longest run of leading zeros among the hashes that fall to it."""
    for i in range(codes.size):
        h = finish(np.uint64(codes[i]) * GOLDEN)
        slot = h >> np.uint64(64 - BITS)
        # A bit is put below those that are left, which ends the loop where they are all zero.
        rest = (h << np.uint64(BITS)) | np.uint64(1 << (BITS - 1))
        # Nearly all runs are no longer than the longest so far, which one shift tells; to count them takes longer.
        if (rest >> np.uint64(1)) >> np.uint64(63 - registers[slot]):
            continue
        zeros = 1
        while not rest >> np.uint64(63):
            rest <<= np.uint64(1)
            zeros += 1
        registers[slot] = zeros


def estimated_values(registers):
    """The number of values noted; small ones are counted by the registers still empty."""
    m = float(registers.size)
    empty = int(np.count_nonzero(registers == 0))
    # The constant for 128 registers and more, and the bound for counting empty ones, are those of the paper on
    # HyperLogLog (2007).
    raw = 0.7213 / (1 + 1.079 / m) * m * m / float(np.sum(np.exp2(-registers.astype(np.float64))))
    if raw <= 2.5 * m and empty:
        return m * float(np.log(m / empty))
    return raw
