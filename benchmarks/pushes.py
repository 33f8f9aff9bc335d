"""One push of three rows into a running query (`query.start()`), with the answers it makes certain."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

import watersmeet as wm
from benchmarks.harness import alternate, figure, report

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("ts", pa.timestamp("us"))])
START = datetime(2026, 1, 1)
KEYS, PUSHES = 50, 1_000
QUERIES = {
    "filter": "SELECT k, x * 2 AS y FROM a WHERE x > 1",
    "join of two": "SELECT a.k, a.x, b.x AS y FROM a, b WHERE a.k = b.k WINDOW = 100 MILLISECONDS",
    "join of three": "SELECT a.k, b.x, c.x AS y FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW = 100 MILLISECONDS",
    "sum by key": "SELECT k, SUM(x) AS s FROM a [RANGE 100 MILLISECONDS] GROUP BY k",
}


def dicts(number: int) -> list[dict[str, Any]]:
    at = START + timedelta(milliseconds=number)
    return [{"k": (number + i) % KEYS, "x": 1.0 + i, "ts": at + timedelta(microseconds=i)} for i in range(3)]


def batch(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(dicts(number), SCHEMA)


def pushing(sql: str, made: Callable[[int], Any]) -> Callable[[], float]:
    """Pushes into one run, a thousand at a time, and takes the answers; gives the processor time of one push, so that
    what else runs on the machine counts little."""
    session = wm.Session()
    for name in "abc":
        session.stream(name, schema=SCHEMA, time="ts")
    query = session.sql(sql)
    run = query.start()
    streams = [name for name in "abc" if f" {name}" in sql.partition("FROM")[2].partition("WINDOW")[0]]
    pushed = 0

    def some() -> float:
        nonlocal pushed
        rows = [made(number) for number in range(pushed, pushed + PUSHES)]
        started = time.thread_time()
        for number, one in enumerate(rows):
            run.push(streams[number % len(streams)], one)
        taken = run.take()  # which makes the columns of the answers, so its time counts
        took = time.thread_time() - started
        pushed += PUSHES
        assert taken.num_rows
        return took / PUSHES

    return some


def main() -> None:
    contenders = {
        f"{name}, {form}": pushing(sql, made)
        for name, sql in QUERIES.items()
        for form, made in (("a batch", batch), ("dicts", dicts))
    }
    samples = alternate(contenders, runs=9)
    goal = {"join of two, a batch": "<= 50"}
    report(
        "pushes", [figure(name, "µs", [1e6 * s for s in took], goal.get(name, "")) for name, took in samples.items()]
    )


if __name__ == "__main__":
    main()
