"""Walks records of Avro by the steps of their schema, each of which is a kind and a number."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel

# The kind of a step; what its number means stands behind it.
NULL, NUMBER, SIZED, SKIP, TRUTH, CHOICE = range(6)  # SKIP: so many bytes; CHOICE: one of so many symbols
FIRST_NULL, LAST_NULL = 6, 7  # a null or what the next steps say, of which there are so many
SEVERAL = 8  # items of which each is what the next steps say, of which there are so many


# All in one, as kernels that call each other are not compiled into each other.
@kernel
def walked(data, ends, steps):
    """Of each record, which ends there, whether it ends where its steps do."""
    found = np.zeros(len(ends), np.bool_)
    end = 0
    for record in range(len(ends)):
        at, end = end, ends[record]
        step, several, behind, left = 0, -1, -1, 0  # of items: their step, the one behind theirs, how many are to come
        while True:
            if several >= 0 and step == behind:
                left -= 1
                step = several + 1 if left > 0 else several
                several = several if left > 0 else -1
                continue
            if step == len(steps):
                found[record] = at == end
                break
            kind, number = steps[step, 0], steps[step, 1]
            if kind == NULL:
                step += 1
                continue
            if kind == SKIP:
                at += number
                step += 1
                if at > end:
                    break
                continue
            if kind == TRUTH:
                if at >= end or data[at] > 1:
                    break
                at += 1
                step += 1
                continue
            # All others begin with a number, seven bits of it in every byte.
            made, shift, is_whole = np.uint64(0), np.uint64(0), False
            while at < end and shift < np.uint64(70):
                byte = np.uint64(data[at])
                at += 1
                made |= (byte & np.uint64(0x7F)) << shift
                shift += np.uint64(7)
                if byte < np.uint64(0x80):
                    is_whole = True
                    break
            if not is_whole:
                break
            value = np.int64(made >> np.uint64(1)) ^ -np.int64(made & np.uint64(1))
            if kind == NUMBER:
                if number == 32 and (value < -(1 << 31) or value >= (1 << 31)):
                    break
                step += 1
            elif kind == SIZED:
                if value < 0 or value > end - at:
                    break
                at += value
                step += 1
            elif kind == CHOICE:
                if value < 0 or value >= number:
                    break
                step += 1
            elif kind == SEVERAL:
                if value == 0:
                    step += 1 + number
                    continue
                if value < 0:  # then the size of the items follows, for who wants to pass over them
                    value = -value
                    while at < end and data[at] >= 0x80:
                        at += 1
                    at += 1
                if value < 0 or value > end - at:  # an item has a byte at least
                    break
                several, behind, left = step, step + 1 + number, value
                step += 1
            else:
                if value != 0 and value != 1:
                    break
                is_null = (value == 0) == (kind == FIRST_NULL)
                step += 1 + (number if is_null else 0)
    return found
