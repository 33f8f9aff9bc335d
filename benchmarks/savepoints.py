"""How long a savepoint of a large window takes: written by a run that goes on, and begun with by another. The two
windows of a join hold the rows between them; what both runs answer must be what one would.

    python -m benchmarks.savepoints [--rows 1000000] [--runs 5]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import watersmeet as wm
from benchmarks.harness import Figure, figure, report, seconds

QUERY = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 1 DAY"
STEP_US = 1_000


def rows_of(name: str, first: int, count: int, keys: int) -> pa.Table:
    ids = np.arange(first, first + count)
    k = np.random.default_rng([*name.encode(), first]).integers(0, keys, count)
    times = pa.array(ids * STEP_US, pa.timestamp("us"))
    return pa.table({"id": ids, "k": k, "s": pa.array([f"row {i}" for i in ids.tolist()]), "ts": times})


def moved(rows: int, folder: Path) -> tuple[float, float, int]:
    """Seconds to take it and to begin with it, and its bytes."""
    session, each = wm.Session(), rows // 2
    for name in "ab":
        session.stream(name, schema={"id": "BIGINT", "k": "BIGINT", "s": "VARCHAR", "ts": "TIMESTAMP"}, time="ts")
    query = session.sql(QUERY.replace("b.id AS y", "b.id AS y, b.s AS s"))
    more = {name: rows_of(name, each, 1_000, rows) for name in "ab"}

    def go_on(run: wm.Run) -> None:
        for name, some in more.items():
            run.push(name, some)

    first: list[pa.RecordBatch] = []
    with query.start(checkpoint=folder / "one", on_answer=first.append) as run:
        for name in "ab":
            run.push(name, rows_of(name, 0, each, rows))
        taken = seconds(lambda: run.savepoint(folder / "savepoint"))
        given = len(first)
        go_on(run)
    second: list[pa.RecordBatch] = []
    begun: list[wm.Run] = []

    def begin() -> None:
        begun.append(query.start(checkpoint=folder / "two", savepoint=folder / "savepoint", on_answer=second.append))

    restored = seconds(begin)
    with begun[0] as run:
        go_on(run)
    assert sorted(_pairs(first[given:])) == sorted(_pairs(second))
    assert run.metrics()["kept_rows"] == rows + 2_000
    return taken, restored, sum(one.stat().st_size for one in (folder / "savepoint").rglob("*") if one.is_file())


def _pairs(batches: list[pa.RecordBatch]) -> Iterator[tuple[int, int]]:
    for batch in batches:
        yield from zip(batch["x"].to_pylist(), batch["y"].to_pylist(), strict=True)


def figures(rows: int, runs: int) -> Iterator[Figure]:
    found = []
    for _ in range(runs + 1):  # the first warms up
        folder = Path(tempfile.mkdtemp())
        found.append(moved(rows, folder))
        shutil.rmtree(folder)
    taken, restored, sizes = zip(*found[1:], strict=True)
    yield figure(f"a window of {rows:,} rows, savepoint taken", "s", list(taken))
    yield figure(f"a window of {rows:,} rows, run begun with it", "s", list(restored))
    yield figure(f"a window of {rows:,} rows, savepoint", "MB", [size / 1e6 for size in sizes])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    report("savepoints", figures(asked.rows, asked.runs))


if __name__ == "__main__":
    main()
