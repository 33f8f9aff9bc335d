"""One query in one thread and in several: rows a second by the clock, and what of the processors that took.

    python -m benchmarks.threads            all cases, two threads
    python -m benchmarks.threads join 4     cases whose names have the word, in four threads

Over tables in memory and Parquet files, and a join over what must be decoded first: JSON files, and topics of Kafka
with a checkpoint, whose answers go nowhere or into a topic. A broker is started for that, beside the run on the same
cores, so that topics gain less than with one elsewhere. One join writes its answers as JSON and as CSV. Of tables whose
windows are so short that one thread is faster the plan takes one, so that both are the same.

Cores that others work on give less than there is, so every figure has the processor time beside it: where both take
equally much of it, only the machine stands between the threads and their share.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import watersmeet as wm
from benchmarks.harness import Figure, figure, report
from benchmarks.kafka import filled
from benchmarks.topics.cluster import a_broker, new_topic
from benchmarks.topics.elsewhere import Load
from benchmarks.topics.rows import QUERIES, script
from benchmarks.topics.steps import check, joined
from watersmeet.errors import SetupError
from watersmeet.io.connectors.kafka.encoding import json_records

ROWS, KEYS, RUNS = 2_000_000, 100_000, 3
FEWER = 400_000  # where records are decoded
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
    "join by order": "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.v BETWEEN b.v - 0.0001 AND b.v + 0.0001 "
    "WINDOW = 1 MILLISECOND",
    "groups, COUNT and SUM": "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM a [RANGE 100 MILLISECONDS] GROUP BY k",
    "groups, AVG and STDDEV": "SELECT k, AVG(v) AS m, STDDEV(v) AS d FROM a [RANGE 100 MILLISECONDS] GROUP BY k",
    "distinct": "SELECT DISTINCT k FROM a [RANGE 100 MILLISECONDS]",
    "except": "SELECT k FROM a [RANGE 100 MILLISECONDS] EXCEPT SELECT k FROM b [RANGE 100 MILLISECONDS]",
}
DECODED = "join, windows of 100 k"
TOPICS = [f"join, {form} topics{out}" for form in ("json", "avro") for out in ("", ", into a topic")]


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


def reads(sql: str, stream: str) -> bool:
    return f"FROM {stream}" in sql or f", {stream}" in sql


def session_over(sources: dict[str, pa.Table | str], time_format: str | None = None) -> wm.Session:
    session = wm.Session()
    for name, source in sources.items():
        session.stream(name, source, time="ts", time_format=time_format)
    return session


@dataclass(frozen=True)
class Ran:
    """Seconds by the clock, and of all processors of this process; what must be the same with any number of threads."""

    clock_s: float
    worked_s: float
    answer: object


Run = Callable[[int], Ran]  # in so many threads


def timed(work: Callable[[], object]) -> Ran:
    clock, worked = perf_counter(), process_time()
    answer = work()
    return Ran(perf_counter() - clock, process_time() - worked, answer)


def answered(query: wm.Query) -> tuple[int, int]:
    """Rows and a sum of the answer, by as little work as can be: it is in the thread that reads."""
    rows = total = 0
    for batch in query.batches():
        rows += batch.num_rows
        last = batch.column(batch.num_columns - 1)
        if not pa.types.is_integer(last.type):
            last = last.cast(pa.int64(), safe=False)
        total += pc.sum(last).as_py() or 0
    return rows, total


def compared(name: str, run: Run, rows: int, threads: int) -> list[Figure]:
    taken: dict[int, list[Ran]] = {1: [], threads: []}
    answers = set()
    for number in range(RUNS + 1):
        for count, samples in taken.items():
            ran = run(count)
            answers.add(ran.answer)
            if number:
                samples.append(ran)
    assert len(answers) == 1, answers
    found = [
        figure(
            f"{name}, {count} threads", "M rows/s", [rows / one.clock_s / 1e6 for one in samples], busy=_busy(samples)
        )
        for count, samples in taken.items()
    ]
    pairs = list(zip(taken[1], taken[threads], strict=True))
    gain = [one.clock_s / other.clock_s for one, other in pairs]
    work = [other.worked_s / one.worked_s for one, other in pairs]
    found.append(
        figure(f"{name}, gain", "x", gain, "1.8" if threads == 2 else "", work=round(float(np.median(work)), 2))
    )
    return found


def _busy(samples: list[Ran]) -> float:
    """How many processors were at work."""
    return round(float(np.median([one.worked_s / one.clock_s for one in samples])), 2)


def in_threads(session: wm.Session, sql: str) -> Run:
    return lambda count: timed(lambda: answered(session.sql(f"{sql} OPTIONS (threads = {count})")))


def into_files(session: wm.Session, sql: str, path: Path) -> Run:
    """What is written is compared by its size: the order of rows of different keys is any."""

    def run(count: int) -> Ran:
        path.unlink(missing_ok=True)
        sink = f"WITH (sink = '{path.suffix[1:]}', path = '{path}')"
        ran = timed(lambda: session.run(f"CREATE SINK out {sink} AS {sql} OPTIONS (threads = {count})"))
        return replace(ran, answer=path.stat().st_size)

    return run


# ---- where rows come from --------------------------------------------------------------------------------------------


def over_tables_and_files(folder: Path) -> Iterator[tuple[str, Run, int]]:
    """Names, runs and how many rows they read."""
    tables = {name: stream(seed) for seed, name in enumerate("abc")}
    files = {name: str(folder / f"{name}.parquet") for name in tables}
    for name, path in files.items():
        pq.write_table(tables[name], path)
    for where, sources in (("tables", tables), ("files", files)):
        for name, sql in CASES.items():
            read = {one: source for one, source in sources.items() if reads(sql, one)}
            yield f"{name}, {where}", in_threads(session_over(read), sql), len(read) * ROWS
    short = session_over({name: tables[name].slice(0, FEWER) for name in "ab"})
    for kind in ("json", "csv"):
        yield f"{DECODED}, into {kind.upper()}", into_files(short, CASES[DECODED], folder / f"out.{kind}"), 2 * FEWER
    lines = {name: str(folder / f"{name}.jsonl") for name in "ab"}
    for name, path in lines.items():
        few = tables[name].slice(0, FEWER).combine_chunks().to_batches()[0]
        Path(path).write_bytes(b"\n".join(one for one in json_records(few) if one is not None))
    yield f"{DECODED}, JSON files", in_threads(session_over(lines, time_format="iso"), CASES[DECODED]), 2 * FEWER


def over_topics(folder: Path, wanted: list[str]) -> Iterator[tuple[str, Run, int]]:
    """With a checkpoint, to the end of what is there."""
    with a_broker(None, folder) as brokers:
        for name in wanted:
            load = filled(brokers, QUERIES[0], name.split()[1], FEWER)
            yield name, topics_in_threads(load, folder, writes=name.endswith("into a topic")), FEWER


def topics_in_threads(load: Load, folder: Path, *, writes: bool) -> Run:
    """Answers are counted where they go, and held against DuckDB's in a topic."""

    def run(count: int) -> Ran:
        out = new_topic(load.brokers, "threads-out")
        sql = f"{load.query.text} OPTIONS (threads = {count})"
        text = script(load.brokers, load.topics, sql, load.form, out if writes else None)
        ran = timed(lambda: joined(text, folder / out, load.expected, listens=not writes) and None)
        if writes:
            check(load.brokers, out, load.query, load.expected, f"in {count} threads")
        return replace(ran, answer=load.expected)

    return run


def wanted(word: str, folder: Path) -> Iterator[tuple[str, Run, int]]:
    yield from (one for one in over_tables_and_files(folder) if word in one[0])
    topics = [name for name in TOPICS if word in name]
    if topics:
        try:
            yield from over_topics(folder, topics)
        except SetupError as error:
            print(f"topics are left out: {error}", flush=True)


def main(word: str = "", threads: int = 2) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cases = wanted(word, Path(folder))
        report("threads", (one for case in cases for one in compared(*case, threads)), beside=bool(word))


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "", int(sys.argv[2]) if sys.argv[2:] else 2)
