"""What a few new rows do in a join, in one call: they find their partners, and leave behind the values of what they
found, and themselves in their store.

Columns of new rows lie anywhere, so their addresses come in `sources` with every call. All that is written only when a
store has moved is in tables, whose addresses `tables` has: a kernel takes as long to be handed six arrays as to do
this.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import combine
from watersmeet.operators.kernels.memory import load8, load16, load32, load64, move8, store32, store64
from watersmeet.operators.kernels.pair import pair
from watersmeet.operators.kernels.star import star
from watersmeet.operators.kernels.walk import AT_DEPTH, AT_ROW, MAX_DEPTH, SCALARS, STATE_FIELDS, get, put, walk

# tables: of the program that finds rows, as walk.py and star.py have them; then the tables below, each with how many
# rows it has
IS_STAR, STEPS, DEPTHS, EQUALS, UNEQUALS, RANGES, TESTS, RUNS, LIMITS, CHOICES, STATE = range(11)
PAIRWISE, LISTS, LIST_ROOM, AIMS, AIM_ROWS, PLACES, PLACE_ROWS, MOMENTS, MOMENT_ROWS = range(11, 20)
COPIES, COPY_ROWS, INDEXES, INDEX_ROWS, INDEX_FIELDS = range(20, 25)
TABLES = 25

# aims[e]: where the program reads the address of a column of new rows, which of the sources it is
AIMED, AIM_SOURCE = range(2)
AIM_FIELDS = 2

# places[c]: which row of `numbers` tells the positions of a result column, where it lies (if that is row 0, of the new
# rows: which of the sources it is), how wide its values are
VISIT, BASE, PLACE_WIDTH = range(3)
PLACE_FIELDS = 3
# Instead of a visit: the newest of all members' times. Where those lie, by visits, `moments` tells: 0 for none.
NEWEST = -1
NEW_ROWS = 1  # of the new rows they come with `sources`

# copies[c]: a column of the store, which of the sources goes there, how wide its values are
TARGET, SOURCE, COPY_WIDTH = range(3)
COPY_FIELDS = 3

# indexes[x]: a hash index, with the sources that make its key from FIRST_KEY on, as many as KEYS says
HEADS, FOLLOWING, SHIFT, KEYS, FIRST_KEY = range(5)

# The first of the sources are the event times.
TIMES = 0

TOO_MANY = -1


@kernel
def find(tables, times, rows, numbers):
    """The numbers of all combinations with new rows; TOO_MANY if there is no room for them, or for lists of them."""
    state = tables[STATE]
    for i in range(STATE_FIELDS * (MAX_DEPTH + 1)):
        store64(state, i, np.int64(0))
    put(state, SCALARS, AT_DEPTH, np.int64(-1))
    steps, depths, equals, limits = tables[STEPS], tables[DEPTHS], tables[EQUALS], tables[LIMITS]
    if not tables[IS_STAR]:
        found = walk(
            times, np.int64(0), rows, steps, depths, equals, tables[UNEQUALS], tables[RANGES], tables[TESTS],
            tables[RUNS], limits, tables[CHOICES], state, numbers,
        )  # fmt: skip
    elif depths == 1:
        found = pair(times, rows, steps, equals, limits, state, numbers)
    else:
        found = star(
            times, rows, steps, depths, equals, limits, tables[PAIRWISE], state, tables[LISTS], tables[LIST_ROOM],
            numbers,
        )  # fmt: skip
    return found if get(state, SCALARS, AT_ROW) >= rows else np.int64(TOO_MANY)


@kernel(borrows=True)
def gather(tables, sources, numbers, found, words):
    """The columns of all combinations, an int64 for each value, which ends in its bytes."""
    places = tables[PLACES]
    for c in range(tables[PLACE_ROWS]):
        visit, base = load64(places, c * PLACE_FIELDS + VISIT), load64(places, c * PLACE_FIELDS + BASE)
        width = load64(places, c * PLACE_FIELDS + PLACE_WIDTH)
        if visit == NEWEST:
            newest_members(tables, sources[TIMES], numbers, found, words[c])
            continue
        if visit == 0:
            base = sources[base]
        for i in range(found):
            p = numbers[visit, i]
            if width == 8:
                words[c, i] = load64(base, p)
            elif width == 4:
                words[c, i] = load32(base, p)
            elif width == 2:
                words[c, i] = load16(base, p)
            else:
                words[c, i] = load8(base, p)


@kernel(inline="always")
def newest_members(tables, new_times, numbers, found, out):
    moments = tables[MOMENTS]
    for i in range(found):
        newest, is_known = np.int64(0), False
        for v in range(tables[MOMENT_ROWS]):
            lie = load64(moments, v)
            if lie != 0:
                t = load64(new_times if v == 0 else lie, numbers[v, i])
                if t > newest or not is_known:
                    newest, is_known = t, True
        out[i] = newest


@kernel
def settle(tables, sources, rows, first):
    """Put new rows at position `first` of their store and into its chains."""
    copies, indexes, fields = tables[COPIES], tables[INDEXES], tables[INDEX_FIELDS]
    for c in range(tables[COPY_ROWS]):
        source, width = load64(copies, c * COPY_FIELDS + SOURCE), load64(copies, c * COPY_FIELDS + COPY_WIDTH)
        move8(load64(copies, c * COPY_FIELDS + TARGET) + first * width, sources[source], rows * width)
    for x in range(tables[INDEX_ROWS]):
        index = indexes + 8 * x * fields
        heads, following, shift = load64(index, HEADS), load64(index, FOLLOWING), np.uint64(load64(index, SHIFT))
        for i in range(rows):
            h = np.uint64(0)
            for k in range(FIRST_KEY, FIRST_KEY + load64(index, KEYS)):
                h = combine(h, load64(sources[load64(index, k)], i))
            bucket = np.int64(h >> shift)
            store32(following, first + i, load32(heads, bucket))
            store32(heads, bucket, np.int32(first + i))


@kernel
def step(tables, sources, rows, numbers, words, first, newest):
    """Find, gather, and settle. Gives how many combinations were found, and what rows.disorder does; where these were
    TOO_MANY nothing has changed."""
    for e in range(tables[AIM_ROWS]):
        store64(
            load64(tables[AIMS], e * AIM_FIELDS + AIMED), 0, sources[load64(tables[AIMS], e * AIM_FIELDS + AIM_SOURCE)]
        )
    found = find(tables, sources[TIMES], rows, numbers)
    if found < 0:
        return found, np.int64(0), newest
    gather(tables, sources, numbers, found, words)
    settle(tables, sources, rows, first)
    furthest = np.int64(0)
    for i in range(rows):
        t = load64(sources[TIMES], i)
        if t > newest:
            newest = t
        elif newest - t > furthest:
            furthest = newest - t
    return found, furthest, newest
