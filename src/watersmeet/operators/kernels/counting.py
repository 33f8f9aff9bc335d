"""The N-th next row of the same group, for ROWS windows over partitions."""

from __future__ import annotations

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.spread import grouped


@kernel
def nth_later(groups, group_count, n, times, never, out):
    """out[i] = the time of the n-th row after i in i's group, or `never`. Groups are numbered from 0."""
    rows, starts = grouped(groups, group_count)
    for g in range(group_count):
        for k in range(starts[g], starts[g + 1]):
            later = k + n
            out[rows[k]] = times[rows[later]] if later < starts[g + 1] else never
