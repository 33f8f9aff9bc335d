"""The state of operators whose rows of some keys are spread, as one, and the share of each in such a state.

Copies are told apart from the rows that are counted: merged, a row is there once, and where the state is shared out
again its copies are made anew, by whatever keys are spread then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.operators.codes import Codes
from watersmeet.operators.contract import Operator
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.kernels.spread import coordinates
from watersmeet.operators.keyed_state import KeyedRows, KeyedState, distinguished
from watersmeet.operators.outer.sides import Sided
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.operators.repartition import merge
from watersmeet.operators.spread_rows import are_spread
from watersmeet.physical.hidden import SERIAL
from watersmeet.physical.partitioning import SpreadKeys


def tells_copies(operator: Operator) -> bool:
    """Whether it tells what it has of streams that are copied apart from the rest."""
    return isinstance(operator, WindowJoin) or (
        isinstance(operator, Sided) and all(map(tells_copies, operator.side_operators.values()))
    )


def gathered(operators: Sequence[Operator], key: PartitionKey, spread: SpreadKeys) -> KeyedState:
    """What several hold between them, by the key that places the rows of all keys that are not spread."""
    parts = len(operators)
    return merge([_at_home(one, key, spread, parts, place) for place, one in enumerate(operators)])


def _at_home(operator: Operator, key: PartitionKey, spread: SpreadKeys, parts: int, place: int) -> KeyedState:
    """What one has, without rows that are counted in another."""
    state = operator.keyed_state(_copying(key, spread))
    everywhere = _names_of_copies(operator, key)

    def at_home(rows: KeyedRows) -> KeyedRows:
        away = are_spread(spread, rows.keys) & (coordinates(rows.keys, parts) != place)
        return rows.take(np.flatnonzero(~away))

    some = {name: at_home(rows) for name, rows in state.copies.items() if name not in everywhere}
    whole = {name: rows for name, rows in state.copies.items() if name in everywhere}
    return replace(state, rows={**state.rows, **some}, copies=whole)


def shares(
    state: KeyedState, operator: Operator, key: PartitionKey, spread: SpreadKeys, parts: int
) -> Iterator[KeyedState]:
    """That of each of so many parts. operator: any of them, which knows the names of what it holds."""
    for place in range(parts):
        rows = shared_rows(state, operator, key, spread, parts, place)
        first = replace(state, rows=rows)
        yield first if place == 0 else KeyedState(rows, state.copies, latest=state.latest, earliest=state.earliest)


def shared_rows(
    state: KeyedState, operator: Operator, key: PartitionKey, spread: SpreadKeys, parts: int, place: int
) -> dict[str, KeyedRows]:
    """Those of one part: of spread keys all that are copied, and of the others its share, by their numbers, so that
    what is said of a row lies with it."""
    copied = _names_of_copies(operator, _copying(key, spread))

    def own(name: str, rows: KeyedRows) -> KeyedRows:
        many, home = are_spread(spread, rows.keys), coordinates(rows.keys, parts)
        dealt = coordinates(_numbers_of(rows), parts)
        here = (home == place) | many if name in copied else np.where(many, dealt, home) == place
        return rows.take(np.flatnonzero(here))

    return {name: own(name, rows) for name, rows in state.rows.items()}


def _copying(key: PartitionKey, spread: SpreadKeys) -> PartitionKey:
    """By which operators tell what they have of the streams that are copied apart from the rest."""
    return replace(key, copied=key.copied | (frozenset(key.codes) - {spread.split}))


def _names_of_copies(operator: Operator, key: PartitionKey) -> frozenset[str]:
    return frozenset(operator.keyed_state(key).copies) if key.copied else frozenset()


def _numbers_of(rows: KeyedRows) -> Codes:
    """By which rows are told apart, the same in all that is said of a row."""
    if SERIAL in rows.data.schema.names:
        numbers = rows.data.column(SERIAL).view(pa.int64()).to_numpy(zero_copy_only=False)
    else:
        numbers = rows.numbers.get("order", np.arange(len(rows)))
    return distinguished(rows.origins, numbers)
