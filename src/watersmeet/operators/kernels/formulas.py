"""Formulas over a few rows of numbers, row by row in one call: small programs for a machine with a stack.

A program is a table of steps, each an operation and what it takes; operations of doubles and of integers are told apart
when it is written. What they mean is what operators/scalar says: NaN equals itself and is above all numbers, integers
never wrap around.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.memory import load8, load16, load32, load64, load_double, store64, store_double

OPERATION, OPERAND = range(2)
# What is put onto the stack: a number of the program, or a value of one of the sources.
INTEGER, DOUBLE, INT8, INT16, INT32, INT64, FLOAT64 = range(7)
# What becomes of what lies on top: an integer a double, and the sign.
TO_DOUBLE, NOT, NEGATE_INTEGER, NEGATE_DOUBLE = range(7, 11)
# What becomes of the two on top: integers, the same for doubles, and truths.
ADD_INTEGERS, SUBTRACT_INTEGERS, MULTIPLY_INTEGERS, EQUAL_INTEGERS, LESS_INTEGERS = range(11, 16)
ADD_DOUBLES, SUBTRACT_DOUBLES, MULTIPLY_DOUBLES, EQUAL_DOUBLES, LESS_DOUBLES = range(16, 21)
AND, OR = range(21, 23)
DEEPEST = 16

# columns[c]: a column of the answer is a formula from one step to another; doubles are told from integers.
FIRST_STEP, LAST_STEP, IS_DOUBLE = range(3)

OVERFLOW = -1
# Below 2**63 by far more than three roundings of doubles are off: an integer that is no larger fits. Of one that is,
# others tell whether it does.
SAFE = 9.2e18


@kernel
def choose(steps, doubles, tests, columns, sources, rows, words, out):
    """The rows for which steps up to `tests` hold (if there are any), and their columns, at the address `out` of
    `words`. Gives the number of rows, or OVERFLOW if an integer may be too large, which is for others to tell."""
    integers = np.empty(DEEPEST, np.int64)
    reals = np.empty(DEEPEST, np.float64)
    room = words.shape[1]
    count = 0
    for row in range(rows):
        if tests:
            if not computed(steps, doubles, 0, tests, sources, row, integers, reals):
                return OVERFLOW
            if not integers[0]:
                continue
        for c in range(columns.shape[0]):
            first, last = columns[c, FIRST_STEP], columns[c, LAST_STEP]
            if not computed(steps, doubles, first, last, sources, row, integers, reals):
                return OVERFLOW
            if columns[c, IS_DOUBLE]:
                store_double(out, c * room + count, reals[0])
            else:
                store64(out, c * room + count, integers[0])
        count += 1
    return count


@kernel
def computed(steps, doubles, first, last, sources, row, integers, reals):
    """Run a formula for one row. What comes out lies at the bottom of a stack; false if an integer may be too large."""
    top = -1
    for s in range(first, last):
        operation, operand = steps[s, OPERATION], steps[s, OPERAND]
        if operation <= FLOAT64:
            top += 1
            if operation == INT64:
                integers[top] = load64(sources[operand], row)
            elif operation == FLOAT64:
                reals[top] = load_double(sources[operand], row)
            elif operation == DOUBLE:
                reals[top] = doubles[operand]
            elif operation == INTEGER:
                integers[top] = operand
            elif operation == INT32:
                integers[top] = load32(sources[operand], row)
            elif operation == INT16:
                integers[top] = load16(sources[operand], row)
            else:
                integers[top] = load8(sources[operand], row)
        elif operation == TO_DOUBLE:
            reals[top] = np.float64(integers[top])
        elif operation == NOT:
            integers[top] = 1 - integers[top]
        elif operation == NEGATE_DOUBLE:
            reals[top] = -reals[top]
        elif operation == NEGATE_INTEGER:
            if abs(np.float64(integers[top])) > SAFE:
                return False
            integers[top] = -integers[top]
        elif operation < ADD_DOUBLES or operation >= AND:
            top -= 1
            a, b = integers[top], integers[top + 1]
            if operation == ADD_INTEGERS:
                if abs(np.float64(a) + np.float64(b)) > SAFE:
                    return False
                c = a + b
            elif operation == SUBTRACT_INTEGERS:
                if abs(np.float64(a) - np.float64(b)) > SAFE:
                    return False
                c = a - b
            elif operation == MULTIPLY_INTEGERS:
                if abs(np.float64(a) * np.float64(b)) > SAFE:
                    return False
                c = a * b
            elif operation == EQUAL_INTEGERS:
                c = np.int64(a == b)
            elif operation == LESS_INTEGERS:
                c = np.int64(a < b)
            elif operation == AND:
                c = a & b
            else:
                c = a | b
            integers[top] = c
        else:
            top -= 1
            x, y = reals[top], reals[top + 1]
            if operation == ADD_DOUBLES:
                reals[top] = x + y
            elif operation == SUBTRACT_DOUBLES:
                reals[top] = x - y
            elif operation == MULTIPLY_DOUBLES:
                reals[top] = x * y
            elif operation == EQUAL_DOUBLES:
                integers[top] = np.int64(x == y or (np.isnan(x) and np.isnan(y)))
            else:
                integers[top] = np.int64(x < y or (np.isnan(y) and not np.isnan(x)))
    return True
