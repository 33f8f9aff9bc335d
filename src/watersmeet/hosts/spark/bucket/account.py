"""What a bucket did in one turn: numbers that add up over buckets, and in words what does not. Which metric goes which
way is said by its kind in the table of metrics."""

from __future__ import annotations

from typing import Any

from watersmeet.model.metric import Metric
from watersmeet.operators.contract import Operator
from watersmeet.plan.memory import Memory
from watersmeet.runtime.metrics import BUCKET_METRICS, METRICS, counted

BY_COLUMN = tuple(one for one in METRICS.values() if one.on_spark and one.columns)
BY_TEXT = tuple(one for one in METRICS.values() if one.on_spark and not one.columns)


class Account:
    """Opened before an operator is given rows; what it did is the difference to what was then."""

    def __init__(self, operator: Operator) -> None:
        self._before = counted(operator.counters)

    def _done(self, operator: Operator) -> dict[str, Any]:
        now = counted(operator.counters)
        return {name: METRICS[name].kind.since(self._before[name], value) for name, value in now.items()}

    def numbers(self, operator: Operator) -> dict[str, int]:
        numbers: dict[str, int] = {}
        done = self._done(operator)
        for one in BY_COLUMN:
            if one.name in done:
                numbers |= in_columns(one, done[one.name])
        return numbers

    def told(self, operator: Operator, memory: Memory | None) -> dict[str, Any]:
        """What only this bucket can tell. `memory` is what the bucket may keep, if that is bounded."""
        done, found = self._done(operator), dict[str, Any]()
        # What is empty is left out: texts of all buckets travel to the driver with every batch.
        found |= {
            one.name: done[one.name] for one in BY_TEXT if one.name in done and done[one.name] != one.kind.empty()
        }
        if memory is not None:
            found |= {"memory_rows": memory.rows, "memory_bytes": memory.size, "kept_rows": operator.kept_rows}
            found |= {name: done[name] for name in BUCKET_METRICS if name in done}
        return found


def in_columns(one: Metric, value: Any) -> dict[str, int]:
    """The numbers that a value travels as, by the names of their columns."""
    assert one.kind.to_columns is not None
    return dict(zip(one.columns, one.kind.to_columns(value), strict=True))
