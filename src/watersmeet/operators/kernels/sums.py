"""Running counts, sums and moments per group, exact at every instant: what left is gone without a trace.

Changes come sorted into cells (all changes of one group at one instant). `live[i]` is +1 or -1, and 0 where the value
is NULL. After each cell the aggregate of its group is written. See digits.py for the numbers.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.digits import (
    DECIMAL,
    FLOAT,
    FLOAT_DIGITS,
    INFINITY,
    LOWEST_FLOAT_EXPONENT,
    MASK,
    NOT_A_NUMBER,
    SIGN,
    SPECIAL,
    UNSIGNED,
    add_words,
    as_decimal,
    float_exponent,
    float_place,
    nearest_double,
    nearest_quotient,
    room_below,
    settle,
    split,
    split_float,
)
from watersmeet.operators.kernels.double_pairs import UNDECIDED, quotient_of, row_of

# specials[g]: values that no sum can hold, counted apart so that they can leave again
NANS, POSITIVE, NEGATIVE = range(3)

NEVER = np.int64(-1)


@kernel(borrows=True)
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


@kernel(borrows=True)
def sum_integers(groups, live, values, unsigned, ends, counts, sums, out, valid):
    """Sums of 64-bit integers in two digits; the first cell whose sum is beyond int64, or NEVER."""
    # The upper half of an unsigned value has no sign.
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
        # The sum fits int64 if its upper digit, with what the lower one carries, fits 32 bits, the sign among them.
        top = high + (low >> 32)
        if top < -(1 << 31) or top >= 1 << 31:
            return np.int64(c)
        out[c] = (top << 32) | (low & MASK)
        valid[c] = n > 0
    return NEVER


@kernel(borrows=True)
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


@kernel(inline="always")
def note_special(bits, d, specials, g):
    """Count a NaN or an infinity that comes or goes."""
    if bits & ~SIGN != INFINITY:
        specials[g, NANS] += d
    elif bits < 0:
        specials[g, NEGATIVE] += d
    else:
        specials[g, POSITIVE] += d


@kernel(inline="always")
def special_total(specials, g):
    """The bits of the sum if it is no finite number, else 0."""
    nans, positive, negative = specials[g, NANS], specials[g, POSITIVE], specials[g, NEGATIVE]
    if nans or (positive and negative):
        return NOT_A_NUMBER
    if positive:
        return INFINITY
    return INFINITY | SIGN if negative else np.int64(0)


@kernel
def sum_floats(words, groups, live, ends, base, counts, sums, specials, mean, out, valid):
    """Sums or means of doubles, as bits of doubles. Digit 0 of `sums` is digit `base` of the doubles."""
    divisors = np.ones(1, np.int64)
    low = room_below(divisors) if mean else 0
    digits = np.empty(low + sums.shape[1] + 2, np.int64)
    # Place 0 of `digits` lies `low` places below digit 0 of `sums`.
    exponent = LOWEST_FLOAT_EXPONENT + 32 * (base - low)
    start = 0
    for c in range(len(ends)):
        end = ends[c]
        g = groups[start]
        n = counts[g]
        for i in range(start, end):
            d, bits = live[i], words[i]
            n += d
            if float_exponent(bits) == SPECIAL:
                note_special(bits, d, specials, g)
            elif d != 0 and bits & ~SIGN:
                place, first, second, third = split_float(bits)
                at = place - base
                d = -d if bits < 0 else d
                sums[g, at] += d * first
                sums[g, at + 1] += d * second
                sums[g, at + 2] += d * third
        counts[g] = n
        start = end
        valid[c] = n > 0
        special = special_total(specials, g)
        if special:
            out[c] = special
        elif n > 0:
            bits = quotient_of(row_of(sums, g), sums.shape[1], n, exponent + 32 * low) if mean else UNDECIDED
            if bits == UNDECIDED:
                top, negative = settle(sums, g, digits, low)
                if mean:
                    divisors[0] = n
                    bits = nearest_quotient(digits, top, exponent, divisors, negative)
                else:
                    bits = nearest_double(digits, top, exponent, False, negative)
            out[c] = bits


@kernel
def sum_decimals(words, groups, live, ends, counts, sums, out, valid):
    """Sums of 128-bit decimals, as such; the first cell whose sum has more than 38 digits, or NEVER."""
    digits = np.empty(sums.shape[1] + 2, np.int64)
    start = 0
    for c in range(len(ends)):
        end = ends[c]
        g = groups[start]
        for i in range(start, end):
            counts[g] += live[i]
            add_words(words, i, 2, False, sums, g, live[i])
        start = end
        valid[c] = counts[g] > 0
        top, negative = settle(sums, g, digits, 0)
        if not as_decimal(digits, top, negative, out, c):
            return np.int64(c)
    return NEVER


@kernel
def mean_exactly(kind, words, groups, live, ends, counts, sums, divisors, out, valid):
    """Means of integers or decimals, as bits of doubles; entry 0 of `divisors` is free, for the count."""
    low = room_below(divisors)
    digits = np.empty(low + sums.shape[1] + 2, np.int64)
    size = 2 if kind == DECIMAL else 1
    start = 0
    for c in range(len(ends)):
        end = ends[c]
        g = groups[start]
        for i in range(start, end):
            counts[g] += live[i]
            add_words(words, i, size, kind == UNSIGNED, sums, g, live[i])
        start = end
        n = counts[g]
        valid[c] = n > 0
        if n > 0:
            bits = quotient_of(row_of(sums, g), sums.shape[1], n, 0) if len(divisors) == 1 else UNDECIDED
            if bits == UNDECIDED:
                divisors[0] = n
                top, negative = settle(sums, g, digits, low)
                bits = nearest_quotient(digits, top, -32 * low, divisors, negative)
            out[c] = bits


@kernel(inline="always")
def halves(left, right):
    """The lower and the upper 32 bits of the product of two digits; unsigned, as a signed one may not wrap around."""
    product = np.uint64(left) * np.uint64(right)
    return np.int64(product & np.uint64(MASK)), np.int64(product >> np.uint64(32))


@kernel(borrows=True)
def spread(squares, sums, g, n, digits, low, scratch):
    """n * (sum of squares) - (sum)**2 as a magnitude at digits[low:]; its highest place.

    `squares` is twice as wide as `sums` and starts at twice its place. The difference is never negative.
    """
    top, _ = settle(squares, g, digits, 0)
    scratch[:] = 0
    for j in range(top + 1):
        # Below 2**63, as n is below 2**31.
        product = digits[j] * n
        scratch[0, j] += product & MASK
        scratch[0, j + 1] += product >> 32
    top, _ = settle(sums, g, digits, 0)
    # Zeros at the lower end need not be squared.
    first = 0
    while first <= top and digits[first] == 0:
        first += 1
    for a in range(first, top + 1):
        for b in range(first, top + 1):
            lower, upper = halves(digits[a], digits[b])
            scratch[0, a + b] -= lower
            scratch[0, a + b + 1] -= upper
    return settle(scratch, 0, digits, low)[0]


@kernel(borrows=True)
def add_product(rows, g, at, left, right, d):
    """Add d times the product of the digits of two doubles to row g, from place `at` on."""
    for a in range(FLOAT_DIGITS):
        for b in range(FLOAT_DIGITS):
            lower, upper = halves(left[a], right[b])
            rows[g, at + a + b] += d * lower
            rows[g, at + a + b + 1] += d * upper


@kernel(borrows=True)
def joint_spread(products, sums, others, g, n, digits, low, left, right, scratch):
    """n * (sum of products) - (sum) * (other sum) as a magnitude at digits[low:]; its highest place, and whether it is
    negative. See `spread`."""
    top, negative = settle(products, g, digits, 0)
    scratch[:] = 0
    sign = -1 if negative else 1
    for j in range(top + 1):
        product = digits[j] * n
        scratch[0, j] += sign * (product & MASK)
        scratch[0, j + 1] += sign * (product >> 32)
    left_top, left_negative = settle(sums, g, left, 0)
    right_top, right_negative = settle(others, g, right, 0)
    sign = 1 if left_negative != right_negative else -1
    for a in range(left_top + 1):
        for b in range(right_top + 1):
            lower, upper = halves(left[a], right[b])
            scratch[0, a + b] += sign * lower
            scratch[0, a + b + 1] += sign * upper
    return settle(scratch, 0, digits, low)


@kernel
def covary_exactly(
    words, other_words, groups, live, ends, base, counts, sums, others, products, specials, less, out, valid
):
    """Covariances of doubles: the exact quotient of their joint spread and n (n - less), rounded once; see
    `find_moments`. Digit 0 of `sums` and `others` is digit `base` of the doubles, and that of `products` twice that."""
    wide = products.shape[1]
    divisors = np.ones(2, np.int64)
    low = room_below(divisors)
    digits = np.empty(low + wide + 8, np.int64)
    left, right = np.empty(wide + 2, np.int64), np.empty(wide + 2, np.int64)
    scratch = np.empty((1, wide + 6), np.int64)
    parts, other_parts = np.empty(4, np.int64), np.empty(4, np.int64)
    lowest = 2 * (LOWEST_FLOAT_EXPONENT + 32 * base) - 32 * low
    start = 0
    for c in range(len(ends)):
        end = ends[c]
        g = groups[start]
        for i in range(start, end):
            d = live[i]
            if d == 0:
                continue
            counts[g] += d
            bits, other = words[i], other_words[i]
            if float_exponent(bits) == SPECIAL or float_exponent(other) == SPECIAL:
                specials[g, NANS] += d
                continue
            at, sign, other_at, other_sign = 0, 0, 0, 0
            if bits & ~SIGN:
                _, at, sign = split(FLOAT, words, i, parts)
                for j in range(FLOAT_DIGITS):
                    sums[g, at - base + j] += d * sign * parts[j]
            if other & ~SIGN:
                _, other_at, other_sign = split(FLOAT, other_words, i, other_parts)
                for j in range(FLOAT_DIGITS):
                    others[g, other_at - base + j] += d * other_sign * other_parts[j]
            if sign * other_sign:
                add_product(products, g, at + other_at - 2 * base, parts, other_parts, d * sign * other_sign)
        start = end
        n = counts[g]
        valid[c] = n > less
        if n <= less:
            continue
        if specials[g, NANS]:
            out[c] = NOT_A_NUMBER
            continue
        divisors[0], divisors[1] = n, n - less
        top, negative = joint_spread(products, sums, others, g, n, digits, low, left, right, scratch)
        out[c] = nearest_quotient(digits, top, lowest, divisors, negative)


@kernel(borrows=True)
def count_bits(groups, live, ends, words, counts, bits, out):
    """Of the values that each cell leaves in its group bits[g, b] have bit b; out[c] is (bits that all have, those that
    any has, those that an odd number has, how many values there are)."""
    start = 0
    for c in range(len(ends)):
        end = ends[c]
        g = groups[start]
        for i in range(start, end):
            d = live[i]
            counts[g] += d
            word = np.uint64(words[i])
            if d:
                for b in range(64):
                    bits[g, b] += d * np.int64((word >> np.uint64(b)) & np.uint64(1))
        start = end
        of_all, of_any, of_odd = np.uint64(0), np.uint64(0), np.uint64(0)
        for b in range(64):
            mark = np.uint64(1) << np.uint64(b)
            if bits[g, b] == counts[g]:
                of_all |= mark
            if bits[g, b]:
                of_any |= mark
            if bits[g, b] & 1:
                of_odd |= mark
        out[c, 0], out[c, 1], out[c, 2] = np.int64(of_all), np.int64(of_any), np.int64(of_odd)
        out[c, 3] = counts[g]
