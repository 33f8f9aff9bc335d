"""Partitions that are added while a run reads a topic, in one life: none of their rows is late or lost."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.kafka.command import HOSTS, Command
from tests.kafka.mock_cluster import QUIET
from tests.kafka.topics import answers, make_topic, sink, stream
from watersmeet.demo.broker import Broker
from watersmeet.io.connectors.kafka.encoding import json_records

pytestmark = pytest.mark.kafka

RATE = 200  # rows of each stream in a second, by the clock of the wall and by event time
BEFORE_S, AFTER_S = 3, 6  # for how long rows come before partitions are added, and after
LATENESS = "3 seconds"  # it takes a second, or a batch, until new partitions are noticed
QUERY = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND"


def rows_of(name: str) -> pa.Table:
    """Rows in the order of their times, which begin in 2026."""
    count = RATE * (BEFORE_S + AFTER_S)
    rng = np.random.default_rng(list(name.encode()))
    times = 1_767_225_600_000_000 + np.arange(count) * (1_000_000 // RATE)
    return pa.table(
        {
            "id": np.arange(count),
            "k": rng.integers(0, 100, count),
            "v": np.zeros(count),
            "s": pa.array(["w"] * count),
            "ts": pa.array(times, pa.timestamp("us")),
        }
    )


class Traffic:
    """Puts rows into the partitions in turn, in step with the clock."""

    def __init__(self, brokers: str, topics: dict[str, pa.Table]) -> None:
        self._brokers = brokers
        self._values = {
            topic: [one for batch in table.to_batches() for one in json_records(batch)]
            for topic, table in topics.items()
        }
        self._at = 0

    def flow(self, seconds: int, partitions: int) -> None:
        began_s, begin, end = time.monotonic(), self._at, self._at + RATE * seconds
        producer = Producer({"bootstrap.servers": self._brokers, "linger.ms": 5, **QUIET})
        while self._at < end:
            due = min(begin + int((time.monotonic() - began_s) * RATE), end)
            for topic, values in self._values.items():
                for place in range(self._at, due):
                    producer.produce(topic, values[place], partition=place % partitions)
            self._at = due
            producer.poll(0)
            time.sleep(0.02)
        producer.flush()

    def add_partitions(self, number: int) -> None:
        admin = AdminClient({"bootstrap.servers": self._brokers, **QUIET})
        for topic in self._values:
            admin.create_partitions([NewPartitions(topic, number)])[topic].result()
            while len(admin.list_topics(topic, timeout=10).topics[topic].partitions) < number:
                time.sleep(0.02)


def expected(tables: dict[str, pa.Table]) -> set[tuple[int, int]]:
    import duckdb

    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        said = "SELECT a.id, b.id FROM a, b WHERE a.k = b.k AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= 1000000"
        return set(connection.execute(said).fetchall())


@pytest.mark.parametrize("host", HOSTS)
def test_partitions_are_added_while_a_run_reads(host: str, broker: Broker, tmp_path: Path) -> None:
    name = f"growing-{host}"
    tables = {one: rows_of(one) for one in ("a", "b")}
    for one in tables:
        make_topic(broker.brokers, f"{name}-{one}", 2)
    make_topic(broker.brokers, f"{name}-out")
    text = "".join(stream(broker.brokers, one, f"{name}-{one}", lateness=LATENESS) for one in tables)
    text += sink(broker.brokers, f"{name}-out", QUERY)
    traffic = Traffic(broker.brokers, {f"{name}-{one}": table for one, table in tables.items()})
    running = Command(tmp_path, text, *HOSTS[host])

    def there() -> int:
        return sum(answers(broker.brokers, f"{name}-out", "x", "y").values())

    traffic.flow(BEFORE_S, 2)
    running.until(lambda: there() > 0)
    traffic.add_partitions(4)
    traffic.flow(AFTER_S, 4)
    wanted = expected(tables)
    running.until(lambda: there() >= len(wanted))
    assert running.interrupt() == 130, running.said
    found = answers(broker.brokers, f"{name}-out", "x", "y")
    assert found == dict.fromkeys(wanted, 1)
