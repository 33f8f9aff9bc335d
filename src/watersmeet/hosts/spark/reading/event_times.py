"""Event times of Spark's rows: found in CSV text, written as numbers or text, or the moments of their arrival.

Spark takes all times in CSV text for instants; those without a zone are readings, as in-process. Numbers and text are
made timestamps before Spark sees them as such, by the same code as in-process, in tasks.

The moment of arrival is the same whenever a batch is repeated: Spark logs the time of a batch before the batch runs,
and `current_timestamp()` is that time. (Where our own source reads files it logs the moment with the offsets, see
connector_source.py, a little before the time of the batch.) Bounded rows arrive all at once, when they are first asked
for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampNTZType, TimestampType

from watersmeet.errors import DataError
from watersmeet.hosts.spark.types import arrow_schema, spark_layout, spark_schema
from watersmeet.io.conform import conform
from watersmeet.io.read_times import Place, read_batch
from watersmeet.model.catalog import Stream
from watersmeet.model.time_reading import TimeReading

READ_ROWS = 1 << 16
_ZONED = r"(?i)(z|[+-]\d\d:?\d\d)\s*$"
_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
# A difference of instants, so that the zone of the session does not matter.
_MOMENT_OF_BATCH = f"{_EPOCH} + (current_timestamp() - timestamp_micros(0))"


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


def with_readings(found: StructType, read: Callable[[StructType], DataFrame]) -> StructType:
    """The columns that Spark found, those of times without any zone in their text as TIMESTAMP. `read` gives the same
    files with other types."""
    times = [field.name for field in found if isinstance(field.dataType, TimestampType)]
    if not times:
        return found
    texts = read(StructType([StructField(field.name, StringType()) for field in found]))
    zoned = texts.select(*(F.max(F.col(f"`{name}`").rlike(_ZONED)).alias(name) for name in times)).first()
    # One zone in a column makes all of it instants; those without one are then in UTC.
    readings = {name for name in times if zoned is None or not zoned[name]}
    return StructType([StructField(f.name, TimestampNTZType()) if f.name in readings else f for f in found])


def with_arrival(df: DataFrame, stream: Stream) -> DataFrame:
    """The rows of a stream with the moment of their arrival, where that is its event time."""
    if stream.arrivals is None:
        return df
    if df.isStreaming:
        return df.withColumn(stream.time, F.expr(_MOMENT_OF_BATCH))
    moment_us = stream.arrivals.moment(time.time_ns() // 1_000)
    return df.withColumn(stream.time, F.expr(f"{_EPOCH} + (timestamp_micros({moment_us}) - timestamp_micros(0))"))
