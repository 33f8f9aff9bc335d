"""Event times that are numbers or text, made timestamps before Spark sees them as such: the same code as in-process, in
tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import DataError
from watersmeet.hosts.spark.types import arrow_schema, spark_layout, spark_schema
from watersmeet.io.conform import conform
from watersmeet.io.files import FileSource, readable
from watersmeet.io.read_times import Place, read_batch
from watersmeet.model.time_reading import TimeReading
from watersmeet.model.zones import entering_schema

READ_ROWS = 1 << 16


def timed_frame(df: DataFrame, reading: TimeReading, name: str) -> DataFrame:
    """The same DataFrame, batch or streaming, with its event times as timestamps."""
    schema = arrow_schema(df.schema, f"stream {name!r}")
    found = reading.of(name, schema)
    if found is None:  # which the stream itself tells
        return df
    shown = found.shown(schema)
    layout = spark_layout(shown)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            try:
                yield conform(read_batch(batch, found, Place(None)), layout)
            except DataError as error:
                raise DataError(f"stream {name!r}: {error.message}", hint=error.hint) from None

    return df.mapInArrow(read, spark_schema(shown))


def files_frame(spark: SparkSession, source: FileSource) -> DataFrame:
    """A batch DataFrame of files that the library's own readers read, file by file in tasks."""
    schema = entering_schema(source.schema)
    layout = spark_layout(schema)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in map(Path, batch.column(0).to_pylist()):
                with readable(path, source.hint):
                    for rows in source.read(path, READ_ROWS):
                        yield conform(rows, layout, source.rounding)

    paths = [(str(Path(path).absolute()),) for path in source.paths]
    listed = spark.createDataFrame(paths, "path string").repartition(len(paths))
    return listed.mapInArrow(read, spark_schema(schema))
