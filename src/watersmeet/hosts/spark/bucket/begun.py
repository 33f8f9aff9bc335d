"""A bucket whose query goes on from a savepoint: what it begins with.

What the savepoint gives it is kept in its state, whole, before its first batch; the log holds the rows that came since
(see rebuilding.py). Once no row of the savepoint is needed any more, the log alone does, as in any other query.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from watersmeet.hosts.spark.bucket.clocks import BucketClock
from watersmeet.hosts.spark.bucket.log import BucketLog
from watersmeet.hosts.spark.bucket.moving import share, waiting_apart
from watersmeet.hosts.spark.jobs.job import SparkJob, stream_of
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.contract import Operator, Rows
from watersmeet.runtime.savepoints.contents import QueryContents
from watersmeet.runtime.savepoints.folder import Savepoint
from watersmeet.runtime.savepoints.moments import load_moment


@lru_cache(maxsize=1)  # a worker may have several buckets
def _contents(place: str, query: str, mark: str) -> QueryContents:
    found = Savepoint(place)
    found.check_mark(mark)
    return found.query(query)


def begin(job: SparkJob, bucket: int, log: BucketLog, clock: BucketClock, now_us: int) -> Operator:
    """The operator of a bucket that has no state yet, as the savepoint has it; the log and the clock know it too."""
    assert job.start.begun is not None
    contents = _contents(*job.start.begun)
    operator = job.make_operator()
    state, waiting = waiting_apart(job, share(job, contents.state, bucket), bucket)
    operator.take_over(state)
    for alias, rows in waiting.items():
        for _ in operator.push(alias, rows):
            raise AssertionError("rows that wait bring nothing about")
    load_moment(clock, contents.moment, now_us)
    manifest = log.manifest
    manifest.complete_until = contents.moment.watermark_us
    for number, one in enumerate(job.streams):
        place = contents.streams[stream_of(one).name]
        if place.newest_us > BEGINNING_US:
            manifest.newest_us[number] = place.newest_us
        if place.oldest_us < FOREVER_US:
            manifest.oldest_us[number] = place.oldest_us
    newest_us = max(manifest.newest_us.values(), default=BEGINNING_US)
    log.save(operator.save(tables=False).to_bytes(), operator.kept_rows, newest_us)
    return operator


def let_go(job: SparkJob, log: BucketLog, operator: Operator) -> None:
    """Forget what the bucket began with, once none of its rows is needed."""
    held, manifest = log.manifest.saved, log.manifest
    if held is None or operator.is_kept_whole or job.counts_rows:
        return
    for stream, alias in enumerate(job.aliases):
        newest = Rows(log.layouts[stream].no_rows().data, np.array([held.newest_us], np.int64))
        if bool(operator.still_needed(alias, newest, manifest.complete_until).any()):
            return
    log.forget_saved()
