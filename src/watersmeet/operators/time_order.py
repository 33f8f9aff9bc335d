"""Holds rows back until the watermark has passed them, then lets them through in time order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet.operators.contract import Counters, Rows
from watersmeet.operators.window_join import WindowJoin


class InTimeOrder:
    """Wraps a join with ROWS windows: which rows are the latest N at T is known only when none up to T is missing.

    Rows wait until the smallest watermark is beyond their time; rows of equal time keep their arrival order.
    """

    def __init__(self, join: WindowJoin) -> None:
        self.join = join
        self._waiting: dict[str, list[Rows]] = {one.alias: [] for one in join.strategy.join.streams}

    @property
    def counters(self) -> Counters:
        return self.join.counters

    @property
    def window_rows(self) -> int:
        return self.join.window_rows + sum(len(rows) for waiting in self._waiting.values() for rows in waiting)

    @property
    def state_bytes(self) -> int:
        waiting = sum(int(rows.data.nbytes) for parts in self._waiting.values() for rows in parts)
        return self.join.state_bytes + waiting

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        if len(rows):
            self._waiting[alias].append(rows)
        yield from ()

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        complete_until = min(watermarks.values())
        ready = {alias: self._release(alias, complete_until) for alias in self._waiting}
        yield from self.join.push_together({alias: rows for alias, rows in ready.items() if rows is not None})
        yield from self.join.advance(dict.fromkeys(watermarks, complete_until))

    def _release(self, alias: str, complete_until: int) -> Rows | None:
        """The waiting rows before an instant, in time order; the others go on waiting."""
        waiting = self._waiting[alias]
        if not any(bool((rows.times < complete_until).any()) for rows in waiting):
            return None
        times = np.concatenate([rows.times for rows in waiting])
        data = pa.Table.from_batches([rows.data for rows in waiting]).combine_chunks().to_batches()[0]
        order = np.argsort(times, kind="stable")
        ready = int(np.searchsorted(times[order], complete_until))
        everything = Rows(data, times)
        later = np.sort(order[ready:])
        self._waiting[alias] = [everything.take(later)] if later.size else []
        return everything.take(order[:ready])
