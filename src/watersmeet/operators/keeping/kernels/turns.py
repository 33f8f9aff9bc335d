"""Combinations of rows that came in turns, and lost their memory after turns: what is whole is told by both.

While rows are in hand (see keeping.turns) those that come, and those that go meanwhile, have a number of their own in
`slot_of`, from IN_HAND downwards. Below zero, what stands there is where `came` and `gone` have a row, so there are no
branches: of all rows that have memory place 0, of all that were GONE before place 1.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel

IN_HAND = np.int32(-3)  # the first of the rows in hand, then downwards
OTHERS = 3  # places of rows that are not in hand
BEFORE = np.int32(-1)  # came before the first turn, or was gone then
NEVER = np.int32((1 << 31) - 1)


@kernel(borrows=True)
def meet_turns(members, slot_of, came, gone, last, first):
    """Of combinations, with a member each: raise `last` to the turn in which it came, lower `first` to that after which
    it was gone."""
    for i in range(members.size):
        place = np.uint64(max(-slot_of[np.uint64(members[i])], np.int32(0)))
        last[i] = max(last[i], came[place])
        first[i] = min(first[i], gone[place])


@kernel(borrows=True)
def begin_turns(rows, came, gone, last, first):
    """The same for new rows, the first of each combination."""
    for i in range(rows.size):
        place = np.uint64(rows[i] + OTHERS)
        last[i] = came[place]
        first[i] = gone[place]


@kernel(borrows=True)
def lost_in_turns(last, first, lost):
    """Of which combinations a member was gone when the last one came."""
    for i in range(last.size):
        lost[i] = first[i] < last[i]


@kernel(borrows=True)
def mark_from(members, start, marks):
    """Mark combinations with a member from a position on."""
    for i in range(members.size):
        marks[i] |= members[i] >= start


@kernel(borrows=True)
def slots_before(slot_of, positions, new, old, slots):
    """The slots of rows that had one before the first turn: `old` has those of rows that lost it since, which come
    after as many new ones."""
    for i in range(positions.size):
        slot = slot_of[np.uint64(positions[i])]
        slots[i] = slot if slot >= 0 else old[np.uint64(IN_HAND - slot - new)]
