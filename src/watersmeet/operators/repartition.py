"""State in another number of parts: n of one, one of n. keyed_state.py says what becomes of what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.operators.counters import counted_together
from watersmeet.operators.kernels.spread import coordinates, grouped
from watersmeet.operators.keyed_state import KeyedRows, KeyedState


def split(state: KeyedState, parts: int) -> list[KeyedState]:
    """The same state in so many parts, each with the rows of the keys that are placed there."""
    cut = {name: _cut(rows, parts) for name, rows in state.rows.items()}
    found = [
        KeyedState(
            {name: pieces[i] for name, pieces in cut.items()},
            state.copies,
            latest=state.latest,
            earliest=state.earliest,
        )
        for i in range(parts)
    ]
    first = replace(state, rows=found[0].rows)
    return [first, *found[1:]]


def _cut(rows: KeyedRows, parts: int) -> list[KeyedRows]:
    order, starts = grouped(coordinates(rows.keys, parts), parts)
    return [rows.take(order[starts[i] : starts[i + 1]]) for i in range(parts)]


def merge(states: Sequence[KeyedState]) -> KeyedState:
    """What several parts hold, as one."""
    whole, whole_rows = _only_whole(states)
    return KeyedState(
        {name: _together([one.rows.get(name) for one in states]) for name in _names(states, "rows")},
        states[0].copies,
        _by_name(states, "counters", counted_together),
        _by_name(states, "totals", sum),
        _by_name(states, "latest", max),
        _by_name(states, "earliest", min),
        whole,
        whole_rows,
    )


def _names(states: Sequence[KeyedState], kind: str) -> list[str]:
    return list(dict.fromkeys(name for one in states for name in getattr(one, kind)))


def _by_name(states: Sequence[KeyedState], kind: str, together: Callable[[list[Any]], Any]) -> dict[str, Any]:
    """What is not there in a part, or None there, it does not speak of."""
    found: dict[str, Any] = {}
    for name in _names(states, kind):
        known = [value for one in states if (value := getattr(one, kind).get(name)) is not None]
        found[name] = together(known) if known else None
    return found


def _together(parts: Sequence[KeyedRows | None]) -> KeyedRows:
    """The rows of all parts, each with the number of its part."""
    held = [(i, rows) for i, rows in enumerate(parts) if rows is not None]
    full = [(i, rows) for i, rows in held if len(rows)] or held[:1]
    first = full[0][1]
    numbers = {name: np.concatenate([rows.numbers[name] for _, rows in full]) for name in first.numbers}
    data = pa.concat_batches([rows.data for _, rows in full]) if first.data.num_columns else first.data
    origins = np.concatenate([np.full(len(rows), i, np.int64) for i, rows in full])
    return KeyedRows(np.concatenate([rows.keys for _, rows in full]), origins, numbers, data)


def _only_whole(states: Sequence[KeyedState]) -> tuple[dict[str, Any], int]:
    """The one part that holds what does not divide; those that hold no row of it have only kept time."""
    held = [i for i, one in enumerate(states) if one.whole_rows]
    if len(held) > 1:
        raise DataError(
            f"parts {' and '.join(map(str, held))} of a state cannot be merged: both hold rows of an operator whose "
            "state does not divide by key",
            hint="send all rows of such a query to one part",
        )
    chosen = held[0] if held else next((i for i, one in enumerate(states) if one.whole), 0)
    return states[chosen].whole, states[chosen].whole_rows
