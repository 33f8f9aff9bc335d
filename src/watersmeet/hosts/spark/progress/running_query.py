"""A query that was started."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import field

from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.dataclass import dataclass
from watersmeet.hosts.spark.progress.tally import Batch, Tally
from watersmeet.hosts.spark.writing.file_claim import FileClaim
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.script import Job

logger = logging.getLogger("watersmeet")


@dataclass
class RunningQuery:
    """A job that was started, and what it has done so far."""

    job: Job
    query: StreamingQuery
    checkpoint: str
    tally: Tally = field(default_factory=Tally)
    claimed: FileClaim | None = None  # the files that Spark writes, if they are ours to look after

    def check_owner(self, *, has_written: bool) -> None:
        """Raises if a newer start of the run owns what this one writes."""
        if self.claimed is not None:
            self.claimed.look(has_written=has_written)

    @property
    def metrics(self) -> Metrics:
        return self.tally.total

    def new_batches(self) -> Iterator[Batch]:
        """The batches that ended since the last call, in order."""
        latest = self.query.lastProgress
        if latest is None:
            return
        before = self.tally.last.number if self.tally.last else -1
        # `recentProgress` fetches and parses up to a hundred reports; mostly the last one is all that is new.
        missed = latest.batchId > before + 1
        for progress in self.query.recentProgress if missed else [latest]:
            batch = self.tally.add(progress)
            if batch is not None:
                for sentence in (sentence for one in batch.changed for sentence in one.sentences):
                    logger.warning("%s: %s", self.job.name, sentence)
                yield batch
