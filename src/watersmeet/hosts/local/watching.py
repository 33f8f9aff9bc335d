"""What a run over its sources writes down for whoever looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from watersmeet.hosts.local.run import LocalRun
from watersmeet.runtime.board import Board
from watersmeet.runtime.metrics import Metrics

OnProgress = Callable[[Metrics], None]


def telling(run: LocalRun, board: Board, on_progress: OnProgress | None) -> OnProgress:
    """Called with the numbers of a run: tells the board, then whoever is told otherwise."""

    def told(metrics: Metrics) -> None:
        board.batch(run.steps, run.busy_s, metrics)
        if on_progress is not None:
            on_progress(metrics)

    return told


def showing(run: LocalRun, board: Board, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Answers on their way, and the board's beginning and end."""
    board.begin()
    for batch in batches:
        board.answers(run.steps + 1, [batch])
        yield batch
    board.batch(run.steps, run.busy_s, run.metrics, is_last=True)
