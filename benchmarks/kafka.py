"""Topics of Kafka through joins into a topic: rows a second, and what each step has of the time; and how long after a
record was due its answer can be read.

Consumed and decoded alone, then joined with a checkpoint, then with the answers written in transactions. The broker is
one that is there (--brokers), or is started.

    python -m benchmarks.kafka [--rows 600000] [--runs 3] [--brokers HOST:PORT] [--latency] [--seconds 20]
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.harness import Figure, alternate, figure, report
from watersmeet.cli.own_process import preferring_latency
from watersmeet.demo.broker import running_broker
from watersmeet.hosts.local.durable.jobs import LastingJobs, streams_of
from watersmeet.hosts.local.durable.outflow import Commits
from watersmeet.hosts.local.durable.run import Settings
from watersmeet.io.connectors.contract import has_more
from watersmeet.io.connectors.kafka.encoding.json import json_objects
from watersmeet.io.connectors.readers import reader_of
from watersmeet.runtime.script import Job, open_to_go_on, read_script

PARTITIONS = 3
KEYS = 100_000
STEP_US = 1_000
SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "k", "type": "long"},
        {"name": "page", "type": "string"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
QUERIES = {
    "join of two": ("ab", "SELECT a.id AS x, b.id AS y, a.page FROM a, b WHERE a.k = b.k WINDOW = 100 SECONDS"),
    "join of three": (
        "abc",
        "SELECT a.id AS x, b.id AS y, c.id AS z, a.page FROM a, b, c WHERE a.k = b.k AND b.k = c.k "
        "WINDOW = 200 SECONDS",
    ),
}
LATENCY = "SELECT a.id AS x, b.id AS y, event_time() AS t FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND"
LATENCY_KEYS = 10_000
QUIET = {"log_level": 2}
_numbers = count(int(time.time()))  # names of topics that no run before has made


def rows_of(number: int, streams: int, rows: int) -> pa.RecordBatch:
    rng = np.random.default_rng(number)
    ids = np.arange(number, rows, streams)
    pages = rng.integers(0, 50, ids.size)
    return pa.record_batch(
        {
            "id": ids,
            "k": rng.integers(0, KEYS, ids.size),
            "page": pa.array([f"/page/{page}" for page in pages]),
            "ts": pa.array(ids * STEP_US, pa.timestamp("us")),
        }
    )


def encoded(rows: pa.RecordBatch, form: str) -> list[bytes | None]:
    if form == "json":
        return json_objects(rows)
    parsed, found = fastavro.parse_schema(SCHEMA), []
    times = rows.column("ts").cast(pa.int64()).to_pylist()
    for row, time_us in zip(rows.drop_columns(["ts"]).to_pylist(), times, strict=True):
        made = io.BytesIO()
        fastavro.schemaless_writer(made, parsed, {**row, "ts": time_us})
        found.append(made.getvalue())
    return found


def make_topics(brokers: str, names: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": brokers, **QUIET})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        made.result()


def fill(brokers: str, topic: str, values: list[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 50, "compression.type": "lz4", **QUIET})
    for place, value in enumerate(values):
        put(producer, topic, value, place % PARTITIONS)
    producer.flush()


def put(producer: Producer, topic: str, value: bytes | None, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition)
            return
        except BufferError:
            producer.poll(0.1)


def script(brokers: str, topics: dict[str, str], query: str, form: str, sink: str | None, **options: str) -> str:
    # Partitions are read one a little ahead of the other, and the join waits for none: so it may be any lateness.
    more = {"lateness": "1 hour", **({"schema": json.dumps(SCHEMA)} if form == "avro" else {}), **options}
    said = "".join(f", {name} = '{value}'" for name, value in more.items())
    declared = "".join(
        f"CREATE STREAM {name} (id BIGINT, k BIGINT, page VARCHAR, ts TIMESTAMP) WITH (source = 'kafka', "
        f"brokers = '{brokers}', topic = '{topic}', format = '{form}', time = 'ts'{said});\n"
        for name, topic in topics.items()
    )
    if sink is None:
        return declared + query + ";"
    return declared + f"CREATE SINK out WITH (sink = 'kafka', brokers = '{brokers}', topic = '{sink}') AS {query};"


def consume_alone(job: Job) -> float:
    """All rows, decoded, by one thread; the seconds."""
    started = time.perf_counter()
    for stream in streams_of(job.plan).values():
        reader = reader_of(stream)
        while True:
            piece = reader.poll(1 << 16)
            if not has_more(reader, piece):
                break
        reader.close()
    return time.perf_counter() - started


def joined(text: str, folder: Path, *, listens: bool) -> float:
    """With a checkpoint, to the end of what is there; the seconds. listens: answers go nowhere."""
    settings = Settings(available_now=True, commits=Commits(every_s=0.2))
    jobs = LastingJobs(
        read_script(text, opener=open_to_go_on), folder, settings, tell=lambda what: None, pushed=listens
    )
    started = time.perf_counter()
    jobs.start()
    jobs.wait()
    return time.perf_counter() - started


def throughput(brokers: str, rows: int, runs: int, folder: Path) -> Iterator[Figure]:
    for form in ("json", "avro"):
        for name, (streams, query) in QUERIES.items():
            topics = {one: f"bench-{form}-{len(streams)}-{one}-{next(_numbers)}" for one in streams}
            make_topics(brokers, list(topics.values()))
            for number, topic in enumerate(topics.values()):
                fill(brokers, topic, encoded(rows_of(number, len(streams), rows), form))
            yield from _steps(brokers, topics, query, form, name, rows, runs, folder)


def _steps(
    brokers: str, topics: dict[str, str], query: str, form: str, name: str, rows: int, runs: int, folder: Path
) -> Iterator[Figure]:
    alone = read_script(script(brokers, topics, query, form, None), opener=open_to_go_on)[0]

    def with_sink() -> float:
        out = f"bench-out-{next(_numbers)}"
        make_topics(brokers, [out])
        return joined(script(brokers, topics, query, form, out), folder / out, listens=False)

    samples = alternate(
        {
            "consumed and decoded alone": lambda: consume_alone(alone),
            "and joined": lambda: joined(
                script(brokers, topics, query, form, None), folder / f"run-{next(_numbers)}", listens=True
            ),
            "and written": with_sink,
        },
        runs,
    )
    base = sorted(samples["consumed and decoded alone"])[runs // 2]
    for step, seconds in samples.items():
        middle = sorted(seconds)[runs // 2]
        goal = "within 1.3 times of alone" if step == "and joined" else ""
        yield figure(
            f"{form}, {name}: {step}",
            "rows/s",
            [rows / one for one in seconds],
            goal,
            times_alone=round(middle / base, 2),
        )


# ---- latency --------------------------------------------------------------------------------------------------------


def produce_steadily(brokers: str, topics: list[str], rate: int, seconds: float) -> None:
    """Records when they are due, whose event time is that moment, in a process of its own."""
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 2, **QUIET})
    rng = np.random.default_rng(1)
    total = int(rate * seconds)
    keys = rng.integers(0, LATENCY_KEYS, total).tolist()
    start_us = time.time_ns() // 1_000 + 200_000
    sent = 0
    while sent < total:
        ready = min(int((time.time_ns() // 1_000 - start_us) * rate / 1_000_000), total)
        for number in range(sent, ready):
            due_us = start_us + number * 1_000_000 // rate
            value = b'{"id": %d, "k": %d, "page": "/", "ts": %d}' % (number, keys[number], due_us)
            put(producer, topics[number % len(topics)], value, number // len(topics) % PARTITIONS)
        sent = max(ready, sent)
        producer.poll(0)
        time.sleep(0.001)
    producer.flush()


def latency(brokers: str, rate: int, seconds: float, folder: Path) -> Iterator[Figure]:
    topics = {one: f"latency-{one}-{next(_numbers)}" for one in "ab"}
    out = f"latency-out-{next(_numbers)}"
    make_topics(brokers, [*topics.values(), out])
    text = script(brokers, topics, LATENCY, "json", out, time_unit="us", lateness="1 second")
    settings = Settings(commits=Commits(every_s=0.0), sync=True)
    jobs = LastingJobs(read_script(text, opener=open_to_go_on), folder / out, settings, tell=lambda what: None)
    jobs.start()
    waits: list[tuple[float, float]] = []
    done = Thread(target=read_answers, args=(brokers, out, seconds + 5, waits))
    done.start()
    sender = multiprocessing.get_context("spawn").Process(
        target=produce_steadily, args=(brokers, list(topics.values()), rate, seconds)
    )
    sender.start()
    sender.join()
    done.join()
    jobs.stop()
    came = np.array(waits)
    begun_s = came[:, 0].min()
    steady = came[came[:, 0] > begun_s + seconds / 4, 1] * 1_000  # the first rows find things cold
    for share, goal in ((50, 20), (99, 100)):
        yield figure(
            f"from due to read, p{share}, {rate:,} rows/s", "ms", [float(np.percentile(steady, share))], f"{goal} ms",
            answers=len(steady),
        )  # fmt: skip


def read_answers(brokers: str, topic: str, seconds: float, waits: list[tuple[float, float]]) -> None:
    consumer = Consumer(
        {"bootstrap.servers": brokers, "group.id": "bench", "enable.auto.commit": False, "fetch.wait.max.ms": 10,
         "isolation.level": "read_committed", **QUIET}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, one, 0) for one in range(PARTITIONS)])
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        first = consumer.poll(0.05)
        if first is None:
            continue
        some = [first, *consumer.consume(10_000, 0)]
        now = time.time()
        values = [json.loads(one.value()) for one in some if one.error() is None]
        for value in values:
            came = np.datetime64(value["t"], "us").astype(np.int64) / 1e6
            waits.append((now, now - float(came)))
    consumer.close()


@contextmanager
def a_broker(given: str | None, folder: Path) -> Iterator[str]:
    if given is not None:
        yield given
        return
    with running_broker(folder / "broker") as found:
        yield found.brokers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--brokers")
    parser.add_argument("--latency", action="store_true", help="only that")
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    asked: Any = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, a_broker(asked.brokers, Path(made)) as brokers:
        if asked.latency:
            with preferring_latency():  # as `watersmeet run` does in a process of its own
                found = list(latency(brokers, asked.rate, asked.seconds, Path(made)))
        else:
            found = list(throughput(brokers, asked.rows, asked.runs, Path(made)))
    report("kafka_latency" if asked.latency else "kafka", found)


if __name__ == "__main__":
    main()
