"""What the queries of a script on Spark write down for whoever looks at them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from watersmeet.hosts.spark.progress.running_query import RunningQuery
from watersmeet.hosts.spark.progress.tally import Batch
from watersmeet.hosts.spark.writing.sinks import SparkSink
from watersmeet.hosts.spark.writing.written_rows import WrittenRows, not_readable
from watersmeet.runtime.board import Board


class Boards:
    """Fills the boards of queries by name. Rows that are printed pass by here; those in files are read back."""

    def __init__(self, sinks: Sequence[SparkSink], boards: Mapping[str, Board]) -> None:
        self._boards = {sink.job.name: boards[sink.job.name] for sink in sinks if sink.job.name in boards}
        self._written: dict[str, WrittenRows] = {}
        for sink in sinks:
            board = self._boards.get(sink.job.name)
            if board is None:
                continue
            board.rows_missing = not_readable(sink)
            if sink.kind == "console" or sink.connector is not None or sink.has_sides:
                sink.on_rows = board.answers
            elif board.rows_missing is None:
                self._written[sink.job.name] = WrittenRows(sink)

    def before(self, tell: Callable[[RunningQuery, Batch], None]) -> Callable[[RunningQuery, Batch], None]:
        """The same, after the board of the query."""

        def after_board(running: RunningQuery, batch: Batch) -> None:
            self._write(running, batch)
            tell(running, batch)

        return after_board

    def _write(self, running: RunningQuery, batch: Batch) -> None:
        name = running.job.name
        if name not in self._boards:
            return
        board = self._boards[name]
        board.begin()
        if name in self._written:
            rows = self._written[name].of_batch(batch.number)
            board.rows_missing = self._written[name].trouble
            if rows:
                board.answers(batch.number, rows)
        board.batch(batch.number, running.tally.seconds, running.metrics, is_last=True)

    def end(self) -> None:
        for board in self._boards.values():
            board.end()
