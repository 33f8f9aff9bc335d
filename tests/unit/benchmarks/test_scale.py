"""What `benchmarks.scale` foretells follows from what it was told."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.scale import Cluster, Model, Shares, job, last_of, shares_of
from watersmeet.hosts.spark.exchange.pack import Packing
from watersmeet.hosts.spark.jobs.group import JobGroup
from watersmeet.hosts.spark.packets import from_packet

MODEL = Model(map_s=1e-6, reduce_s=2e-6, shuffle_bytes=20, log_bytes=20, batch_s=0.5, launch_s=0.001, task_s=0.01)
FAST = 1e12  # bytes a second


def even(buckets: int) -> Shares:
    return np.full(buckets, 1 / buckets)


def test_a_batch_is_the_sum_of_its_steps() -> None:
    seconds = MODEL.batch(1_000_000, Cluster(2, 1, FAST), even(2))
    assert seconds == pytest.approx(0.5 + 2 * 0.001 + 1.0 / 2 + 0.01 + 2.0 / 2, abs=1e-4)
    slow = MODEL.batch(1_000_000, Cluster(2, 1, 1e6), even(2))
    assert slow - seconds == pytest.approx(10.0 / 2, abs=1e-3)  # half of 20 MB leave an executor, at 1 MB a second each


def test_more_executors_help_until_the_fullest_bucket_is_the_bound() -> None:
    full = even(100).copy()
    full[0] += 0.2
    full /= full.sum()
    found = [MODEL.rows_a_batch(10, Cluster(n, 1, FAST), full) for n in (1, 10, 100, 1_000, 10_000)]
    assert found == sorted(found)
    assert found[1] > 5 * found[0]
    assert found[4] < 1.1 * found[3]
    assert found[4] * full[0] * MODEL.reduce_s == pytest.approx(10, rel=0.1)
    assert MODEL.rows_a_batch(10, Cluster(10_000, 1, FAST), even(100)) > 5 * found[4]


def test_what_fits_into_a_batch_takes_that_long() -> None:
    cluster = Cluster(10, 4, 1e8)
    assert MODEL.batch(MODEL.rows_a_batch(10, cluster, even(64)), cluster, even(64)) == pytest.approx(10)
    assert MODEL.rows_a_batch(0.1, cluster, even(64)) == 0


def test_tasks_begin_where_a_core_is_free_first() -> None:
    assert last_of(np.array([5.0, 1.0, 1.0, 1.0]), 2) == 5.0
    assert last_of(np.array([5.0, 1.0]), 1) == 6.0


@pytest.mark.parametrize("options", ["", "OPTIONS (spread = 'a: 0, 1')"])
def test_shares_are_those_of_the_packets_that_are_shuffled(options: str) -> None:
    keys = np.random.default_rng(0).integers(0, 50, 4_000) ** 2 // 40
    times = pa.array(0 * keys, pa.timestamp("us"))
    rows = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(keys), times], ["k", "v", "ts"])
    placing = job(8, options)
    counts = np.zeros(8)
    for stream in "ab":
        for packet in Packing(JobGroup((placing,)), stream).packets([rows], 0).to_pylist():
            if packet["input"] >= 0:  # others are messages
                at = placing.bucket_ids.index(packet["bucket"])
                counts[at] += sum(batch.num_rows for batch in from_packet(packet["payload"]))
    assert shares_of((keys, keys), 8, options) == pytest.approx(counts / (2 * len(keys)))
    assert (counts.sum() > 2 * len(keys)) == bool(options)
