"""Means and variances of groups from one exact sum of their values and one of the squares.

Cells are taken a block at a time: first the changes of all of them, each noting the leading digits of its group's sums;
then what these tell is worked out for the whole block, several cells in one instruction. Where that does not decide a
result (see double_pairs.py) all digits are divided. By then they may have changed again, so the changes of the block
are taken back, one cell after the other, and made once more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from watersmeet.compiling import intrinsic, kernel
from watersmeet.operators.kernels.digits import (
    FLOAT,
    FRACTION,
    MASK,
    NOT_A_NUMBER,
    SIGN,
    SPECIAL,
    float_exponent,
    float_place,
    nearest_double,
    nearest_quotient,
    room_below,
    settle,
    split,
)
from watersmeet.operators.kernels.double_pairs import (
    PLACE,
    UNDECIDED,
    decide_quotients,
    decide_variances,
    make_pairs,
    new_block,
    note_leading,
    row_of,
)
from watersmeet.operators.kernels.memory import load64, prefetch, store64
from watersmeet.operators.kernels.sums import halves, note_special, special_total, spread

# Cells; their digits and pairs stay in the nearest cache.
BLOCK = 128
AHEAD = 8  # changes


@kernel(inline="always")
def add_to(row, place, amount):
    """To a digit of the row at an address."""
    store64(row, place, load64(row, place) + amount)


@kernel(borrows=True)
def add_square(row, at, parts, count, d):
    """Add d times the square of a few digits to a row, from place `at` on."""
    for a in range(count):
        for b in range(a, count):
            # At most seven halves fall to one digit, which is why 2**28 values fit (see digits.py).
            lower, upper = halves(parts[a], parts[b])
            times = d if a == b else 2 * d
            add_to(row, at + a + b, times * lower)
            add_to(row, at + a + b + 1, times * upper)


@intrinsic
def upper_product(typingctx: Any, x: Any, y: Any) -> Any:
    """The upper 64 bits of the product of two words without sign."""
    from llvmlite import ir
    from numba import types

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(one, wide) for one in args))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


@kernel(inline="always")
def add_float(bits, d, base, row, square_row):
    """Add d times a finite double that is not 0, and its square: 53 bits and 106, which begin at any bit of a digit."""
    place = float_place(bits)
    mantissa = np.uint64((bits & FRACTION) | (np.int64(float_exponent(bits) != 0) << 52))
    shift, at = np.uint64(place & 31), (place >> 5) - base
    rest = np.int64(mantissa >> (np.uint64(32) - shift))
    sign = -d if bits < 0 else d
    add_to(row, at, sign * (np.int64(mantissa << shift) & MASK))
    add_to(row, at + 1, sign * (rest & MASK))
    add_to(row, at + 2, sign * (rest >> 32))
    # The shift twice, so below 64; by 64 none may be shifted.
    shift, none = shift + shift, np.uint64(63)
    low, high = mantissa * mantissa, upper_product(mantissa, mantissa)
    first = low << shift
    second = (high << shift) | ((low >> np.uint64(1)) >> (none - shift))
    third = (high >> np.uint64(1)) >> (none - shift)
    at, half, lower = 2 * at, np.uint64(32), np.uint64(MASK)
    add_to(square_row, at, d * np.int64(first & lower))
    add_to(square_row, at + 1, d * np.int64(first >> half))
    add_to(square_row, at + 2, d * np.int64(second & lower))
    add_to(square_row, at + 3, d * np.int64(second >> half))
    add_to(square_row, at + 4, d * np.int64(third & lower))
    add_to(square_row, at + 5, d * np.int64(third >> half))


@kernel(inline="always")
def add_value(kind, words, i, d, base, row, square_row, parts):
    """Add d times value i and d times its square to their rows; of floats those that are finite."""
    if kind != FLOAT:
        count, at, sign = split(kind, words, i, parts)
        at -= base
        for j in range(count):
            add_to(row, at + j, d * sign * parts[j])
        add_square(square_row, 2 * at, parts, count, d)
    elif float_exponent(words[i]) != SPECIAL and words[i] & ~SIGN != 0:
        add_float(words[i], d, base, row, square_row)


@kernel(borrows=True)
def whole_mean(sums, g, n, digits, low, lowest, divisors):
    """The mean of a group from all digits; entry 0 of `divisors` is free."""
    divisors[0] = n
    top, negative = settle(sums, g, digits, low)
    return nearest_quotient(digits, top, lowest - 32 * low, divisors, negative)


@kernel(borrows=True)
def whole_variance(squares, sums, g, n, less, digits, low, lowest, scratch, divisors):
    """The variance of a group from all digits; entries 0 and 1 of `divisors` are free."""
    divisors[0], divisors[1] = n, n - less
    top = spread(squares, sums, g, n, digits, low, scratch)
    return nearest_quotient(digits, top, 2 * lowest - 32 * low, divisors, False)


@kernel
def find_moments(
    kind, words, groups, live, ends, base, exponent, counts, sums, squares, specials, divisors, mean_divisors, sizes,
    totals, means, variances, samples,
):  # fmt: skip
    """How many values each cell leaves in its group, and of these what there is room for, as bits of doubles: the total
    of floats, the mean, and the variance, of all there is and of a sample, which is the exact quotient of `spread` and
    n n or n (n - 1), rounded once. Where that divides by nothing 0 is written.

    The value of the lowest digit of `sums`, which is digit `base` of the values, has the exponent. `divisors` multiply
    to the square of what numbers are scaled by, `mean_divisors` to that; before these entries 0 and 1, and 0, are free.
    """
    low, wide = room_below(divisors), squares.shape[1]
    noted, pairs = new_block(BLOCK)
    noted_squares, square_pairs = new_block(BLOCK)
    find_block_by_block(
        kind, words, groups, live, ends, base, exponent, counts, sums, squares, specials, divisors, mean_divisors,
        sizes, totals, means, variances, samples,
        np.empty(low + wide + 8, np.int64), np.empty(4, np.int64), np.empty((1, wide + 6), np.int64),
        noted, pairs, noted_squares, square_pairs,
        np.zeros(BLOCK, np.int64), np.zeros(BLOCK, np.int64), np.zeros(BLOCK, np.int64),
    )  # fmt: skip


@kernel(borrows=True)
def find_block_by_block(
    kind, words, groups, live, ends, base, exponent, counts, sums, squares, specials, divisors, mean_divisors,
    sizes, totals, means, variances, samples,
    digits, parts, scratch, noted, pairs, noted_squares, square_pairs, size, special, told,
):  # fmt: skip
    """The same, with room for what is known of the cells of a block."""
    width, wide = sums.shape[1], squares.shape[1]
    low, mean_low = room_below(divisors), room_below(mean_divisors)
    # Powers of ten are divided by digit by digit.
    unscaled = len(divisors) == 2
    lowest = exponent + 32 * base
    stop = 0
    for first in range(0, len(ends), BLOCK):
        start, block = stop, min(BLOCK, len(ends) - first)
        for k in range(block):
            g = groups[stop]
            n, row, square_row = counts[g], row_of(sums, g), row_of(squares, g)
            for i in range(stop, ends[first + k]):
                if i + AHEAD < len(groups):
                    prefetch(row_of(sums, groups[i + AHEAD]))
                    prefetch(row_of(squares, groups[i + AHEAD]))
                d = live[i]
                if d == 0:
                    continue
                n += d
                if kind == FLOAT and float_exponent(words[i]) == SPECIAL:
                    note_special(words[i], d, specials, g)
                else:
                    add_value(kind, words, i, d, base, row, square_row, parts)
            stop = ends[first + k]
            counts[g] = size[k] = sizes[first + k] = n
            if not unscaled:
                if len(means):
                    means[first + k] = whole_mean(sums, g, n, digits, mean_low, lowest, mean_divisors) if n > 0 else 0
                for less in range(2):
                    out = samples if less else variances
                    if len(out):
                        bits = np.int64(0)
                        if n > less:
                            bits = whole_variance(squares, sums, g, n, less, digits, low, lowest, scratch, divisors)
                        out[first + k] = bits
                continue
            special[k] = special_total(specials, g) if kind == FLOAT else 0
            note_leading(row, width, noted, k)
            note_leading(square_row, wide, noted_squares, k)
            if len(totals) and special[k]:
                totals[first + k] = special[k]
            elif len(totals):
                top, negative = settle(sums, g, digits, 0)
                totals[first + k] = nearest_double(digits, top, lowest, False, negative)
        if not unscaled:
            continue
        make_pairs(noted, size, pairs)
        open_ends = False
        if len(means):
            decide_quotients(pairs, noted[PLACE], size, lowest, told)
            for k in range(block):
                bits = special[k] if special[k] else told[k]
                means[first + k] = bits if size[k] > 0 else np.int64(0)
                open_ends |= means[first + k] == UNDECIDED
        if len(variances) or len(samples):
            make_pairs(noted_squares, size, square_pairs)
        for less in range(2):
            out = samples if less else variances
            if len(out) == 0:
                continue
            decide_variances(
                square_pairs, noted_squares[PLACE], pairs, noted[PLACE], size, less, 2 * lowest, told
            )  # fmt: skip
            for k in range(block):
                bits = NOT_A_NUMBER if special[k] else told[k]
                out[first + k] = bits if size[k] > less else np.int64(0)
                open_ends |= out[first + k] == UNDECIDED
        if not open_ends:
            continue
        for c in range(first + block - 1, first - 1, -1):
            begin, n = ends[c - 1] if c else 0, sizes[c]
            g = groups[begin]
            if len(means) and means[c] == UNDECIDED:
                means[c] = whole_mean(sums, g, n, digits, mean_low, lowest, mean_divisors)
            for less in range(2):
                out = samples if less else variances
                if len(out) and out[c] == UNDECIDED:
                    out[c] = whole_variance(squares, sums, g, n, less, digits, low, lowest, scratch, divisors)
            for i in range(begin, ends[c]):
                if live[i]:
                    add_value(kind, words, i, -live[i], base, row_of(sums, g), row_of(squares, g), parts)
        for i in range(start, stop):
            if live[i]:
                g = groups[i]
                add_value(kind, words, i, live[i], base, row_of(sums, g), row_of(squares, g), parts)
