"""Quotients of exact numbers by way of two doubles, hi + lo, where that tells the nearest double for certain.

The first digits of a number (see digits.py) make a pair with a bound of its error, and a quotient of pairs has one too:
where both ends of what it may be round to the same double, so does the quotient. This test of Ziv's fails for one of
many thousands of numbers, for those halfway between two doubles, and for what cancelled out: then all digits are
divided.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from watersmeet.compiling import intrinsic, kernel
from watersmeet.operators.kernels.digits import MASK, SPECIAL
from watersmeet.operators.kernels.memory import load64

# Of a number so many digits are looked at, from the first that is not 0 on.
LEADING = 5
MOST_VALUES = np.int64(1 << 26)  # the square is exact as a double
UNDECIDED = np.int64(-1)  # the bits of a NaN that no division gives
TWO_TO_52 = np.int64((1023 + 52) << 52)  # as bits of a double

# noted[f]: of each cell of a block the leading digits of a row, then the place of the first, and what they carry
PLACE, CARRY = range(LEADING, LEADING + 2)
# pairs[f]: of each cell hi, lo and the error of their sum, in units of its first digit
HI, LO, ERROR = range(3)


@intrinsic
def fma(typingctx: Any, x: Any, y: Any, z: Any) -> Any:
    """x y + z, rounded once."""
    from llvmlite import ir
    from numba import types

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        double = ir.DoubleType()
        kind = ir.FunctionType(double, [double] * 3)
        return builder.call(builder.module.declare_intrinsic("llvm.fma", [double], kind), args)

    return types.float64(types.float64, types.float64, types.float64), codegen


@intrinsic
def bits_of(typingctx: Any, x: Any) -> Any:
    """The bits of a double."""
    from llvmlite import ir
    from numba import types

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def double_of(typingctx: Any, bits: Any) -> Any:
    """The double of some bits."""
    from llvmlite import ir
    from numba import types

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic
def over(typingctx: Any, x: Any, y: Any) -> Any:
    """x / y as the processor divides: Python's way looks for 0 first, and so takes one number at a time."""
    from numba import types

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fdiv(*args)

    return types.float64(types.float64, types.float64), codegen


@kernel(inline="always")
def as_double(word):
    """A word from -2**51 to 2**51 - 1: what 2**51 is added to is the fraction of a double from 2**52 on. Not all
    processors make doubles of several words at once."""
    return double_of((word + (1 << 51)) | TWO_TO_52) - (2.0**52 + 2.0**51)


@kernel(inline="always")
def lost(x, y, total):
    """What is lost in total = x + y (Knuth)."""
    back = total - x
    return (x - (total - back)) + (y - back)


@kernel(inline="always")
def row_of(rows, g):
    """Where row g lies: as an argument an array would have its references counted in every call."""
    return np.int64(rows.ctypes.data) + 8 * rows.shape[1] * g


@kernel(borrows=True)
def leading(row, width, n):
    """A row of digits, to which n values were added, as (hi + lo) 2**exponent, and the error that hi + lo may have."""
    top = width - 1
    while top > 0 and load64(row, top) == 0:
        top -= 1
    bottom = max(0, top + 1 - LEADING)
    # Of n values each adds at most seven times 2**32 to a digit, so that digits left out are less than this.
    scale = double_of(np.int64(1023 - 32 * (top - bottom)) << 52)
    error = 8.0 * n * scale if bottom else 0.0
    carry = np.int64(0)
    hi, lo = 0.0, 0.0
    for j in range(bottom, top + 1):
        total = load64(row, j) + carry
        carry = total >> 32
        part = np.float64(total & MASK) * scale
        more = hi + part
        lo += lost(hi, part, more)
        hi = more
        scale *= 2.0**32
    part = np.float64(carry) * scale
    more = hi + part
    lo += lost(hi, part, more)
    # Each of a few sums loses at most 2**-53 of what is there, and so does each of their losses.
    return more, lo, error + 2.0**-99 * (hi + abs(part)), 32 * top


@kernel(inline="always")
def decided(hi, lo, error, divisor, exponent):
    """The bits of the double nearest to (hi + lo) / divisor * 2**exponent, or UNDECIDED; error: that of hi + lo."""
    quotient = over(hi, divisor)
    rest = over(fma(-quotient, divisor, hi) + lo, divisor)
    # The roundings of the rest are less than 2**-51 of it, and those of this bound too.
    error = over(1.125 * error, divisor) + 2.0**-50 * abs(rest)
    nearest = quotient + (rest - error)
    bits = bits_of(nearest)
    before = (bits >> 52) & SPECIAL
    after = before + exponent
    # Doubles below the smallest normal one, and 0, have other gaps.
    sure = (nearest == quotient + (rest + error)) & (before != 0) & (after > 0) & (after < SPECIAL)
    return bits + (np.int64(exponent) << 52) if sure else UNDECIDED


@kernel(borrows=True)
def quotient_of(sums, width, n, exponent):
    """The bits of the double nearest to a row of digits divided by n, or UNDECIDED; digit 0 has the exponent."""
    if n >= MOST_VALUES:
        return UNDECIDED
    hi, lo, error, more = leading(sums, width, n)
    return decided(hi, lo, error, np.float64(n), exponent + more)


@kernel
def new_block(cells):
    """What is noted of as many cells, and their pairs."""
    return np.zeros((LEADING + 2, cells), np.int64), np.zeros((3, cells))


@kernel(inline="always")
def note_leading(row, width, noted, k):
    """The leading digits of a row, the highest that is not 0 among them."""
    bottom = max(0, width - LEADING)
    while bottom > 0 and load64(row, bottom + LEADING - 1) == 0:
        bottom -= 1
    # Above a short row there are zeros already.
    for j in range(min(width, LEADING)):
        noted[j, k] = load64(row, bottom + j)
    noted[PLACE, k] = bottom


@kernel(borrows=True)
def make_pairs(noted, sizes, pairs):
    """The pair of every cell of a block; see `leading`. sizes: how many values were added to its row."""
    carry, places, hi, lo, error = noted[CARRY], noted[PLACE], pairs[HI], pairs[LO], pairs[ERROR]
    carry[:] = 0
    hi[:] = 0.0
    lo[:] = 0.0
    scale = 1.0
    for j in range(LEADING):
        digits = noted[j]
        for k in range(len(sizes)):
            # Carried to the nearest, so that a sum that is negative does not begin with a carry that cancels.
            total = digits[k] + carry[k]
            carry[k] = (total + (1 << 31)) >> 32
            part = as_double(total - (carry[k] << 32)) * scale
            more = hi[k] + part
            lo[k] += lost(hi[k], part, more)
            hi[k] = more
        scale *= 2.0**32
    for k in range(len(sizes)):
        part = as_double(carry[k]) * scale
        more = hi[k] + part
        lo[k] += lost(hi[k], part, more)
        left_out = 8.0 * as_double(sizes[k]) if places[k] else 0.0
        error[k] = left_out + 2.0**-99 * (abs(hi[k]) + abs(part))
        hi[k] = more


@kernel(borrows=True)
def decide_quotients(pairs, places, sizes, exponent, told):
    """For every cell of a block the bits of the double nearest to the number of its pair divided by its size, or
    UNDECIDED; digit 0 has the exponent."""
    hi, lo, error = pairs[HI], pairs[LO], pairs[ERROR]
    for k in range(len(sizes)):
        bits = decided(hi[k], lo[k], error[k], as_double(sizes[k]), exponent + 32 * places[k])
        told[k] = bits if sizes[k] < MOST_VALUES else UNDECIDED


@kernel(borrows=True)
def decide_variances(pairs, places, sum_pairs, sum_places, sizes, less, exponent, told):
    """For every cell of a block the bits of the double nearest to (n (sum of squares) - (sum)**2) / (n (n - less)), or
    UNDECIDED. Digit 0 of the squares has the exponent, and digit 0 of the sum half of it."""
    his, los, errors = pairs[HI], pairs[LO], pairs[ERROR]
    sum_his, sum_los, sum_errors = sum_pairs[HI], sum_pairs[LO], sum_pairs[ERROR]
    for k in range(len(sizes)):
        hi, lo, sum_hi, sum_lo = his[k], los[k], sum_his[k], sum_los[k]
        # The square of the sum is at most n times the sum of squares, so this is small; below, it counts for nothing.
        shift = min(max(32 * (2 * sum_places[k] - places[k]), -1000), 1000)
        scale = double_of((shift + 1023) << 52)
        count = as_double(sizes[k])
        first, first_lo = count * hi, count * lo
        second, crossed = sum_hi * sum_hi, 2.0 * abs(sum_hi * sum_lo) + sum_lo * sum_lo
        second_lo = scale * (fma(sum_hi, sum_hi, -second) + (2.0 * sum_hi * sum_lo + sum_lo * sum_lo))
        second *= scale
        difference = first - second
        rest = lost(first, -second, difference) + ((fma(count, hi, -first) + first_lo) - second_lo)
        # That of the two pairs; then the roundings of what is below the doubles, of which each may be the largest.
        error = count * errors[k] + 2.5 * scale * (abs(sum_hi) + abs(sum_lo)) * sum_errors[k]
        error += 2.0**-50 * (abs(first_lo) + scale * crossed) + 2.0**-100 * (first + second)
        bits = decided(difference, rest, error, count * (count - less), exponent + 32 * places[k])
        told[k] = bits if sizes[k] < MOST_VALUES else UNDECIDED
