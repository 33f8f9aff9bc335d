"""Topics on Spark: partitions have clocks of their own, and a consumer group is told how far rows were answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytest.importorskip("confluent_kafka", reason="topics are read by confluent-kafka, which is not installed")

from confluent_kafka import Consumer, TopicPartition

from tests.kafka.mock_cluster import QUIET, MockCluster
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.runtime.run_settings import RunSettings

HOUR_MS = 3_600_000
BEGIN_MS = 1_767_225_600_000


def values(first: int, count: int) -> list[bytes]:
    return [json.dumps({"v": v}).encode() for v in range(first, first + count)]


def noted(brokers: str, group: str, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": group, **QUIET})
    try:
        found = consumer.committed([TopicPartition(topic, partition) for partition in range(4)], timeout=10)
        return {one.partition: one.offset for one in found if one.offset >= 0}
    finally:
        consumer.close()


def test_no_record_of_a_slow_partition_is_late_and_a_group_is_told(spark: SparkSession, tmp_path: Path) -> None:
    cluster = MockCluster()
    topic = cluster.topic()
    for partition, hours in ((0, 5), (1, 0), (2, 2)):  # the first that is read is the furthest ahead
        cluster.put(topic, values(100 * partition, 30), partition=partition, time_ms=BEGIN_MS + hours * HOUR_MS)
    script = f"""
        CREATE STREAM a (v BIGINT) WITH (source='kafka', brokers='{cluster.brokers}', topic='{topic}', format='json',
            time='kafka', start='earliest', group='seen', max_rows_per_batch='30');
        CREATE SINK out WITH (sink='sqlite', path='{tmp_path / "out.db"}', table='answers') AS
            SELECT v, count(*) AS n FROM a [RANGE 1 SECOND] GROUP BY v;
    """
    choices = RunSettings(available_now=True, buckets=2, checkpoint=str(tmp_path / "ck"))
    (first,) = SparkRun(spark, script, choices).run()
    assert (first.metrics.rows_in, first.metrics.late_rows) == (90, 0)
    assert first.metrics.held_back_by == "a (partition 1)"
    cluster.put(topic, values(400, 5), partition=1, time_ms=BEGIN_MS + 60_000)
    cluster.put(topic, values(500, 5), partition=3, time_ms=BEGIN_MS + 60_000)  # the first of this partition
    (second,) = SparkRun(spark, script, choices).run()
    assert (second.metrics.rows_in, second.metrics.late_rows) == (10, 0)
    assert noted(cluster.brokers, "seen", topic) == {0: 30, 1: 35, 2: 30, 3: 5}
