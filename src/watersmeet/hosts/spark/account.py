"""What a bucket did in one turn: numbers that add up over buckets, and in words what does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from watersmeet.operators.contract import Counters, Operator
from watersmeet.plan.memory import Memory

NOW = "_held"  # how names of work end that is not done but there


class Account:
    """Opened before an operator is given rows; what it did is the difference to what was then."""

    def __init__(self, operator: Operator) -> None:
        counters = operator.counters
        self._numbers = _numbers(counters)
        self._shed = dict(counters.shed_rows)
        self._incomplete = counters.incomplete_rows or 0
        self._work = dict(counters.work)

    def numbers(self, operator: Operator) -> dict[str, int]:
        counters = operator.counters
        done = {name: now - self._numbers[name] for name, now in _numbers(counters).items()}
        done["unknown_losses"] = int(counters.lost_results is None)
        done["estimated_losses"] = int(counters.losses_are_estimated)
        return done

    def told(self, operator: Operator, bucket: int, memory: Memory | None, **more: Any) -> str | None:
        """What only this bucket can tell, as JSON; None if there is nothing: memory is not bounded, no work counted,
        and no `more`.

        `memory` is what the bucket may keep.
        """
        counters, told = operator.counters, dict[str, Any](more)
        if memory is not None:
            lost, incomplete = counters.lost_results, counters.incomplete_rows
            told |= {"memory_rows": memory.rows, "memory_bytes": memory.size, "window_rows": operator.window_rows}
            told["results"] = counters.results - self._numbers["results"]
            told["lost_results"] = None if lost is None else lost - self._numbers["lost_results"]
            told["incomplete_rows"] = None if incomplete is None else incomplete - self._incomplete
            told["shed_by_stream"] = _since(self._shed, counters.shed_rows)
        if counters.work:
            done = _since(self._work, counters.work)
            told["work"] = done | {name: now for name, now in counters.work.items() if name.endswith(NOW)}
        return json.dumps({"bucket": bucket, **told}) if told else None


def _since(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    return {name: value - before.get(name, 0) for name, value in now.items()}


def _numbers(counters: Counters) -> dict[str, int]:
    return {
        "stored_rows": counters.stored_rows,
        "expired_rows": counters.expired_rows,
        "results": counters.results,
        "plan_switches": len(counters.switches),
        "shed_rows": sum(counters.shed_rows.values()),
        "queue_shed_rows": counters.queue_shed_rows,
        "lost_results": counters.lost_results or 0,
        "kernel_ns": int(counters.kernel_seconds * 1e9),
    }
