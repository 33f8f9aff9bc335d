"""How long after a row should have been sent its answer is there: open loop, at fixed rates, in one process.

Rows are sent when they are due, whether or not the run keeps up, and their event time is when they were due; so the
event time of an answer tells for how long it was waited for. Everything is written down before it is answered, the
state is saved every few seconds, and a sink commits apart.

    python -m benchmarks.latency [--seconds 10] [--rates 1000,10000,100000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa

import watersmeet as wm
from watersmeet.cli.own_process import preferring_latency
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.place import Place
from watersmeet.io.connectors.numbered_sinks import numbered_sink
from watersmeet.runtime.run_settings import RunSettings

KEYS = 1_000
QUERIES = {
    "join of two": ("ab", "SELECT a.id AS x, b.id AS y, event_time() AS t FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND"),
    "join of three": (
        "abc",
        "SELECT a.id AS x, b.id AS y, c.id AS z, event_time() AS t FROM a, b, c "
        "WHERE a.k = b.k AND b.k = c.k WINDOW = 200 MILLISECONDS",
    ),
    "GROUP BY": ("a", "SELECT k, COUNT(*) AS n, SUM(id) AS total FROM a [RANGE 1 SECOND] GROUP BY k"),
}
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.timestamp("us"))])
TICK_S = 0.0005  # how often the sender looks which rows are due


class Load:
    """Sends rows of some streams in turn, a fixed number a second."""

    def __init__(self, run: DurableExecution, streams: str, rate: int, seconds: float) -> None:
        self.run, self.streams, self.rate, self.rows = run, streams, rate, int(rate * seconds)
        rng = np.random.default_rng(1)
        self.keys = rng.integers(0, KEYS, self.rows)
        self.last: Future[int] | None = None

    def send(self) -> None:
        start_us = time.time_ns() // 1_000 + 50_000
        due_us = start_us + (np.arange(self.rows) * (1_000_000 / self.rate)).astype(np.int64)
        # Made beforehand, as rows that come over a wire would be: what is timed is not how they are made.
        rows = [self._rows_of(number, due_us) for number in range(len(self.streams))]
        sent, streams = 0, len(self.streams)
        while sent < self.rows:
            ready = int(due_us.searchsorted(time.time_ns() // 1_000, side="right"))
            for number, name in enumerate(self.streams):
                # Row i goes to stream i modulo their number, so these are the first of it before `sent` and `ready`.
                first, end = (sent - number + streams - 1) // streams, (ready - number + streams - 1) // streams
                if end > first:
                    self.last, _ = self.run.put(name, rows[number].slice(first, end - first), timeout_s=None)
            sent = ready
            time.sleep(TICK_S)  # always: one that never sleeps would push row by row and take the run its processor

    def sent(self, timeout_s: float | None = None) -> int:
        """The number of the last row, once it is on disk."""
        assert self.last is not None
        return self.last.result(timeout_s)

    def wait(self) -> None:
        """Until the last rows are answered too: those that waited longest count as well."""
        number = self.sent()
        while self.run.progress.given < number:
            time.sleep(0.01)

    def _rows_of(self, number: int, due_us: np.ndarray[Any, Any]) -> pa.RecordBatch:
        mine = np.arange(number, self.rows, len(self.streams))
        columns = [pa.array(mine), pa.array(self.keys[mine]), pa.array(due_us[mine], pa.timestamp("us"))]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class Watch:
    """Notes when every answer came, and tells later how long before that its event time was."""

    def __init__(self, column: str) -> None:
        self.column = column
        self.since_us = time.time_ns() // 1_000
        self.came: list[tuple[int, Sequence[pa.RecordBatch]]] = []

    def __call__(self, number: int, batches: Sequence[pa.RecordBatch]) -> None:
        self.came.append((time.time_ns() // 1_000, batches))

    def waits_us(self) -> np.ndarray[Any, Any]:
        found = [np.zeros(0, np.int64)]
        for now_us, batches in self.came:
            for batch in batches:
                times = batch.column(self.column).view(pa.int64()).to_numpy(zero_copy_only=False)
                found.append(now_us - times[times >= self.since_us])
        return np.concatenate(found)


def measured(name: str, rate: int, seconds: float, folder: Path) -> dict[str, Any]:
    streams, sql = QUERIES[name]
    session = wm.Session()
    for stream in streams:
        session.stream(stream, schema={"id": "BIGINT", "k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    plan = session.sql(sql).plan
    sink = {"sink": "parquet", "path": str(folder / "out")}
    run = DurableExecution(
        plan,
        Place(folder / "checkpoint"),
        lambda checkpoint, start: numbered_sink("out", sink, plan.output_schema, checkpoint.run, start=start),
        {},
        RunSettings(save_every_s=2.0, commit_every_s=1.0),
        tell=lambda what: None,
    )
    run.start()
    warm_up(run, streams)
    watch = run.outputs.on_answers = Watch("t" if "join" in name else "_ts")
    load = Load(run, streams, rate, seconds)
    sender = Thread(target=load.send)
    began = time.monotonic()
    sender.start()
    sender.join()
    load.wait()
    run.stop()
    took = time.monotonic() - began
    waits = watch.waits_us() / 1_000
    p50, p99, p999 = (round(float(one), 2) for one in np.percentile(waits, [50, 99, 99.9]))
    return {
        "query": name,
        "rate": rate,
        "seconds": round(took, 1),
        "answers": int(waits.size),
        "p50_ms": p50,
        "p99_ms": p99,
        "p99_9_ms": p999,
        "max_ms": round(float(waits.max()), 1),
        "batches": run.progress.number,
        "longest_copy_ms": round(1e3 * run.snapshot_pause_s, 1),
        "late_rows": run.execution.metrics.late_rows,
    }


def warm_up(run: DurableExecution, streams: str) -> None:
    """Have kernels compiled and files opened before anything is timed."""
    at = time.time_ns() // 1_000 - 60_000_000
    for turn in range(50):
        for stream in streams:
            times = pa.array([at + turn] * 2, pa.timestamp("us"))
            batch = pa.RecordBatch.from_arrays([pa.array([-1, -2]), pa.array([-1, -1]), times], schema=SCHEMA)
            run.push(stream, batch)
    time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rates", default="1000,10000,100000")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = []
    print(f"{'query':14} {'rows/s':>8} {'answers':>10} {'p50 ms':>8} {'p99 ms':>8} {'p99.9 ms':>9} {'copy ms':>8}")
    for name in QUERIES:
        for rate in map(int, asked.rates.split(",")):
            with tempfile.TemporaryDirectory() as folder, preferring_latency():  # as the commands do
                one = measured(name, rate, asked.seconds, Path(folder))
            found.append(one)
            print(
                f"{name:14} {rate:8,} {one['answers']:10,} {one['p50_ms']:8.2f} {one['p99_ms']:8.2f} "
                f"{one['p99_9_ms']:9.2f} {one['longest_copy_ms']:8.1f}"
            )
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
