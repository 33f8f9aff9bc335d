"""What the queries of a script on Spark write down for whoever looks at them. A few rows of what Spark has just written
into Parquet files are read back from this machine: no more than one looks at, so a query is not slower for it."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.errors import WatersmeetError
from watersmeet.hosts.spark.paths import has_scheme
from watersmeet.hosts.spark.progress.running_query import RunningQuery
from watersmeet.hosts.spark.progress.tally import Batch
from watersmeet.hosts.spark.writing.sinks import SparkSink
from watersmeet.io.conform import conform
from watersmeet.io.modes import SPARK_LOG
from watersmeet.runtime.watched import Board


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


MOST_ROWS = 200  # of a batch
KNOWN_FILES = 10_000


def not_readable(sink: SparkSink) -> str | None:
    """Why rows of a sink cannot be had cheaply, if so."""
    if sink.by_driver:
        return None
    if sink.kind != "parquet":
        return f"on Spark they go to {sink.kind}, and only Parquet files on this machine are read back"
    if has_scheme(sink.path or ""):
        return f"they go to {sink.path}, and only files on this machine are read back"
    if sink.partition_by:
        return "they are partitioned into folders, which are not read back"
    return None


class WrittenRows:
    def __init__(self, sink: SparkSink) -> None:
        self._folder = Path(sink.path or "")
        self._schema = sink.job.plan.output_schema
        self.trouble: str | None = None
        self._known: deque[str] = deque(maxlen=KNOWN_FILES)  # the last files of batches before

    def of_batch(self, number: int) -> list[pa.RecordBatch]:
        """The first rows of a batch that has ended. What keeps them from being read is in `trouble`."""
        found: list[pa.RecordBatch] = []
        left = MOST_ROWS
        try:
            for path in self._files(number):
                with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
                    rows = next(file.iter_batches(left), None)
                if rows is not None and rows.num_rows:
                    found.append(conform(rows, self._schema))
                    left -= rows.num_rows
                if left <= 0:
                    break
        except (OSError, ValueError, KeyError, pa.ArrowException, WatersmeetError) as error:
            self.trouble = f"those of batch {number:,} cannot be read back: {error}".splitlines()[0]
        else:
            self.trouble = None
        return found

    def _files(self, number: int) -> list[str]:
        """What Spark's list of files says of a batch. Every tenth list holds all before it as well, oldest first."""
        log = self._folder / SPARK_LOG / str(number)
        compact = not log.exists()
        text = (log.with_name(f"{number}.compact") if compact else log).read_text()
        added = [json.loads(line) for line in text.splitlines()[1:]]
        paths = [unquote(urlsplit(one["path"]).path) for one in added if one.get("action") == "add"]
        if compact:
            known = set(self._known)
            new = next((n for n, path in enumerate(reversed(paths)) if path in known), 1)
            paths = paths[len(paths) - new :]
        self._known.extend(paths)
        return paths
