"""What a task that spreads rows tells every bucket, so that all of them know the same needs (see shedding.sharing)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

import numpy as np

from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.operators.contract import Operator
from watersmeet.operators.memory_bound import Came
from watersmeet.plan.memory import Memory

NEEDS = -1  # stands for the number of an input where a packet holds counts, not rows
_HEAD = struct.Struct("<qqqqq")  # stream, rows, bytes, oldest and newest time; the counts follow
_COUNT = np.dtype("<u4")


def to_bytes(came: Came) -> bytes:
    """Most cells are empty or nearly so, hence the compression."""
    head = _HEAD.pack(came.stream, came.rows, came.size, came.oldest_us, came.newest_us)
    return head + zlib.compress(came.counts.astype(_COUNT).tobytes(), 1)


def from_bytes(told: bytes) -> Came:
    stream, rows, size, oldest_us, newest_us = _HEAD.unpack_from(told)
    counts = np.frombuffer(zlib.decompress(told[_HEAD.size :]), _COUNT)
    return Came(stream, rows, size, oldest_us, newest_us, counts.astype(np.int64))


def share_out(job: SparkJob, operator: Operator, bucket: int, told: Iterable[bytes]) -> Memory | None:
    """Let a bucket keep what it now needs, after what all tasks of a batch told, and say how much that is; None where
    memory is not bounded."""
    bounded = operator.bounded
    if bounded is None:
        return None
    if job.sharing is not None and bucket in job.bucket_ids:
        bounded.told_needs([from_bytes(bytes(one)) for one in told], job.bucket_ids.index(bucket))
    return bounded.memory
