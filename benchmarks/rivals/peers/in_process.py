"""Ours in one process, from Parquet files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import watersmeet as wm
from benchmarks.rivals.peers.protocol import Asked, Tally, answer


def run(asked: Asked, tally: Tally) -> None:
    session = wm.Session()
    for name in asked.streams:
        session.stream(name, str(asked.file(name)), time="ts")
    for batch in session.sql(asked.more["sql"]).batches():
        tally.columns(*columns(asked.query, batch))


def columns(query: str, batch: pa.RecordBatch) -> list[np.ndarray]:
    """A change of the first ten is a row that comes or leaves at a step."""
    if query.startswith("join"):
        names = [name for name in "xyzw" if name in batch.schema.names]
        return [batch[name].to_numpy() for name in names]
    ends = batch["_ts" if query == "top 10" else "window_end"].view(pa.int64()).to_numpy() // 1_000_000
    if query == "top 10":
        signs = pc.if_else(pc.equal(batch["_op"], "+"), 1, 2)
        return [ends, *(one.to_numpy(zero_copy_only=False) for one in (batch["id"], batch["v"], signs))]
    names = ["k", "n", "total"] if query == "GROUP BY" else ["k"]
    return [ends, *(batch[name].to_numpy() for name in names)]


if __name__ == "__main__":
    answer(run)
