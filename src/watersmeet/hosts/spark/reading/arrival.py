"""The moment of arrival as a column of Spark's rows, the same whenever a batch is repeated.

Spark logs the time of a batch before the batch runs, and `current_timestamp()` is that time, so a repeated batch has
the same. (Where our own source reads files it logs the moment with the offsets, see file_source.py, a little before
the time of the batch.) Bounded rows arrive all at once, when they are first asked for.
"""

from __future__ import annotations

import time

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet.model.catalog import Stream

_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
# A difference of instants, so that the zone of the session does not matter.
_MOMENT_OF_BATCH = f"{_EPOCH} + (current_timestamp() - timestamp_micros(0))"


def with_arrival(df: DataFrame, stream: Stream) -> DataFrame:
    """The rows of a stream with the moment of their arrival, where that is its event time."""
    if stream.arrivals is None:
        return df
    if df.isStreaming:
        return df.withColumn(stream.time, F.expr(_MOMENT_OF_BATCH))
    moment_us = stream.arrivals.moment(time.time_ns() // 1_000)
    return df.withColumn(stream.time, F.expr(f"{_EPOCH} + (timestamp_micros({moment_us}) - timestamp_micros(0))"))
