"""One query in one thread and in several: rows a second by the clock, and what of the processors that took.

    python -m benchmarks.threads            all cases, two threads
    python -m benchmarks.threads join 4     cases whose names have the word, in four threads

Cores that others work on give less than there is, so every figure has the processor time beside it: where both take
equally much of it, only the machine stands between the threads and their share.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import watersmeet as wm
from benchmarks.harness import Figure, checksum, figure, report

ROWS, KEYS, RUNS = 2_000_000, 100_000, 5
SECONDS = ROWS // 1_000_000  # of event time; a million rows a second of each stream
PAIR = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k"
CASES = {
    "join, windows of 10 k": f"{PAIR} WINDOW = 10 MILLISECONDS",
    "join, windows of 100 k": f"{PAIR} WINDOW = 100 MILLISECONDS",
    "join, windows of 1 M": f"{PAIR} WINDOW = 1 SECOND",
    "join of three": "SELECT a.id AS x, b.id AS y, c.id AS z FROM a, b, c WHERE a.k = b.k AND b.k = c.k "
    "WINDOW = 100 MILLISECONDS",
    "join of three by two keys": "SELECT a.id AS x, b.id AS y, c.id AS z FROM a, b, c WHERE a.k = b.k AND b.w = c.w "
    "WINDOW = 100 MILLISECONDS",
    "join by order": "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.v BETWEEN b.v - 0.00001 AND b.v + 0.00001 "
    "WINDOW = 10 MILLISECONDS",
    "groups, COUNT and SUM": "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM a [RANGE 100 MILLISECONDS] GROUP BY k",
    "groups, AVG and STDDEV": "SELECT k, AVG(v) AS m, STDDEV(v) AS d FROM a [RANGE 100 MILLISECONDS] GROUP BY k",
    "distinct": "SELECT DISTINCT k FROM a [RANGE 100 MILLISECONDS]",
    "except": "SELECT k FROM a [RANGE 100 MILLISECONDS] EXCEPT SELECT k FROM b [RANGE 100 MILLISECONDS]",
}


def stream(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, SECONDS * 1_000_000, ROWS))
    return pa.table(
        {
            "id": np.arange(ROWS),
            "k": rng.integers(0, KEYS, ROWS),
            "w": rng.integers(0, KEYS, ROWS),
            "v": rng.random(ROWS),
            "ts": pa.array(times, pa.timestamp("us")),
        }
    )


def session_over(sources: dict[str, pa.Table | str]) -> wm.Session:
    session = wm.Session()
    for name, source in sources.items():
        session.stream(name, source, time="ts")
    return session


def timed(query: wm.Query) -> tuple[float, float, tuple[int, int]]:
    """Seconds by the clock, and of all processors; rows and a sum of the answer."""
    clock, worked, rows, total = perf_counter(), process_time(), 0, 0
    for batch in query.batches():
        rows += batch.num_rows
        last = batch.column(batch.num_columns - 1)
        total += checksum(pa.table({"last": last.cast(pa.float64()).cast(pa.int64(), safe=False)}))[1]
    return perf_counter() - clock, process_time() - worked, (rows, total)


def compared(name: str, make: Callable[[int], wm.Query], streams: int, threads: int) -> list[Figure]:
    taken: dict[int, list[tuple[float, float]]] = {1: [], threads: []}
    answers = set()
    for run in range(RUNS + 1):
        for count, samples in taken.items():
            clock, worked, answer = timed(make(count))
            answers.add(answer)
            if run:
                samples.append((clock, worked))
    assert len(answers) == 1, answers
    rows = streams * ROWS / 1e6
    found = [
        figure(f"{name}, {count} threads", "M rows/s", [rows / clock for clock, _ in samples], busy=_busy(samples))
        for count, samples in taken.items()
    ]
    gain = [one / other for (one, _), (other, _) in zip(taken[1], taken[threads], strict=True)]
    work = [other / one for (_, one), (_, other) in zip(taken[1], taken[threads], strict=True)]
    found.append(
        figure(f"{name}, gain", "x", gain, "1.8" if threads == 2 else "", work=round(float(np.median(work)), 2))
    )
    return found


def _busy(samples: list[tuple[float, float]]) -> float:
    """How many processors were at work."""
    return round(float(np.median([worked / clock for clock, worked in samples])), 2)


def main(word: str = "", threads: int = 2) -> None:
    tables = {name: stream(seed) for seed, name in enumerate("abc")}
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(Path(folder) / f"{name}.parquet") for name in tables}
        for name, path in files.items():
            pq.write_table(tables[name], path)
        for where, sources in (("tables", tables), ("files", files)):
            for name, sql in CASES.items():
                if word not in f"{name}, {where}":
                    continue
                read = {one: source for one, source in sources.items() if f"FROM {one}" in sql or f", {one}" in sql}
                session = session_over(read)
                asked = lambda count, session=session, sql=sql: session.sql(f"{sql} OPTIONS (threads = {count})")  # noqa: E731
                figures += compared(f"{name}, {where}", asked, len(read), threads)
                for one in figures[-3:]:
                    print(one.line(), flush=True)
    report("threads", figures)


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "", int(sys.argv[2]) if sys.argv[2:] else 2)
