"""The memory of rows: `slot_of[position]` is the slot of a row of the store, or GONE; `free` is a stack of slots.

Who has a slot and who has none is anyone's guess, so there are no branches on it: `free` has room for one more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from watersmeet.compiling import kernel

Slots = npt.NDArray[np.int32]
GONE = np.int32(-1)
PROMISED = np.int32(-2)  # a row that is to have a slot, if none that is worth more takes it
GROWTH = 1.25  # by how much arrays grow of which each slot has a part


@kernel
def take_slots(slot_of, first, last, free, left):
    """Give slots to the rows at first..last-1, of which there must be enough; returns how many are left."""
    for p in range(first, last):
        left -= 1
        slot_of[p] = free[left]
    return left


@kernel
def give_back(slot_of, positions, free, left):
    """Take the slots of rows back, from those that have one; returns how many are free now."""
    for p in positions:
        free[left] = slot_of[p]
        left += slot_of[p] >= 0
        slot_of[p] = GONE
    return left


@kernel
def give_back_between(slot_of, first, last, free, left):
    """The same of the rows at first..last-1."""
    for p in range(first, last):
        free[left] = slot_of[p]
        left += slot_of[p] >= 0
        slot_of[p] = GONE
    return left


@kernel
def keep_promises(slot_of, first, last, free, left, winners, slots):
    """Give slots to the rows at first..last-1 that are promised one. Fills in which these are, counted from the first,
    and their slots; there must be room for one more. Returns how many slots are left."""
    many = np.int64(0)
    for i in range(last - first):
        winners[many] = i
        many += slot_of[np.uint64(first + i)] == PROMISED
    left -= many
    for k in range(many):
        slots[k] = free[left + k]
        slot_of[first + winners[k]] = slots[k]
    return left


@kernel
def slots_at(slot_of, positions, slots):
    """The slots of rows that have one."""
    for i in range(positions.size):
        slots[i] = slot_of[np.uint64(positions[i])]


@kernel
def scatter(values, slots, data):
    """Put values into their slots."""
    for i in range(slots.size):
        values[slots[i]] = data[i]


@kernel
def scatter_some(values, slots, data, chosen):
    """Put some of the values into their slots."""
    for i in range(slots.size):
        values[slots[i]] = data[np.uint64(chosen[i])]
