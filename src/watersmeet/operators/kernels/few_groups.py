"""A few rows through a GROUP BY: they are put into time order, they enter their groups as others leave, and the groups
show their rows. Each of the three is one call, and what lies between two of them are the aggregates.

Rows are words: an int64 for each value, which ends in its bytes. Columns that are held lie anywhere, as `columns` says.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.changes import cells_in_turn, empty_groups, replace_rows
from watersmeet.operators.kernels.identity import folded, forget_numbers, number_rows
from watersmeet.operators.kernels.memory import load, load64, store

# words[r]: what is known of new rows before their columns
TIME, ORDER, FIRST_COLUMN = range(3)

# columns[c]: where a column that is held lies, and how wide its values are; those of keys come first
BASE, WIDTH = range(2)

# changes[f]: of each change the place, group and diff of its row; of each cell its end, group and instant
PLACES, GROUPS, DIFFS, ENDS, CELL_GROUPS, INSTANTS = range(6)
CHANGE_FIELDS = 6

# answer[r]: what stands before the columns of an answer
SIGN, AT, FIRST_SHOWN = range(3)
PLUS, MINUS = ord("+"), ord("-")

TOO_MANY = -1


@kernel(brief=True)
def gather(sources, read, count, first, order, words, widths, left):
    """The first rows of a batch whose columns lie at `sources`, as words from place `first` on: their times, their
    numbers, and the columns that are `read`, each with its width. `left`, if it has room, is where the columns of the
    other rows lie."""
    for i in range(count):
        words[TIME, first + i] = load64(sources[0], i)
        words[ORDER, first + i] = order + first + i
    for c in range(len(read)):
        base, width = sources[read[c, BASE]], read[c, WIDTH]
        for i in range(count):
            words[FIRST_COLUMN + c, first + i] = load(base, width, i)
    for c in range(len(left)):
        width = 8 if c == 0 else widths[c - 1]
        left[c] = sources[c] + count * width if sources[c] else 0


@kernel(brief=True)
def enter(
    words,
    keys,
    life,
    until,
    columns,
    tail,
    head,
    deaths,
    order,
    groups,
    counts,
    heads,
    following,
    known_first,
    known_second,
    free,
    free_count,
    where,
    next_place,
    changes,
    present,
    argued,
):
    """Hold new rows behind `head` for as long as they live, under the numbers of their groups, and write down what that
    changes and all deaths before an instant (see `cells_in_turn`); `argued` are the columns of each change.

    There must be room for all rows to be of new groups, whose keys then lie from `next_place` on. Gives how many rows
    leave, or TOO_MANY if there is no room for their changes, before anything has changed; then how many cells there
    are, how many numbers are free, and where the next keys lie.
    """
    count = words.shape[1]
    for i in range(count):
        deaths[head + i] = words[TIME, i] + life
    leaving = 0
    while tail + leaving < head + count and deaths[tail + leaving] < until:
        leaving += 1
        if leaving + count > len(present):
            return TOO_MANY, 0, free_count, next_place
    first, second = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    for c in range(keys):
        for i in range(count):
            code = words[FIRST_COLUMN + c, i]
            first[i], second[i] = folded(first[i], second[i], code, code)
    ids, new = groups[head : head + count], np.empty(count, np.int64)
    _, free_count, found = number_rows(
        first, second, 0, heads, following, known_first, known_second, free, free_count, ids, new, 0
    )
    for place in range(found):
        where[ids[new[place]]] = next_place
        for c in range(keys):
            store(columns[c, BASE], columns[c, WIDTH], next_place, words[FIRST_COLUMN + c, new[place]])
        next_place += 1
    for i in range(count):
        order[head + i] = words[ORDER, i]
    for c in range(keys, len(columns)):
        for i in range(count):
            store(columns[c, BASE], columns[c, WIDTH], head + i, words[FIRST_COLUMN + c, i])
    cells = cells_in_turn(words[TIME], deaths, groups, tail, head + count, leaving, counts, changes, present)
    for c in range(keys, len(columns)):
        base, width = columns[c, BASE], columns[c, WIDTH]
        for k in range(count + leaving):
            argued[c - keys, k] = load(base, width, changes[PLACES, k])
    return leaving, cells, free_count, next_place


@kernel(brief=True)
def show(
    cells,
    changes,
    present,
    values,
    floats,
    last,
    is_shown,
    last_numbers,
    scratch,
    next_number,
    shown,
    columns,
    counts,
    heads,
    following,
    known_first,
    free,
    free_count,
    where,
    answer,
):
    """Keep the rows that groups withdraw and give after each cell (see `replace_rows`), and forget groups without rows.

    shown[c]: which of the values column c of an answer is, or -1 - k for key k. Gives how many changes there are, the
    next number of a row, how many numbers of groups are free, and how many groups are gone.
    """
    groups, instants = changes[CELL_GROUPS, :cells], changes[INSTANTS, :cells]
    marks, made = np.empty((3, 2 * cells), np.int64), np.empty((len(values), 2 * cells), np.int64)
    words, targets = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
    for place in range(len(values)):
        words[place] = np.int64(values.ctypes.data) + 8 * place * values.shape[1]
        targets[place] = np.int64(made.ctypes.data) + 8 * place * made.shape[1]
    n, next_number = replace_rows(
        instants, groups, present[:cells], np.empty(0, np.bool_), words, floats, last, is_shown, last_numbers, scratch,
        next_number, answer[AT], marks, targets,
    )  # fmt: skip
    for i in range(n):
        answer[SIGN, i] = PLUS if marks[1, i] > 0 else MINUS
    for c in range(len(shown)):
        column, place, key = answer[FIRST_SHOWN + c], shown[c], -1 - shown[c]
        for i in range(n):
            column[i] = (
                load(columns[key, BASE], columns[key, WIDTH], where[marks[0, i]]) if key >= 0 else made[place, i]
            )
    gone = np.empty(cells, np.int64)
    gone = gone[: empty_groups(groups, counts, gone)]
    for group in gone:
        where[group] = -1
    return n, next_number, forget_numbers(gone, heads, following, known_first, free, free_count), len(gone)
