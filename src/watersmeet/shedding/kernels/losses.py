"""Which combinations are whole, and which rows lost one. Without branches: what is whole is anyone's guess."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def only_in_memory(members, slot_of, whole):
    """Clear `whole[i]` where the member of a combination has no memory any more."""
    for i in range(members.size):
        whole[i] &= slot_of[members[i]] >= 0


@njit(cache=True)
def keep_whole(numbers, whole):
    """Move the combinations that are whole to the front; returns how many there are."""
    kept = 0
    for i in range(whole.size):
        for k in range(numbers.shape[0]):
            numbers[k, kept] = numbers[k, i]
        kept += whole[i]
    return kept


@njit(cache=True)
def note_flaws(members, whole, flawed):
    """Mark the members of combinations that are not whole as incomplete; returns how many were not before."""
    noted = 0
    for i in range(members.size):
        before = flawed[members[i]]
        lost = np.uint8(1) - np.uint8(whole[i])
        noted += lost & (np.uint8(1) - before)
        flawed[members[i]] = before | lost
    return noted
