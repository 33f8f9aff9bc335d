"""Buckets that test combinations on their way answer as one process does that tests whole ones, whoever has them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tests.properties.test_early_conditions import early
from tests.runners import Source, answered, local_query
from tests.spark.test_continuous import LOSSES, Simulation, cut, memory_folder, warm_state

QUERY = """SELECT a.v, b.v AS w, c.v AS z FROM a, b, c
    WHERE a.k = b.k AND b.k = c.k AND (a.v + b.v) % 7 = 1 AND (b.v = c.v OR b.v > 3 * c.v) WINDOW = 3 SECONDS"""


def stream(name: str, seed: int) -> Source:
    chance = np.random.default_rng(seed)
    at = np.sort(chance.integers(0, 30_000_000, 300)) + 1_700_000_000_000_000
    columns = {"k": chance.integers(0, 4, 300), "v": chance.integers(0, 50, 300), "ts": at.astype("M8[us]")}
    return Source(name, pa.table(columns), "ts")


@pytest.mark.parametrize("lost", LOSSES.values(), ids=LOSSES)
def test_buckets_find_the_same(lost, monkeypatch, tmp_path) -> None:
    sources = [stream(name, seed) for seed, name in enumerate("abc")]
    monkeypatch.setenv(memory_folder.WARM_DIR, str(tmp_path))
    warm_state._at_hand.clear()
    pieces = {source.name: cut(source.table, [100, 80, 60, 60]) for source in sources}
    with early(5) as made:
        run = Simulation(QUERY, sources, 3, [], between_batches=lost)
        run.run(pieces)
        run.batch({}, ended=list(pieces))
    assert made
    assert all(made)  # every join had routes that test on the way
    expected = answered(local_query(QUERY, sources)).table
    found, rows = (Counter(map(str, table.to_pylist())) for table in (run.table(), expected))
    assert found == rows != Counter()
