"""What a bucket remembers of a table with versions: the last of each key, and what may still be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from tests.runners import Source, by_reference
from tests.spark.harness import cut
from tests.spark.simulation import Simulation, another_node
from watersmeet.hosts.spark.bucket import log, warm_state
from watersmeet.hosts.spark.bucket.log import Manifest
from watersmeet.model.versions import Versions

ROWS = 200
QUERIES = {
    "rows": "SELECT a.id, r.v FROM a LEFT JOIN r FOR SYSTEM_TIME AS OF a.ts ON a.k = r.k",
    "groups": "SELECT a.k, SUM(r.v) AS v FROM a [RANGE 3 SECONDS] JOIN r FOR SYSTEM_TIME AS OF a.ts ON a.k = r.k "
    "GROUP BY a.k",
    "the latest": "SELECT a.id, r.v FROM a ASOF LEFT JOIN r ON a.k = r.k AND r.ts <= a.ts AND r.v > 3",
}


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    warm_state._at_hand.clear()
    yield
    warm_state._at_hand.clear()


def at(second: float) -> datetime:
    return datetime(2026, 1, 1) + timedelta(seconds=second)


def changing() -> list[Source]:
    """Three keys that stay, and many that come and go."""
    keys, values, ops = [], [], []
    for i in range(ROWS):
        gone = i % 4 == 3
        keys.append(f"k{i % 4}" if i % 4 < 2 else f"once {i // 4}")
        values.append(i)
        ops.append("-D" if gone else "+U")
    ts = [at(i / 4) for i in range(ROWS)]
    table = pa.table({"k": keys, "v": values, "op": ops, "ts": pa.array(ts, pa.timestamp("us"))})
    asks = [f"k{i % 3}" if i % 5 else f"once {i // 4 - 1}" for i in range(ROWS)]
    times = pa.array([at(i / 4 + 0.1) for i in range(ROWS)], pa.timestamp("us"))
    rows = pa.table({"id": range(ROWS), "k": asks, "ts": times})
    return [Source("a", rows), Source("r", table, versions=Versions(("k",), "op"))]


@pytest.mark.parametrize("name", QUERIES)
def test_a_log_holds_what_may_still_be_asked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MIN_ROWS_TO_REWRITE", 10)
    sources = changing()
    run = Simulation(QUERIES[name], sources, 1, between_batches=another_node)
    parts = {source.name: cut(source.table, [8] * (ROWS // 8)) for source in sources}
    most = 0
    for i in range(ROWS // 8):
        run.batch({stream: pieces[i] for stream, pieces in parts.items()}, list(parts) if i == ROWS // 8 - 1 else [])
        most = max(most, remembered(run))
    assert run.answer() == by_reference(QUERIES[name], sources)
    assert most < (ROWS // 2 if name == "the latest" else 80)


@pytest.mark.parametrize("asked", ["a", "DEDUPLICATE(a, 1 SECONDS PARTITION BY id) a"])
def test_a_key_that_was_deleted_stays_so_on_another_node(asked: str) -> None:
    times = pa.array([at(0), at(20), at(30), at(40)], pa.timestamp("us"))
    # When time has passed the deletion it comes in the same batch, and what it deletes lies in the log.
    ops = {"k": ["x", "x", "y", "y"], "v": [1, None, 2, 3], "op": ["+U", "-D", "+U", "+U"]}
    sources = [
        Source("a", pa.table({"id": range(4), "k": ["x"] * 4, "ts": times})),
        Source("r", pa.table({**ops, "ts": times}), versions=Versions(("k",), "op")),
    ]
    sql = f"SELECT a.id, r.v FROM {asked} LEFT JOIN r FOR SYSTEM_TIME AS OF a.ts ON a.k = r.k"
    run = Simulation(sql, sources, 1, between_batches=another_node)
    for start, rows, ended in ((0, 1, []), (1, 2, []), (3, 1, ["a", "r"])):
        run.batch({source.name: source.table.slice(start, rows) for source in sources}, ended)
    assert run.answer() == by_reference(sql, sources)


def remembered(run: Simulation) -> int:
    """The rows in the logs of all buckets."""
    states = run.state.variables["meta"]
    held = [Manifest.from_bytes(states[(bucket,)][2]) for bucket in run.job.bucket_ids if (bucket,) in states]
    return sum(segment.rows for manifest in held for some in manifest.segments.values() for segment in some)
