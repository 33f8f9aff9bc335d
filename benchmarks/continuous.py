"""Continuous queries in-process: rows a second through each operator, and whether finer instants cost more.

    python -m benchmarks.continuous [--rows 1000000]

A row enters its window and leaves it again, so each is two changes; the answer of every instant is computed, which is
a slide of one microsecond. `instants` is how many rows share one: fewer rows an instant, a finer slide.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from time import perf_counter

import numpy as np
import pyarrow as pa

import watersmeet as wm
from benchmarks.harness import Figure, figure, report

WINDOW_ROWS = 100_000
GROUPS = 1_000
RUNS = 5
STEP_US = 10

QUERIES = {
    "COUNT(*), SUM of int64 by group": ("SELECT k, COUNT(*) AS n, SUM(v) AS s FROM a {w} GROUP BY k", ">= 5"),
    "SUM of double by group": ("SELECT k, SUM(f) AS s FROM a {w} GROUP BY k", ""),
    "MIN, MAX by group": ("SELECT k, MIN(v) AS low, MAX(v) AS high FROM a {w} GROUP BY k", ">= 2"),
    "AVG, STDDEV by group": ("SELECT k, AVG(f) AS m, STDDEV(f) AS s FROM a {w} GROUP BY k", ""),
    "MEDIAN by group": ("SELECT k, MEDIAN(v) AS m FROM a {w} GROUP BY k", ""),
    "COUNT DISTINCT by group": ("SELECT k, COUNT(DISTINCT v) AS n FROM a {w} GROUP BY k", ""),
    "SUM of everything": ("SELECT SUM(v) AS s FROM a {w}", ""),
    "DISTINCT": ("SELECT DISTINCT k, v FROM a {w}", ""),
    "UNION": ("SELECT k FROM a {w} UNION SELECT k FROM b {w}", ""),
    "EXCEPT ALL": ("SELECT k FROM a {w} EXCEPT ALL SELECT k FROM b {w}", ""),
    "INTERSECT": ("SELECT k FROM a {w} INTERSECT SELECT k FROM b {w}", ""),
    "first 10": ("SELECT k, v FROM a {w} ORDER BY v DESC LIMIT 10", ""),
    "SUM of int64 OVER RANGE": ("SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts {r} PRECEDING) AS s FROM a", ">= 2"),
    "SUM of int64 OVER all before": ("SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts) AS s FROM a", ""),
    "MAX OVER ROWS": ("SELECT k, MAX(v) OVER (PARTITION BY k ORDER BY ts ROWS 9 PRECEDING) AS m FROM a", ""),
    "ROW_NUMBER": ("SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM a", ">= 2"),
    "LAG": ("SELECT k, LAG(v) OVER (PARTITION BY k ORDER BY ts) AS l FROM a", ">= 2"),
    "LEAD": ("SELECT k, LEAD(v) OVER (PARTITION BY k ORDER BY ts) AS l FROM a", ""),
    "first 3 of each group, in a window": (
        "SELECT k, v FROM a {w} QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) <= 3",
        "",
    ),
    "first 3 of each group, ever": (
        "SELECT k, v FROM a [UNBOUNDED] QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) <= 3",
        "",
    ),
    "DEDUPLICATE": ("SELECT k, v FROM DEDUPLICATE(a, {d} PARTITION BY v)", ">= 2"),
    "join, then COUNT by group, results held": (
        "SELECT a.k, COUNT(*) AS n FROM a {s} AS a, b {s} AS b WHERE a.v = b.v GROUP BY a.k OPTIONS (pipeline = 'tpa')",
        "",
    ),
    "join, then COUNT by group, negative tuples": (
        "SELECT a.k, COUNT(*) AS n FROM a {s} AS a, b {s} AS b WHERE a.v = b.v GROUP BY a.k OPTIONS (pipeline = 'nta')",
        "",
    ),
}


def stream(rows: int, seed: int, together: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    at = np.arange(rows) // together * (STEP_US * together)
    columns = {
        "k": rng.integers(0, GROUPS, rows),
        "v": rng.integers(0, WINDOW_ROWS, rows),
        "f": rng.normal(size=rows),
        "ts": at.astype("M8[us]"),
    }
    return pa.table(columns)


def session_of(rows: int, together: int = 1) -> wm.Session:
    session = wm.Session()
    for seed, name in enumerate("ab"):
        session.stream(name, stream(rows, seed, together), time="ts")
    return session


def rate(session: wm.Session, sql: str, rows: int) -> float:
    """Million rows a second; all changes are made, and counted."""
    size = f"{WINDOW_ROWS * STEP_US} MICROSECONDS"
    query = session.sql(sql.format(w=f"[RANGE {size}]", s=f"[RANGE {size}]", r=f"RANGE {size}", d=size))
    started = perf_counter()
    changes = sum(batch.num_rows for batch in query.batches())
    assert changes
    both = " b " in sql
    return (2 if both else 1) * rows / (perf_counter() - started) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    report("continuous", figures(parser.parse_args().rows))


def figures(rows: int) -> Iterator[Figure]:
    session = session_of(rows)
    for name, (sql, goal) in QUERIES.items():
        rate(session_of(10_000), sql, 10_000)
        yield figure(name, "M rows/s", [rate(session, sql, rows) for _ in range(RUNS)], goal)
    for together in (1, 10, 100, 1_000):
        shared = session_of(rows, together)
        sql, _ = QUERIES["COUNT(*), SUM of int64 by group"]
        samples = [rate(shared, sql, rows) for _ in range(RUNS)]
        yield figure(f"COUNT(*), SUM by group, {together} rows an instant", "M rows/s", samples)


if __name__ == "__main__":
    main()
