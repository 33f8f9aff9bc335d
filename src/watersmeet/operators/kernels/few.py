"""What a few new rows leave behind in one call: the values of what they found, and themselves in their store.

Columns of new rows lie anywhere, so their addresses come in `sources` with every call; the other tables are written
when a store has moved. One of the kernels that find rows is called before this one.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import combine
from watersmeet.operators.kernels.memory import load8, load16, load32, load64, move8, store32

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


@kernel(inline="always")
def newest_members(moments, new_times, numbers, out):
    for i in range(out.size):
        newest, is_known = np.int64(0), False
        for v in range(moments.size):
            if moments[v] != 0:
                t = load64(new_times if v == 0 else moments[v], numbers[v, i])
                if t > newest or not is_known:
                    newest, is_known = t, True
        out[i] = newest


@kernel(brief=True)
def settle(places, moments, copies, indexes, sources, numbers, words, rows, first, newest):
    """Gather the columns of all combinations (an int64 for each value, which ends in its bytes), then put new rows at
    position `first` of their store and into its chains. Gives what rows.disorder does."""
    for c in range(places.shape[0]):
        visit, base, width = places[c, VISIT], places[c, BASE], places[c, PLACE_WIDTH]
        if visit == NEWEST:
            newest_members(moments, sources[TIMES], numbers, words[c])
            continue
        if visit == 0:
            base = sources[base]
        for i in range(words.shape[1]):
            p = numbers[visit, i]
            if width == 8:
                words[c, i] = load64(base, p)
            elif width == 4:
                words[c, i] = load32(base, p)
            elif width == 2:
                words[c, i] = load16(base, p)
            else:
                words[c, i] = load8(base, p)
    for c in range(copies.shape[0]):
        width = copies[c, COPY_WIDTH]
        move8(copies[c, TARGET] + first * width, sources[copies[c, SOURCE]], rows * width)
    for x in range(indexes.shape[0]):
        heads, following, shift = indexes[x, HEADS], indexes[x, FOLLOWING], np.uint64(indexes[x, SHIFT])
        for i in range(rows):
            h = np.uint64(0)
            for k in range(FIRST_KEY, FIRST_KEY + indexes[x, KEYS]):
                h = combine(h, load64(sources[indexes[x, k]], i))
            bucket = np.int64(h >> shift)
            store32(following, first + i, load32(heads, bucket))
            store32(heads, bucket, np.int32(first + i))
    furthest = np.int64(0)
    for i in range(rows):
        t = load64(sources[TIMES], i)
        if t > newest:
            newest = t
        elif newest - t > furthest:
            furthest = newest - t
    return furthest, newest
