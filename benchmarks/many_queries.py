"""Many queries over the same two streams: in one script that reads each stream once, and each by itself.

    python -m benchmarks.many_queries [--rows 200000] [--queries 1,10,100]

A script of so many queries over two files, of Parquet and, up to ten queries, of JSON: joins, groups and filters in
turns, with windows and predicates of their own. It runs once as it is and once with `share = 'no'`, in turns; each
query must give as many rows. Processor time is that of the whole process. The bytes held are what the operators of
queries that run at a time hold at their most, added up: of all of them, or of the largest alone.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from benchmarks.harness import Figure, figure, report
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.script import read_script
from watersmeet.runtime.sharing import fed_together

ROWS, QUERIES, RUNS = 200_000, (1, 10, 100), 3
SECONDS = 1_000  # that the rows of a stream are spread over
KEYS = 5_000
MOST_OF_JSON = 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--queries", default=",".join(map(str, QUERIES)))
    given = parser.parse_args()
    asked = [int(one) for one in given.queries.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        report("many_queries", figures(Path(folder), given.rows, asked), beside=tuple(asked) != QUERIES)


def figures(folder: Path, rows: int, asked: list[int]) -> Iterator[Figure]:
    for seed, name in enumerate("ab"):
        rows_of = stream(rows, seed)
        pa_parquet.write_table(rows_of, folder / f"{name}.parquet")
        write_json(rows_of, folder / f"{name}.json")
    ran(script(folder, "parquet", 10, ""))  # warm-up
    for kind, queries in product(("parquet", "json"), asked):
        if kind == "parquet" or queries <= MOST_OF_JSON:
            yield from compared(folder, kind, rows, queries)


def compared(folder: Path, kind: str, rows: int, queries: int) -> Iterator[Figure]:
    apart = " OPTIONS (share = 'no')"
    ways = {"shared": script(folder, kind, queries, ""), "apart": script(folder, kind, queries, apart)}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    held: dict[str, list[float]] = {way: [] for way in ways}
    answers = set()
    for _ in range(RUNS if queries < 100 else 1):
        for way, text in ways.items():
            took_s, most_bytes, results = ran(text)
            seconds[way].append(took_s)
            held[way].append(most_bytes / 1e6)
            answers.add(results)
    assert len(answers) == 1, "the answers differ"
    ratio = np.median(seconds["apart"]) / np.median(seconds["shared"])
    for way in ways:
        per_row = [1e9 * one / (2 * rows) for one in seconds[way]]
        yield figure(
            f"{kind}, {queries} queries, {way}", "ns of processor time a row", per_row, "",
            apart_to_shared=round(float(ratio), 2), results=sum(next(iter(answers))),
        )  # fmt: skip
        yield figure(f"{kind}, {queries} queries, {way}, held", "MB", held[way])


def stream(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, SECONDS * 1_000_000, rows)) + 1_767_225_600_000_000
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us")),
            "k": rng.integers(0, KEYS, rows),
            "v": rng.integers(0, 1_000, rows),
            "word": pa.array(["red", "green", "blue", "grey"]).take(pa.array(rng.integers(0, 4, rows))),
        }
    )


def write_json(rows: pa.Table, path: Path) -> None:
    with path.open("w") as file:
        for row in rows.to_pylist():
            file.write(json.dumps(row, default=str) + "\n")


def script(folder: Path, kind: str, queries: int, options: str) -> str:
    columns = "(ts TIMESTAMP, k BIGINT, v BIGINT, word TEXT)"
    created = [
        f"CREATE STREAM {name} {columns} WITH (source = '{kind}', path = '{folder / name}.{kind}', time = 'ts');"
        for name in "ab"
    ]
    return "\n".join([*created, *(f"{query(number)}{options};" for number in range(queries))])


def query(number: int) -> str:
    seconds, word, least = 1 + number % 20, ("red", "green", "blue", "grey")[number % 4], 10 * (number % 37)
    match number % 3:
        case 0:
            return (
                f"SELECT a.k, a.v, b.v AS w FROM a, b WHERE a.k = b.k AND a.word = '{word}' AND b.v > {least} "
                f"WINDOW = {seconds} SECONDS"
            )
        case 1:
            return (
                f"SELECT k, COUNT(*) AS n, SUM(v) AS total FROM a [RANGE {seconds} SECONDS] WHERE v > {600 + least} "
                "GROUP BY k"
            )
        case _:
            return f"SELECT k, v, ts FROM b WHERE word = '{word}' AND v > {500 + least}"


def ran(text: str) -> tuple[float, int, tuple[int, ...]]:
    """The processor time of a script, the most bytes that its operators held, and the results of each query."""
    jobs = read_script(text)
    began_s, most_bytes, results = time.process_time(), 0, {}
    for group in fed_together(jobs):
        runs = {job.name: PulledExecution(job.plan) for job in group}
        most: dict[str, int] = {}
        for name, run in runs.items():
            run.on_progress = partial(noted, most, name)
        for _ in Pull(list(runs.values())).answers():
            pass  # made, and thrown away
        for name, run in runs.items():
            if run.failure is not None:
                raise run.failure
            results[name] = run.metrics.results
        most_bytes = max(most_bytes, sum(most.values()))
    return time.process_time() - began_s, most_bytes, tuple(results[job.name] for job in jobs)


def noted(most: dict[str, int], name: str, metrics: Metrics) -> None:
    most[name] = max(most.get(name, 0), metrics.state_bytes)


if __name__ == "__main__":
    main()
