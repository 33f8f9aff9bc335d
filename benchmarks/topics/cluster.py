"""A broker, topics that no run before has made, and what is put there and read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from watersmeet.demo.broker import running_broker

PARTITIONS = 3
ANY = -1  # the partition is the producer's choice
QUIET = {"log_level": 2}
_numbers = count(int(time.time()))


@contextmanager
def a_broker(given: str | None, folder: Path) -> Iterator[str]:
    if given is not None:
        yield given
        return
    with running_broker(folder / "broker") as found:
        yield found.brokers


def new_topic(brokers: str, name: str, partitions: int = PARTITIONS) -> str:
    made = f"{name}-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": brokers, **QUIET})
    for one in admin.create_topics([NewTopic(made, partitions, 1)]).values():
        one.result()
    return made


def fill(brokers: str, topic: str, values: list[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 50, "compression.type": "lz4", **QUIET})
    for place, value in enumerate(values):
        put(producer, topic, value, place % PARTITIONS)
    producer.flush()


def put(producer: Producer, topic: str, value: bytes | None, partition: int, **more: Any) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition, **more)
            return
        except BufferError:
            producer.poll(0.1)


def consumer_of(brokers: str, topic: str, **more: object) -> Consumer:
    """At the beginning of all partitions, of what is committed."""
    config = {"bootstrap.servers": brokers, "group.id": "bench", "enable.auto.commit": False, "fetch.wait.max.ms": 10}
    consumer = Consumer({**config, "isolation.level": "read_committed", **more, **QUIET})
    consumer.assign([TopicPartition(topic, one, 0) for one in range(PARTITIONS)])
    return consumer


def all_values(brokers: str, topic: str) -> list[bytes]:
    """What is committed in a topic now."""
    consumer = consumer_of(brokers, topic, **{"enable.partition.eof": True})
    left, found = set(range(PARTITIONS)), []
    while left:
        for one in consumer.consume(100_000, 0.1):
            error = one.error()
            if error is None:
                found.append(one.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(one.partition())
            else:
                raise RuntimeError(error.str())
    consumer.close()
    return found
