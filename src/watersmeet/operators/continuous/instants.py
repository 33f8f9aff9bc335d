"""A set of instants, taken out as time goes by."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.continuous.delta import Int64s

# All of them are looked through at every take, so there are few.
MAX_RUNS = 12


class Instants:
    """Held as ascending runs; those that have grown alike become one, so that each instant is moved seldom."""

    STATE = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[Int64s] = []

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self._runs)

    def add(self, instants: Int64s) -> None:
        if not instants.size:
            return
        self._runs.append(np.unique(instants))
        if len(self._runs) > MAX_RUNS:
            start, size = len(self._runs) - 1, self._runs[-1].size
            while start and self._runs[start - 1].size <= 2 * size:
                start -= 1
                size += self._runs[start].size
            start = min(start, len(self._runs) - 2)
            self._runs[start:] = [np.unique(np.concatenate(self._runs[start:]))]

    def take(self, until: int) -> Int64s:
        """Those before an instant, which are forgotten."""
        cuts = [int(run.searchsorted(until)) for run in self._runs]
        taken = [run[:cut] for run, cut in zip(self._runs, cuts, strict=True) if cut]
        # Copies: what is left of a run would keep all of it.
        self._runs = [run[cut:].copy() if cut else run for run, cut in zip(self._runs, cuts, strict=True)]
        self._runs = [run for run in self._runs if run.size]
        return np.concatenate(taken) if taken else np.empty(0, np.int64)
