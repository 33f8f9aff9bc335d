"""Exact numbers as rows of 32-bit digits, lowest first, each kept in an int64 so that sums need no carries.

A row of digits d and an exponent e mean the number sum(d[j] * 2**(32 j)) * 2**e. Adding up numbers adds up their
digits; the digits may go negative and far beyond 32 bits (2**28 numbers fit) until `settle` brings them in order.
Results are rounded once: the nearest double, ties to even.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from watersmeet.compiling import intrinsic, kernel


@intrinsic
def bit_length(typingctx: Any, word: Any) -> Any:
    """How many bits a non-negative int64 has: 64 without its leading zeros."""
    from llvmlite import ir
    from numba import types

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # The 0 asks for a defined answer, 64, where no bit is set.
        zeros = builder.ctlz(args[0], ir.IntType(1)(0))
        return builder.sub(ir.IntType(64)(64), zeros)

    return types.int64(types.int64), codegen


# how a value is given: one word, except for decimals, which have two
INTEGER, UNSIGNED, DECIMAL, FLOAT = range(4)

MASK = np.int64(0xFFFFFFFF)
# 53 bits that begin anywhere in a digit end in the third at most.
FLOAT_DIGITS = 3
LOWEST_FLOAT_EXPONENT = -1074
FRACTION = np.int64((1 << 52) - 1)
SPECIAL = 0x7FF
INFINITY = np.int64(SPECIAL << 52)
NOT_A_NUMBER = np.int64((SPECIAL << 52) | (1 << 51))
SIGN = np.int64(-(2**63))


@kernel(inline="always")
def float_exponent(bits):
    """The exponent field of a double; SPECIAL for infinities and NaN."""
    return (bits >> 52) & SPECIAL


@kernel(inline="always")
def float_place(bits):
    """The bit, counted from the lowest bit a double can have, at which the 53 bits of a double start."""
    return max(float_exponent(bits), 1) - 1


@kernel(inline="always")
def split_float(bits):
    """The place of the first digit of a finite double, and its three digits."""
    place = float_place(bits)
    mantissa = bits & FRACTION
    if float_exponent(bits):
        mantissa |= FRACTION + 1
    shift = place & 31
    # What the shift to the left loses at the top is here.
    rest = mantissa >> (32 - shift)
    return place >> 5, (mantissa << shift) & MASK, rest & MASK, rest >> 32


@kernel(inline="always")
def add_words(words, i, count, unsigned, rows, g, d):
    """Add d times value i, a two's complement of `count` words, to row g."""
    for k in range(count):
        word = words[count * i + k]
        rows[g, 2 * k] += d * (word & MASK)
        high = word >> 32
        # Only the highest digit of a two's complement has the sign.
        if unsigned or k + 1 < count:
            high &= MASK
        rows[g, 2 * k + 1] += d * high


@kernel(inline="always")
def split_whole(low, high, digits):
    """The four digits of a 128-bit magnitude."""
    digits[0] = low & MASK
    digits[1] = (low >> 32) & MASK
    digits[2] = high & MASK
    digits[3] = (high >> 32) & MASK


@kernel
def split(kind, words, i, digits):
    """Value i as digits: how many, the place of the first, and the sign. Floats must be finite."""
    if kind == FLOAT:
        place, digits[0], digits[1], digits[2] = split_float(words[i])
        return FLOAT_DIGITS, place, -1 if words[i] < 0 else 1
    if kind == DECIMAL:
        low, high = words[2 * i], words[2 * i + 1]
        if high >= 0:
            split_whole(low, high, digits)
            return 4, 0, 1
        split_whole(-low, ~high + (1 if low == 0 else 0), digits)
        return 4, 0, -1
    value = words[i]
    negative = kind == INTEGER and value < 0
    # The smallest integer is its own negative, and its bits are those of the magnitude.
    split_whole(-value if negative else value, np.int64(0), digits)
    return 2, 0, -1 if negative else 1


@kernel(borrows=True)
def settle(rows, g, digits, low):
    """Bring the digits of row g in order, as a magnitude at digits[low:] with zeros below and two digits more.

    Returns the highest place that is not zero (-1: none) and whether the number is negative.
    """
    width = rows.shape[1]
    for j in range(low):
        digits[j] = 0
    carry = np.int64(0)
    top = -1
    for j in range(width):
        total = rows[g, j] + carry
        digit = total & MASK
        digits[low + j] = digit
        # This shift rounds down: digits come out between 0 and 2**32 - 1, and the sign is that of the last carry.
        carry = total >> 32
        if digit:
            top = low + j
    end = low + width
    digits[end] = carry & MASK
    digits[end + 1] = (carry >> 32) & MASK
    if carry < 0:
        return complement(digits, low, end + 2), True
    if carry:
        top = end + 1 if digits[end + 1] else end
    return top, False


@kernel(borrows=True)
def complement(digits, low, end):
    """Turn a negative number into its magnitude; its highest place."""
    top = -1
    borrow = np.int64(1)
    for j in range(low, end):
        total = (digits[j] ^ MASK) + borrow
        digits[j] = total & MASK
        borrow = total >> 32
        if digits[j]:
            top = j
    return top


@kernel(borrows=True)
def nearest_double(digits, top, exponent, inexact, negative):
    """The bits of the double nearest to a magnitude; `inexact` says that a little more lies below its digits."""
    sign = SIGN if negative else np.int64(0)
    if top < 0:
        return np.int64(0)
    length = bit_length(digits[top])
    second = digits[top - 1] if top >= 1 else np.int64(0)
    third = digits[top - 2] if top >= 2 else np.int64(0)
    # the 62 highest bits, and whether anything is below them
    shift = 30 - length
    if shift >= 0:
        middle = second << shift
        below = third & ((np.int64(1) << (32 - shift)) - 1)
    else:
        middle = second >> -shift
        below = third | (second & ((np.int64(1) << -shift) - 1))
    bits = (digits[top] << (62 - length)) | middle | (third >> min(32 - shift, 63))
    sticky = inexact or below != 0
    if not sticky:
        for j in range(top - 3, -1, -1):
            if digits[j]:
                sticky = True
                break
    leading = 32 * top + exponent + length - 1
    if leading > 1023:
        return INFINITY | sign
    # A double keeps 53 of the 62 bits; below 2**-1022 one less for each power of two.
    dropped = 9 if leading >= -1022 else 9 - 1022 - leading
    # This is less than half of the smallest double.
    if dropped > 62:
        return sign
    kept = bits >> dropped
    rest = bits & ((np.int64(1) << dropped) - 1)
    half = np.int64(1) << (dropped - 1)
    # Rounding up may carry into the next power of two, and from the last one into infinity.
    if rest > half or (rest == half and (sticky or (kept & 1) != 0)):
        kept += 1
    if leading >= -1022:  # the highest bit of `kept` adds the missing one to the exponent
        kept += np.int64(leading + 1022) << 52
    return kept | sign


@kernel(borrows=True)
def nearest_quotient(digits, top, exponent, divisors, negative):
    """The bits of the double nearest to a magnitude divided by all divisors, each below 2**31; uses up the digits.

    Dividing by one after the other and rounding down each time is dividing by their product and rounding down; only
    whether something was left over matters below the digits that are kept. There must be room_below(divisors) of them.
    """
    if top < 0:
        return np.int64(0)
    bottom = top - room_below(divisors)
    inexact = False
    for j in range(bottom):
        inexact |= digits[j] != 0
    for divisor in divisors:
        rest = np.uint64(0)
        for j in range(top, bottom - 1, -1):
            part = (rest << np.uint64(32)) | np.uint64(digits[j])
            quotient = part // np.uint64(divisor)
            digits[j] = np.int64(quotient)
            rest = part - quotient * np.uint64(divisor)
        inexact |= rest != 0
        # At most once, as a divisor is less than a digit can hold.
        while digits[top] == 0:
            top -= 1
    return nearest_double(digits, top, exponent, inexact, negative)


@kernel(inline="always")
def room_below(divisors):
    """How many digits below the highest a division needs: one may be lost to each divisor, and three are looked at."""
    return len(divisors) + 3


@kernel(borrows=True)
def as_decimal(digits, top, negative, words, i):
    """A magnitude as the two words of a 128-bit decimal; whether it has at most 38 digits."""
    if top > 3:
        return False
    for j in range(top + 1, 4):
        digits[j] = 0
    low = (digits[1] << 32) | digits[0]
    high = (digits[3] << 32) | digits[2]
    # 10**38 is 0x4B3B4CA85A86C47A 098A224000000000
    limit_high, limit_low = np.int64(0x4B3B4CA85A86C47A), np.int64(0x098A224000000000)
    if high < 0 or high > limit_high or (high == limit_high and (low < 0 or low >= limit_low)):
        return False
    if negative:
        high = ~high + (1 if low == 0 else 0)
        low = -low
    words[2 * i] = low
    words[2 * i + 1] = high
    return True


@kernel
def decimals_to_doubles(words, divisors, out):
    """The double nearest to every decimal; `divisors` multiply to the power of ten of its scale."""
    low = room_below(divisors)
    digits = np.empty(low + 8, np.int64)
    row = np.empty((1, 4), np.int64)
    for i in range(len(out)):
        row[:] = 0
        add_words(words, i, 2, False, row, 0, 1)
        top, negative = settle(row, 0, digits, low)
        out[i] = nearest_quotient(digits, top, -32 * low, divisors, negative)
