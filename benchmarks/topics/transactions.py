"""What a transaction alone costs, which no run that answers exactly once can go below."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Producer

from benchmarks.harness import Figure, figure
from benchmarks.topics.cluster import QUIET, new_topic, put

WARM, TIMED = 200, 300
RECORDS = 50  # as many answers as a commit has at 10,000 rows/s
# Beside the record of its number: nothing, records without a key, which go to one partition, or to all.
TARGETS: dict[str, tuple[int, ...]] = {"empty": (), "into one partition": (0,), "into three partitions": (0, 1, 2)}


def transactions(brokers: str) -> Iterator[Figure]:
    """By two producers in turn, as the sink has them, each with the record that says its number."""
    answers, numbers = new_topic(brokers, "floor-answers"), new_topic(brokers, "floor-numbers", 1)
    producers = [_made(brokers, f"{answers}-{turn}") for turn in range(2)]
    for target, partitions in TARGETS.items():
        taken = []
        for turn in range(WARM + TIMED):
            began = time.perf_counter()
            _once(producers[turn % 2], answers, numbers, partitions)
            taken.append((time.perf_counter() - began) * 1_000)
        yield figure(f"a transaction alone, {target}", "ms", taken[WARM:])


def _made(brokers: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": brokers, "transactional.id": name, "compression.type": "lz4", **QUIET})
    producer.init_transactions(30)
    return producer


def _once(producer: Producer, answers: str, numbers: str, partitions: tuple[int, ...]) -> None:
    producer.begin_transaction()
    for record in range(RECORDS if partitions else 0):
        put(producer, answers, b'{"x": 1, "y": 2}', partitions[record % len(partitions)])
    put(producer, numbers, b"1", 0)
    producer.commit_transaction()
