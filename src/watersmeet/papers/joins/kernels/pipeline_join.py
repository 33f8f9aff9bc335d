"""The NLW-join (H02 section 3.1.1): a left-deep pipeline of binary nested loops that keeps partial combinations.

An m-tuple is kept as the period in which its next member must lie and the serials of its members; rows on the
right are a range of serials, as they enter and leave in order.

Each arrival runs through the pipeline to the end: what a node finds is at once the left input of the next. The
kernel stops when its output is full or a buffer must grow, and resumes where it stopped.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
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
    EQUAL,
    NEVER,
    OPERATOR,
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
    GROWING,
    HIGH,
    INPUTS,
    IS_FULL,
    LAST,
    LEVEL,
    LOW,
    MUST_GROW,
    POSITIONS,
    PROVEN,
    READ,
    SPANS,
    TESTS,
    TIMES,
    UNSIGNED,
    WRITE,
    any_dead,
    bind_members,
    death_of,
    emit,
    is_out_left,
    is_out_right,
    limit,
    set_period,
)

# nodes[k]: the left buffer, an arena of m-tuples, and the right one, a range of serials
LEFT, LEFT_COUNT, LEFT_ROOM, RIGHT_TAIL, RIGHT_HEAD = range(5)
NODE_FIELDS = 5

# an m-tuple
PERIOD_LOW, PERIOD_HIGH, MEMBERS = range(3)


@kernel
def node_field(nodes, k, field):
    return load64(nodes, NODE_FIELDS * k + field)


@kernel
def set_node(nodes, k, field, value):
    store64(nodes, NODE_FIELDS * k + field, value)


@kernel
def drop_old_rights(plan, nodes, state, k, counts):
    """Rows on the right that the left has passed by, at the old end."""
    tail, head = node_field(nodes, k, RIGHT_TAIL), node_field(nodes, k, RIGHT_HEAD)
    times = load64(plan, TIMES + k)
    # Only the old end: rights are a range of serials, so what is dead in its middle waits.
    kept = tail
    while kept < head:
        counts[INVALIDATION_COMPARISONS] += 1
        if not is_out_right(plan, state, k, load64(times, kept), death_of(plan, k, kept)):
            break
        kept += 1
    counts[INVALIDATED] += kept - tail
    set_node(nodes, k, RIGHT_TAIL, kept)


@kernel
def drop_old_lefts(plan, nodes, state, k, counts):
    """M-tuples that the right of node k has passed by, where no row comes from there whose scan would meet them."""
    base, width = node_field(nodes, k, LEFT), MEMBERS + k
    stop, kept = node_field(nodes, k, LEFT_COUNT), 0
    for at in range(stop):
        entry = base + 8 * width * at
        low, high = load64(entry, PERIOD_LOW), load64(entry, PERIOD_HIGH)
        if is_out_left(plan, state, k, low, high, entry + 8 * MEMBERS):
            continue
        if kept < at:
            for field in range(width):
                store64(base + 8 * width * kept, field, load64(entry, field))
        kept += 1
    counts[INVALIDATION_COMPARISONS] += stop
    counts[INVALIDATED] += stop - kept
    set_node(nodes, k, LEFT_COUNT, kept)


@kernel
def let_go(plan, nodes, state, k, counts):
    """What nothing to come can match at a node whose right input is silent."""
    drop_old_lefts(plan, nodes, state, k, counts)
    drop_old_rights(plan, nodes, state, k, counts)


@kernel
def keep_left(nodes, state, k, counts):
    """Put the members bound so far into the left buffer of node k; False if it is full."""
    count = node_field(nodes, k, LEFT_COUNT)
    if count == node_field(nodes, k, LEFT_ROOM):
        return False
    entry = node_field(nodes, k, LEFT) + 8 * (MEMBERS + k) * count
    store64(entry, PERIOD_LOW, load64(state, LOW + k))
    store64(entry, PERIOD_HIGH, load64(state, HIGH + k))
    for u in range(k):
        store64(entry, MEMBERS + u, load64(state, SERIAL + u))
    set_node(nodes, k, LEFT_COUNT, count + 1)
    counts[INSERTED] += 1
    return True


@kernel
def first_key(tests, first, past):
    """If the first test of a node is an equality, which decides most candidates: own codes, bound codes and input."""
    test = tests + 8 * TEST_FIELDS * first
    if past > first and load64(test, OPERATOR) == EQUAL:
        return True, load64(test, OWN_CODES), load64(test, BOUND_CODES), load64(test, BOUND_INPUT)
    return False, np.int64(0), np.int64(0), np.int64(0)


@kernel
def count_scan(counts, scanned, deleted, attributes):
    """Every candidate is first asked whether it can go, and if not whether it lies in the period."""
    counts[SCANNED] += scanned
    counts[INVALIDATION_COMPARISONS] += scanned
    counts[INVALIDATED] += deleted
    counts[WINDOW_COMPARISONS] += scanned - deleted
    counts[ATTRIBUTE_COMPARISONS] += attributes


@kernel
def next_right(plan, nodes, state, k, counts):
    """Bind the next right row of node k that matches the members bound; False if there is none left.

    The old end of the buffer is dropped as it is met.
    """
    times, tests = load64(plan, TIMES + k), load64(plan, TESTS)
    first, past = load64(plan, SPANS + 2 * k), load64(plan, SPANS + 2 * k + 1)
    low, high = load64(state, LOW + k), load64(state, HIGH + k)
    p, head = load64(state, CURSOR + k), node_field(nodes, k, RIGHT_HEAD)
    tail = node_field(nodes, k, RIGHT_TAIL)
    keyed, own_codes, bound_codes, bound = first_key(tests, first, past)
    key = load64(bound_codes, load64(state, SERIAL + bound)) if keyed else np.int64(0)
    start, deleted, inside = p, 0, 0
    found = False
    while p < head and not found:
        t = load64(times, p)
        # Dead rows are deleted only as long as they are met in one piece from the tail.
        if p == tail + deleted and is_out_right(plan, state, k, t, death_of(plan, k, p)):
            deleted += 1
        elif low <= t <= high:
            inside += 1
            found = (not keyed or load64(own_codes, p) == key) and fits(tests, first, past, p, state)
        p += 1
    if found:
        bind(state, k, p - 1, load64(times, p - 1))
    store64(state, CURSOR + k, p)
    set_node(nodes, k, RIGHT_TAIL, tail + deleted)
    count_scan(counts, p - start, deleted, inside if past > first else 0)
    return found


@kernel
def next_left(plan, nodes, state, k, counts):
    """Bind the next m-tuple of node k that matches its new right row; those that can go are deleted as they are met."""
    tests, first, past = load64(plan, TESTS), load64(plan, SPANS + 2 * k), load64(plan, SPANS + 2 * k + 1)
    serial, t = load64(state, SERIAL + k), load64(state, TIME + k)
    base, width = node_field(nodes, k, LEFT), MEMBERS + k
    read, write, stop = load64(state, READ), load64(state, WRITE), node_field(nodes, k, LEFT_COUNT)
    # Where no older row comes of its input, the time of the new one stands for LAST.
    simple = load64(plan, COUNTED) == 0 and load64(plan, UNSIGNED) == 0 and t <= load64(plan, PROVEN)
    keyed, own_codes, bound_codes, bound = first_key(tests, first, past)
    key = load64(own_codes, serial) if keyed else np.int64(0)
    # Entries that stay are moved down over those that go, as the scan passes; READ and WRITE outlive an interruption.
    start, inside, deleted_before = read, 0, read - write
    found = False
    while read < stop and not found:
        entry = base + 8 * width * read
        read += 1
        low, high = load64(entry, PERIOD_LOW), load64(entry, PERIOD_HIGH)
        if t > high if simple else is_out_left(plan, state, k, low, high, entry + 8 * MEMBERS):
            continue
        if write < read - 1:
            moved = base + 8 * width * write
            for field in range(width):
                store64(moved, field, load64(entry, field))
        write += 1
        if low <= t <= high:
            inside += 1
            if not keyed or load64(bound_codes, load64(entry, MEMBERS + bound)) == key:
                for u in range(k):
                    store64(state, SERIAL + u, load64(entry, MEMBERS + u))
                found = fits(tests, first, past, serial, state)
    if found:
        bind_members(plan, state, k, base + 8 * width * (write - 1) + 8 * MEMBERS)
    else:
        # Only now: until the scan is through, entries from READ on still lie where they were.
        set_node(nodes, k, LEFT_COUNT, write)
    store64(state, READ, read)
    store64(state, WRITE, write)
    count_scan(counts, read - start, read - write - deleted_before, inside if past > first else 0)
    return found


@kernel
def take_in(plan, nodes, state, k, serial, t, counts):
    """A new row: bound at its position, kept on the right of its node, and the level at which it starts."""
    store64(state, LAST + k, max(load64(state, LAST + k), min(t, load64(plan, PROVEN))))
    bind(state, k, serial, t)
    store64(state, BASE, k)
    if k == 0:
        store64(state, ENTERING, 1)
        store64(state, LEVEL, 1)
        return
    if node_field(nodes, k, RIGHT_TAIL) == node_field(nodes, k, RIGHT_HEAD):
        set_node(nodes, k, RIGHT_TAIL, serial)
    set_node(nodes, k, RIGHT_HEAD, serial + 1)
    counts[INSERTED] += 1
    store64(state, READ, 0)
    store64(state, WRITE, 0)
    store64(state, LEVEL, k)


@kernel
def climb(plan, nodes, state, counts, out, count):
    """Go on with the row taken in: depth first up the pipeline. LEVEL is 0 when it is through."""
    inputs, base, level = load64(plan, INPUTS), load64(state, BASE), load64(state, LEVEL)
    outcome = DONE
    while level > 0:
        if count == out.shape[1]:
            outcome = IS_FULL
            break
        if load64(state, ENTERING):
            # Kept for the rows on the right that come later, before those that are there are tried.
            if set_period(plan, state, level):
                if not keep_left(nodes, state, level, counts):
                    store64(state, GROWING, level)
                    outcome = MUST_GROW
                    break
                store64(state, CURSOR + level, node_field(nodes, level, RIGHT_TAIL))
            else:
                store64(state, CURSOR + level, NEVER)
            store64(state, ENTERING, 0)
        # At its own node the new row is the right one and looks for m-tuples; further up what it made is on the left.
        if level == base:
            found = next_left(plan, nodes, state, level, counts)
        else:
            found = next_right(plan, nodes, state, level, counts)
        if not found:
            level = level - 1 if level > max(base, 1) else 0
        elif level + 1 == inputs:
            count = emit(plan, state, counts, out, count)
        else:
            level += 1
            store64(state, ENTERING, 1)
    store64(state, LEVEL, level)
    return outcome, count


@kernel
def pipeline_join(streams, serials, times, arrivals, plan, nodes, state, counts, out):
    """Fill `out[place, i]` with serials of combinations; returns the outcome and how many. Resumable."""
    count, outcome = 0, DONE
    at = load64(state, AT_ARRIVAL)
    while at < arrivals:
        if load64(state, LEVEL) == 0:
            k = load64(plan, POSITIONS + load64(streams, at))
            take_in(plan, nodes, state, k, load64(serials, at), load64(times, at), counts)
        outcome, count = climb(plan, nodes, state, counts, out, count)
        if outcome != DONE:
            break
        k = load64(state, BASE)
        if k > 0:
            # A node whose left has nothing new would never look at its own rights.
            drop_old_rights(plan, nodes, state, k, counts)
        at += 1
    store64(state, AT_ARRIVAL, at)
    counts[RESULTS] += count
    return outcome, count


@kernel
def held(plan, nodes, inputs, now, totals):
    """Add up the rows held, by position, and behind them the m-tuples: what a row arriving now could still match, and
    the others."""
    for k in range(1, inputs):
        base, width = node_field(nodes, k, LEFT), MEMBERS + k
        for i in range(node_field(nodes, k, LEFT_COUNT)):
            entry = base + 8 * width * i
            live = now <= load64(entry, PERIOD_HIGH)
            if live and load64(plan, COUNTED):
                live = not any_dead(plan, k, entry + 8 * MEMBERS, now)
            totals[0 if live else 1, 0 if k == 1 else inputs] += 1
        reach = -NEVER
        for u in range(k):
            reach = max(reach, limit(plan, k, u))
        for p in range(node_field(nodes, k, RIGHT_TAIL), node_field(nodes, k, RIGHT_HEAD)):
            live = now <= load64(load64(plan, TIMES + k), p) + reach and now < death_of(plan, k, p)
            totals[0 if live else 1, k] += 1


@kernel
def oldest_members(nodes, inputs, partial, oldest):
    """Lower each position's oldest serial to that of its right buffer and, if asked, of the m-tuples."""
    for k in range(1, inputs):
        if node_field(nodes, k, RIGHT_TAIL) < node_field(nodes, k, RIGHT_HEAD):
            oldest[k] = min(oldest[k], node_field(nodes, k, RIGHT_TAIL))
        base, width = node_field(nodes, k, LEFT), MEMBERS + k
        for i in range(node_field(nodes, k, LEFT_COUNT) if partial else 0):
            for u in range(k):
                oldest[u] = min(oldest[u], load64(base + 8 * width * i, MEMBERS + u))
