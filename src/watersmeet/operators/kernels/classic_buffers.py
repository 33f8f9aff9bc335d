"""The buffers of the papers' joins: rows in the order they came, in one list per window or in hash buckets.

A list is a range of serials, as rows enter at its end and leave at its start. A bucket is a linked list of slots in
an arena, each with the row's serial, time and first key code, so that a probe reads one place per row; slots that
rows leave are used again. What is looked at and done is counted here, exactly.

Everything is reached through one vector of int64s, the *plan*, most of them addresses of the tables below; they are
filled in by operators.classic.loops.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from watersmeet.operators.kernels.hashing import combine, finish
from watersmeet.operators.kernels.memory import load64, store64

MAX_DEPTH = 8
NO_LIMIT = np.int64(2**62)  # as in operators.program

# plan: where the tables lie, how large they are, when the next pass over all buffers is due, which arrival this is
INPUTS, TABLES, KEYS, STEPS, TESTS, ORIGIN_DEPTHS, LIMITS, STATE, COUNTS = range(9)
INPUT_COUNT, ALTERNATIVES, PASS_EVERY, NEXT_PASS, ARRIVAL = range(9, 14)
PLAN_FIELDS = 14

# inputs[j]: rows before NEXT are in the buffers, those before FIRST can match nothing that is still to come and may
# have left the store; NEW_FROM to NEW_TO are the new rows of a walk
NEXT, RETENTION, COUNTING, FIRST, NEW_FROM, NEW_TO, INVALIDATE, TABLE_FROM, TABLE_TO, TIMES_AT, DEATHS_AT = range(11)
INPUT_FIELDS = 11
BY_TIME, BY_ROWS, BY_PARTITION = range(3)  # COUNTING: what makes a row leave its window
# INVALIDATE: which buckets of an input lose their expired rows when a row arrives
NONE, PROBE, PROBE_INSERT, PROBE_ALL, ALL, INSERT_ONLY = range(6)

# tables[t]: a buffer of one input; BUCKETS = 0 is a list, of which OLDEST is the first serial; MARK_… say which
# bucket was seen to in which arrival
OF_INPUT, BUCKETS, KEY_FROM, KEY_TO, PLAIN, HEADS, SLOTS, FREE, USED, OLDEST, MARK_ARRIVAL, MARK_BUCKET = range(12)
TABLE_FIELDS = 12
HEAD, TAIL, FIRST_NEW = range(3)  # of a bucket: its oldest, newest and first new slot, or -1
HEAD_FIELDS = 3
SERIAL, TIME, FOLLOWING, CODE = range(4)  # of a slot
SLOT_FIELDS = 4

# counts, as in operators.classic.contract
ATTRIBUTE_COMPARISONS, WINDOW_COMPARISONS, SCANNED, INSERTED, INVALIDATED, INVALIDATION_COMPARISONS, RESULTS = range(7)


@njit(cache=True)
def of_input(plan, j, field):
    return load64(load64(plan, INPUTS), j * INPUT_FIELDS + field)


@njit(cache=True)
def put_input(plan, j, field, value):
    store64(load64(plan, INPUTS), j * INPUT_FIELDS + field, value)


@njit(cache=True)
def of_table(plan, t, field):
    return load64(load64(plan, TABLES), t * TABLE_FIELDS + field)


@njit(cache=True)
def put_table(plan, t, field, value):
    store64(load64(plan, TABLES), t * TABLE_FIELDS + field, value)


@njit(cache=True)
def add(plan, what, amount):
    counts = load64(plan, COUNTS)
    store64(counts, what, load64(counts, what) + amount)


@njit(cache=True)
def spread(hash_so_far, buckets):
    """A bucket number from a hash of several codes, or of one whose low bits may all be alike."""
    return np.int64(finish(hash_so_far) % np.uint64(buckets))


@njit(cache=True)
def bucket_of_row(plan, t, serial):
    """Where a row belongs; an integer key goes to the bucket of its remainder, as in the papers."""
    buckets, first, past = of_table(plan, t, BUCKETS), of_table(plan, t, KEY_FROM), of_table(plan, t, KEY_TO)
    keys = load64(plan, KEYS)
    if of_table(plan, t, PLAIN):
        return load64(load64(keys, first), serial) % buckets
    h = np.uint64(0)
    for i in range(first, past):
        h = combine(h, load64(load64(keys, i), serial))
    return spread(h, buckets)


@njit(cache=True)
def drop_head(plan, t, bucket):
    """Free the oldest slot of a bucket; the slot that is now its oldest."""
    head, slots = of_table(plan, t, HEADS) + 8 * HEAD_FIELDS * bucket, of_table(plan, t, SLOTS)
    slot = load64(head, HEAD)
    following = load64(slots, slot * SLOT_FIELDS + FOLLOWING)
    store64(head, HEAD, following)
    if following < 0:
        store64(head, TAIL, following)
    if load64(head, FIRST_NEW) == slot:
        store64(head, FIRST_NEW, following)
    store64(slots, slot * SLOT_FIELDS + FOLLOWING, of_table(plan, t, FREE))
    put_table(plan, t, FREE, slot)
    put_table(plan, t, USED, of_table(plan, t, USED) - 1)
    return following


@njit(cache=True)
def expire_bucket(plan, t, bucket, now):
    """Remove the expired rows of one bucket, oldest first: one look at each, and one at the first that stays."""
    j = of_table(plan, t, OF_INPUT)
    retention = of_input(plan, j, RETENTION)
    if retention >= NO_LIMIT:
        return
    looked = removed = 0
    if of_table(plan, t, BUCKETS) == 0:
        times, end, first = of_input(plan, j, TIMES_AT), of_input(plan, j, NEXT), of_input(plan, j, FIRST)
        serial = of_table(plan, t, OLDEST)
        while serial < end:
            looked += 1
            if serial >= first and load64(times, serial) + retention >= now:
                break
            serial += 1
            removed += 1
        put_table(plan, t, OLDEST, serial)
    else:
        slots = of_table(plan, t, SLOTS)
        slot = load64(of_table(plan, t, HEADS), bucket * HEAD_FIELDS + HEAD)
        while slot >= 0:
            looked += 1
            if load64(slots, slot * SLOT_FIELDS + TIME) + retention >= now:
                break
            slot = drop_head(plan, t, bucket)
            removed += 1
    if looked:
        add(plan, INVALIDATION_COMPARISONS, looked)
        add(plan, INVALIDATED, removed)


@njit(cache=True)
def expire_table(plan, t, now):
    """Remove the expired rows of every bucket of a table."""
    for bucket in range(max(1, of_table(plan, t, BUCKETS))):
        expire_bucket(plan, t, bucket, now)


@njit(cache=True)
def expire_input(plan, j, now):
    for t in range(of_input(plan, j, TABLE_FROM), of_input(plan, j, TABLE_TO)):
        expire_table(plan, t, now)


@njit(cache=True)
def is_over(plan, j, serial, now):
    """Whether a row can match nothing that comes at `now` or later."""
    deaths = of_input(plan, j, DEATHS_AT)
    if deaths != 0 and load64(deaths, serial) <= now:
        return True
    return load64(of_input(plan, j, TIMES_AT), serial) + of_input(plan, j, RETENTION) < now


@njit(cache=True)
def advance_first(plan, j, now):
    """Move FIRST over the rows that are of no use from now on; they stay in the buffers until these are cleaned."""
    serial, end = of_input(plan, j, FIRST), of_input(plan, j, NEXT)
    while serial < end and is_over(plan, j, serial, now):
        serial += 1
    put_input(plan, j, FIRST, serial)


@njit(cache=True)
def drop_dead(plan, j, now):
    """Take the rows that have left a ROWS window out of every buffer.

    Their order is that of the stream, so each is the oldest of its bucket, wherever that is. As in a circular array
    nothing is compared for it. (Rows that died before an older one of another partition wait for their turn.)
    """
    serial, end = of_input(plan, j, FIRST), of_input(plan, j, NEXT)
    start = serial
    while serial < end and is_over(plan, j, serial, now):
        for t in range(of_input(plan, j, TABLE_FROM), of_input(plan, j, TABLE_TO)):
            if of_table(plan, t, BUCKETS) == 0:
                put_table(plan, t, OLDEST, serial + 1)
            else:
                drop_head(plan, t, bucket_of_row(plan, t, serial))
            add(plan, INVALIDATED, 1)
        serial += 1
    if serial != start:
        put_input(plan, j, FIRST, serial)


@njit(cache=True)
def pass_over(plan, now):
    """GO03's periodic expiration: look at every buffer of every window."""
    for j in range(load64(plan, INPUT_COUNT)):
        if of_input(plan, j, COUNTING) == BY_TIME:
            expire_input(plan, j, now)
            advance_first(plan, j, now)
        else:
            drop_dead(plan, j, now)


@njit(cache=True)
def append(plan, t, serial, time):
    """Put a row at the end of its bucket; the bucket."""
    add(plan, INSERTED, 1)
    if of_table(plan, t, BUCKETS) == 0:
        return np.int64(0)
    bucket = bucket_of_row(plan, t, serial)
    head, slots = of_table(plan, t, HEADS) + 8 * HEAD_FIELDS * bucket, of_table(plan, t, SLOTS)
    slot = of_table(plan, t, FREE)
    cell = slots + 8 * SLOT_FIELDS * slot
    put_table(plan, t, FREE, load64(cell, FOLLOWING))
    put_table(plan, t, USED, of_table(plan, t, USED) + 1)
    store64(cell, SERIAL, serial)
    store64(cell, TIME, time)
    store64(cell, FOLLOWING, np.int64(-1))
    store64(cell, CODE, load64(load64(load64(plan, KEYS), of_table(plan, t, KEY_FROM)), serial))
    tail = load64(head, TAIL)
    if tail < 0:
        store64(head, HEAD, slot)
    else:
        store64(slots, tail * SLOT_FIELDS + FOLLOWING, slot)
    store64(head, TAIL, slot)
    if load64(head, FIRST_NEW) < 0:
        store64(head, FIRST_NEW, slot)
    return bucket


@njit(cache=True)
def insert(plan, j, serial, time):
    """Put a row into every buffer of its input, then clean what is cleaned on insertion."""
    put_input(plan, j, NEXT, serial + 1)
    strategy = of_input(plan, j, INVALIDATE)
    for t in range(of_input(plan, j, TABLE_FROM), of_input(plan, j, TABLE_TO)):
        bucket = append(plan, t, serial, time)
        if strategy == PROBE_INSERT or strategy == INSERT_ONLY:
            expire_bucket(plan, t, bucket, time)
        elif strategy == ALL:
            expire_table(plan, t, time)


@njit(cache=True)
def keep(plan, streams, serials, times, start, end):
    """Only insert rows: those of a lazy join, of a static table, or taken back."""
    for a in range(start, end):
        j = streams[a]
        put_input(plan, j, NEXT, serials[a] + 1)
        for t in range(of_input(plan, j, TABLE_FROM), of_input(plan, j, TABLE_TO)):
            append(plan, t, serials[a], times[a])


@njit(cache=True)
def forget_new(plan):
    """From now on no row counts as new."""
    for j in range(load64(plan, INPUT_COUNT)):
        put_input(plan, j, NEW_FROM, of_input(plan, j, NEXT))
        for t in range(of_input(plan, j, TABLE_FROM), of_input(plan, j, TABLE_TO)):
            heads = of_table(plan, t, HEADS)
            for bucket in range(of_table(plan, t, BUCKETS)):
                store64(heads, bucket * HEAD_FIELDS + FIRST_NEW, np.int64(-1))


@njit(cache=True)
def mark_new(plan):
    """Where in each bucket the rows from NEW_FROM on begin; for rows that were kept before it was known."""
    for j in range(load64(plan, INPUT_COUNT)):
        new_from = of_input(plan, j, NEW_FROM)
        for t in range(of_input(plan, j, TABLE_FROM), of_input(plan, j, TABLE_TO)):
            heads, slots = of_table(plan, t, HEADS), of_table(plan, t, SLOTS)
            for bucket in range(of_table(plan, t, BUCKETS)):
                slot = load64(heads, bucket * HEAD_FIELDS + HEAD)
                while slot >= 0 and load64(slots, slot * SLOT_FIELDS + SERIAL) < new_from:
                    slot = load64(slots, slot * SLOT_FIELDS + FOLLOWING)
                store64(heads, bucket * HEAD_FIELDS + FIRST_NEW, slot)


@njit(cache=True)
def settle(plan, now, in_passes):
    """After eager arrivals: which rows are of no use any more. With passes that is known from the last one."""
    for j in range(load64(plan, INPUT_COUNT)):
        if of_input(plan, j, TABLE_FROM) == of_input(plan, j, TABLE_TO):
            put_input(plan, j, FIRST, of_input(plan, j, NEXT))
        elif of_input(plan, j, COUNTING) == BY_TIME and not in_passes:
            advance_first(plan, j, now)


@njit(cache=True)
def live_rows(plan, j, now):
    """How many rows of an input can still match a row that comes at `now`."""
    live = 0
    in_order = of_input(plan, j, COUNTING) != BY_PARTITION
    end = of_input(plan, j, NEXT)
    for serial in range(of_input(plan, j, FIRST), end):
        if not is_over(plan, j, serial, now):
            if in_order:
                return end - serial
            live += 1
    return live


@njit(cache=True)
def link_free(slots, first, last):
    """Chain the slots of a grown arena into the list of free ones."""
    for slot in range(first, last):
        slots[slot, FOLLOWING] = slot + 1


@njit(cache=True)
def first_later(times, low, high, time):
    """The first serial from low to high whose time is after `time`, or high; times ascend."""
    while low < high:
        middle = (low + high) >> 1
        if load64(times, middle) <= time:
            low = middle + 1
        else:
            high = middle
    return low
