"""Bytewax: rows are tuples, windows are its sliding windower's, folded row by row.

Keys are text, as Bytewax asks for; the first ten are those of one key for all.
"""

from __future__ import annotations

import heapq
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.connectors.stdio import StdOutSink  # noqa: F401  (its package must be loaded before a flow is run)
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import TestingSource, run_main

from benchmarks.rivals.peers.protocol import Asked, Tally, answer

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BATCH = 1_000


class Told(DynamicSink, StatelessSinkPartition):
    """Counts what comes."""

    def __init__(self, asked: Asked, tally: Tally) -> None:
        self.asked, self.tally = asked, tally

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Told:
        return self

    def write_batch(self, items: list[tuple[str, tuple[int, Any]]]) -> None:
        steps = self.asked.window_ms // self.asked.slide_ms
        for key, (window, found) in items:
            end = window + steps
            if self.asked.query == "GROUP BY":
                self.tally.row(end, int(key), *found)
            elif self.asked.query == "DISTINCT":
                self.tally.row(end, int(key))
            else:
                for value, number in found:
                    self.tally.row(end, number, value)


def sums(found: tuple[int, int], row: Any) -> tuple[int, int]:
    return found[0] + 1, found[1] + row[2]


def greatest(found: list[tuple[int, int]], row: Any) -> list[tuple[int, int]]:
    item = (row[2], row[0])
    if len(found) < 10:
        heapq.heappush(found, item)
    else:
        heapq.heappushpop(found, item)
    return found


def both(x: Any, y: Any) -> Any:
    raise NotImplementedError("only windows of sessions are merged")


FOLDS = {
    "GROUP BY": (lambda: (0, 0), sums),
    "DISTINCT": (lambda: None, lambda found, row: None),
    "top 10": (list, greatest),
}


def run(asked: Asked, tally: Tally) -> None:
    rows = [(*row[:3], EPOCH + timedelta(milliseconds=row[3])) for row in asked.rows("a")]
    flow = Dataflow("peers")
    read = op.input("read", flow, TestingSource(rows, batch_size=BATCH))
    one = asked.query == "top 10"
    keyed = op.key_on("key", read, (lambda row: "all") if one else (lambda row: str(row[1])))
    clock = win.EventClock(lambda row: row[3], wait_for_system_duration=timedelta(seconds=10))
    size, slide = timedelta(milliseconds=asked.window_ms), timedelta(milliseconds=asked.slide_ms)
    windows = win.SlidingWindower(length=size, offset=slide, align_to=EPOCH)
    new, fold = FOLDS[asked.query]
    folded = win.fold_window("fold", keyed, clock, windows, new, fold, both)
    op.output("told", folded.down, Told(asked, tally))
    run_main(flow)


if __name__ == "__main__":
    answer(run)
