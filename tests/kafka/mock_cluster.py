"""A cluster that Kafka's client library plays inside this process. It makes no topics when asked to, and knows neither
aborted transactions nor who is shut out; a topic is there, with four partitions, once a producer has asked for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

QUIET = {"log_level": 2}
_names = count()
# None ends before the process does: a client that is left would ask whoever is given its port next, for instance the
# server that Spark starts for the state of a task, which then waits for ever.
_all: list[MockCluster] = []


class MockCluster:
    def __init__(self) -> None:
        self._keeper = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "unused", **QUIET})
        found = self._keeper.list_topics(timeout=10).brokers.values()
        self.brokers = ",".join(f"{one.host}:{one.port}" for one in found)
        self._producer = Producer({"bootstrap.servers": self.brokers, **QUIET})
        _all.append(self)

    def topic(self, name: str | None = None) -> str:
        """A topic that is there."""
        name = name or f"topic-{next(_names)}"
        self._producer.list_topics(name, timeout=10)
        return name

    def put(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        partition: int = 0,
        headers: Mapping[str, bytes] | None = None,
        time_ms: int = 1_767_225_600_000,
    ) -> None:
        for place, value in enumerate(values):
            key = None if keys is None else keys[place]
            self._producer.produce(
                topic, value, key, partition, timestamp=time_ms + place, headers=list((headers or {}).items()) or None
            )
        assert self._producer.flush(10) == 0

    def records(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """All records of a topic that are committed, as keys and values."""
        return committed_records(self.brokers, topic)


def committed_records(brokers: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "tests",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    there = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, one, 0) for one in there])
    left, found = set(there), []
    while left:
        for message in consumer.consume(10_000, 0.05):
            error = message.error()
            if error is None:
                found.append((message.key(), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise AssertionError(error)
    consumer.close()
    return found
