"""Many queries over the same two streams: in one script that shares what it can, and each by itself.

    python -m benchmarks.many_queries [--rows 200000] [--only joins,selective]

Scripts of three kinds over two files: `mixed` are joins, groups and filters in turns, with windows and predicates of
their own, of Parquet and, up to ten queries, of JSON; `joins` differ in their windows, predicates and columns;
`selective` ask each for one key. A script runs once as it is, once with `share = 'no'`, and its most expensive query
alone, in turns; each query must give as many rows. Processor time is that of the whole process: a row's is that of the
run, a query's what it took to read and plan the script. The bytes held are what the operators of queries that run at a
time hold at their most, added up: of all of them, or of the largest alone.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from benchmarks.harness import Figure, figure, report
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.run_job import executions
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.script import read_script
from watersmeet.runtime.sharing import fed_together

ROWS, RUNS = 200_000, 3
SECONDS = 1_000  # that the rows of a stream are spread over
MANY_KEYS = 50_000  # each row of a stream meets .04 to .2 of the other in windows of 10 to 55 s
KEYS = 5_000
GOALS = {("joins", 10): "3", ("selective", 1000): "10"}
WORDS = ("red", "green", "blue", "grey")


@dataclass(frozen=True)
class Kind:
    name: str
    query: Callable[[int], str]
    asked: Sequence[int]
    widest: int  # of ten queries the one that takes longest
    source: str = "parquet"
    keys: int = KEYS


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--only", default=",".join(one.name for one in KINDS))
    given = parser.parse_args()
    kinds = [one for one in KINDS if one.name in given.only.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        report("many_queries", figures(Path(folder), given.rows, kinds), beside=len(kinds) < len(KINDS))


def figures(folder: Path, rows: int, kinds: Sequence[Kind]) -> Iterator[Figure]:
    for kind in kinds:
        for seed, name in enumerate("ab"):
            rows_of = stream(rows, seed, kind.keys)
            if kind.source == "json":
                write_json(rows_of, folder / f"{name}.json")
            else:
                pa_parquet.write_table(rows_of, folder / f"{name}.parquet")
        ran(script(folder, kind, range(3), ""))  # warm-up
        for queries in kind.asked:
            yield from compared(folder, kind, rows, queries)


def compared(folder: Path, kind: Kind, rows: int, queries: int) -> Iterator[Figure]:
    alone, many = [min(kind.widest, queries - 1)], range(queries)
    apart = " OPTIONS (share = 'no')"
    ways = {
        "shared": script(folder, kind, many, ""),
        "apart": script(folder, kind, many, apart),
        "the most expensive alone": script(folder, kind, alone, ""),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    planned: dict[str, list[float]] = {way: [] for way in ways}
    held: dict[str, list[float]] = {way: [] for way in ways}
    answers: dict[str, tuple[int, ...]] = {}
    for run in range(RUNS if queries < 100 else 1):
        for way, text in ways.items():
            plan_s, took_s, most_bytes, results = ran(text)
            planned[way].append(1e3 * plan_s / len(results))
            seconds[way].append(took_s)
            held[way].append(most_bytes / 1e6)
            assert answers.setdefault(way, results) == results, f"the answers of run {run} differ"
    assert answers["shared"] == answers["apart"], "the answers differ"
    for way in ways:
        per_row = [1e9 * took / (2 * rows) for took in seconds[way]]
        name = f"{kind.name}, {queries} queries, {way}"
        yield figure(name, "ns of processor time a row", per_row, "", results=sum(answers[way]))
        yield figure(f"{name}, held", "MB", held[way])
        yield figure(f"{name}, planned", "ms a query", planned[way])
    for way, goal in (("apart", ""), ("the most expensive alone", GOALS.get((kind.name, queries), ""))):
        ratios = [mine / its for mine, its in zip(seconds["shared"], seconds[way], strict=True)]
        yield figure(f"{kind.name}, {queries} queries, shared against {way}", "times", ratios, goal)


def stream(rows: int, seed: int, keys: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, SECONDS * 1_000_000, rows)) + 1_767_225_600_000_000
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us")),
            "k": rng.integers(0, keys, rows),
            "v": rng.integers(0, 1_000, rows),
            "word": pa.array(WORDS).take(pa.array(rng.integers(0, 4, rows))),
        }
    )


def write_json(rows: pa.Table, path: Path) -> None:
    with path.open("w") as file:
        for row in rows.to_pylist():
            file.write(json.dumps(row, default=str) + "\n")


def script(folder: Path, kind: Kind, numbers: Sequence[int], options: str) -> str:
    columns = "(ts TIMESTAMP, k BIGINT, v BIGINT, word TEXT)"
    created = [
        f"CREATE STREAM {name} {columns} WITH (source = '{kind.source}', path = '{folder / name}.{kind.source}', "
        "time = 'ts');"
        for name in "ab"
    ]
    return "\n".join([*created, *(f"{kind.query(number)}{options};" for number in numbers)])


def mixed(number: int) -> str:
    seconds, word, least = 1 + number % 20, WORDS[number % 4], 10 * (number % 37)
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


def joins(number: int) -> str:
    """The wider the window, the fewer rows pass: all give about as many."""
    seconds = 10 + 5 * (number % 10)
    shown = ("a.v, b.v AS w", "a.k, b.word", "a.ts, b.ts AS at")[number % 3]
    tested = "" if number % 5 == 4 else f" AND a.v > {15 * (number % 10)} AND b.v < {1000 - 10 * (number % 7)}"
    return f"SELECT {shown} FROM a, b WHERE a.k = b.k{tested} WINDOW = {seconds} SECONDS"


def selective(number: int) -> str:
    key = (number * 37) % KEYS
    match number % 3:
        case 0:
            return f"SELECT a.v, b.v AS w FROM a, b WHERE a.k = b.k AND a.k = {key} WINDOW = 1 MINUTE"
        case 1:
            return f"SELECT word, COUNT(*) AS n FROM a [RANGE 1 MINUTE] WHERE k = {key} GROUP BY word"
        case _:
            return f"SELECT k, v, ts FROM b WHERE k = {key}"


KINDS = (
    Kind("mixed", mixed, (1, 10, 100), 1),
    Kind("mixed of JSON", mixed, (1, 10), 1, "json"),
    Kind("joins", joins, (1, 10, 100), 9, keys=MANY_KEYS),
    Kind("selective", selective, (1, 10, 100, 1000), 0),
)


def ran(text: str) -> tuple[float, float, int, tuple[int, ...]]:
    """The processor time of a script before its first row and after it, the most bytes that its operators held, and the
    results of each query."""
    began_s, most_bytes, results = time.process_time(), 0, {}
    jobs = read_script(text)
    groups = [executions(group) for group in fed_together(jobs)]
    planned_s = time.process_time()
    for runs in groups:
        most: dict[int, int] = {}
        for run in runs.values():
            run.on_progress = partial(noted, most, id(run))
        for _ in Pull(list({id(run): run for run in runs.values()}.values())).answers():
            pass  # made, and thrown away
        for name, run in runs.items():
            if run.failure is not None:
                raise run.failure
            results[name] = run.metrics.results
        most_bytes = max(most_bytes, sum(most.values()))
    took_s = time.process_time() - planned_s
    return planned_s - began_s, took_s, most_bytes, tuple(results[job.name] for job in jobs)


def noted(most: dict[int, int], run: int, metrics: Metrics) -> None:
    most[run] = max(most.get(run, 0), metrics.state_bytes)


if __name__ == "__main__":
    main()
