"""Values of any length in one array of bytes: those of a slot begin at `starts[slot]` and are `lengths[slot]` long, or
NULL if that is negative. Values lie in the order in which their rows came."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.memory import move8

NULL = np.int32(-1)


@kernel
def place(slots, offsets, valid, end, starts, lengths):
    """Note where values lie that were appended at `end`; without `valid` none of them is NULL."""
    for i in range(slots.size):
        slot = slots[i]
        starts[slot] = end + offsets[i] - offsets[0]
        lengths[slot] = offsets[i + 1] - offsets[i]
        if valid.size and not valid[i]:
            lengths[slot] = NULL


@kernel
def close_up(slots, starts, lengths, data):
    """Move the values of slots, given in the order in which their rows came, to the front; returns where they end."""
    end = np.int64(0)
    base = np.int64(data.ctypes.data)
    # In this order values only move towards the front, over bytes that none behind them lies on.
    for slot in slots:
        length = max(lengths[slot], 0)
        move8(base + end, base + starts[slot], np.int64(length))
        starts[slot] = end
        end += length
    return end


@kernel
def measure(slots, lengths, offsets):
    """Where the values of slots come to lie, one after another; returns how many of them are NULL."""
    nulls = 0
    offsets[0] = 0
    for i in range(slots.size):
        length = lengths[slots[i]]
        nulls += length < 0
        offsets[i + 1] = offsets[i] + max(length, 0)
    return nulls


@kernel
def collect(slots, starts, data, offsets, out):
    """Copy the values of slots to where they come to lie."""
    base, target = np.int64(data.ctypes.data), np.int64(out.ctypes.data)
    for i in range(slots.size):
        move8(target + offsets[i], base + starts[slots[i]], offsets[i + 1] - offsets[i])
