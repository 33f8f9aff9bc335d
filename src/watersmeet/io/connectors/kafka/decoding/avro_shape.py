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

from watersmeet.io.connectors.kafka.decoding.kernels.avro_walk import (
    CHOICE,
    FIRST_NULL,
    LAST_NULL,
    NULL,
    NUMBER,
    SEVERAL,
    SIZED,
    SKIP,
    TRUTH,
    walked,
)

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
    found: npt.NDArray[np.bool_] = walked(data, ends, steps)
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
