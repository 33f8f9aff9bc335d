"""Frames of OVER: which rows enter and leave the frame of a partition as it moves from row to row.

The rows of every partition that are in its frame form a queue, linked through `following`: `heads[p]` is the oldest,
`tails[p]` the newest, `sizes[p]` how many there are. Rows are known by small numbers (slots).
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel


@kernel
def by_partition(partitions, room, order):
    """Positions by partition, keeping their order within: a counting sort. All numbers are below `room`."""
    starts = np.zeros(room + 1, np.int64)
    for p in partitions:
        starts[p + 1] += 1
    for p in range(room):
        starts[p + 1] += starts[p]
    for i in range(len(partitions)):
        p = partitions[i]
        order[starts[p]] = i
        starts[p] += 1


@kernel
def peers(partitions, times, ties, has_ties, begins, cells):
    """Where a partition begins, and the number of each row's cell: rows that the order does not tell apart. Returns how
    many cells there are."""
    cell = np.int64(-1)
    for i in range(len(partitions)):
        begins[i] = i == 0 or partitions[i] != partitions[i - 1]
        if begins[i] or times[i] != times[i - 1] or (has_ties and ties[i] != ties[i - 1]):
            cell += 1
        cells[i] = cell
    return cell + 1


@kernel
def count_up(partitions, begins, cells, counts, dense, numbers, ranks, dense_ranks):
    """ROW_NUMBER, RANK and DENSE_RANK of each row, going on from the counts of its partition."""
    number = np.int64(0)
    rank = np.int64(0)
    level = np.int64(0)
    for i in range(len(partitions)):
        p = partitions[i]
        if begins[i]:
            number, level = counts[p], dense[p]
        number += 1
        if begins[i] or cells[i] != cells[i - 1]:
            level += 1
            rank = number
        numbers[i], ranks[i], dense_ranks[i] = number, rank, level
        counts[p], dense[p] = number, level


@kernel
def held_by(partitions, begins, sizes):
    """How many rows the frames of these partitions hold: no more can leave besides those that come."""
    total = np.int64(0)
    for i in range(len(partitions)):
        if begins[i]:
            total += sizes[partitions[i]]
    return total


@kernel
def move_frames(
    partitions, keys, cells, slots, by_rows, reach, heads, tails, sizes, following, key_of,
    out_slots, out_signs, out_ends, firsts, held, left,
):  # fmt: skip
    """Let frames move over new rows, sorted by partition. By rows a frame holds `reach` of them and the current one;
    otherwise those whose key is at most `reach` behind that of the current cell.

    For each step (a row, or a cell of them) the changes: slots with +1 or -1, and where they end; and the first row of
    the frame after it, and how many it holds. `left` are the slots that are free afterwards. Returns changes, steps and
    how many have left.
    """
    n = len(partitions)
    changes = np.int64(0)
    steps = np.int64(0)
    gone = np.int64(0)
    i = np.int64(0)
    while i < n:
        p = partitions[i]
        stop = i + 1
        if not by_rows:
            while stop < n and cells[stop] == cells[i]:
                stop += 1
        for k in range(i, stop):
            slot = slots[k]
            key_of[slot] = keys[k]
            following[slot] = -1
            if sizes[p] == 0:
                heads[p] = slot
            else:
                following[tails[p]] = slot
            tails[p] = slot
            sizes[p] += 1
            out_slots[changes], out_signs[changes] = slot, 1
            changes += 1
        while sizes[p] > reach + 1 if by_rows else key_of[heads[p]] < keys[i] - reach:
            slot = heads[p]
            heads[p] = following[slot]
            sizes[p] -= 1
            out_slots[changes], out_signs[changes] = slot, -1
            changes += 1
            left[gone] = slot
            gone += 1
        out_ends[steps] = changes
        firsts[steps] = heads[p]
        held[steps] = sizes[p]
        steps += 1
        i = stop
    return changes, steps, gone


@kernel
def empty_frames(partitions, heads, sizes, following, out_slots, out_ends):
    """Take all rows out of the frames of partitions, in order. Returns how many."""
    changes = np.int64(0)
    steps = np.int64(0)
    for p in partitions:
        slot = heads[p]
        if sizes[p] == 0:
            continue
        for _ in range(sizes[p]):
            out_slots[changes] = slot
            changes += 1
            slot = following[slot]
        sizes[p] = 0
        out_ends[steps] = changes
        steps += 1
    return changes, steps


BY_NUMBER, BY_RANK, BY_DENSE_RANK = range(1, 4)  # what limits how many rows of a partition are shown


@kernel
def show_partition(start, stop, alive, peer, kind, limit, cell, last_entry, last_cell, out_rows, out_before, at):
    """The rows of a partition that are there, in order, up to a limit; with each where it stood in the cell before, or
    -1. Returns where the output goes on, and the first row behind the limit, or where the partition ends: whatever
    happens from there on is not seen."""
    number = np.int64(0)
    rank = np.int64(0)
    dense = np.int64(0)
    known = np.int64(-1)
    for row in range(start, stop):
        if not alive[row]:
            continue
        number += 1
        if known < 0 or peer[row] != peer[known]:
            rank = number
            dense += 1
        known = row
        if (
            (kind == BY_NUMBER and number > limit)
            or (kind == BY_RANK and rank > limit)
            or (kind == BY_DENSE_RANK and dense > limit)
        ):
            return at, row
        out_rows[at] = row
        out_before[at] = last_entry[row] if last_cell[row] == cell - 1 else -1
        last_entry[row], last_cell[row] = at, cell
        at += 1
    return at, stop


@kernel
def show_changes(
    starts, change_rows, change_signs, change_ends, change_parts, cursor, alive, peer, kind, limit, last_entry,
    last_cell, out_rows, out_before, out_ends, out_changes,
):  # fmt: skip
    """Partitions as they are before and after each of their changes, one state (cell) after the other, until the output
    is full or all changes are done. `out_changes` says after which change a cell stands, -1 for one before any.

    Returns the next change, how many rows and how many cells were written.
    """
    at = np.int64(0)
    cells = np.int64(0)
    part = np.int64(-1)
    unseen = np.int64(0)
    last_cell[:] = -2
    while cursor < len(change_ends):
        mine = change_parts[cursor]
        start, stop = starts[mine], starts[mine + 1]
        begins = mine != part
        most = min(stop - start, limit) if kind == BY_NUMBER else stop - start
        needed = most * (2 if begins else 1)
        if at + needed > len(out_rows) or cells + 2 > len(out_ends):
            break
        if begins:
            part = mine
            cells += 1
            at, unseen = show_partition(
                start, stop, alive, peer, kind, limit, cells, last_entry, last_cell, out_rows, out_before, at
            )
            out_ends[cells - 1], out_changes[cells - 1] = at, -1
        first = change_ends[cursor - 1] if cursor else 0
        seen = False
        for k in range(first, change_ends[cursor]):
            alive[change_rows[k]] = change_signs[k] > 0
            seen = seen or change_rows[k] < unseen
        if seen or unseen == stop:
            cells += 1
            at, unseen = show_partition(
                start, stop, alive, peer, kind, limit, cells, last_entry, last_cell, out_rows, out_before, at
            )
            out_ends[cells - 1], out_changes[cells - 1] = at, cursor
        cursor += 1
    return cursor, at, cells


@kernel
def within_limit(starts, alive, peer, kind, limit, within):
    """Mark the rows of each partition that are there and not behind the limit."""
    for part in range(len(starts) - 1):
        number = np.int64(0)
        rank = np.int64(0)
        dense = np.int64(0)
        known = np.int64(-1)
        for row in range(starts[part], starts[part + 1]):
            if not alive[row]:
                continue
            number += 1
            if known < 0 or peer[row] != peer[known]:
                rank = number
                dense += 1
            known = row
            if (
                (kind == BY_NUMBER and number > limit)
                or (kind == BY_RANK and rank > limit)
                or (kind == BY_DENSE_RANK and dense > limit)
            ):
                break
            within[row] = True


@kernel
def number_shown(before, shown, same, numbers, next_number):
    """The numbers of rows that are shown: that of the cell before where they stay as they are. Those of the first cell
    of a partition are known."""
    for e in range(len(before)):
        b = before[e]
        if not shown[e]:
            numbers[e] = -1
        elif b >= 0 and shown[b] and same[e]:
            numbers[e] = numbers[b]
        elif numbers[e] < 0:
            numbers[e] = next_number
            next_number += 1
    return next_number


@kernel
def frame_edges(starts, measure, start, end, has_start, has_end, firsts, stops):
    """Of each row the first of its frame and one past the last, which lie `start` and `end` from it by a measure that
    never falls within a partition."""
    for part in range(len(starts) - 1):
        first = starts[part]
        stop = starts[part] if has_end else starts[part + 1]
        for row in range(starts[part], starts[part + 1]):
            while has_start and first < starts[part + 1] and measure[first] < measure[row] + start:
                first += 1
            while stop < starts[part + 1] and measure[stop] <= measure[row] + end:
                stop += 1
            firsts[row], stops[row] = first, max(first, stop)


@kernel
def shift_rows(since, until, first, stop, sign, out_rows, out_signs, at):
    """The rows that leave (-1) or enter (+1) when rows from `since` up to `until` become those from `first` up to
    `stop`, neither of which is less than before. Returns where the output goes on."""
    begin, behind = (since, min(until, first)) if sign < 0 else (max(until, first), stop)
    for row in range(begin, behind):
        out_rows[at], out_signs[at] = row, sign
        at += 1
    return at


@kernel
def frame_changes(parts, asked, firsts, gaps, afters, stops, own, out_rows, out_signs, out_ends):
    """What enters and leaves the frame of a partition from one row that is asked for to the next: rows with +1 and -1,
    and where those of each end. Where nothing changes there is the row itself with 0. Returns how many there are."""
    at = np.int64(0)
    for k in range(len(asked)):
        if k == 0 or parts[k] != parts[k - 1]:
            first, gap, after, stop = firsts[k], firsts[k], afters[k], afters[k]
            alone = np.int64(-1)
        begin = at
        # Who leaves goes first: a row may pass from behind the gap to before it.
        at = shift_rows(first, gap, firsts[k], gaps[k], -1, out_rows, out_signs, at)
        at = shift_rows(after, stop, afters[k], stops[k], -1, out_rows, out_signs, at)
        if alone >= 0:
            out_rows[at], out_signs[at] = alone, -1
            at += 1
        at = shift_rows(first, gap, firsts[k], gaps[k], 1, out_rows, out_signs, at)
        at = shift_rows(after, stop, afters[k], stops[k], 1, out_rows, out_signs, at)
        alone = asked[k] if own[k] else np.int64(-1)
        if alone >= 0:
            out_rows[at], out_signs[at] = alone, 1
            at += 1
        if at == begin:
            out_rows[at], out_signs[at] = asked[k], 0
            at += 1
        out_ends[k] = at
        first, gap, after, stop = firsts[k], gaps[k], afters[k], stops[k]
    return at


@kernel
def needed_since(starts, measure, coming, waits, start, end, has_start, needed):
    """Of each partition the first row that is still asked for: by the first row that waits, or by the next to come,
    whose measure is at least `coming`. Of frames that begin with the first row only the last one counts."""
    for part in range(len(starts) - 1):
        begin, behind = starts[part], starts[part + 1]
        row = begin
        while row < behind and not waits[row]:
            row += 1
        here = measure[row] if row < behind else coming[part]
        first = begin
        if has_start:
            while first < row and measure[first] < here + start:
                first += 1
        else:
            while first + 1 < behind and measure[first + 1] <= here + end:
                first += 1
        needed[part] = min(first, row)
