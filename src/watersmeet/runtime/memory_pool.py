"""The memory of a script, parted among the joins that run side by side: by what a row more would find in each.

Now and then it is looked at what each has found and lost lately with the part it had, and how steep its recall is
there. Parts then move half way to where all are as steep. Those who give do so first, so that together they never keep
more than there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from watersmeet.operators.contract import Operator
from watersmeet.operators.keeping.marginal_recall import Amounts, Curve, best_parts
from watersmeet.operators.memory_bound import MemoryBound
from watersmeet.plan.memory import Memory
from watersmeet.plan.query import Plan
from watersmeet.plan.shared_memory import FLOOR, by_weight, shares_memory

# Parts are looked at when so many rows have come as a half of those that the memory has room for.
TURNOVER = 0.5
LEAST_ROWS = 256  # but not more often
HALF_WAY = 0.5
FADING = 0.5  # what was found before counts half as much with each look
SURE = 20.0  # so many results as if they had been found in proportion to the rows kept


class Member(Protocol):
    """A query that runs."""

    failure: Exception | None

    @property
    def plan(self) -> Plan: ...

    @property
    def operator(self) -> Operator: ...


M = TypeVar("M", bound=Member)


class MemoryPool(Generic[M]):
    def __init__(self, members: Sequence[M], memory: Memory, fail: Callable[[M, Exception], None]) -> None:
        """fail: is told of a member that cannot keep to its part."""
        self._amount, self._memory = memory.amount, memory
        self._shares = [_Share(one) for one in members]
        self._fail = fail
        self._rows = 0

    @property
    def rows_between_looks(self) -> int:
        return max(LEAST_ROWS, int(TURNOVER * sum(one.member.operator.kept_rows for one in self._shares)))

    def came(self, rows: int) -> None:
        """So many rows were given to those who look at them."""
        self._rows += rows
        if self._rows >= LEAST_ROWS and self._rows >= self.rows_between_looks:
            self._rows = 0
            self.settle()

    def leave(self, member: M) -> None:
        """It has ended, and what it had is for the others. One that failed is left as it is, with its rows."""
        gone = next((one for one in self._shares if one.member is member), None)
        if gone is None:
            return
        self._shares.remove(gone)
        if member.failure is not None:
            self._amount -= gone.amount
        else:
            gone.bounded.let_go()
            self.settle()

    def settle(self) -> None:
        """Look at what each found, and part the memory anew."""
        if not self._shares:
            return
        curves = [one.curve() for one in self._shares]
        had = np.array([one.amount for one in self._shares], np.float64)
        least = [one.least for one in self._shares]
        floor = np.maximum(np.array(least, np.float64), FLOOR * self._amount / len(curves))
        best = best_parts(self._amount, floor, curves)
        # Where there is enough for all, or somebody has left what it had, parts are at once where they are best.
        is_scarce = sum(one.need for one in curves) > self._amount <= had.sum()
        moved = had + (best - had) * (HALF_WAY if is_scarce else 1.0)
        self._set(by_weight(self._amount, least, np.maximum(moved, 1e-9).tolist()))

    def _set(self, amounts: Sequence[int]) -> None:
        pairs = sorted(zip(self._shares, amounts, strict=True), key=lambda pair: pair[1] - pair[0].amount)
        for share, amount in pairs:
            try:
                share.become(self._memory.part(amount))
            except Exception as error:
                self._fail(share.member, error)
                return


class _Share(Generic[M]):
    """What one of them has, and what it finds with it."""

    def __init__(self, member: M) -> None:
        self.member = member
        self.weight = member.plan.options.priority
        assert member.plan.options.memory is not None
        assert member.operator.bounded is not None
        self.bounded: MemoryBound = member.operator.bounded
        self.amount = member.plan.options.memory.amount
        self._results = self._lost = 0
        self._elasticity = 0.5
        self._found: Amounts = np.zeros(2)  # lately: results that were given, and that were lost

    @property
    def least(self) -> int:
        return len(self.bounded.needed) if self.bounded.memory.size is None else self.bounded.least_size

    def become(self, memory: Memory) -> None:
        if memory.amount != self.amount:
            self.amount = memory.amount
            self.bounded.bound_by(memory)

    def curve(self) -> Curve:
        need = max(float(sum(self.bounded.needed.values())), 1.0)
        had = min(float(self.amount), need)
        elasticity = self.bounded.elasticity
        if elasticity is not None:
            self._elasticity += (elasticity - self._elasticity) * HALF_WAY
        return Curve(need, had, self._recall(had / need), self._elasticity, self.weight)

    def _recall(self, part: float) -> float:
        """Lately; if that is not known it is taken to be the part of the rows that were kept."""
        counters = self.member.operator.counters
        if counters.lost_results is None:
            return part
        now = np.array([counters.results - self._results, counters.lost_results - self._lost], np.float64)
        self._results, self._lost = counters.results, counters.lost_results
        self._found = self._found * FADING + now
        given, lost = self._found
        return float((given + part * SURE) / (given + lost + SURE))


def pool_of(running: Sequence[M], fail: Callable[[M, Exception], None]) -> MemoryPool[M] | None:
    """Of those that run side by side: who shares memory, if several do."""
    members = [one for one in running if shares_memory(one.plan) and one.operator.bounded is not None]
    whole = next((one.plan.options.memory.whole for one in members if one.plan.options.memory is not None), None)
    return MemoryPool(members, whole, fail) if whole is not None and len(members) > 1 else None
