"""Service time per arrival and what the buffers hold, sampled while a join runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from watersmeet.dataclass import dataclass
from watersmeet.papers.joins.contract import Algorithm, ArrivedRows, Int64s, Observable


@dataclass(frozen=True)
class Samples:
    """A row per sample; `live` and `stale` have a column per input in FROM order."""

    arrivals: Int64s
    times_us: Int64s
    live: Int64s
    stale: Int64s
    seconds: npt.NDArray[np.float64]

    @property
    def held(self) -> Int64s:
        return self.live + self.stale


class Probe:
    """Takes a sample every `every` arrivals; seconds are those spent in the algorithm since the last one."""

    def __init__(self, every: int, inputs: Sequence[str]) -> None:
        self.every = every
        self.inputs = tuple(inputs)
        self._arrived = 0
        self._seconds = 0.0
        self._taken: list[tuple[int, int, Int64s, Int64s, float]] = []

    def pieces(self, arrivals: ArrivedRows) -> Iterator[ArrivedRows]:
        """The arrivals cut where samples fall."""
        start = 0
        while start < len(arrivals):
            # `sample` runs between two pieces, so `_arrived` has moved on when the next one is cut.
            end = min(len(arrivals), start + self.every - self._arrived % self.every)
            part = slice(start, end)
            yield ArrivedRows(arrivals.streams[part], arrivals.serials[part], arrivals.times[part])
            start = end

    def sample(self, algorithm: Algorithm, piece: ArrivedRows, seconds: float, shelf: Int64s) -> None:
        """After a piece has arrived."""
        self._arrived += len(piece)
        self._seconds += seconds
        if self._arrived % self.every:
            return
        now_us = int(piece.times[-1])
        if isinstance(algorithm, Observable):
            live, stale = algorithm.occupancy(now_us, shelf)
        else:  # all that an algorithm must tell: the sums over its inputs
            work = algorithm.work(now_us, shelf)
            live, stale = np.array([work.live_held]), np.array([work.stale_held])
        self._taken.append((self._arrived, now_us, live, stale, self._seconds))
        self._seconds = 0.0

    @property
    def samples(self) -> Samples:
        taken = self._taken
        return Samples(
            np.array([arrived for arrived, _, _, _, _ in taken], np.int64),
            np.array([time for _, time, _, _, _ in taken], np.int64),
            np.array([live for _, _, live, _, _ in taken], np.int64),
            np.array([stale for _, _, _, stale, _ in taken], np.int64),
            np.array([seconds for _, _, _, _, seconds in taken], np.float64),
        )
