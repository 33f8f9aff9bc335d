"""What rows can look forward to at each age."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel


@kernel
def best_means(rates):
    """For each bin, the highest mean over any stretch of bins that begins there."""
    best = np.empty(rates.size)
    for start in range(rates.size):
        total, highest = 0.0, 0.0
        for end in range(start, rates.size):
            total += rates[end]
            highest = max(highest, total / (end - start + 1))
        best[start] = highest
    return best
