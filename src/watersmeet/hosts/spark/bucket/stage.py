"""The stateful stage as Spark is given it: what it keeps in the state, and its jobs as one pickled value.

Before the first batch Spark starts a Python on the driver only to ask which state there is. That one imports this
module and next to nothing else; the jobs are unpickled where rows come, once in each worker for all of its batches.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

    from watersmeet.hosts.spark.bucket.output import Output
    from watersmeet.hosts.spark.bucket.processor import BucketProcessor
    from watersmeet.hosts.spark.jobs.job import SparkJob

# All that is read in every batch, in one value: each call to the state is a round trip to the JVM.
META = "version long, nonce long, manifest binary"
SEGMENT_KEY = "input int, number long"
SEGMENT = "rows binary"


class BucketStage(StatefulProcessor):
    """Runs jobs, each with its output, or those of all its queries, for their buckets of one partition."""

    def __init__(self, jobs: Sequence[tuple[SparkJob, Output | Sequence[Output]]]) -> None:
        # As pyspark sends its own functions: those that a user has brought may be known to this process only.
        self.shipped: bytes = cloudpickle.dumps(tuple(jobs))  # type: ignore[no-untyped-call]

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.meta = handle.getValueState("meta", META)
        self.segments = handle.getMapState("segments", SEGMENT_KEY, SEGMENT)
        self._processors: dict[int, BucketProcessor] = {}

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        from watersmeet.hosts.spark.jobs.ids import slot_of

        if not self._processors:
            from watersmeet.hosts.spark.bucket.processor import BucketProcessor

            self._processors = {
                job.slot: BucketProcessor(job, output, self.meta, self.segments)
                for job, output in _unpickled(self.shipped)
            }
        processor = self._processors.get(slot_of(int(key[0])))
        if processor is not None:
            frames = processor.turn(key, rows, timerValues)
            return frames if len(self._processors) == 1 else _of_query(processor.job.start.query, frames)
        self.meta.clear()  # the query is not in the script any more
        self.segments.clear()
        return iter(())

    def close(self) -> None:
        pass


def _of_query(name: str, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    from watersmeet.hosts.spark.errors import of_query

    with of_query(name):
        yield from frames


# A worker serves few queries at a time. What jobs work out at first use, such as their plans, is kept with them.
@lru_cache(maxsize=4)
def _unpickled(shipped: bytes) -> tuple[tuple[SparkJob, Output | Sequence[Output]], ...]:
    jobs: tuple[tuple[SparkJob, Output | Sequence[Output]], ...] = pickle.loads(shipped)
    return jobs
