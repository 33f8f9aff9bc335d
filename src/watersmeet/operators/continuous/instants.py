"""A set of instants, taken out as time goes by."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.continuous.delta import Bools, Int64s

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
        self._runs.append(_distinct(instants))
        if len(self._runs) > MAX_RUNS:
            start, size = len(self._runs) - 1, self._runs[-1].size
            while start and self._runs[start - 1].size <= 2 * size:
                start -= 1
                size += self._runs[start].size
            start = min(start, len(self._runs) - 2)
            self._runs[start:] = [_distinct(np.concatenate(self._runs[start:]))]

    def take(self, until: int) -> Int64s:
        """Those before an instant, in order, which are forgotten."""
        cuts = [int(run.searchsorted(until)) for run in self._runs]
        taken = [run[:cut] for run, cut in zip(self._runs, cuts, strict=True) if cut]
        # Copies: what is left of a run would keep all of it.
        self._runs = [run[cut:].copy() if cut else run for run, cut in zip(self._runs, cuts, strict=True)]
        self._runs = [run for run in self._runs if run.size]
        return _distinct(np.concatenate(taken)) if taken else np.empty(0, np.int64)


def among(times: Int64s, ascending: Int64s) -> Bools:
    """Which of some times are among others."""
    if not ascending.size:
        return np.zeros(times.size, np.bool_)
    places = np.minimum(ascending.searchsorted(times), ascending.size - 1)
    found: Bools = ascending[places] == times
    return found


def _distinct(instants: Int64s) -> Int64s:
    """In ascending order. NumPy's own way hashes them, which takes several times as long."""
    ascending = np.sort(instants)
    found: Int64s = ascending[np.concatenate([[True], ascending[1:] != ascending[:-1]])]
    return found
