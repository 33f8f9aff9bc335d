"""Queries that were started: each with what it has done, and what Spark runs, which may be several of them as one."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.dataclass import dataclass
from watersmeet.hosts.spark.progress.tally import Batch, Tally
from watersmeet.hosts.spark.writing.file_claim import FileClaim
from watersmeet.model.wording import listed
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

    @property
    def metrics(self) -> Metrics:
        return self.tally.total

    def take(self, progress: Any) -> Batch | None:
        """A batch that ended, if it is a new one."""
        batch = self.tally.add(progress)
        for sentence in (sentence for one in (batch.changed if batch else ()) for sentence in one.sentences):
            logger.warning("%s: %s", self.job.name, sentence)
        return batch


@dataclass
class StartedQuery:
    """A streaming query of Spark's, and those of ours that it runs: at least one."""

    query: StreamingQuery
    running: Sequence[RunningQuery]

    @property
    def name(self) -> str:
        return listed([one.job.name for one in self.running])

    @property
    def checkpoint(self) -> str:
        return self.running[0].checkpoint

    @property
    def tally(self) -> Tally:
        """Of one of them: all have the same batches."""
        return self.running[0].tally

    @property
    def claimed(self) -> list[FileClaim]:
        return [one.claimed for one in self.running if one.claimed is not None]

    def check_owner(self, *, has_written: bool) -> None:
        """Raises if a newer start of the run owns what this one writes."""
        for claimed in self.claimed:
            claimed.look(has_written=has_written)

    def starts_again(self, other: StartedQuery) -> None:
        """As another of Spark's, to end."""
        self.query = other.query
        for one in self.running:
            one.query = other.query

    def new_batches(self) -> Iterator[tuple[RunningQuery, Batch]]:
        """The batches that ended since the last call, in order."""
        latest = self.query.lastProgress
        if latest is None:
            return
        before = self.tally.last.number if self.tally.last else -1
        # `recentProgress` fetches and parses up to a hundred reports; mostly the last one is all that is new.
        missed = latest.batchId > before + 1
        for progress in self.query.recentProgress if missed else [latest]:
            for one in self.running:
                batch = one.take(progress)
                if batch is not None:
                    yield one, batch
