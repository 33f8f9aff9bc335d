"""A few rows of what Spark has just written into Parquet files, read back from this machine: no more than one looks at,
so a query is not slower for it."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.errors import WatersmeetError
from watersmeet.hosts.spark.paths import has_scheme
from watersmeet.hosts.spark.writing.sinks import SparkSink
from watersmeet.io.conform import conform
from watersmeet.io.modes import SPARK_LOG

MOST_ROWS = 200  # of a batch
KNOWN_FILES = 10_000


def not_readable(sink: SparkSink) -> str | None:
    """Why rows of a sink cannot be had cheaply, if so."""
    if sink.kind == "console" or sink.connector is not None or sink.has_sides:
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
