"""The state of a join in bounded memory as bytes, so that a restart goes on exactly where it was.

Which rows are gone, what the others are worth and what was learnt of keys cannot be had from the rows again; and the
state is bounded. So it is written down whole, without the static tables, which are read anew.
"""

from __future__ import annotations

import pickle

from watersmeet.operators.contract import Operator
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.keeping.bounded import BoundedMemory
from watersmeet.operators.time_order import InTimeOrder


def shedding_join_of(operator: Operator) -> BoundedMemory | None:
    """What keeps the memory of the join inside an operator bounded, if it is."""
    inner = operator.inner if isinstance(operator, InTimeOrder) else operator
    keeping = inner.keeping if isinstance(inner, WindowJoin) else None
    return keeping if isinstance(keeping, BoundedMemory) else None


def saved(operator: Operator) -> bytes:
    joining = shedding_join_of(operator)
    assert joining is not None
    waiting = operator.waiting if isinstance(operator, InTimeOrder) else None
    return pickle.dumps((joining.memory(), waiting), protocol=5)


def resume(operator: Operator, state: bytes) -> None:
    """Bring a fresh operator of the same query to where another was."""
    joining = shedding_join_of(operator)
    assert joining is not None
    memory, waiting = pickle.loads(state)
    joining.remember(memory)
    inner = operator.inner if isinstance(operator, InTimeOrder) else operator
    assert isinstance(inner, WindowJoin)
    inner.measure_stored()
    if isinstance(operator, InTimeOrder):
        operator.waiting = waiting
