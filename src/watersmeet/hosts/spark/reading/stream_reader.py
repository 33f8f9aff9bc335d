"""What the readers of our own sources have in common, on the driver.

What must be the same when a batch is repeated rides in its offsets, which Spark logs before the batch runs and hands
back unchanged.

Spark starts Python processes for every such source, so the module imports next to nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from watersmeet.hosts.spark.reading.splits import EndSplit, Offset

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Its options carry the job. `ending` is a run that ends for good: its last offset names it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.given = {key.lower(): value for key, value in options.items()}
        self.source = self.given["source"]
        self.encoded_job = self.given["job"]
        self.ending = self.given.get("ending")
        self.by_arrival = "arrival" in self.given
        self.max_future_us = int(self.given["maxfuture"]) if "maxfuture" in self.given else None

    def reached(self, start: Offset, place: Offset, *, moved: bool, ends: bool) -> Offset:
        """The offset behind `start` at a place; `start` itself if nothing has moved, unless it remains to be told that
        nothing will."""
        if not moved and (not ends or start.get("ended") == self.ending):
            return start
        reached = dict(place)
        if self.max_future_us is not None:  # logged with the batch, so that a repeat finds the same rows too far ahead
            reached["limit_us"] = str(time.time_ns() // 1000 + self.max_future_us)
        if self.by_arrival:  # logged for the same reason; the clock may be set back, and time is not
            reached["arrival_us"] = str(max(time.time_ns() // 1000, int(start.get("arrival_us", 0))))
        return {**reached, "ended": self.ending} if ends else reached

    def end_told(self, start: Offset, end: Offset) -> list[InputPartition]:
        """That the stream has ended, if this batch tells it: the same end stands in `start` if it was told before."""
        run = end.get("ended")
        return [EndSplit(run)] if run is not None and run != start.get("ended") else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from watersmeet.hosts.spark.reading.source_packets import end_of_stream

        if isinstance(partition, EndSplit):
            yield end_of_stream(self.encoded_job, self.source, partition.run)
            return
        yield from self.rows_of(partition)

    def rows_of(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """What a partition of this source holds."""
        raise NotImplementedError
