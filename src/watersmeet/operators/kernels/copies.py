"""Copies of equal rows in an answer, each with the number it entered with; the last to enter is the first to leave."""

from __future__ import annotations

from watersmeet.compiling import kernel


@kernel
def expand(ids, diffs, tops, numbers, below, free, free_count, next_number, out_index, out_diff, out_number):
    """One unit change per copy that enters or leaves. Returns the number of free places and the next number."""
    k = 0
    for i in range(len(ids)):
        row, diff = ids[i], diffs[i]
        while diff > 0:
            free_count -= 1
            place = free[free_count]
            numbers[place] = next_number
            below[place] = tops[row]
            tops[row] = place
            out_index[k], out_diff[k], out_number[k] = i, 1, next_number
            next_number += 1
            diff -= 1
            k += 1
        while diff < 0:
            place = tops[row]
            tops[row] = below[place]
            free[free_count] = place
            free_count += 1
            out_index[k], out_diff[k], out_number[k] = i, -1, numbers[place]
            diff += 1
            k += 1
    return free_count, next_number
