"""Which combinations are whole, and which rows lost one. Without branches: what is whole is anyone's guess."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel


@kernel
def look_up(members, slot_of, lost):
    """Set `lost[i]` where the member of a combination has no memory any more."""
    for i in range(members.size):
        # Of an unsigned index Numba need not ask whether it is negative.
        lost[i] |= slot_of[np.uint64(members[i])] < 0


@kernel
def take_apart(numbers, lost, of_lost):
    """Move the numbers of what is not lost to the front, and the others to `of_lost`, which has room for
    one more."""
    kept = gone = np.uint64(0)
    for i in range(np.uint64(lost.size)):
        number, away = numbers[i], np.uint64(lost[i])
        numbers[kept] = number
        of_lost[gone] = number
        gone += away
        kept = i + np.uint64(1) - gone


@kernel
def note_flaws(rows, flawed):
    """Mark rows as incomplete; returns how many were not before."""
    noted = np.int64(0)
    for i in range(rows.size):
        row = np.uint64(rows[i])
        noted += 1 - np.int64(flawed[row])
        flawed[row] = 1
    return noted
