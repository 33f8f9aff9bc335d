"""Topics of a real broker with rows of the usual tests, and what DuckDB says of the same rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.durable.lives import rows_of
from tests.kafka.mock_cluster import QUIET, committed_records
from watersmeet.io.connectors.kafka.encoding import json_records


def make_topic(brokers: str, name: str, partitions: int = 3, **config: str) -> None:
    made = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()})
    admin = AdminClient({"bootstrap.servers": brokers, **QUIET})
    admin.create_topics([made])[name].result()


def put_rows(brokers: str, topic: str, rows: pa.Table, partitions: int = 3) -> None:
    """The rows in their order, spread over the partitions; in transactions, some of which are given up."""
    producer = Producer({"bootstrap.servers": brokers, "transactional.id": f"writes-{topic}", **QUIET})
    producer.init_transactions(30)
    (batch,) = rows.combine_chunks().to_batches()
    values = json_records(batch)
    for begin in range(0, len(values), 100):
        producer.begin_transaction()
        for value in values[begin : begin + 10]:
            producer.produce(topic, value, partition=0)
        producer.flush()
        producer.abort_transaction()
        producer.begin_transaction()
        for place, value in enumerate(values[begin : begin + 100], begin):
            producer.produce(topic, value, partition=place % partitions)
        producer.commit_transaction()


def stream(brokers: str, name: str, topic: str, **options: str) -> str:
    said = {"source": "kafka", "brokers": brokers, "topic": topic, "format": "json", "time": "ts", **options}
    return f"CREATE STREAM {name} (id BIGINT, k BIGINT, v DOUBLE, s VARCHAR, ts TIMESTAMP) WITH ({_with(said)});\n"


def sink(brokers: str, topic: str, query: str, *, name: str = "answers", **options: str) -> str:
    said = {"sink": "kafka", "brokers": brokers, "topic": topic, **options}
    return f"CREATE SINK {name} WITH ({_with(said)}) AS {query};\n"


def _with(options: Mapping[str, str]) -> str:
    return ", ".join(f"{name}='{value}'" for name, value in options.items())


def answers(brokers: str, topic: str, *columns: str) -> Counter[tuple[Any, ...]]:
    """The rows of a topic that are committed."""
    found = [json.loads(value or b"null") for _, value in committed_records(brokers, topic)]
    return Counter(tuple(row[column] for column in columns) for row in found)


def said_by_duckdb(query: str, count: int, *names: str) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        for name in names:
            connection.register(name, rows_of(name, count))
        return Counter(connection.execute(query).fetchall())
