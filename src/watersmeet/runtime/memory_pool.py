"""The memory of a script, parted among the joins that run side by side: by what a row more would find in each.

Now and then it is looked at what each has found and lost lately with the part it had, and how steep its recall is
there. Parts then move half way to where all are as steep. Those who give do so first, so that together they never keep
more than there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from watersmeet.operators.contract import Operator
from watersmeet.operators.keeping.marginal_recall import Amounts, Curve, best_parts
from watersmeet.operators.memory_bound import MemoryBound
from watersmeet.plan.memory import Memory
from watersmeet.plan.query import Plan
from watersmeet.plan.shared_memory import by_weight, shares_memory

# Parts are looked at when so many rows have come as a half of those that the memory has room for.
TURNOVER = 0.5
LEAST_ROWS = 256  # but not more often
HALF_WAY = 0.5
FADING = 0.5  # what was found before counts half as much with each look
SURE = 20.0  # so many results as if they had been found in proportion to the rows kept
FLOOR = 1 / 32  # of an equal part, so that what a join would find with more shows


class Member(Protocol):
    """A query that runs."""

    @property
    def plan(self) -> Plan: ...

    @property
    def operator(self) -> Operator: ...


class MemoryPool:
    def __init__(self, members: Sequence[Member], memory: Memory) -> None:
        self.memory = memory
        self._shares = [_Share(one) for one in members]
        self._rows = 0
        self._set(by_weight(memory.amount, self._least(), [one.weight for one in self._shares]))

    def came(self, rows: int) -> None:
        """So many rows were given to each of those who look at them."""
        self._rows += rows
        if self._rows >= max(LEAST_ROWS, TURNOVER * sum(one.kept_rows for one in self._shares)):
            self._rows = 0
            self.settle()

    def leave(self, member: Member) -> None:
        """It has ended, and what it had is for the others."""
        gone = [one for one in self._shares if one.member is member]
        if gone and len(self._shares) > 1:
            self._shares.remove(gone[0])
            self.settle()

    def settle(self) -> None:
        """Look at what each found, and part the memory anew."""
        curves = [one.curve() for one in self._shares]
        had = np.array([one.amount for one in self._shares], np.float64)
        least = np.array(self._least(), np.float64)
        floor = np.maximum(least, FLOOR * self.memory.amount / len(curves))
        best = best_parts(self.memory.amount, floor, curves)
        # What a member that has left had is no longer among the parts, and goes where it is best at once.
        free = self.memory.amount - had.sum()
        moved = had + (best - had) * (HALF_WAY if free <= 0 else 1.0)
        self._set(by_weight(self.memory.amount, least.astype(int).tolist(), np.maximum(moved, 1e-9).tolist()))

    def _least(self) -> list[int]:
        least = [one.least for one in self._shares]
        return least if sum(least) <= self.memory.amount else [1] * len(least)

    def _set(self, amounts: Sequence[int]) -> None:
        pairs = sorted(zip(self._shares, amounts, strict=True), key=lambda pair: pair[1] - pair[0].amount)
        for share, amount in pairs:
            share.become(self.memory.part(amount))


class _Share:
    """What one of them has, and what it finds with it."""

    def __init__(self, member: Member) -> None:
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
    def kept_rows(self) -> int:
        return self.member.operator.kept_rows

    @property
    def least(self) -> int:
        if self.bounded.memory.size is not None:
            return self.bounded.least_size
        return len(self.bounded.needed)

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


def pool_of(running: Sequence[Member]) -> MemoryPool | None:
    """Of those that run side by side: who shares memory, if several do."""
    members = [one for one in running if shares_memory(one.plan)]
    whole = next((one.plan.options.memory.whole for one in members if one.plan.options.memory is not None), None)
    return MemoryPool(members, whole) if whole is not None and members else None
