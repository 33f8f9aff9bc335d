"""The last batch that a sink has taken, in a topic of its own: one record for each run and sink, in the transaction of
the batch. Older ones are removed by the brokers, as the topic is compacted."""

from __future__ import annotations

import json
from time import monotonic

from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from watersmeet.errors import SinkError
from watersmeet.io.connectors.kafka.client import Cluster, Heard, made, told, told_as

DEFAULT_TOPIC = "watersmeet.batches"
PARTITION = 0
# An open transaction of somebody else holds up what comes behind it; the brokers end it after a minute.
_PATIENCE_S = 90.0


def marker_key(run: str, sink: str) -> bytes:
    return json.dumps([run, sink]).encode()


def marker_value(number: int) -> bytes:
    return json.dumps({"batch": number}).encode()


def last_number(cluster: Cluster, sink: str, topic: str, key: bytes) -> int:
    """The last number that was committed under a key, or -1."""
    heard = Heard()
    what = f"sink {sink!r} cannot learn from topic {topic!r} which batches it has"
    admin = made(SinkError, cluster, what, AdminClient, cluster.config(heard))
    config = cluster.config(
        heard,
        group_id="watersmeet",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        enable_partition_eof=True,
        isolation_level="read_committed",
    )
    consumer: Consumer = made(SinkError, cluster, what, Consumer, config)
    try:
        with told_as(SinkError, cluster, what, heard):
            end = _end(admin, cluster, topic)
            return _read(consumer, cluster, topic, key, end, what, heard)
    finally:
        consumer.close()


def _end(admin: AdminClient, cluster: Cluster, topic: str) -> int:
    """Behind all that is there, with what is in open transactions: ours have ended, but others may lie before them."""
    place = TopicPartition(topic, PARTITION)
    asked = admin.list_offsets(
        {place: OffsetSpec.latest()},
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        request_timeout=cluster.timeout_s,
    )
    return int(asked[place].result().offset)


def _read(consumer: Consumer, cluster: Cluster, topic: str, key: bytes, end: int, what: str, heard: Heard) -> int:
    consumer.assign([TopicPartition(topic, PARTITION, 0)])
    found, at, until_s = -1, 0, monotonic() + max(_PATIENCE_S, cluster.timeout_s)
    while at < end:
        for one in consumer.consume(1 << 12, 0.1):
            error = one.error()
            if error is None:
                at = one.offset() + 1
                if one.key() == key and one.value() is not None:
                    found = json.loads(one.value())["batch"]
            elif error.code() == KafkaError._PARTITION_EOF:
                at = max(at, one.offset())
            elif not error.retriable():
                raise told(SinkError, cluster, what, error, heard)
        if monotonic() > until_s:
            raise SinkError(
                f"{what}: a transaction of somebody else has been open there for {_PATIENCE_S:g} s",
                hint="wait until the brokers have ended it, or give the sink a topic of its own: marker_topic = '…'",
            )
    return found
