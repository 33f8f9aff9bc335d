"""Ours in one process, with everything that makes it last: rows are on disk before they are answered."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import watersmeet as wm
from benchmarks.latency import Load, warm_up
from benchmarks.rivals.dialects import ours
from benchmarks.rivals.load import Outcome, Query, Sending, outcome
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.place import Place
from watersmeet.io.connectors.numbered_sinks import numbered_sink
from watersmeet.runtime.run_settings import RunSettings


class Watch:
    """Notes of every answer how long ago its event time was, and what it says."""

    def __init__(self, query: Query, timed_from_us: int) -> None:
        self.query, self.timed_from_us = query, timed_from_us
        self.answers, self.checksum = 0, 0
        self.waits: list[np.ndarray[Any, Any]] = []

    def __call__(self, number: int, batches: Sequence[pa.RecordBatch]) -> None:
        now_us = time.time_ns() // 1_000
        for batch in batches:
            batch = batch.filter(self.meant(batch))
            times = _numbers(batch.column("_ts" if self.query.groups else "t").view(pa.int64()))
            self.waits.append(now_us - times[times >= self.timed_from_us])
            self.answers += times.size
            self.checksum += self.check(batch)

    def meant(self, batch: pa.RecordBatch) -> pa.Array:
        """Not those that warmed it up, and of changes what is true from then on."""
        if not self.query.groups:
            return pc.greater_equal(batch.column("x"), 0)
        return pc.and_(pc.equal(batch.column("_op"), "+"), pc.greater_equal(batch.column("k"), 0))

    def check(self, batch: pa.RecordBatch) -> int:
        if self.query.groups:
            k, n, total = (_numbers(batch.column(name)) for name in ("k", "n", "total"))
            return int(np.dot(total, n + k))
        *before, last = (_numbers(batch.column(name)) for name in "xyz"[: len(self.query.streams)])
        return int(np.dot(np.prod(before, axis=0) if len(before) > 1 else before[0], last))


def _numbers(column: pa.Array) -> np.ndarray[Any, Any]:
    return column.to_numpy(zero_copy_only=False)


def run(sending: Sending, folder: Path) -> Outcome:
    query = sending.query
    session = wm.Session()
    for stream in query.streams:
        session.stream(stream, schema={"id": "BIGINT", "k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    plan = session.sql(ours(query)).plan
    sink = {"sink": "parquet", "path": str(folder / "out")}
    durable = DurableExecution(
        plan,
        Place(folder / "checkpoint"),
        lambda checkpoint, start: numbered_sink("out", sink, plan.output_schema, checkpoint.run, start=start),
        {},
        RunSettings(save_every_s=2.0, commit_every_s=1.0),
        tell=lambda what: None,
    )
    durable.start()
    warm_up(durable, query.streams)
    warm_rows = sum(durable.taken(stream) for stream in query.streams)
    load = Load(durable, query.streams, sending.rate, sending.warm_s + sending.seconds)
    watch = Watch(query, time.time_ns() // 1_000 + int(sending.warm_s * 1e6))
    durable.outputs.on_answers = watch
    until = time.monotonic() + sending.warm_s + sending.seconds + sending.grace_s
    load.send()
    with suppress(TimeoutError):  # what is not on disk by then counts as fallen behind
        load.sent(max(0.0, until - time.monotonic()))
    durable.stop()
    rows = sum(durable.taken(stream) for stream in query.streams) - warm_rows
    waits = np.concatenate(watch.waits) / 1_000 if watch.waits else np.zeros(0)
    checksum = (watch.checksum + 2**63) % 2**64 - 2**63
    return outcome(rows, watch.answers, checksum, waits)
