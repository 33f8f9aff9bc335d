"""`watersmeet demo --kafka`: the cameras' sightings as topics of a broker, joined into another topic, exactly once.

The broker is started for it, if that can be done; the answer is compared with the same query over the same rows.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from watersmeet.demo.broker import running_broker
from watersmeet.demo.traffic import CAMERAS, LATENESS, is_late, sightings
from watersmeet.hosts.local.durable.jobs import DurableJobs
from watersmeet.io.connectors.kafka.encoding import json_records
from watersmeet.noticing import phase
from watersmeet.runtime.declaring import open_to_go_on
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import read_script
from watersmeet.session import Session
from watersmeet.temporary_folders import temporary_folder

ROWS = 60_000
PARTITIONS = 3
SHOWN = 5
ANSWER = "tracks"
# Objects past a camera are spread over the partitions of its topic, so that rows of an object stay in order.
_KEY = "object"


def script(brokers: str, query: str) -> str:
    streams = "".join(
        f"CREATE STREAM {camera} (object BIGINT, speed DOUBLE, ts TIMESTAMP)\n"
        f"WITH (source='kafka', brokers='{brokers}', topic='{camera}', format='json', time='ts', "
        f"lateness='{LATENESS}');\n\n"
        for camera in CAMERAS
    )
    sink = f"sink='kafka', brokers='{brokers}', topic='{ANSWER}', key='object'"
    return f"{streams}CREATE SINK {ANSWER} WITH ({sink}) AS\n{query};\n"


def run_kafka_demo(rows: int | None, seed: int, query: str, question: str) -> int:
    """Run it and tell what happens. The exit code: 1 if the answer is another than without Kafka."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(question)
    with temporary_folder("demo-kafka-") as folder, running_broker(folder / "broker") as broker:
        console.print(f"\nA broker of Kafka runs at {broker.brokers}.")
        # None of them comes too late, so that the answer is one and the same.
        tables = {
            name: table.filter(pa.array(~is_late(table))) for name, table in sightings(rows or ROWS, seed).items()
        }
        feed(console, broker.brokers, tables)
        text = script(broker.brokers, query)
        console.print("\nThe script", style="bold")
        console.print(text, end="")
        _run(console, text, folder / "checkpoint")
        return _shown(console, broker.brokers, tables, query)


def feed(console: Console, brokers: str, tables: dict[str, pa.Table]) -> None:
    admin = AdminClient({"bootstrap.servers": brokers, "log_level": 2})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (*tables, ANSWER)]).values():
        made.result()
    producer = Producer({"bootstrap.servers": brokers, "log_level": 2, "queue.buffering.max.messages": 1_000_000})
    started = time.perf_counter()
    with phase("feeding the topics"):
        for name, table in tables.items():
            for batch in table.to_batches():
                keys = batch.column(_KEY).to_pylist()
                for key, value in zip(keys, json_records(batch), strict=True):
                    producer.produce(name, value, str(key).encode())
                    producer.poll(0)
        producer.flush()
    total, seconds = sum(map(len, tables.values())), time.perf_counter() - started
    console.print(f"{total:,} sightings are in {len(tables)} topics, fed in {seconds:.1f} s.")


def _run(console: Console, text: str, checkpoint: Path) -> None:
    started = time.perf_counter()
    jobs = DurableJobs(read_script(text, opener=open_to_go_on), checkpoint, RunSettings(available_now=True))
    with phase("reading, joining and writing topics"):
        jobs.start()
        jobs.wait()
    (run,) = jobs.runs.values()
    seconds, found = time.perf_counter() - started, run.latest()
    console.print(f"\n{found.rows_in:,} rows were read and {found.results:,} answers written in {seconds:.1f} s.")
    if found.late_rows:
        console.print(f"{found.late_rows:,} rows came too late.")


def _shown(console: Console, brokers: str, tables: dict[str, pa.Table], query: str) -> int:
    values = committed(brokers, ANSWER)
    console.print(f"\nSome records of the topic {ANSWER}", style="bold")
    for value in values[:SHOWN]:
        console.print(value.decode())
    session = Session()
    for name, table in tables.items():
        session.stream(name, table, time="ts", lateness=LATENESS)
    expected = session.sql(query).to_arrow()
    wanted = Counter(one for batch in expected.to_batches() for one in json_records(batch))
    is_right = Counter(values) == wanted
    console.print("\nIs it right?", style="bold")
    if is_right:
        console.print(f"All {len(values):,} answers are those of the same query without Kafka, each once.")
    else:
        console.print(f"WRONG: {len(values):,} answers, but {expected.num_rows:,} without Kafka", style="bold red")
    return 0 if is_right else 1


def committed(brokers: str, topic: str) -> list[bytes]:
    """The values of all committed records of a topic."""
    consumer = Consumer(
        {"bootstrap.servers": brokers, "group.id": "demo", "enable.auto.commit": False, "log_level": 2,
         "isolation.level": "read_committed", "enable.partition.eof": True}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, one, 0) for one in range(PARTITIONS)])
    left, found = PARTITIONS, []
    while left:
        for message in consumer.consume(10_000, 0.1):
            error = message.error()
            if error is None:
                found.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                left -= 1
    consumer.close()
    return found
