"""A source that brings no rows but the time, so that Spark runs batches while streams are silent.

It is in the plan of queries over streams that say `idle`: somebody has to notice that nothing comes, and Spark runs no
batch without input. Every so often it has a new offset; the batch that follows tells all buckets that time has gone on.
Batches that run anyway take its offset along, so while rows flow it costs next to nothing. It works beside any source,
DataFrames of the user's own included. In a run that takes what is there and ends, it keeps still.

Spark starts a Python process for it, so the module imports next to nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from watersmeet.hosts.spark.reading.splits import PACKED

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

FORMAT = "watersmeet_pulse"
PULSE = "pulse"  # its name among the named sources of a query
SECOND_US = 1_000_000
# Pulses in the shortest silence that counts, and how far apart they are at least and at most.
PER_IDLE = 4
SHORTEST_US, LONGEST_US = SECOND_US, 30 * SECOND_US


def pulse_reader(spark: SparkSession, keys: Sequence[int], idle_us: int) -> DataStreamReader:
    """Of packets that wake all buckets and guards every now and then; `idle_us` is the shortest silence that counts."""
    spark.dataSource.register(Pulses)
    every_us = min(max(idle_us // PER_IDLE, SHORTEST_US), LONGEST_US)
    reader = spark.readStream.format(FORMAT).option("keys", json.dumps(list(keys)))
    return reader.option("every", str(every_us))


class Pulses(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return PACKED

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return PulseReader(dict(self.options))


class PulseReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, str]) -> None:
        self.keys: list[int] = json.loads(options["keys"])
        self.every_us = int(options["every"])
        self.still = False

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.still = True

    def initialOffset(self) -> dict[str, Any]:
        return {"at_us": "0"}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        now_us = time.time_ns() // 1_000
        return start if self.still or now_us < int(start["at_us"]) + self.every_us else {"at_us": str(now_us)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [] if start == end else [InputPartition(end["at_us"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from watersmeet.hosts.spark.exchange.pack import pulse_packets

        yield pulse_packets(self.keys)
