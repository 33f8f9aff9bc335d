"""The reader of files by which Spark's driver plans batches, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from watersmeet.hosts.spark.reading.connector_source import ConnectorReader
from watersmeet.hosts.spark.reading.file_stream import FileStream
from watersmeet.hosts.spark.reading.splits import Offset
from watersmeet.io.connectors.folder_source import file_of
from watersmeet.model.catalog import Stream

STREAM = Stream("a", pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))]), "ts")


def planner(folder: Path, limit: int | None = None, **more: str) -> ConnectorReader:
    options = FileStream(str(folder), limit).connected(STREAM).encoded_options()
    return ConnectorReader({**options, "source": "a", "jobs": "", **more})


def planned(reader: ConnectorReader, start: Offset, end: Offset) -> list[str]:
    """The names of the files that a batch reads."""
    return [Path(file_of(one).path).name for one in reader.partitions(start, end)]
