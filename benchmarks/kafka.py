"""Topics of Kafka through joins into a topic: rows a second and what each step has of the time, in-process, on Spark
and in Flink; and how long after a record was due its answer can be read.

Consumed and decoded alone, then joined with a checkpoint, then with the answers written in transactions; on Spark and
in Flink all of it. Every answer is held against DuckDB's. The broker is one that is there (--brokers), or is started.

    python -m benchmarks.kafka [--rows 400000] [--runs 3] [--brokers HOST:PORT] [--only in-process,spark,flink]
    python -m benchmarks.kafka --latency [--seconds 15] [--rate 10000] [--commit-every '10 ms']
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Figure, report
from benchmarks.topics.cluster import a_broker, fill, new_topic
from benchmarks.topics.elsewhere import Load, in_flink, on_spark
from benchmarks.topics.latency import latency
from benchmarks.topics.rows import QUERIES, Query, encoded, right, rows_of
from benchmarks.topics.steps import steps

FEW_ROWS = 1_000
WAYS = ("in-process", "spark", "flink")


def filled(brokers: str, query: Query, form: str, rows: int) -> Load:
    streams = {name: rows_of(number, len(query.streams), rows) for number, name in enumerate(query.streams)}
    topics = {name: new_topic(brokers, f"bench-{form}-{len(streams)}-{name}") for name in streams}
    for name, topic in topics.items():
        fill(brokers, topic, encoded(streams[name], form))
    return Load(brokers, topics, query, form, rows, right(streams, query.window_s * 1_000_000))


def throughput(brokers: str, rows: int, runs: int, ways: list[str], folder: Path) -> Iterator[Figure]:
    loads = [filled(brokers, query, form, rows) for form in ("json", "avro") for query in QUERIES]
    if "in-process" in ways:
        for load in loads:
            yield from steps(brokers, load.topics, load.query, load.form, rows, runs, folder, load.expected)
    few = max(runs - 1, 1)
    small = filled(brokers, QUERIES[0], "json", FEW_ROWS)
    if "spark" in ways:
        yield from on_spark(loads, small, few, folder)
    if "flink" in ways:
        yield from in_flink(loads, small, few, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--brokers")
    parser.add_argument("--only", default=",".join(WAYS), help="which of them")
    parser.add_argument("--latency", action="store_true", help="that instead")
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--commit-every", help="passed on; by default as soon as the sink is free")
    asked = parser.parse_args()
    more = [] if asked.commit_every is None else ["--commit-every", asked.commit_every]
    with tempfile.TemporaryDirectory() as made, a_broker(asked.brokers, Path(made)) as brokers:
        if asked.latency:
            found = latency(brokers, asked.rate, asked.seconds, asked.runs, Path(made), more)
        else:
            found = throughput(brokers, asked.rows, asked.runs, asked.only.split(","), Path(made))
        is_part = not asked.latency and asked.only != ",".join(WAYS)
        report("kafka_latency" if asked.latency else "kafka", found, beside=is_part)


if __name__ == "__main__":
    main()
