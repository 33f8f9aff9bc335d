"""The buffers of the papers' joins: rows in the order they came, in one list per window or in hash buckets.

A list is a range of serials, as rows enter at its end and leave at its start. A bucket is a block of an arena with
the rows' first key codes, times and serials side by side, from START to END; like a circular buffer it takes rows
at its end and loses them at its start, and when it has come to the end of its block it moves to the front, or to
a block that fits. So both are scanned as one piece of memory. What is looked at and done is counted, exactly.

Everything is reached through one vector of int64s, the *plan*, most of them addresses of the tables below; they are
filled in by operators.classic.loops.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import combine, finish
from watersmeet.operators.kernels.memory import load64, store64

MAX_DEPTH = 8  # plan/nodes.py refuses more inputs
NO_LIMIT = np.int64(2**62)  # as in operators.join.program

# plan: where the tables lie, how large they are, when the next pass over all buffers is due, which arrival this is,
# and which table's arena is full (-1: none)
INPUTS, TABLES, KEYS, STEPS, TESTS, ORIGIN_DEPTHS, LIMITS, STATE, COUNTS = range(9)
INPUT_COUNT, ALTERNATIVES, PASS_EVERY, NEXT_PASS, ARRIVAL, FULL_TABLE = range(9, 15)
PLAN_FIELDS = 15

# inputs[j]: rows before NEXT are in the buffers, those before FIRST can match nothing that is still to come and may
# have left the store; NEW_FROM to NEW_TO are the new rows of a walk
NEXT, RETENTION, COUNTING, FIRST, NEW_FROM, NEW_TO, INVALIDATE, TABLE_FROM, TABLE_TO, TIMES_AT, DEATHS_AT = range(11)
INPUT_FIELDS = 11
BY_TIME, BY_ROWS, BY_PARTITION = range(3)  # COUNTING: what makes a row leave its window
# INVALIDATE: which buckets of an input lose their expired rows when a row arrives
NONE, PROBE, PROBE_INSERT, PROBE_ALL, ALL, INSERT_ONLY = range(6)

# tables[t]: a buffer of one input. BUCKETS = 0 is a list, of which OLDEST is the first serial. Blocks for buckets are
# cut from the arena at ARENA_USED, or taken from FREE, the first free one of each size. MARK_… say which bucket was
# seen to in which arrival.
OF_INPUT, BUCKETS, KEY_FROM, KEY_TO, PLAIN, HEADS, ARENA, ARENA_SIZE, ARENA_USED, FREE, HELD, OLDEST = range(12)
MARK_ARRIVAL, MARK_BUCKET = range(12, 14)
TABLE_FIELDS = 14
BLOCK_AT, CAPACITY, START, END = range(4)  # of a bucket
HEAD_FIELDS = 4
SMALLEST_BLOCK = 4  # rows; every block has twice as many as that of the size before
BLOCK_SIZES = 48  # more doublings than any memory has room for
COLUMNS = 3  # of a block: CAPACITY codes, then as many times, then serials
CODES, TIMES, SERIALS = range(COLUMNS)

# counts, as in papers.joins.contract
ATTRIBUTE_COMPARISONS, WINDOW_COMPARISONS, SCANNED, INSERTED, INVALIDATED, INVALIDATION_COMPARISONS, RESULTS = range(7)


@kernel
def of_input(plan, j, field):
    return load64(load64(plan, INPUTS), j * INPUT_FIELDS + field)


@kernel
def put_input(plan, j, field, value):
    store64(load64(plan, INPUTS), j * INPUT_FIELDS + field, value)


@kernel
def of_table(plan, t, field):
    return load64(load64(plan, TABLES), t * TABLE_FIELDS + field)


@kernel
def put_table(plan, t, field, value):
    store64(load64(plan, TABLES), t * TABLE_FIELDS + field, value)


@kernel
def add(plan, what, amount):
    counts = load64(plan, COUNTS)
    store64(counts, what, load64(counts, what) + amount)


@kernel
def spread(hash_so_far, buckets):
    """A bucket number from a hash of several codes, or of one whose low bits may all be alike."""
    return np.int64(finish(hash_so_far) % np.uint64(buckets))


@kernel
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


@kernel
def head_of(plan, t, bucket):
    return of_table(plan, t, HEADS) + 8 * HEAD_FIELDS * bucket


@kernel
def column(plan, t, head, which):
    """Where a column of a bucket's block lies."""
    return of_table(plan, t, ARENA) + 8 * (load64(head, BLOCK_AT) + which * load64(head, CAPACITY))


@kernel
def size_class(rows):
    k = np.int64(0)
    while (SMALLEST_BLOCK << k) < rows:
        k += 1
    return k


@kernel
def take_block(plan, t, k):
    """A block of size class k, or -1 if the arena has no room for one."""
    free = of_table(plan, t, FREE)
    block = load64(free, k)
    if block >= 0:
        # Free blocks of one size are a chain through their first words.
        store64(free, k, load64(of_table(plan, t, ARENA), block))
        return block
    block, words = of_table(plan, t, ARENA_USED), COLUMNS * (SMALLEST_BLOCK << k)
    if block + words > of_table(plan, t, ARENA_SIZE):
        return np.int64(-1)
    put_table(plan, t, ARENA_USED, block + words)
    return block


@kernel
def give_block(plan, t, block, k):
    free = of_table(plan, t, FREE)
    store64(of_table(plan, t, ARENA), block, load64(free, k))
    store64(free, k, block)


@kernel
def copy_rows(arena, source, source_capacity, start, count, target, capacity):
    """Move the rows of a bucket to the front of a block, which may be its own."""
    for which in range(COLUMNS):
        here = arena + 8 * (source + which * source_capacity + start)
        there = arena + 8 * (target + which * capacity)
        for i in range(count):
            store64(there, i, load64(here, i))


@kernel
def make_room(plan, t, bucket):
    """See that a bucket can take one more row; False if the arena is full, which the plan then says."""
    head = head_of(plan, t, bucket)
    capacity, start, end = load64(head, CAPACITY), load64(head, START), load64(head, END)
    if end < capacity:
        return True
    count = end - start
    # Room for twice the rows: as many can be inserted before they are copied again.
    wanted = size_class(2 * count)
    arena, block = of_table(plan, t, ARENA), load64(head, BLOCK_AT)
    # A block more than four times as large as needed is given back, after a burst for example.
    fits_here = capacity > 0 and (SMALLEST_BLOCK << wanted) <= capacity <= 4 * (SMALLEST_BLOCK << wanted)
    if fits_here:
        # START is above 0 here, since a block that is full from 0 on does not fit: no row is overwritten unread.
        copy_rows(arena, block, capacity, start, count, block, capacity)
    else:
        moved = take_block(plan, t, wanted)
        if moved < 0:
            store64(plan, FULL_TABLE, np.int64(t))
            return False
        if capacity > 0:
            copy_rows(arena, block, capacity, start, count, moved, SMALLEST_BLOCK << wanted)
            give_block(plan, t, block, size_class(capacity))
        store64(head, BLOCK_AT, moved)
        store64(head, CAPACITY, np.int64(SMALLEST_BLOCK << wanted))
    store64(head, START, np.int64(0))
    store64(head, END, count)
    return True


@kernel
def have_room(plan, j, serial):
    """See that every buffer of an input can take one more row."""
    for t in range(of_input(plan, j, TABLE_FROM), of_input(plan, j, TABLE_TO)):
        if of_table(plan, t, BUCKETS) > 0 and not make_room(plan, t, bucket_of_row(plan, t, serial)):
            return False
    return True


@kernel
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
            # Rows before FIRST may have left the store: they are known to be dead, and their times must not be read.
            if serial >= first and load64(times, serial) + retention >= now:
                break
            serial += 1
            removed += 1
        put_table(plan, t, OLDEST, serial)
    else:
        head = head_of(plan, t, bucket)
        start, end = load64(head, START), load64(head, END)
        times = column(plan, t, head, TIMES)
        while start + removed < end:
            looked += 1
            if load64(times, start + removed) + retention >= now:
                break
            removed += 1
        if removed:
            store64(head, START, start + removed)
            put_table(plan, t, HELD, of_table(plan, t, HELD) - removed)
    if looked:
        add(plan, INVALIDATION_COMPARISONS, looked)
        add(plan, INVALIDATED, removed)


@kernel
def expire_table(plan, t, now):
    """Remove the expired rows of every bucket of a table."""
    for bucket in range(max(1, of_table(plan, t, BUCKETS))):
        expire_bucket(plan, t, bucket, now)


@kernel
def expire_input(plan, j, now):
    for t in range(of_input(plan, j, TABLE_FROM), of_input(plan, j, TABLE_TO)):
        expire_table(plan, t, now)


@kernel
def is_over(plan, j, serial, now):
    """Whether a row can match nothing that comes at `now` or later."""
    deaths = of_input(plan, j, DEATHS_AT)
    if deaths != 0 and load64(deaths, serial) <= now:
        return True
    return load64(of_input(plan, j, TIMES_AT), serial) + of_input(plan, j, RETENTION) < now


@kernel
def advance_first(plan, j, now):
    """Move FIRST over the rows that are of no use from now on; they stay in the buffers until these are cleaned."""
    serial, end = of_input(plan, j, FIRST), of_input(plan, j, NEXT)
    while serial < end and is_over(plan, j, serial, now):
        serial += 1
    put_input(plan, j, FIRST, serial)


@kernel
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
                head = head_of(plan, t, bucket_of_row(plan, t, serial))
                store64(head, START, load64(head, START) + 1)
                put_table(plan, t, HELD, of_table(plan, t, HELD) - 1)
            add(plan, INVALIDATED, 1)
        serial += 1
    if serial != start:
        put_input(plan, j, FIRST, serial)


@kernel
def pass_over(plan, now):
    """GO03's periodic expiration: look at every buffer of every window."""
    for j in range(load64(plan, INPUT_COUNT)):
        if of_input(plan, j, COUNTING) == BY_TIME:
            expire_input(plan, j, now)
            advance_first(plan, j, now)
        else:
            drop_dead(plan, j, now)


@kernel
def append(plan, t, serial, time):
    """Put a row at the end of its bucket, which has room for it; the bucket."""
    add(plan, INSERTED, 1)
    if of_table(plan, t, BUCKETS) == 0:
        return np.int64(0)
    bucket = bucket_of_row(plan, t, serial)
    head = head_of(plan, t, bucket)
    end = load64(head, END)
    key = load64(load64(plan, KEYS), of_table(plan, t, KEY_FROM))
    store64(column(plan, t, head, CODES), end, load64(key, serial))
    store64(column(plan, t, head, TIMES), end, time)
    store64(column(plan, t, head, SERIALS), end, serial)
    store64(head, END, end + 1)
    put_table(plan, t, HELD, of_table(plan, t, HELD) + 1)
    return bucket


@kernel
def insert(plan, j, serial, time):
    """Put a row into every buffer of its input, then clean what is cleaned on insertion."""
    # A list is nothing but its range of serials, so moving NEXT inserts into it.
    put_input(plan, j, NEXT, serial + 1)
    strategy = of_input(plan, j, INVALIDATE)
    for t in range(of_input(plan, j, TABLE_FROM), of_input(plan, j, TABLE_TO)):
        bucket = append(plan, t, serial, time)
        if strategy in (PROBE_INSERT, INSERT_ONLY):
            expire_bucket(plan, t, bucket, time)
        elif strategy == ALL:
            expire_table(plan, t, time)


@kernel
def keep(plan, streams, serials, times, start, end):
    """Only insert rows: those of a lazy join, of a static table, or taken back. Returns where an arena was full."""
    for a in range(start, end):
        j = streams[a]
        if not have_room(plan, j, serials[a]):
            return a
        put_input(plan, j, NEXT, serials[a] + 1)
        for t in range(of_input(plan, j, TABLE_FROM), of_input(plan, j, TABLE_TO)):
            append(plan, t, serials[a], times[a])
    return end


@kernel
def settle(plan, now, in_passes):
    """After eager arrivals: which rows are of no use any more. With passes that is known from the last one."""
    for j in range(load64(plan, INPUT_COUNT)):
        # No loop runs over this input, so its rows are of no use once they were joined themselves.
        if of_input(plan, j, TABLE_FROM) == of_input(plan, j, TABLE_TO):
            put_input(plan, j, FIRST, of_input(plan, j, NEXT))
        elif of_input(plan, j, COUNTING) == BY_TIME and not in_passes:
            advance_first(plan, j, now)


@kernel
def live_rows(plan, j, now):
    """How many rows of an input can still match a row that comes at `now`."""
    live = 0
    # Partitions are counted apart, so there a younger row may die before an older one.
    in_order = of_input(plan, j, COUNTING) != BY_PARTITION
    end = of_input(plan, j, NEXT)
    for serial in range(of_input(plan, j, FIRST), end):
        if not is_over(plan, j, serial, now):
            if in_order:
                return end - serial
            live += 1
    return live


@kernel
def first_later(times, low, high, time):
    """The first serial from low to high whose time is after `time`, or high; times ascend."""
    while low < high:
        middle = (low + high) >> 1
        if load64(times, middle) <= time:
            low = middle + 1
        else:
            high = middle
    return low
