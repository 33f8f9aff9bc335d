"""How long after a record was due its answer can be read, at a steady rate; and what a transaction alone costs.

Three processes: one sends records when they are due, one is `watersmeet run --checkpoint` as anybody would start it,
and one reads the answers, as they are committed. What they say is checked when all is over. The first record of every
stream goes ahead, and what the answer to these says is only that the run has begun.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from benchmarks.harness import Figure, figure
from benchmarks.topics.cluster import ANY, QUIET, consumer_of, new_topic, put
from benchmarks.topics.rows import QUERIES, Query, right, script, told_by
from benchmarks.topics.transactions import transactions

KEYS = 10_000
WINDOW_US = 1_000_000
COLD_SHARE = 0.25  # of the time, in which Java and caches become warm
WARM_S = 40.0
LAST_S = 15.0  # within which the last answers come
START_S = 60.0
END_S = 30.0
GOALS_MS = {50: 15, 99: 50}
_SPAWN = multiprocessing.get_context("spawn")


def latency(brokers: str, rate: int, seconds: float, runs: int, folder: Path, more: list[str]) -> Iterator[Figure]:
    for query in QUERIES:  # a broker that has just started is slow: its Java compiles for a minute
        _one(brokers, query, rate, WARM_S, folder / f"warm-{query.streams}", more)
    for query in QUERIES:
        waits = [_one(brokers, query, rate, seconds, folder / f"{query.streams}-{run}", more) for run in range(runs)]
        for share, goal_ms in GOALS_MS.items():
            samples = [float(np.percentile(one, share)) for one in waits]
            name = f"{query.name}, from due to read, p{share}, {rate:,} rows/s"
            yield figure(name, "ms", samples, f"{goal_ms} ms", answers=min(map(len, waits)))
    yield from transactions(brokers)


def _one(brokers: str, query: Query, rate: int, seconds: float, folder: Path, more: list[str]) -> np.ndarray:
    """Of every answer, but the first ones, how long it took, in ms."""
    folder.mkdir(parents=True)
    topics = {one: new_topic(brokers, f"latency-{one}") for one in query.streams}
    out = new_topic(brokers, "latency-out")
    asked = f"SELECT {_ids(query)}, event_time() AS t FROM {', '.join(topics)} WHERE {query.equal} WINDOW = 1 SECOND"
    text = script(brokers, topics, asked, "json", out, time_unit="us", lateness="10 seconds")
    (folder / "latency.sql").write_text(text)
    command = [sys.executable, "-m", "watersmeet", "run", str(folder / "latency.sql"), "--engine", "local", "-q"]
    running = subprocess.Popen(
        [*command, "--checkpoint", str(folder / "checkpoint"), *more], env={**os.environ, "NO_COLOR": "1"}
    )
    begun: Any = _SPAWN.Event()
    started, wanted, came = (_SPAWN.SimpleQueue() for _ in range(3))
    sender = _SPAWN.Process(target=_send, args=(brokers, list(topics.values()), rate, seconds, begun, started))
    reader = _SPAWN.Process(target=_read, args=(brokers, out, begun, wanted, came))
    try:
        reader.start()
        sender.start()
        start_us = started.get()
        rows = _rows(len(topics), rate, seconds, start_us)
        expected = right(dict(zip(topics, rows, strict=True)), WINDOW_US)
        wanted.put(expected.answers)
        moments, values = came.get()
    finally:
        for one in (sender, reader):
            one.join(timeout=5)
            one.kill()
        running.terminate()
        _ended(running)
    got = told_by(values, query.columns)
    if got != expected:
        raise SystemExit(f"{query.name}: {got} is not {expected}, which DuckDB says")
    due_s = _event_times(values)
    steady = due_s > start_us / 1e6 + seconds * COLD_SHARE
    return (np.array(moments) - due_s)[steady] * 1_000


def _ended(running: subprocess.Popen[bytes]) -> None:
    try:
        running.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        running.kill()
        raise SystemExit(f"the run had not ended {END_S:g} s after it was told to") from None


def _ids(query: Query) -> str:
    return ", ".join(f"{one}.id AS {column}" for one, column in zip(query.streams, query.columns, strict=True))


def _keys(rows: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, KEYS, rows)


def _rows(streams: int, rate: int, seconds: float, start_us: int) -> list[pa.RecordBatch]:
    total = int(rate * seconds)
    ids, keys = np.arange(total), _keys(total)
    due_us = start_us + ids * 1_000_000 // rate
    made = {"id": ids, "k": keys, "ts": due_us}
    return [
        pa.record_batch({name: pa.array(own[one::streams]) for name, own in made.items()}) for one in range(streams)
    ]


def _event_times(values: list[bytes]) -> np.ndarray:
    read = pa.json.read_json(pa.BufferReader(b"\n".join(values))).column("t")
    return read.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy() / 1e6


def _send(brokers: str, topics: list[str], rate: int, seconds: float, begun: Any, started: Any) -> None:
    """Records when they are due, whose event time is that moment."""
    producer = Producer({"bootstrap.servers": brokers, **QUIET})
    total = int(rate * seconds)
    keys = _keys(total).tolist()
    for topic in topics:
        put(producer, topic, b'{"id": -1, "k": -1, "page": "/", "ts": %d}' % (time.time_ns() // 1_000), ANY)
    producer.flush()
    if not begun.wait(START_S):
        raise SystemExit(f"the run had not begun after {START_S:g} s")
    start_us = time.time_ns() // 1_000 + 500_000
    started.put(start_us)
    sent = 0
    while sent < total:
        ready = min(int((time.time_ns() // 1_000 - start_us) * rate / 1_000_000), total)
        for number in range(sent, ready):
            due_us = start_us + number * 1_000_000 // rate
            value = b'{"id": %d, "k": %d, "page": "/", "ts": %d}' % (number, keys[number], due_us)
            put(producer, topics[number % len(topics)], value, ANY)
        sent = max(ready, sent)
        producer.poll(0)
        time.sleep(0.001)
    producer.flush()


def _read(brokers: str, topic: str, begun: Any, wanted: Any, came: Any) -> None:
    """When each answer was there, until all are; what they say is looked at later."""
    consumer = consumer_of(brokers, topic)
    moments: list[float] = []
    values: list[bytes] = []
    expected, heard_s = sys.maxsize, time.monotonic() + START_S
    while len(values) <= expected and time.monotonic() < heard_s + LAST_S:
        if expected == sys.maxsize and not wanted.empty():
            expected = wanted.get()
        first = consumer.poll(0.05)
        if first is None:
            continue
        some = [first, *consumer.consume(10_000, 0)]
        now_s, heard_s = time.time(), time.monotonic()
        found = [one.value() for one in some if one.error() is None]
        values += found
        moments += [now_s] * len(found)
        begun.set()
    came.put((moments[1:], values[1:]))
    consumer.close()
