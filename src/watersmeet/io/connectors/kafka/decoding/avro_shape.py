"""Whether records of Avro are what their schema says, before they are read column by column.

The reader of columns believes its bytes: one that is cut off makes it panic, in words of its own that nobody can catch.
So all records are walked first. A schema becomes a few steps, each a kind and a number; a record is whole if the steps
end where it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from watersmeet.compiling import kernel

# The kind of a step; what its number means stands behind it.
NULL, NUMBER, SIZED, SKIP, TRUTH, CHOICE = range(6)  # SKIP: so many bytes; CHOICE: one of so many symbols
FIRST_NULL, LAST_NULL = 6, 7  # a null or what the next steps say, of which there are so many
SEVERAL = 8  # items of which each is what the next steps say, of which there are so many

Steps = npt.NDArray[np.int64]
_PLAIN = {
    "null": (NULL, 0),
    "boolean": (TRUTH, 0),
    "int": (NUMBER, 32),
    "long": (NUMBER, 64),
    "float": (SKIP, 4),
    "double": (SKIP, 8),
    "bytes": (SIZED, 0),
    "string": (SIZED, 1),
}
_EMPTY = ((NULL, 0), (SKIP, 0))  # of which any number may stand nowhere


def steps_of(schema: Any) -> Steps | None:
    """None if there are items within items, items without bytes, or types that steps do not know."""
    found = _steps(schema, may_repeat=True)
    return None if found is None else np.array(found, np.int64).reshape(-1, 2)


def are_whole(values: Sequence[bytes], steps: Steps) -> npt.NDArray[np.bool_]:
    """Of each record whether it is what the steps say, no byte more or less."""
    ends = np.fromiter(accumulate(map(len, values)), np.int64, len(values))
    data = np.frombuffer(b"".join(values) or b"\0", np.uint8)
    found: npt.NDArray[np.bool_] = _walked(data, ends, steps)
    return found


def _steps(schema: Any, *, may_repeat: bool) -> list[tuple[int, int]] | None:
    match schema:
        case str():
            return [_PLAIN[schema]] if schema in _PLAIN else None
        case ["null", kind]:
            return _behind(FIRST_NULL, kind, may_repeat)
        case [kind, "null"]:
            return _behind(LAST_NULL, kind, may_repeat)
        case {"type": "record", "fields": fields}:
            parts = [_steps(one["type"], may_repeat=may_repeat) for one in fields]
            return None if None in parts else [step for part in parts for step in part or ()]
        case {"type": "array", "items": items}:
            several = _behind(SEVERAL, items, may_repeat=False) if may_repeat else None
            return None if several is None or all(step in _EMPTY for step in several[1:]) else several
        case {"type": "fixed", "size": int(size)}:
            return [(SKIP, size)]
        case {"type": "enum", "symbols": [*symbols]}:
            return [(CHOICE, len(symbols))]
        case {"type": kind} if kind not in ("map", "record", "array", "fixed", "enum"):
            return _steps(kind, may_repeat=may_repeat)
    return None


def _behind(step: int, schema: Any, may_repeat: bool) -> list[tuple[int, int]] | None:
    inner = _steps(schema, may_repeat=may_repeat)
    return None if inner is None else [(step, len(inner)), *inner]


# All in one, as kernels that call each other are not compiled into each other.
@kernel
def _walked(data, ends, steps):  # type: ignore[no-untyped-def]
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
