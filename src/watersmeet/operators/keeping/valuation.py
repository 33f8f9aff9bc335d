"""What the rows of each stream are worth by a policy, from what was learnt while rows came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod

import numpy as np
import numpy.typing as npt

from watersmeet.model.time import BEGINNING_US, FOREVER_US, Times
from watersmeet.operators.codes import Codes
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.keeping.allocation import Allocation
from watersmeet.operators.keeping.lives import Life, are_in_time, half_life
from watersmeet.operators.keeping.online_statistics import GivenFrequencies, KeyCounts
from watersmeet.operators.keeping.policies import AGE_BINS, POLICIES, AgeCurve
from watersmeet.operators.keeping.store import SheddingStore, Worth
from watersmeet.operators.row_windows import RowWindow
from watersmeet.plan.shedding import Shedding


class Valuation:
    STATE = ("keys", "ages", "factors", "scales", "unrefreshed", "arrived", "newest_us", "oldest_us")

    def __init__(
        self,
        layout: Layout,
        shedding: Shedding,
        stores: Mapping[str, SheddingStore],
        lives: Mapping[str, Life],
        row_windows: Mapping[str, RowWindow],
        allocation: Allocation,
    ) -> None:
        self.policy, self.in_bytes = POLICIES[shedding.policy], shedding.memory.size is not None
        self.layout, self.stores, self.lives = layout, stores, lives
        self.row_windows, self.allocation = row_windows, allocation
        self.in_time = are_in_time(lives)
        self.half_life = half_life(lives) if self.policy.fades else None
        self.given = bool(shedding.frequencies)
        self.keys = self.count_keys(self.half_life, by_keys=self.policy.keys)
        self.ages = {alias: AgeCurve() for alias in stores}
        self.factors = {alias: self.policy.by_age(self.ages[alias]) for alias in stores}
        self.scales = dict.fromkeys(stores, 1.0)
        self.unrefreshed = dict.fromkeys(stores, 0)  # rows that came since all priorities were looked at
        self.arrived = 0
        self.newest_us = BEGINNING_US
        self.oldest_us = FOREVER_US

    def count_keys(self, half_life: float | None, *, by_keys: bool = True) -> KeyCounts:
        """Counts, still empty, of the keys that the streams share, with room for those of the rows in memory."""
        return (GivenFrequencies if self.given else KeyCounts)(
            tuple(self.stores),
            self.layout.strategy.equalities if by_keys else (),
            self.layout.code_positions,
            sum(self.allocation.rows_of(self.stores, alias) for alias in self.stores),
            half_life,
            own_too=self.policy.completes,
        )

    # ---- what is learnt ---------------------------------------------------------------------------------------------

    def clock_of(self, times: Times) -> Times:
        """When rows that come now come, in what half-lives are measured in."""
        return times if self.in_time else np.arange(self.arrived, self.arrived + times.size)

    def came(self, alias: str, codes: Codes, first: int, last: int, times: Times) -> None:
        """Rows of a stream came, whose codes are at first..last-1."""
        clock = self.clock_of(times)
        self.newest_us = max(self.newest_us, int(times.max()))
        self.arrived += times.size
        self.keys.add(alias, codes, first, last, clock)

    def matched(self, visits: Sequence[str], numbers: Codes, rows: Rows) -> None:
        """Note how old stored members were when they were found, if the policy goes by that."""
        if not self.policy.learns_ages:
            return
        now = rows.times[numbers[0]]
        for alias, members in zip(visits[1:], numbers[1:], strict=True):
            if alias not in self.stores:
                continue
            worth, store = self.worth(alias), self.stores[alias]
            if worth.in_rows:
                assert store.serials is not None
                ages = worth.now - store.serials[members]
            else:
                ages = now - store.times[members]
            bins = np.clip(ages / worth.per_bin, 0, AGE_BINS - 1).astype(np.int64)
            self.ages[alias].matched += np.bincount(bins, minlength=AGE_BINS)

    def is_due(self, alias: str, rows: int) -> bool:
        """Whether all priorities of a stream are to be looked at again once so many more of its rows compete."""
        store = self.stores[alias]
        enough = self.policy.new_rows_to_refresh(store.competing, store.matured)
        return self.policy.keys and self.unrefreshed[alias] + rows > enough

    def matured(self, alias: str, rows: int) -> None:
        """So many more rows of a stream compete. Now and then all its priorities are looked at again."""
        is_due = self.is_due(alias, rows)
        self.unrefreshed[alias] += rows
        if is_due:
            self._refresh(alias)

    def _refresh(self, alias: str) -> None:
        self.unrefreshed[alias] = 0
        ages = self.ages[alias]
        if self.policy.learns_ages:
            ages.fade()
        self.factors[alias] = self.policy.by_age(ages)
        self.scales[alias] = self._scale(alias)
        worth, store = self.worth(alias), self.stores[alias]
        store.look_again(worth, self.keys.of_partners[alias])
        if self.policy.learns_ages:
            # With records of all rows every age is seen equally often, else only what is in memory is.
            ages.exposed += store.ages_competing(worth, AGE_BINS) if store.forgetful else np.ones(AGE_BINS)

    # ---- and what follows from it -----------------------------------------------------------------------------------

    def worth(self, alias: str) -> Worth:
        life, in_rows = self.lives[alias]
        now = self.row_windows[alias].next_serial if in_rows else self.newest_us
        per_bin = life / AGE_BINS if self.policy.ageing else inf
        if self.policy.completes:
            return Worth(
                self.scales[alias], self.factors[alias], per_bin, now, in_rows, self.share_in_window(life, in_rows)
            )
        scale = self.scales[alias] * self.keys.per_count(alias)
        return Worth(scale, self.factors[alias], per_bin, now, in_rows)

    def by_age(self, alias: str, times: Times) -> npt.NDArray[np.float64]:
        """What the ages of rows that come make them worth; rows that are counted are new when they come."""
        worth = self.worth(alias)
        ages = np.zeros(times.size) if worth.in_rows else np.maximum(self.newest_us - times, 0)
        return worth.by_age[np.minimum(ages / worth.per_bin, AGE_BINS - 1).astype(np.int64)]

    def share_in_window(self, life: float, in_rows: bool) -> float:
        """What share of all rows that were counted a window holds."""
        if life == inf or in_rows:
            so_far = self.arrived / max(len(self.stores), 1)
            return 1.0 if life == inf else min(1.0, life / max(so_far, 1.0))
        return min(1.0, life / max(self.passed_us, 1))

    @property
    def passed_us(self) -> int:
        """How much event time there was so far."""
        return max(self.newest_us - self.oldest_us, 0)

    def _scale(self, alias: str) -> float:
        """What makes priorities of different streams comparable, in one pool: streams that no key of this one reaches
        count as often as their keys do on average; a row meets the others for as long as they stay; and memory in
        bytes should go where it brings most for a byte."""
        if self.allocation.fixed:
            return 1.0
        scale = self.keys.typical(alias)
        others = [self.lives[other][0] for other in self.stores if other != alias]
        if len(others) > 1 and self.in_time:
            longest = max(others)
            shares = [other / longest for other in others]
            scale *= sum(prod(shares[:i] + shares[i + 1 :]) for i in range(len(shares)))
        if self.in_bytes:
            scale /= self.stores[alias].bytes_per_row
        return scale
