"""What a task of Spark's knows of itself: its query, its batch and its partition. Outside of one there is none."""

from __future__ import annotations

from pyspark import TaskContext

BATCH_RUN = "batch"  # the query of bounded input


def query_id() -> str:
    return _property("sql.streaming.queryId") or BATCH_RUN


def batch_number() -> int | None:
    """The same when a batch is repeated."""
    number = _property("streaming.sql.batchId")
    return None if number is None else int(number)


def partition_number() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def _property(name: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)
