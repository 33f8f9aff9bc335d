"""Memory is bounded by the windows, not by the input."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm

WINDOW_ROWS = 20_000
BATCH = 20_000
TOTAL = 1_200_000


def flowing(rows: int, seed: int) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(seed)
    for start in range(0, rows, BATCH):
        names = pa.array(rng.integers(0, WINDOW_ROWS, BATCH)).cast(pa.string())
        times = pa.array(np.arange(start, start + BATCH), pa.timestamp("us"))
        yield pa.record_batch({"k": pa.array(rng.integers(0, WINDOW_ROWS, BATCH)), "name": names, "ts": times})


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")
def test_a_long_replay_through_a_small_window_stays_flat():
    session = wm.Session()
    session.stream("a", flowing(TOTAL // 2, 1), time="ts")
    session.stream("b", flowing(TOTAL // 2, 2), time="ts")
    query = session.sql(f"SELECT a.k, a.name, b.name AS other FROM a, b WHERE a.k = b.k WINDOW = {WINDOW_ROWS} US")
    resident, state, results = [], [], 0
    for batch in query.batches():
        results += batch.num_rows
        resident.append(resident_mb())
        state.append(query.metrics()["state_bytes"])
    assert results > TOTAL // 2
    part = len(resident) // 4
    assert np.median(resident[-part:]) - np.median(resident[part : 2 * part]) < 20
    assert max(state[part:]) <= 1.5 * max(state[part : 2 * part])
    assert query.metrics()["expired_rows"] > 0.9 * TOTAL


def test_a_parquet_file_larger_than_the_windows_is_read_in_pieces(tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        with pq.ParquetWriter(tmp_path / f"{name}.parquet", next(flowing(BATCH, 0)).schema) as writer:
            for batch in flowing(TOTAL // 4, seed):
                writer.write_batch(batch)
    session = wm.Session()
    for name in "ab":
        session.stream(name, str(tmp_path / f"{name}.parquet"), time="ts")
    query = session.sql(f"SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = {WINDOW_ROWS} US")
    most = 0
    for _ in query.batches(batch_rows=10_000):
        most = max(most, int(query.metrics()["kept_rows"]))
    assert 0 < most < 4 * (WINDOW_ROWS + 10_000)
