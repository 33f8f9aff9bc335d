"""Which rows are the first of their keys within a while, as they arrive.

The times of the rows that were taken lie under small numbers (slots); those of one key are linked: `heads[key]` is the
latest taken, or -1, and `following[slot]` the one taken before it.
"""

from __future__ import annotations

from watersmeet.compiling import kernel


@kernel
def take_firsts(keys, times, within, until, heads, following, taken_us, slots, first, gone):
    """Go through rows as they came: a row is the first if none was taken whose time is at most `within` away. Times
    that no row to come can reach (none comes before `until`) are let go of on the way.

    Returns how many of `slots` were used, and how many are `gone`.
    """
    used = dropped = 0
    for i in range(len(keys)):
        key, time = keys[i], times[i]
        known = False
        before = -1
        slot = heads[key]
        while slot >= 0:
            older = following[slot]
            if taken_us[slot] + within < until:
                if before < 0:
                    heads[key] = older
                else:
                    following[before] = older
                gone[dropped] = slot
                dropped += 1
            else:
                known = known or abs(time - taken_us[slot]) <= within
                before = slot
            slot = older
        first[i] = not known
        if not known:
            slot = slots[used]
            used += 1
            taken_us[slot] = time
            following[slot] = heads[key]
            heads[key] = slot
    return used, dropped


@kernel
def were_taken(keys, times, heads, following, taken_us, found):
    """Whether a row of this key and time was taken."""
    for i in range(len(keys)):
        slot = heads[keys[i]]
        while slot >= 0 and taken_us[slot] != times[i]:
            slot = following[slot]
        found[i] = slot >= 0


@kernel
def let_go(within, until, heads, following, taken_us, gone):
    """Let go of all times that no row to come can reach; returns how many."""
    dropped = 0
    for key in range(len(heads)):
        before = -1
        slot = heads[key]
        while slot >= 0:
            older = following[slot]
            if taken_us[slot] + within < until:
                if before < 0:
                    heads[key] = older
                else:
                    following[before] = older
                gone[dropped] = slot
                dropped += 1
            else:
                before = slot
            slot = older
    return dropped
