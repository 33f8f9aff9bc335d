"""Starts the queries of a script so that each gets through its first seconds.

Before its first batch a query with state has Spark start a Python of its own on the driver, and Spark gives that one
10 s to come up, which no setting changes. Several at once on few cores, or one on a busy machine, take longer. So the
next query waits until the one before it runs its first job, and one that was too slow is started again: nothing of it
has been answered by then.

Whenever Spark's watermark has moved and no rows have come, Spark runs a batch without any, for timers and operators of
its own. Our queries have neither, and none of their buckets is called in it: so they run without.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
SOURCES_BY_NAME = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
TOO_SLOW = "Python worker failed to connect back"
TRIES = 6
LONGEST_S = 60.0  # after that the next query starts whatever this one does
POLL_S = 0.1

_log = logging.getLogger(__name__)


def start_in_turn(
    spark: SparkSession,
    name: str,
    start: Callable[[], StreamingQuery],
    stopping: Callable[[], bool],
    look: Callable[[StreamingQuery], None] = lambda query: None,
) -> StreamingQuery:
    """A query that is under way, has ended, or has failed for a reason of its own. `look` is called while it is not."""
    for attempt in range(1, TRIES + 1):
        with _with_setting(spark, EMPTY_BATCHES, "false"):
            query = start()
        _wait(spark, query, stopping, look)
        if attempt == TRIES or not _was_too_slow(query) or stopping():
            break
        _log.warning("%s: its Python took more than the 10 s that Spark allows to start; trying again", name)
    return query


def sources_by_name(spark: SparkSession) -> AbstractContextManager[None]:
    """Spark knows the sources of a query that is made and started meanwhile by their names, so that some may come and
    others go."""
    return _with_setting(spark, SOURCES_BY_NAME, "true")


@contextmanager
def _with_setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """For what is started meanwhile: a query keeps the settings that it found. Others of the session may need them."""
    said = spark.conf.getAll.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if said is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, said)


def _wait(
    spark: SparkSession, query: StreamingQuery, stopping: Callable[[], bool], look: Callable[[StreamingQuery], None]
) -> None:
    until = time.monotonic() + LONGEST_S
    while time.monotonic() < until and not stopping() and not _is_under_way(spark, query):
        look(query)
        time.sleep(POLL_S)


def _is_under_way(spark: SparkSession, query: StreamingQuery) -> bool:
    """Whether it runs jobs, waits for data, or has ended."""
    if not query.isActive or query.lastProgress is not None or has_jobs(spark, query):
        return True
    status: Any = query.status
    return "Waiting" in status["message"] and not status["isTriggerActive"]


def has_jobs(spark: SparkSession, query: StreamingQuery) -> bool:
    """Whether it has begun to run a batch. Spark Connect does not tell; there the first progress does."""
    context = getattr(spark, "_sc", None)
    return context is not None and len(context.statusTracker().getJobIdsForGroup(str(query.runId))) > 0


def _was_too_slow(query: StreamingQuery) -> bool:
    if query.isActive or query.lastProgress is not None:
        return False
    error = query.exception()
    return error is not None and TOO_SLOW in str(error)
