"""Running counts, sums and moments per group, exact at every instant: what left is gone without a trace.

Changes come sorted into cells (all changes of one group at one instant). `live[i]` is +1 or -1, and 0 where the value
is NULL. After each cell the aggregate of its group is written. See digits.py for the numbers.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from watersmeet.operators.kernels.digits import (
    FLOAT,
    FLOAT_DIGITS,
    INFINITY,
    MASK,
    NOT_A_NUMBER,
    SIGN,
    SPECIAL,
    as_decimal,
    as_int64,
    float_exponent,
    float_place,
    nearest_quotient,
    settle,
    split,
    split_float,
)

# what comes out of a sum
AS_INTEGER, AS_DECIMAL, AS_DOUBLE, AS_MEAN = range(4)

# specials[g]: values that no sum can hold, counted apart so that they can leave again
NANS, POSITIVE, NEGATIVE = range(3)

NEVER = np.int64(-1)


@njit(cache=True)
def count_changes(groups, live, ends, counts, out):
    """out[c] = how many values group c's cell leaves in its group."""
    start = 0
    for c in range(len(ends)):
        end = ends[c]
        g = groups[start]
        n = counts[g]
        for i in range(start, end):
            n += live[i]
        counts[g] = n
        out[c] = n
        start = end


@njit(cache=True)
def sum_integers(groups, live, values, unsigned, ends, counts, sums, out, valid):
    """Sums of 64-bit integers in two digits; the first cell whose sum is beyond int64, or NEVER."""
    keep = MASK if unsigned else np.int64(-1)
    start = 0
    for c in range(len(ends)):
        end = ends[c]
        g = groups[start]
        n, low, high = counts[g], sums[g, 0], sums[g, 1]
        for i in range(start, end):
            d, v = live[i], values[i]
            n += d
            low += d * (v & MASK)
            high += d * ((v >> 32) & keep)
        counts[g], sums[g, 0], sums[g, 1] = n, low, high
        start = end
        top = high + (low >> 32)
        if top < -(1 << 31) or top >= 1 << 31:
            return np.int64(c)
        out[c] = (top << 32) | (low & MASK)
        valid[c] = n > 0
    return NEVER


@njit(cache=True)
def float_range(words, live):
    """The lowest and highest digit that the finite values of a batch touch; (1, 0) if there is none but zero."""
    low, high = np.int64(1 << 20), np.int64(-1)
    for i in range(len(live)):
        bits = words[i]
        if live[i] and bits & ~SIGN and float_exponent(bits) != SPECIAL:
            place = float_place(bits) >> 5
            low, high = min(low, place), max(high, place)
    if high < 0:
        return np.int64(1), np.int64(0)
    return low, high + FLOAT_DIGITS - 1


@njit(cache=True)
def note_special(bits, d, specials, g):
    """Count a NaN or an infinity that comes or goes."""
    if bits & ~SIGN != INFINITY:
        specials[g, NANS] += d
    elif bits < 0:
        specials[g, NEGATIVE] += d
    else:
        specials[g, POSITIVE] += d


@njit(cache=True)
def special_total(specials, g):
    """The bits of the sum if it is no finite number, else 0."""
    nans, positive, negative = specials[g, NANS], specials[g, POSITIVE], specials[g, NEGATIVE]
    if nans or (positive and negative):
        return NOT_A_NUMBER
    if positive:
        return INFINITY
    return INFINITY | SIGN if negative else np.int64(0)


@njit(cache=True)
def sum_exactly(kind, words, groups, live, ends, base, exponent, counts, sums, specials, form, divisors, out, valid):
    """Sums and means of any numbers. Digit 0 of `sums` is digit `base` of the numbers, whose lowest bit is 2**exponent.

    `divisors` scale decimals down; its entry 0 is free, for the count. Returns the first cell whose sum does not fit
    its type, or NEVER.
    """
    width = sums.shape[1]
    digits = np.empty(width + 8, np.int64)
    parts = np.empty(4, np.int64)
    work = np.empty(len(divisors) + 8, np.int64)
    lowest = exponent + 32 * base
    divide = len(divisors) if form == AS_MEAN else 0
    start = 0
    for c in range(len(ends)):
        end = ends[c]
        g = groups[start]
        for i in range(start, end):
            d = live[i]
            if d == 0:
                continue
            counts[g] += d
            if kind == FLOAT:
                bits = words[i]
                if float_exponent(bits) == SPECIAL:
                    note_special(bits, d, specials, g)
                    continue
                if bits & ~SIGN == 0:
                    continue
                at = split_float(bits, parts) - base
                d = -d if bits < 0 else d
                sums[g, at] += d * parts[0]
                sums[g, at + 1] += d * parts[1]
                sums[g, at + 2] += d * parts[2]
            else:
                count, _, sign = split(kind, words, i, parts)
                for j in range(count):
                    sums[g, j] += d * sign * parts[j]
        start = end
        n = counts[g]
        valid[c] = n > 0
        if n == 0:
            continue
        if kind == FLOAT:
            special = special_total(specials, g)
            if special:
                out[c] = special
                continue
        top, negative = settle(sums[g], width, digits)
        if form == AS_INTEGER:
            out[c], fits = as_int64(digits, top, negative)
            if not fits:
                return np.int64(c)
        elif form == AS_DECIMAL:
            if not as_decimal(digits, top, negative, out, c):
                return np.int64(c)
        else:
            divisors[0] = n
            out[c] = nearest_quotient(digits, top, lowest, divisors, divide, work, negative)
    return NEVER


@njit(cache=True)
def add_square(row, at, parts, count, d):
    """Add d times the square of a few digits to a row, from place `at` on."""
    for a in range(count):
        for b in range(count):
            product = parts[a] * parts[b]
            row[at + a + b] += d * (product & MASK)
            row[at + a + b + 1] += d * ((product >> 32) & MASK)


@njit(cache=True)
def spread(squares, sums, n, digits, scratch):
    """n * (sum of squares) - (sum)**2 as a magnitude in `digits`, with the highest place.

    `squares` is twice as wide as `sums` and starts at twice its place. The difference is never negative.
    """
    width = len(sums)
    wide = len(squares)
    top, _ = settle(squares, wide, digits)
    for j in range(wide + 6):
        scratch[j] = 0
    for j in range(top + 1):
        product = digits[j] * n
        scratch[j] += product & MASK
        scratch[j + 1] += product >> 32
    top, _ = settle(sums, width, digits)
    first = 0
    while first <= top and digits[first] == 0:
        first += 1
    for a in range(first, top + 1):
        for b in range(first, top + 1):
            product = digits[a] * digits[b]
            scratch[a + b] -= product & MASK
            scratch[a + b + 1] -= (product >> 32) & MASK
    return settle(scratch, wide + 6, digits)[0]


@njit(cache=True)
def vary_exactly(
    kind, words, groups, live, ends, base, exponent, counts, sums, squares, specials, divisors, out, valid
):
    """Sample variances: the exact quotient of spread and n (n - 1), rounded once; NULL for fewer than two values.

    Entries 0 and 1 of `divisors` are free, for n and n - 1.
    """
    wide = squares.shape[1]
    digits = np.empty(wide + 12, np.int64)
    scratch = np.empty(wide + 12, np.int64)
    parts = np.empty(4, np.int64)
    work = np.empty(len(divisors) + 8, np.int64)
    lowest = 2 * (exponent + 32 * base)
    start = 0
    for c in range(len(ends)):
        end = ends[c]
        g = groups[start]
        for i in range(start, end):
            d = live[i]
            if d == 0:
                continue
            counts[g] += d
            if kind == FLOAT:
                bits = words[i]
                if float_exponent(bits) == SPECIAL:
                    note_special(bits, d, specials, g)
                    continue
                if bits & ~SIGN == 0:
                    continue
            count, at, sign = split(kind, words, i, parts)
            at -= base
            for j in range(count):
                sums[g, at + j] += d * sign * parts[j]
            add_square(squares[g], 2 * at, parts, count, d)
        start = end
        n = counts[g]
        valid[c] = n > 1
        if n < 2:
            continue
        if kind == FLOAT and special_total(specials, g):
            out[c] = NOT_A_NUMBER
            continue
        divisors[0], divisors[1] = n, n - 1
        top = spread(squares[g], sums[g], n, digits, scratch)
        out[c] = nearest_quotient(digits, top, lowest, divisors, len(divisors), work, False)
