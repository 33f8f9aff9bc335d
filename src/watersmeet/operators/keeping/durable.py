"""The state of a join in bounded memory as bytes, so that a restart goes on exactly where it was.

Which rows are gone, what the others are worth and what was learnt of keys cannot be had from the rows again; and the
state is bounded. So it is written down whole, without the static tables, which are read anew.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from watersmeet.operators.contract import Operator
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.keeping.bounded import BoundedMemory
from watersmeet.operators.time_order import InTimeOrder


def shedding_join_of(operator: Operator) -> BoundedMemory | None:
    """What keeps the memory of the join inside an operator bounded, if it is."""
    inner = operator.inner if isinstance(operator, InTimeOrder) else operator
    keeping = inner.keeping if isinstance(inner, WindowJoin) else None
    return keeping if isinstance(keeping, BoundedMemory) else None


def memory_of(bounded: BoundedMemory) -> dict[str, Any]:
    """All that rows and time have changed, except the static tables."""
    parts = {f"{part}.{name}": getattr(one, name) for part, one in bounded.parts.items() for name in one.CHANGES}
    return {"stores": bounded.shed, "row_windows": bounded.row_windows, **parts}


def remember(bounded: BoundedMemory, memory: Mapping[str, Any]) -> None:
    """Go on where another join of the same query was, which may have gone by other routes."""
    # In place, as the join and other parts share these.
    bounded.shed.update(memory["stores"])
    bounded.stores.update(bounded.shed)
    bounded.row_windows.update(memory["row_windows"])
    for alias, store in bounded.shed.items():
        store.index_by(*bounded.layout.index_keys(alias))
    for part, one in bounded.parts.items():
        for name in one.CHANGES:
            setattr(one, name, memory[f"{part}.{name}"])


def saved(operator: Operator) -> bytes:
    joining = shedding_join_of(operator)
    assert joining is not None
    waiting = operator.waiting if isinstance(operator, InTimeOrder) else None
    return pickle.dumps((memory_of(joining), waiting), protocol=5)


def resume(operator: Operator, state: bytes) -> None:
    """Bring a fresh operator of the same query to where another was."""
    joining = shedding_join_of(operator)
    assert joining is not None
    memory, waiting = pickle.loads(state)
    remember(joining, memory)
    inner = operator.inner if isinstance(operator, InTimeOrder) else operator
    assert isinstance(inner, WindowJoin)
    inner.measure_stored()
    if isinstance(operator, InTimeOrder):
        operator.waiting = waiting
