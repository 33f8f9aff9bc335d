"""Which tuples of a state are there when: for each tuple that comes, first those that have expired are looked for.

The state: `value`, `number` and `stamps` of each slot; `older` and `newer` chain the slots of one value between
`newest` and `oldest`; `turn[bounds[0]:bounds[1]]` are the slots in the order in which they are looked at;
`free[:bounds[2]]` are those not in use.
"""

from __future__ import annotations

from watersmeet.compiling import kernel

ENTERED, EXPIRED, WITHDRAWN = 0, 1, 2
NONE = -1


@kernel
def link(slot, value, newest, oldest, older, newer):
    """Put a slot in front of the chain of its value."""
    head = newest[value]
    older[slot] = head
    newer[slot] = NONE
    if head == NONE:
        oldest[value] = slot
    else:
        newer[head] = slot
    newest[value] = slot


@kernel
def unlink(slot, value, newest, oldest, older, newer):
    before, after = newer[slot], older[slot]
    if before == NONE:
        newest[value] = after
    else:
        older[before] = after
    if after == NONE:
        oldest[value] = before
    else:
        newer[after] = before


@kernel
def smallest(stamps, slot):
    low = stamps[slot, 0]
    for j in range(1, stamps.shape[1]):
        low = min(low, stamps[slot, j])
    return low


@kernel
def first_end(stamps, windows, slot):
    end = stamps[slot, 0] + windows[0]
    for j in range(1, stamps.shape[1]):
        end = min(end, stamps[slot, j] + windows[j])
    return end


@kernel
def expire_from_front(clock, window, stamps, turn, bounds, found, ends, work):
    """With a single window: slots lie by minTS, and a look at the first that stays ends the search."""
    count = 0
    while bounds[0] < bounds[1]:
        slot = turn[bounds[0]]
        work[0] += 1
        end = smallest(stamps, slot) + window
        if end > clock:
            break
        found[count], ends[count] = slot, end
        count += 1
        bounds[0] += 1
    return count


@kernel
def expire_by_scan(clock, windows, stamps, turn, bounds, found, ends, work):
    """With several windows: there is no common order, so all slots are scanned, every timestamp against its window."""
    count, kept = 0, bounds[0]
    for place in range(bounds[0], bounds[1]):
        slot = turn[place]
        gone = False
        for j in range(stamps.shape[1]):
            work[0] += 1
            if stamps[slot, j] + windows[j] <= clock:
                gone = True
                break
        if not gone:
            turn[kept] = slot
            kept += 1
            continue
        end = first_end(stamps, windows, slot)
        at = count  # by the instants at which they end
        while at > 0 and ends[at - 1] > end:
            found[at], ends[at] = found[at - 1], ends[at - 1]
            at -= 1
        found[at], ends[at] = slot, end
        count += 1
    bounds[1] = kept
    return count


@kernel
def take_turn(slot, stamps, turn, bounds, sorted_):
    """The last place, or with a single window the one that its minTS gives it."""
    place = bounds[1]
    if sorted_:
        low = smallest(stamps, slot)
        while place > bounds[0] and smallest(stamps, turn[place - 1]) > low:
            turn[place] = turn[place - 1]
            place -= 1
    turn[place] = slot
    bounds[1] += 1


@kernel
def leave_turn(slot, turn, bounds):
    place = bounds[0]
    while turn[place] != slot:
        place += 1
    for i in range(place, bounds[1] - 1):
        turn[i] = turn[i + 1]
    bounds[1] -= 1


@kernel
def find_slot(value, wanted, number, newest, oldest, older, newer, work):
    """By value: the oldest one with the number wanted. Numbers below 0 only say from where tuples came."""
    slot = oldest[value]
    while slot != NONE and number[slot] != wanted:
        work[0] += 1
        slot = newer[slot]
    work[0] += 1
    return slot


@kernel
def in_turn(
    instants, kinds, values, numbers, given, last_clock, windows, by_time, single,
    value, number, stamps, newest, oldest, older, newer, turn, bounds, free,
    found, ends, slots, at, causes, work,
):  # fmt: skip
    """All that happens in a state while these tuples come and the clock goes on to `last_clock`, in order: `slots`, the
    instant `at` which each enters or leaves, and the `causes`. Returns how many."""
    made = 0
    for i in range(len(instants) + 1):
        if by_time:
            clock = instants[i] if i < len(instants) else last_clock
            if single:
                gone = expire_from_front(clock, windows[0], stamps, turn, bounds, found, ends, work)
            else:
                gone = expire_by_scan(clock, windows, stamps, turn, bounds, found, ends, work)
            for k in range(gone):
                slot = found[k]
                unlink(slot, value[slot], newest, oldest, older, newer)
                slots[made], at[made], causes[made] = slot, ends[k], EXPIRED
                made += 1
        if i == len(instants):
            break
        if kinds[i] > 0:
            bounds[2] -= 1
            slot = free[bounds[2]]
            value[slot], number[slot] = values[i], numbers[i]
            for j in range(stamps.shape[1]):
                stamps[slot, j] = given[i, j]
            link(slot, values[i], newest, oldest, older, newer)
            if by_time:
                take_turn(slot, stamps, turn, bounds, single)
            slots[made], at[made], causes[made] = slot, instants[i], ENTERED
            made += 1
            continue
        slot = find_slot(values[i], numbers[i], number, newest, oldest, older, newer, work)
        if slot == NONE:
            continue  # it has expired at the same instant
        unlink(slot, values[i], newest, oldest, older, newer)
        if by_time:
            leave_turn(slot, turn, bounds)
        slots[made], at[made], causes[made] = slot, instants[i], WITHDRAWN
        made += 1
    return made
