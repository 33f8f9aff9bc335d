"""Short queries of every kind, for `benchmarks.side_by_side`, which asks for one after the other.

They use nothing but what users do, so that they run on the engine of another commit as well. A line of JSON tells their
names; then each name that is read is answered by the processor time that it took, all threads together.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pyarrow as pa

import watersmeet as wm

ROWS, KEYS, PUSHES = 200_000, 10_000, 500
PAIR = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k"
RANGE = "[RANGE 10 MILLISECONDS]"
QUERIES = {
    "join, windows of 1 k": f"{PAIR} WINDOW = 1 MILLISECOND",
    "join, windows of 10 k": f"{PAIR} WINDOW = 10 MILLISECONDS",
    "join, windows of 100 k": f"{PAIR} WINDOW = 100 MILLISECONDS",
    "join of three": "SELECT a.id AS x, b.id AS y, c.id AS z FROM a, b, c WHERE a.k = b.k AND b.k = c.k "
    "WINDOW = 10 MILLISECONDS",
    "groups, COUNT and SUM": f"SELECT g, COUNT(*) AS n, SUM(v) AS total FROM a {RANGE} GROUP BY g",
    "groups, MIN and MAX": f"SELECT g, MIN(v) AS low, MAX(v) AS high FROM a {RANGE} GROUP BY g",
    "groups, AVG": f"SELECT g, AVG(v) AS mean FROM a {RANGE} GROUP BY g",
    "groups of HOP": "SELECT g, COUNT(*) AS n FROM HOP(a, 10 MILLISECONDS, 100 MILLISECONDS) "
    "GROUP BY g, window_start, window_end",
    "distinct": f"SELECT DISTINCT k FROM a {RANGE}",
    "first ten": f"SELECT id, v FROM a {RANGE} ORDER BY v DESC LIMIT 10",
    "except": f"SELECT k FROM a {RANGE} EXCEPT SELECT k FROM b {RANGE}",
    "filter": "SELECT id, v FROM a WHERE v > 500 AND k < 5000",
    "join in bounded memory": f"{PAIR} WINDOW = 10 MILLISECONDS OPTIONS (memory = '10000 rows')",
}


@cache
def stream(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = pa.array(np.arange(ROWS), pa.timestamp("us"))
    keys, groups = rng.integers(0, KEYS, ROWS), rng.integers(0, 100, ROWS)
    return pa.table({"id": np.arange(ROWS), "k": keys, "g": groups, "v": rng.integers(0, 1000, ROWS), "ts": times})


def session() -> wm.Session:
    made = wm.Session()
    for seed, name in enumerate("abc"):
        made.stream(name, stream(seed), time="ts")
    return made


def asked(sql: str) -> None:
    for batch in session().sql(sql).batches():
        assert batch.num_columns


def pushed() -> None:
    """Three rows at a time into a run."""
    made = wm.Session()
    rows = stream(0)
    for name in "ab":
        made.stream(name, schema=rows.schema, time="ts")
    run = made.sql(f"{PAIR} WINDOW = 10 MILLISECONDS").start()
    for number in range(PUSHES):
        run.push("ab"[number % 2], rows.slice(3 * number, 3).combine_chunks().to_batches()[0])
    assert run.take().num_columns
    run.stop()


PROBES: dict[str, Callable[[], None]] = {name: partial(asked, sql) for name, sql in QUERIES.items()} | {
    "pushes": pushed
}


def main() -> None:
    print(json.dumps(list(PROBES)), flush=True)
    for line in sys.stdin:
        probe = PROBES[line.rstrip("\n")]
        started = time.process_time()
        probe()
        print(time.process_time() - started, flush=True)


if __name__ == "__main__":
    main()
