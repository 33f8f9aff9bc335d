"""The HW-join (H02 section 3.1.2): the pipeline with a hash table on either side of each node.

A table is an arena of entries, chained by bucket from new to old, with the freed ones in a chain of their own. An
entry keeps its hash and what the window tests need, so that most candidates are decided without looking at rows.
Dead entries are deleted when a probe meets them. Buckets that no probe has visited since the last sweep are swept,
after as many arrivals as there are buckets (and at least PURGE_EVERY).
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import combine
from watersmeet.operators.kernels.memory import load64, store64
from watersmeet.papers.joins.contract import (
    ATTRIBUTE_COMPARISONS,
    INSERTED,
    INVALIDATED,
    INVALIDATION_COMPARISONS,
    RESULTS,
    SCANNED,
    WINDOW_COMPARISONS,
)
from watersmeet.papers.joins.kernels.nested import (
    BOUND_CODES,
    BOUND_INPUT,
    NEVER,
    OWN_CODES,
    SERIAL,
    TEST_FIELDS,
    TIME,
    bind,
    fits,
)
from watersmeet.papers.joins.kernels.pipeline import (
    AT_ARRIVAL,
    BASE,
    COUNTED,
    CURSOR,
    DONE,
    ENTERING,
    EPOCH,
    GROWING,
    HASH,
    HIGH,
    INPUTS,
    IS_FULL,
    KEYS,
    LAST,
    LAZY,
    LEVEL,
    LOW,
    MUST_GROW,
    POSITIONS,
    PREVIOUS,
    PROVEN,
    PURGE_ALL,
    PURGE_EVERY,
    SINCE_PURGE,
    SPANS,
    TESTS,
    any_dead,
    bind_members,
    death_of,
    emit,
    is_out_left,
    is_out_right,
    limit,
    set_period,
)

# tables[2 * k + side]
ARENA, COUNT, ROOM, FREE, HEADS, BUCKETS = range(6)
TABLE_FIELDS = 6
LEFT, RIGHT = range(2)

# heads[bucket]: the newest entry, and the epoch in which a probe last came by
NEWEST_ENTRY, PROBED = range(2)
HEAD_FIELDS = 2

# an entry; a right row has its time as ENTRY_LOW, a free entry -1 as its first member
NEXT, KEY, ENTRY_LOW, ENTRY_HIGH, MEMBERS = range(5)


@kernel
def width_of(k, side):
    return MEMBERS + (k if side == LEFT else 1)


@kernel
def table_of(tables, k, side):
    return tables + 8 * TABLE_FIELDS * (2 * k + side)


@kernel
def entry_at(table, width, slot):
    return load64(table, ARENA) + 8 * width * slot


@kernel
def bucket_of(key, buckets):
    """Any number of buckets up to 2**31: the upper half of the hash, scaled."""
    return np.int64(((np.uint64(key) >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32))


@kernel
def head_of(table, bucket):
    return load64(table, HEADS) + 8 * HEAD_FIELDS * bucket


@kernel
def left_key(plan, state, k):
    """The hash of the members' codes that node k asks to be equal."""
    h = np.uint64(0)
    for i in range(load64(plan, KEYS + 2 * k), load64(plan, KEYS + 2 * k + 1)):
        test = load64(plan, TESTS) + 8 * TEST_FIELDS * i
        h = combine(h, load64(load64(test, BOUND_CODES), load64(state, SERIAL + load64(test, BOUND_INPUT))))
    return np.int64(h)


@kernel
def right_key(plan, k, serial):
    """The hash of a right row's codes that node k asks to be equal."""
    h = np.uint64(0)
    for i in range(load64(plan, KEYS + 2 * k), load64(plan, KEYS + 2 * k + 1)):
        h = combine(h, load64(load64(load64(plan, TESTS) + 8 * TEST_FIELDS * i, OWN_CODES), serial))
    return np.int64(h)


@kernel
def new_entry(table, width, key, low, high):
    """An entry at the head of its bucket, or 0 if the arena is full."""
    slot = load64(table, FREE)
    if slot >= 0:
        store64(table, FREE, load64(entry_at(table, width, slot), NEXT))
    else:
        slot = load64(table, COUNT)
        if slot == load64(table, ROOM):
            return 0
        store64(table, COUNT, slot + 1)
    entry = entry_at(table, width, slot)
    head = head_of(table, bucket_of(key, load64(table, BUCKETS)))
    store64(entry, NEXT, load64(head, NEWEST_ENTRY))
    store64(head, NEWEST_ENTRY, slot)
    store64(entry, KEY, key)
    store64(entry, ENTRY_LOW, low)
    store64(entry, ENTRY_HIGH, high)
    return entry


@kernel
def delete(table, width, bucket, previous, slot):
    """Take an entry out of its chain; `previous` is the one before it, or -1."""
    entry = entry_at(table, width, slot)
    following = load64(entry, NEXT)
    if previous < 0:
        store64(head_of(table, bucket), NEWEST_ENTRY, following)
    else:
        store64(entry_at(table, width, previous), NEXT, following)
    store64(entry, NEXT, load64(table, FREE))
    store64(entry, MEMBERS, -1)
    store64(table, FREE, slot)


@kernel
def is_out(plan, state, k, side, entry):
    """Whether nothing to come from the other side can match an entry."""
    if side == RIGHT:
        dies = death_of(plan, k, load64(entry, MEMBERS))
        return is_out_right(plan, state, k, load64(entry, ENTRY_LOW), dies)
    return is_out_left(plan, state, k, load64(entry, ENTRY_LOW), load64(entry, ENTRY_HIGH), entry + 8 * MEMBERS)


@kernel
def start_probe(tables, state, k, side, key):
    table = table_of(tables, k, side)
    head = head_of(table, bucket_of(key, load64(table, BUCKETS)))
    store64(head, PROBED, load64(state, EPOCH))
    store64(state, HASH + k, key)
    store64(state, CURSOR + k, load64(head, NEWEST_ENTRY))
    store64(state, PREVIOUS + k, -1)


@kernel
def next_in_bucket(plan, tables, state, k, side, counts):
    """Bind the next entry on one side of node k that matches what is bound on the other; False if none is left."""
    tests, first, past = load64(plan, TESTS), load64(plan, SPANS + 2 * k), load64(plan, SPANS + 2 * k + 1)
    table, width, key = table_of(tables, k, side), width_of(k, side), load64(state, HASH + k)
    bucket, lazy = bucket_of(key, load64(table, BUCKETS)), load64(plan, LAZY)
    slot, previous = load64(state, CURSOR + k), load64(state, PREVIOUS + k)
    low, high, t = load64(state, LOW + k), load64(state, HIGH + k), load64(state, TIME + k)
    scanned = deleted = attributes = 0
    found = False
    while slot >= 0 and not found:
        entry = entry_at(table, width, slot)
        following = load64(entry, NEXT)
        scanned += 1
        # A lazy table (XJoin) may hold dead entries; they lie outside the period, so they are not taken for partners.
        if not lazy and is_out(plan, state, k, side, entry):
            delete(table, width, bucket, previous, slot)
            deleted += 1
            slot = following
            continue
        if side == RIGHT:
            inside = low <= load64(entry, ENTRY_LOW) <= high
        else:
            inside = load64(entry, ENTRY_LOW) <= t <= load64(entry, ENTRY_HIGH)
        if inside:
            # The hash stands for the attributes here; `fits` tests the codes themselves where it is equal.
            attributes += 1
            if load64(entry, KEY) == key:
                if side == RIGHT:
                    serial = load64(entry, MEMBERS)
                    bind(state, k, serial, load64(entry, ENTRY_LOW))
                else:
                    serial = load64(state, SERIAL + k)
                    bind_members(plan, state, k, entry + 8 * MEMBERS)
                found = fits(tests, first, past, serial, state)
        previous, slot = slot, following
    store64(state, CURSOR + k, slot)
    store64(state, PREVIOUS + k, previous)
    counts[SCANNED] += scanned
    counts[INVALIDATED] += deleted
    if not lazy:
        counts[INVALIDATION_COMPARISONS] += scanned
    counts[WINDOW_COMPARISONS] += scanned - deleted
    counts[ATTRIBUTE_COMPARISONS] += attributes
    return found


@kernel
def keep_left(tables, state, k, key, counts):
    """Put the members bound so far into the left table of node k; False if it is full."""
    table, width = table_of(tables, k, LEFT), width_of(k, LEFT)
    entry = new_entry(table, width, key, load64(state, LOW + k), load64(state, HIGH + k))
    if entry == 0:
        return False
    for u in range(k):
        store64(entry, MEMBERS + u, load64(state, SERIAL + u))
    counts[INSERTED] += 1
    return True


@kernel
def take_in(plan, tables, state, k, serial, t, counts):
    """A new row: kept in the right table of its node, and the level at which it starts. False if there is no room."""
    store64(state, LAST + k, max(load64(state, LAST + k), min(t, load64(plan, PROVEN))))
    bind(state, k, serial, t)
    store64(state, BASE, k)
    if k == 0:
        store64(state, ENTERING, 1)
        store64(state, LEVEL, 1)
        return True
    key = right_key(plan, k, serial)
    entry = new_entry(table_of(tables, k, RIGHT), width_of(k, RIGHT), key, t, NEVER)
    # Nothing was changed that doing it again would make wrong: LEVEL is still 0, so the row is taken in anew.
    if entry == 0:
        store64(state, GROWING, 2 * k + RIGHT)
        return False
    store64(entry, MEMBERS, serial)
    counts[INSERTED] += 1
    start_probe(tables, state, k, LEFT, key)
    store64(state, LEVEL, k)
    return True


@kernel
def climb(plan, tables, state, counts, out, count):
    """Go on with the row taken in: depth first up the pipeline. LEVEL is 0 when it is through."""
    inputs, base, level = load64(plan, INPUTS), load64(state, BASE), load64(state, LEVEL)
    outcome = DONE
    while level > 0:
        if count == out.shape[1]:
            outcome = IS_FULL
            break
        if load64(state, ENTERING):
            if set_period(plan, state, level):
                key = left_key(plan, state, level)
                if not keep_left(tables, state, level, key, counts):
                    store64(state, GROWING, 2 * level + LEFT)
                    outcome = MUST_GROW
                    break
                # Left tables get entries only above the node whose left table is walked, and the walks above are in
                # right ones: no chain changes under a walk, and no table grows that one is in.
                start_probe(tables, state, level, RIGHT, key)
            else:
                store64(state, CURSOR + level, -1)
            store64(state, ENTERING, 0)
        side = LEFT if level == base else RIGHT
        if not next_in_bucket(plan, tables, state, level, side, counts):
            level = level - 1 if level > max(base, 1) else 0
        elif level + 1 == inputs:
            count = emit(plan, state, counts, out, count)
        else:
            level += 1
            store64(state, ENTERING, 1)
    store64(state, LEVEL, level)
    return outcome, count


@kernel
def sweep(plan, tables, state, k, side, counts):
    """Delete the dead of the buckets that were not probed since the last sweep, or of all buckets."""
    table, width = table_of(tables, k, side), width_of(k, side)
    everything, epoch = load64(plan, PURGE_ALL), load64(state, EPOCH)
    for bucket in range(load64(table, BUCKETS)):
        head = head_of(table, bucket)
        # A probe has deleted the dead of this bucket since.
        if not everything and load64(head, PROBED) == epoch:
            continue
        previous, slot = np.int64(-1), load64(head, NEWEST_ENTRY)
        while slot >= 0:
            entry = entry_at(table, width, slot)
            following = load64(entry, NEXT)
            counts[INVALIDATION_COMPARISONS] += 1
            if is_out(plan, state, k, side, entry):
                delete(table, width, bucket, previous, slot)
                counts[INVALIDATED] += 1
            else:
                previous = slot
            slot = following


@kernel
def sweep_if_due(plan, tables, state, counts):
    inputs = load64(plan, INPUTS)
    since, due = load64(state, SINCE_PURGE) + 1, load64(plan, PURGE_EVERY)
    if since >= due and not load64(plan, PURGE_ALL):
        buckets = 0
        for k in range(1, inputs):
            buckets += load64(table_of(tables, k, LEFT), BUCKETS) + load64(table_of(tables, k, RIGHT), BUCKETS)
        due = max(due, buckets)
    if since >= due:
        for k in range(1, inputs):
            sweep(plan, tables, state, k, LEFT, counts)
            sweep(plan, tables, state, k, RIGHT, counts)
        # All buckets count as not probed from here on, without touching them.
        store64(state, EPOCH, load64(state, EPOCH) + 1)
        since = 0
    store64(state, SINCE_PURGE, since)


@kernel
def hash_pipeline(streams, serials, times, arrivals, plan, tables, state, counts, out):
    """Fill `out[place, i]` with serials of combinations; returns the outcome and how many. Resumable."""
    count, outcome = 0, DONE
    at = load64(state, AT_ARRIVAL)
    while at < arrivals:
        if load64(state, LEVEL) == 0:
            k = load64(plan, POSITIONS + load64(streams, at))
            if not take_in(plan, tables, state, k, load64(serials, at), load64(times, at), counts):
                outcome = MUST_GROW
                break
        outcome, count = climb(plan, tables, state, counts, out, count)
        if outcome != DONE:
            break
        sweep_if_due(plan, tables, state, counts)
        at += 1
    store64(state, AT_ARRIVAL, at)
    counts[RESULTS] += count
    return outcome, count


@kernel
def relink(table, width):
    """Chain all entries anew after the number of buckets changed."""
    buckets = load64(table, BUCKETS)
    for bucket in range(buckets):
        store64(head_of(table, bucket), NEWEST_ENTRY, -1)
    for slot in range(load64(table, COUNT)):
        entry = entry_at(table, width, slot)
        if load64(entry, MEMBERS) >= 0:
            head = head_of(table, bucket_of(load64(entry, KEY), buckets))
            store64(entry, NEXT, load64(head, NEWEST_ENTRY))
            store64(head, NEWEST_ENTRY, slot)


@kernel
def held(plan, tables, inputs, now, totals):
    """Add up the rows held, by position, and behind them the m-tuples: what a row arriving now could still match, and
    the others."""
    for k in range(1, inputs):
        reach = -NEVER
        for u in range(k):
            reach = max(reach, limit(plan, k, u))
        for side in range(2):
            table, width = table_of(tables, k, side), width_of(k, side)
            for slot in range(load64(table, COUNT)):
                entry = entry_at(table, width, slot)
                if load64(entry, MEMBERS) < 0:
                    continue
                if side == RIGHT:
                    live = now <= load64(entry, ENTRY_LOW) + reach and now < death_of(plan, k, load64(entry, MEMBERS))
                else:
                    live = now <= load64(entry, ENTRY_HIGH)
                    if live and load64(plan, COUNTED):
                        live = not any_dead(plan, k, entry + 8 * MEMBERS, now)
                column = k if side == RIGHT else (0 if k == 1 else inputs)
                totals[0 if live else 1, column] += 1


@kernel
def oldest_members(tables, inputs, oldest):
    """Lower each position's oldest serial to the smallest one that a table still holds."""
    for k in range(1, inputs):
        for side in range(2):
            table, width = table_of(tables, k, side), width_of(k, side)
            for slot in range(load64(table, COUNT)):
                entry = entry_at(table, width, slot)
                if load64(entry, MEMBERS) < 0:
                    continue
                for u in range(k if side == LEFT else 1):
                    position = u if side == LEFT else k
                    oldest[position] = min(oldest[position], load64(entry, MEMBERS + u))
