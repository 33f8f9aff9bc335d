"""Nested loops over windows, tuple at a time: every join of K05 and GO03 is a case of these.

A walk binds one row per input, outermost loop first. The loop over the *origin* binds a new row k; every other loop
binds a row of a whole window or of one bucket. With k outermost and one new row at a time this is GO03's eager join
(and K05's for two streams), with many new rows its lazy join, with k further in its general lazy and its naive join.
Times are tested once k is known, codes as soon as both sides are.

Same plan vector as classic_buffers. A walk stops when its output is full and resumes where it stopped.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import combine
from watersmeet.operators.kernels.memory import load64, prefetch, store64
from watersmeet.operators.kernels.walk import AT_MOST, EARLIER, LATER, LESS, MORE, next_inside
from watersmeet.papers.joins.kernels.classic_buffers import (
    ALL,
    ALTERNATIVES,
    ARRIVAL,
    ATTRIBUTE_COMPARISONS,
    BUCKETS,
    BY_TIME,
    CODES,
    COUNTING,
    DEATHS_AT,
    END,
    INPUT_COUNT,
    INVALIDATE,
    LIMITS,
    MARK_ARRIVAL,
    MARK_BUCKET,
    MAX_DEPTH,
    NEW_FROM,
    NEW_TO,
    NEXT,
    NEXT_PASS,
    OF_INPUT,
    OLDEST,
    ORIGIN_DEPTHS,
    PASS_EVERY,
    PLAIN,
    PROBE,
    PROBE_ALL,
    PROBE_INSERT,
    RESULTS,
    SCANNED,
    SERIALS,
    START,
    STATE,
    STEPS,
    TABLE_FROM,
    TABLE_TO,
    TESTS,
    TIMES,
    TIMES_AT,
    WINDOW_COMPARISONS,
    add,
    bucket_of_row,
    column,
    drop_dead,
    expire_bucket,
    expire_input,
    expire_table,
    first_later,
    have_room,
    head_of,
    insert,
    of_input,
    of_table,
    pass_over,
    put_input,
    put_table,
    spread,
)

# steps[origin, depth]: one loop. TIMED: candidates' times are tested; DYING: what is done about ROWS windows;
# PAIRED: with k bound, the rows before it are tested among themselves; KEYS: so many of the tests make the key
INPUT, TABLE, ACCESS, TIMED, DYING, PAIRED, TEST_FROM, TEST_TO, KEYS = range(9)
STEP_FIELDS = 9
NEW_ROWS, LIST, BUCKET, NEW_IN_BUCKET = range(4)
# DYING: no matter; a candidate must outlive k; k must come before the first death; deaths are noted until k is known
NOT_DYING, OUTLIVES, BEFORE_DEATHS, NOTED = range(4)

# tests[i]: a candidate's code OWN against the code BOUND of the row bound at DEPTH, which is VALUE during a loop
OPERATOR, OWN, DEPTH, BOUND, VALUE = range(5)
TEST_FIELDS = 5
EQUAL, UNEQUAL = 4, 5  # besides LESS, AT_MOST, MORE, AT_LEAST of walk

# state[field, depth]
CURSOR, STOP, BUCKET_HEAD, LOW, HIGH, BOUND_ROW, BOUND_TIME, FIRST_DEATH, SCALARS = range(9)
STATE_FIELDS = 9
AT_DEPTH, AT_ARRIVAL, JOINED = range(3)  # JOINED: the row of this arrival only has to be inserted

BLOCK = 32  # arrivals whose buckets are fetched ahead together
WORTH_FETCHING = 1024  # buckets; fewer are in the cache anyway

INT64_MIN = np.int64(-(2**63))
INT64_MAX = np.int64(2**63 - 1)


@kernel
def get(plan, field, depth):
    return load64(load64(plan, STATE), field * MAX_DEPTH + depth)


@kernel
def put(plan, field, depth, value):
    store64(load64(plan, STATE), field * MAX_DEPTH + depth, value)


@kernel
def of_step(plan, origin, d, field):
    return load64(load64(plan, STEPS), (origin * MAX_DEPTH + d) * STEP_FIELDS + field)


@kernel
def limit(plan, origin, k, d, b, side):
    """How much later or earlier than the row at depth b that at depth d may be; as walk.limit, from depth 1 on."""
    alternatives = load64(plan, ALTERNATIVES) + 1
    block = (origin * alternatives + k) * MAX_DEPTH + d - 1
    return load64(load64(plan, LIMITS), (block * MAX_DEPTH + b) * 2 + side)


@kernel
def clean_for_probe(plan, t, bucket, now):
    """Remove what has expired before it is scanned, once per arrival."""
    j = of_table(plan, t, OF_INPUT)
    strategy = of_input(plan, j, INVALIDATE)
    if of_input(plan, j, COUNTING) != BY_TIME:
        return
    # K05 cleans once per arriving row; a multi-way join comes by the same bucket for every row of an outer loop.
    arrival = load64(plan, ARRIVAL)
    seen_table = of_table(plan, t, MARK_ARRIVAL) == arrival
    seen_bucket = seen_table and of_table(plan, t, MARK_BUCKET) == bucket
    if strategy in (PROBE, PROBE_INSERT) and not seen_bucket:
        expire_bucket(plan, t, bucket, now)
    elif strategy == PROBE_ALL and not seen_table:
        expire_table(plan, t, now)
    put_table(plan, t, MARK_ARRIVAL, arrival)
    put_table(plan, t, MARK_BUCKET, bucket)


@kernel
def wanted_bucket(plan, t, first_test, keys):
    """The bucket that the bound rows' key belongs to."""
    tests = load64(plan, TESTS)
    if of_table(plan, t, PLAIN):
        return load64(tests, first_test * TEST_FIELDS + VALUE) % of_table(plan, t, BUCKETS)
    h = np.uint64(0)
    for i in range(first_test, first_test + keys):
        h = combine(h, load64(tests, i * TEST_FIELDS + VALUE))
    return spread(h, of_table(plan, t, BUCKETS))


@kernel
def enter(plan, origin, d, now):
    """Stand before the first candidate of a loop; False if there can be none."""
    tests = load64(plan, TESTS)
    first_test = of_step(plan, origin, d, TEST_FROM)
    for i in range(first_test, of_step(plan, origin, d, TEST_TO)):
        row = get(plan, BOUND_ROW, load64(tests, i * TEST_FIELDS + DEPTH))
        # What is bound stays the same for the whole loop, so each test's other side is read once.
        store64(tests, i * TEST_FIELDS + VALUE, load64(load64(tests, i * TEST_FIELDS + BOUND), row))
    if of_step(plan, origin, d, TIMED):
        lo, hi = INT64_MIN, INT64_MAX
        for b in range(d):
            t = get(plan, BOUND_TIME, b)
            hi = min(hi, t + limit(plan, origin, 0, d, b, LATER))
            lo = max(lo, t - limit(plan, origin, 0, d, b, EARLIER))
        if lo > hi:
            return False
        put(plan, LOW, d, lo)
        put(plan, HIGH, d, hi)
    j, table = of_step(plan, origin, d, INPUT), of_step(plan, origin, d, TABLE)
    access = of_step(plan, origin, d, ACCESS)
    if access == NEW_ROWS:
        stand(plan, d, of_input(plan, j, NEW_FROM), of_input(plan, j, NEW_TO), np.int64(0))
    elif access == LIST:
        clean_for_probe(plan, table, np.int64(0), now)
        # A head of 0 says that positions are serials.
        stand(plan, d, of_table(plan, table, OLDEST), of_input(plan, j, NEXT), np.int64(0))
    else:
        bucket = wanted_bucket(plan, table, first_test, of_step(plan, origin, d, KEYS))
        clean_for_probe(plan, table, bucket, now)
        head = head_of(plan, table, bucket)
        start, end = load64(head, START), load64(head, END)
        if access == NEW_IN_BUCKET:  # serials ascend, and those of new rows are the last
            start = first_later(column(plan, table, head, SERIALS), start, end, of_input(plan, j, NEW_FROM) - 1)
        stand(plan, d, start, end, head)
    return True


@kernel
def stand(plan, d, start, end, head):
    put(plan, CURSOR, d, start)
    put(plan, STOP, d, end)
    put(plan, BUCKET_HEAD, d, head)


@kernel
def fits(tests, first, past, serial):
    """Whether a candidate's codes pass the tests first to past - 1."""
    for i in range(first, past):
        base = tests + 8 * TEST_FIELDS * i
        x, v, operator = load64(load64(base, OWN), serial), load64(base, VALUE), load64(base, OPERATOR)
        if operator == EQUAL:
            passed = x == v
        elif operator == UNEQUAL:
            passed = x != v
        elif operator == LESS:
            passed = x < v
        elif operator == AT_MOST:
            passed = x <= v
        elif operator == MORE:
            passed = x > v
        else:
            passed = x >= v
        if not passed:
            return False
    return True


@kernel
def lives(plan, origin, d, dying, deaths, serial, time):
    """What ROWS windows say to a candidate; notes the first death as long as k is not known."""
    dies = INT64_MAX if deaths == 0 else load64(deaths, serial)
    if dying == OUTLIVES:
        return dies > get(plan, BOUND_TIME, load64(load64(plan, ORIGIN_DEPTHS), origin))
    if d > 0:
        dies = min(dies, get(plan, FIRST_DEATH, d - 1))
    put(plan, FIRST_DEATH, d, dies)
    return dying == NOTED or dies > time


@kernel
def next_match(plan, origin, d, emits, out, count):
    """Bind the next candidate of a loop that fits; False when there is none left, and the count of results.

    With `emits`, for the innermost loop, all that fit become results, as far as there is room for them.

    Candidates stand one after another at positions CURSOR to END: of a window, where positions are serials, or of
    a bucket, where times, serials and the first key code are its own.
    """
    j, timed, dying = of_step(plan, origin, d, INPUT), of_step(plan, origin, d, TIMED), of_step(plan, origin, d, DYING)
    first, past = of_step(plan, origin, d, TEST_FROM), of_step(plan, origin, d, TEST_TO)
    tests, deaths, paired = load64(plan, TESTS), of_input(plan, j, DEATHS_AT), of_step(plan, origin, d, PAIRED)
    start, end, head = get(plan, CURSOR, d), get(plan, STOP, d), get(plan, BUCKET_HEAD, d)
    lo, hi = get(plan, LOW, d), get(plan, HIGH, d)
    times, codes, serials = of_input(plan, j, TIMES_AT), load64(tests, first * TEST_FIELDS + OWN), np.int64(0)
    if head != 0:
        table = of_step(plan, origin, d, TABLE)
        times, codes = column(plan, table, head, TIMES), column(plan, table, head, CODES)
        serials = column(plan, table, head, SERIALS)
    # The first equality lies beside the times in a bucket, so most candidates are decided without going to the shelf.
    keyed = past > first and load64(tests, first * TEST_FIELDS + OPERATOR) == EQUAL
    key = load64(tests, first * TEST_FIELDS + VALUE)
    rest = first + 1 if keyed else first
    # Where nothing but the key is tested, whole blocks are compared at once; counts are as if one by one.
    skips = keyed and not timed and not dying
    p = start
    compared = 0
    first_result, capacity = count, out.shape[1]
    found = False
    while p < end:
        here = p
        if skips:
            here = next_inside(codes, key, key, p, end)
            if here == end:
                p = end
                break
        p = here + 1
        t = load64(times, here)
        if timed and (t < lo or t > hi):
            continue
        serial = here if head == 0 else load64(serials, here)
        if dying and not lives(plan, origin, d, dying, deaths, serial, t):
            continue
        compared += 1
        if keyed and load64(codes, here) != key:
            continue
        if not fits(tests, rest, past, serial):
            continue
        if emits:
            out[j, count] = serial
            count += 1
            if count == capacity:
                break
            continue
        put(plan, BOUND_ROW, d, serial)
        put(plan, BOUND_TIME, d, t)
        if paired and not all_near(plan, origin, 0, d):
            continue
        found = True
        break
    put(plan, CURSOR, d, p)
    count_scan(plan, origin, d, p - start, p - start if skips else compared)
    if count > first_result:
        # All results of this loop share the rows bound outside of it: written once per piece, not per result.
        for outer in range(d):
            out[of_step(plan, origin, outer, INPUT), first_result:count] = get(plan, BOUND_ROW, outer)
    return found, count


@kernel
def count_scan(plan, origin, d, scanned, compared):
    """New rows of the outermost loop are no candidates; nothing is compared where there is no test."""
    if d == 0 and of_step(plan, origin, d, ACCESS) == NEW_ROWS:
        return
    add(plan, SCANNED, scanned)
    if of_step(plan, origin, d, TEST_TO) > of_step(plan, origin, d, TEST_FROM):
        add(plan, ATTRIBUTE_COMPARISONS, compared)
    if d > 0 and (of_step(plan, origin, d, TIMED) or of_step(plan, origin, d, DYING)):
        add(plan, WINDOW_COMPARISONS, scanned)


@kernel
def near_enough(plan, origin, k, d, b):
    since = get(plan, BOUND_TIME, d) - get(plan, BOUND_TIME, b)
    return since <= limit(plan, origin, k, d, b, LATER) and -since <= limit(plan, origin, k, d, b, EARLIER)


@kernel
def all_near(plan, origin, k, depths):
    """Whether the rows bound at the first so many depths keep every limit of alternative k."""
    for d in range(1, depths):
        for b in range(d):
            if not near_enough(plan, origin, k, d, b):
                return False
    return True


@kernel
def is_admitted(plan, origin, depths):
    """Whether a whole combination satisfies one alternative of a WINDOW PATH."""
    alternatives = load64(plan, ALTERNATIVES)
    if alternatives == 0:
        return True
    add(plan, WINDOW_COMPARISONS, 1)
    k = 1
    while k <= alternatives and not all_near(plan, origin, k, depths):
        k += 1
    return k <= alternatives


@kernel
def descend(plan, origin, now, out, count):
    """Go on with the loops of one origin; fills out[input, i], returns the new count. Depth -1 is the end."""
    depths, capacity = load64(plan, INPUT_COUNT), out.shape[1]
    d = get(plan, SCALARS, AT_DEPTH)
    while d >= 0 and count < capacity:
        innermost = d == depths - 1
        emits = innermost and load64(plan, ALTERNATIVES) == 0 and not of_step(plan, origin, d, PAIRED)
        found, count = next_match(plan, origin, d, emits, out, count)
        if not found:
            if not emits or count < capacity:  # a full output may have more to come
                d -= 1
        elif not innermost:
            if enter(plan, origin, d + 1, now):
                d += 1
        elif is_admitted(plan, origin, depths):
            for k in range(depths):
                out[of_step(plan, origin, k, INPUT), count] = get(plan, BOUND_ROW, k)
            count += 1
    put(plan, SCALARS, AT_DEPTH, np.int64(d))
    return count


@kernel
def before_probing(plan, origin, now):
    """What an arrival does to the buffers before its row is joined."""
    store64(plan, ARRIVAL, load64(plan, ARRIVAL) + 1)
    every = load64(plan, PASS_EVERY)
    due = every > 0 and now >= load64(plan, NEXT_PASS)
    if due:
        pass_over(plan, now)
        store64(plan, NEXT_PASS, (now // every + 1) * every)
    for j in range(load64(plan, INPUT_COUNT)):
        if of_input(plan, j, COUNTING) != BY_TIME:
            drop_dead(plan, j, now)
        elif j != origin and of_input(plan, j, INVALIDATE) == ALL:
            expire_input(plan, j, now)


@kernel
def look_ahead(plan, streams, serials, start, end):
    """Start fetching the buckets that a block of arrivals will insert into, and those they will probe by their own
    codes, so that the memory latency of the whole block overlaps."""
    # Heads first, rows in a second round: to know where the rows are, their heads must have come.
    for fetches_rows in range(2):
        for a in range(start, end):
            origin, serial = streams[a], serials[a]
            for t in range(of_input(plan, origin, TABLE_FROM), of_input(plan, origin, TABLE_TO)):
                if of_table(plan, t, BUCKETS) >= WORTH_FETCHING:
                    head = head_of(plan, t, bucket_of_row(plan, t, serial))
                    fetch(plan, t, head, END, fetches_rows)
            if of_step(plan, origin, 1, ACCESS) == BUCKET:
                t = of_step(plan, origin, 1, TABLE)
                if of_table(plan, t, BUCKETS) >= WORTH_FETCHING:
                    fetch(plan, t, head_of(plan, t, bucket_for(plan, origin, t, serial)), START, fetches_rows)


@kernel
def bucket_for(plan, origin, t, serial):
    """The bucket that a new row will probe at depth 1; leaves the values of the walk in hand alone."""
    tests = load64(plan, TESTS) + 8 * TEST_FIELDS * of_step(plan, origin, 1, TEST_FROM)
    if of_table(plan, t, PLAIN):
        return load64(load64(tests, BOUND), serial) % of_table(plan, t, BUCKETS)
    h = np.uint64(0)
    for i in range(of_step(plan, origin, 1, KEYS)):
        h = combine(h, load64(load64(tests, i * TEST_FIELDS + BOUND), serial))
    return spread(h, of_table(plan, t, BUCKETS))


@kernel
def fetch(plan, t, head, which_end, rows):
    """Fetch a bucket's head, or the rows at its start or end if the head is there already."""
    if not rows:
        prefetch(head)
        return
    at = load64(head, which_end)
    prefetch(column(plan, t, head, CODES) + 8 * at)
    prefetch(column(plan, t, head, SERIALS) + 8 * at)


@kernel
def arrive(plan, streams, serials, times, end, out):
    """Join arrivals one at a time and insert each; returns how many combinations are in `out`.

    Complete when state AT_ARRIVAL is `end`; otherwise the output or an arena (plan FULL_TABLE) is full: call again.
    """
    count = 0
    a = get(plan, SCALARS, AT_ARRIVAL)
    # A call that resumes looks ahead again: what was fetched may be gone from the cache.
    ahead = a
    while a < end:
        if a >= ahead:
            ahead = min(end, a + BLOCK)
            look_ahead(plan, streams, serials, a, ahead)
        origin, now = streams[a], times[a]
        # A new arrival, not one whose walk stopped because the output was full.
        if not get(plan, SCALARS, JOINED) and get(plan, SCALARS, AT_DEPTH) < 0:
            before_probing(plan, origin, now)
            put_input(plan, origin, NEW_FROM, serials[a])
            put_input(plan, origin, NEW_TO, serials[a] + 1)
            if enter(plan, origin, np.int64(0), now):
                put(plan, SCALARS, AT_DEPTH, np.int64(0))
        count = descend(plan, origin, now, out, count)
        if get(plan, SCALARS, AT_DEPTH) >= 0:
            break
        has_room = have_room(plan, origin, serials[a])
        # Joined, but without room to be inserted: the next call must not join it again.
        put(plan, SCALARS, JOINED, np.int64(not has_room))
        if not has_room:
            break
        insert(plan, origin, serials[a], now)
        a += 1
    put(plan, SCALARS, AT_ARRIVAL, np.int64(a))
    add(plan, RESULTS, count)
    return count


@kernel
def refresh(plan, origin, resumed, now, out):
    """Join all new rows of one input; returns how many combinations are in `out`.

    Complete when state AT_DEPTH is -1; otherwise call again with `resumed`.
    """
    if not resumed and enter(plan, origin, np.int64(0), now):
        put(plan, SCALARS, AT_DEPTH, np.int64(0))
    count = descend(plan, origin, now, out, 0)
    add(plan, RESULTS, count)
    return count
