"""The cheapest assignment of each row of a matrix to a column of its own."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel


@kernel
def assign(costs):
    """The column of each row, by the Hungarian method; there are at least as many columns as rows."""
    rows, columns = costs.shape
    row_price, column_price = np.zeros(rows + 1), np.zeros(columns + 1)
    owner, came_from = np.zeros(columns + 1, np.int64), np.zeros(columns + 1, np.int64)  # 0: nobody, rows from 1
    for row in range(1, rows + 1):
        # Column 0 is no column: it holds the row that looks for one, so that a path has a place to begin.
        owner[0] = row
        column = 0
        least, done = np.full(columns + 1, np.inf), np.zeros(columns + 1, np.bool_)
        while owner[column] != 0:
            done[column] = True
            step, following = np.inf, 0
            for c in range(1, columns + 1):
                if done[c]:
                    continue
                reduced = costs[owner[column] - 1, c - 1] - row_price[owner[column]] - column_price[c]
                if reduced < least[c]:
                    least[c], came_from[c] = reduced, column
                if least[c] < step:
                    step, following = least[c], c
            for c in range(columns + 1):
                if done[c]:
                    row_price[owner[c]] += step
                    column_price[c] -= step
                else:
                    least[c] -= step
            column = following
        while column != 0:
            owner[column] = owner[came_from[column]]
            column = came_from[column]
    chosen = np.empty(rows, np.int64)
    for c in range(1, columns + 1):
        if owner[c] != 0:
            chosen[owner[c] - 1] = c - 1
    return chosen
