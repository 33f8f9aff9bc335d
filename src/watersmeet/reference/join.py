"""The answer of a query as it comes out, by recomputation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from watersmeet.plan.query import Plan
from watersmeet.reference.continuous import End, change_log
from watersmeet.reference.inputs import Arrivals
from watersmeet.reference.values import present

_US = 1_000  # nanoseconds


def answer(plan: Plan, arrivals: Arrivals, ends: Sequence[End] = ()) -> list[tuple[Any, ...]]:
    """The bag of output rows, given for every stream and table by name its rows in the order they arrive, without those
    of streams that come too late: which ones these are depends on how the streams come side by side. `ends`: where all
    of it had ended before it went on.

    The columns are those of `plan.output_schema`; a log is in the order of its instants.
    """
    kinds = [field.type for field in plan.output_schema]
    log = [(*_marks(plan, op, at_us), *row) for op, at_us, row in change_log(plan, arrivals, ends)]
    return [tuple(present(value, kind) for value, kind in zip(row, kinds, strict=True)) for row in log]


def _marks(plan: Plan, op: str, at_us: int) -> tuple[str | int, ...]:
    match plan.kind:
        case "rows":
            return ()
        case "changes":
            return (op, at_us * _US)
    return (at_us * _US,)
