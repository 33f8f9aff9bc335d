"""What rows of a stream are worth, and the counts of keys that this is made of.

A priority is, the same for all kernels here:
    scale x PRODUCT over `factors` of (how often the key came in another stream) x by_age[age of the row].
`factors[f]` is a row of `counts` and a slice of `key_columns`, which are rows of the store's codes.

Priorities are compared by their *level*: sixteen levels to each power of two, which are the upper bits of a float.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import GOLDEN, combine, finish

BLOCK = 1024
LEVELS = 1 << 12
# Of a float64 the sign, the exponent and as many bits of the fraction as make sixteen steps.
SHIFT = np.int64(48)
# Priorities that are LEVELS / 2 steps below one and more are all the same, and so are those as far above.
LOWEST = np.int64((1023 << 4) - LEVELS // 2)
# Rows of frequent keys are nearly all worth the same. Those whose partners are rarer go first, so that a few keys lose
# all their rows and not all keys a few. Of the exponents tried, this one left the fewest rows incomplete.
BY_FREQUENCY = 0.75
# Rows that come within this part of a half-life count the same.
AT_ONCE = 1 / 1024


@kernel(inline="always")
def level_of(priority):
    """The level of a priority that is not negative; level 0 is for those worth nothing."""
    if priority > 0.0:
        step = (np.float64(priority).view(np.int64) >> SHIFT) - LOWEST
        return np.uint16(min(max(step, np.int64(1)), np.int64(LEVELS - 1)))
    return np.uint16(0)


@kernel(inline="always")
def chance(seed, number):
    """A random number of a row, above 0 and at most 1."""
    z = finish(np.uint64(seed) + np.uint64(number + 1) * GOLDEN)
    # 53 bits, as many as a double tells apart; a signed number becomes one in a single step.
    return (np.float64(np.int64(z >> np.uint64(11))) + 1.0) / 9007199254740993.0


@kernel(inline="always")
def bucket_of(codes, p, first, last, key_columns, shift):
    h = np.uint64(0)
    for k in range(first, last):
        h = combine(h, codes[key_columns[k], p])
    return h >> shift


@kernel(borrows=True)
def weigh(rows, codes, factors, key_columns, counts, shift, unseen, weights):
    """Multiply the weights of rows by how often their partners came, up to a constant of the stream."""
    for f in range(factors.shape[0]):
        first, last = factors[f, 1], factors[f, 2]
        of_key = counts[factors[f, 0]]
        if last - first == 1:  # the same as below, several times as fast
            values = codes[key_columns[first]]
            for i in range(rows.size):
                h = combine(np.uint64(0), values[np.uint64(rows[i])])
                weights[i] *= of_key[h >> shift] + unseen
            continue
        for i in range(rows.size):
            weights[i] *= of_key[bucket_of(codes, rows[i], first, last, key_columns, shift)] + unseen


@kernel(inline="always")
def age_bin(age, per_bin, bins):
    return np.uint64(min(max(np.int64(age / per_bin), 0), bins - 1))


@kernel(borrows=True)
def weigh_by_age(rows, ages, now, by_age, per_bin, weights):
    """Multiply the weights of rows by the value for their age; ages beyond the last bin count as the last."""
    for i in range(rows.size):
        weights[i] *= by_age[age_bin(now - ages[np.uint64(rows[i])], per_bin, by_age.size)]


@kernel
def weigh_by_completeness(
    rows, codes, flawed, ages, now, factors, key_columns, counts, shift, unseen, life, bins, per_count, weights
):  # fmt: skip
    """Multiply the weights of rows by how many rows the loss of each leaves incomplete, for the share of its life that
    is left. `per_count` makes expected numbers in a window of counts; the last of the factors is the row's own stream.

    The row itself is left incomplete if a partner is to come, unless it is so already. So is every partner to come;
    but they are shared with all rows of the same key, which go together, and are so anyway where rows are gone.
    """
    partners, own = np.ones(rows.size), np.full(rows.size, per_count)
    weigh(rows, codes, factors[:-1], key_columns, counts, shift, unseen, partners)
    weigh(rows, codes, factors[-1:], key_columns, counts, shift, unseen, own)
    for i in range(rows.size):
        met = partners[i] * per_count ** (factors.shape[0] - 1)
        if flawed[rows[i]]:
            weights[i] *= met * np.exp(-own[i])
            continue
        # Half a bin at least, as it is divided by.
        left = max(1.0 - (now - ages[rows[i]]) / life, 0.5 / bins)
        alone = (1.0 - np.exp(-met * left)) / left
        weights[i] *= (alone + met / (1.0 + own[i])) * (1.0 + met) ** BY_FREQUENCY


@kernel
def rank(
    rows, codes, flawed, ages, now, scale, factors, key_columns, counts, shift, unseen, by_age, per_bin, per_count,
    levels,
):  # fmt: skip
    """The levels of rows at any positions of a store; with `per_count`, by what their loss would leave incomplete. Bins
    of age without end are for what never ages."""
    if per_count == 0.0 and factors.shape[0] == 1 and factors[0, 2] - factors[0, 1] == 1:
        values, of_key = codes[key_columns[factors[0, 1]]], counts[factors[0, 0]]
        for i in range(rows.size):
            row = np.uint64(rows[i])
            weight = scale * (of_key[combine(np.uint64(0), values[row]) >> shift] + unseen)
            if per_bin < np.inf:
                weight *= by_age[age_bin(now - ages[row], per_bin, by_age.size)]
            levels[i] = level_of(weight)
        return
    weights = np.empty(min(BLOCK, rows.size))
    for start in range(0, rows.size, BLOCK):
        part = rows[start : start + BLOCK]
        weights[:] = scale
        if per_count > 0.0:
            weigh_by_completeness(
                part, codes, flawed, ages, now, factors, key_columns, counts, shift, unseen, per_bin * by_age.size,
                by_age.size, per_count, weights,
            )  # fmt: skip
        else:
            weigh(part, codes, factors, key_columns, counts, shift, unseen, weights)
            if per_bin < np.inf:
                weigh_by_age(part, ages, now, by_age, per_bin, weights)
        for i in range(part.size):
            levels[start + i] = level_of(weights[i])


@kernel(borrows=True)
def count_keys(codes, first, last, tracked, key_columns, counts, shift, clock, since, half_life):
    """Count the keys of new rows; with a half-life later rows count for more, twice as much after each. Returns for how
    much they count together."""
    if half_life > 0.0:
        return count_fading(codes, first, last, tracked, key_columns, counts, shift, clock, since, half_life)
    for f in range(tracked.shape[0]):
        add_to_keys(codes, first, last, tracked[f], key_columns, counts, shift, np.float32(1))
    return np.float64(last - first)


@kernel(borrows=True)
def add_to_keys(codes, first, last, key, key_columns, counts, shift, amount):
    """Count the rows at first..last-1 for so much each."""
    begin, end = key[1], key[2]
    of_key = counts[key[0]]
    if end - begin == 1:  # the same as below, several times as fast
        values = codes[key_columns[begin]]
        for p in range(first, last):
            of_key[combine(np.uint64(0), values[np.uint64(p)]) >> shift] += amount
        return
    for p in range(first, last):
        of_key[bucket_of(codes, p, begin, end, key_columns, shift)] += amount


@kernel(borrows=True)
def know_keys(codes, amounts, tracked, key_columns, counts, shift):
    """Count each row of a table for as much as it says."""
    for f in range(tracked.shape[0]):
        begin, end = tracked[f, 1], tracked[f, 2]
        for p in range(amounts.size):
            counts[tracked[f, 0], bucket_of(codes, p, begin, end, key_columns, shift)] += np.float32(amounts[p])


@kernel(borrows=True)
def count_fading(codes, first, last, tracked, key_columns, counts, shift, clock, since, half_life):
    total = 0.0
    start = first
    while start < last:
        # Rows that come within a moment count the same; what that is takes long to work out.
        then = np.float64(clock[start - first])
        amount = 2.0 ** ((then - since) / half_life)
        stop = start + 1
        while stop < last and abs(clock[stop - first] - then) <= half_life * AT_ONCE:
            stop += 1
        total += amount * (stop - start)
        for f in range(tracked.shape[0]):
            add_to_keys(codes, start, stop, tracked[f], key_columns, counts, shift, np.float32(amount))
        start = stop
    return total


@kernel(borrows=True)
def count_held(codes, first, last, slot_of, in_memory, tracked, key_columns, counts, shift):
    """Count the keys of the rows that a store holds at first..last-1, or of those with memory alone."""
    for p in range(first, last):
        if in_memory and slot_of[p] < 0:
            continue
        for f in range(tracked.shape[0]):
            counts[tracked[f, 0], bucket_of(codes, p, tracked[f, 1], tracked[f, 2], key_columns, shift)] += 1.0


@kernel
def best_means(rates):
    """What rows can look forward to at each age: for each bin, the highest mean over any stretch of bins that begins
    there."""
    best = np.empty(rates.size)
    for start in range(rates.size):
        total, highest = 0.0, 0.0
        for end in range(start, rates.size):
            total += rates[end]
            highest = max(highest, total / (end - start + 1))
        best[start] = highest
    return best
