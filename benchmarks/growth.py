"""How cost grows: nanoseconds of a processor for a row that comes, over what a user may turn up.

    python -m benchmarks.growth [--only 'window;streams'] [--quick]

Rows are pushed in batches until the windows are full; those that follow are timed, their answers taken. Both axes are
logarithmic, so that a power is a straight line; the exponent of the line through each curve is kept beside it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import watersmeet as wm
from benchmarks.harness import Figure, figure, report

NAMES = "abcdefgh"
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us"))])
TIMED = 5  # batches of each stream


@dataclass(frozen=True)
class Case:
    """Rows come a microsecond apart in each stream, so a window of so many microseconds has as many rows of each."""

    sql: str
    window: int
    keys: int
    streams: int = 1
    batch: int = 20_000
    lateness_us: int = 0
    threads: int = 1

    @property
    def full(self) -> int:
        """After so many rows of a stream its window is full, and some have left it."""
        return self.window + self.lateness_us + 40_000

    @property
    def text(self) -> str:
        return f"{self.sql} OPTIONS (threads = {self.threads})" if self.threads > 1 else self.sql


def join(window: int, keys: int, streams: int = 2, **more: Any) -> Case:
    names = NAMES[:streams]
    ids = ", ".join(f"{name}.id AS {name}" for name in names)
    same = " AND ".join(f"a.k = {name}.k" for name in names[1:])
    return Case(
        f"SELECT {ids} FROM {', '.join(names)} WHERE {same} WINDOW = {window} US", window, keys, streams, **more
    )


def groups(window: int, keys: int, **more: Any) -> Case:
    return Case(
        f"SELECT k, COUNT(*) AS n, SUM(v) AS s FROM a [RANGE {window} MICROSECONDS] GROUP BY k", window, keys, **more
    )


def distinct(window: int, keys: int) -> Case:
    return Case(f"SELECT DISTINCT k FROM a [RANGE {window} MICROSECONDS]", window, keys)


# Of each curve: what is turned up, the values, and the query for one.
CURVES: dict[str, tuple[str, list[int], Callable[[int], Case]]] = {
    "window": ("rows in each window, join of two", [10**n for n in range(3, 8)], lambda x: join(x, 2 * x)),
    "matches": ("matches a row, join of two", [1, 3, 10, 30, 100], lambda x: join(100_000, 200_000 // x)),
    "streams": ("streams joined", list(range(2, 9)), lambda x: join(10_000, 20_000, x)),
    "keys": ("keys, DISTINCT", [10**n for n in range(1, 7)], lambda x: distinct(100_000, x)),
    "groups": ("groups, COUNT and SUM", [10**n for n in range(0, 7)], lambda x: groups(100_000, x)),
    "lateness": (
        "allowed lateness in rows, join of two",
        [1, 100, 10_000, 100_000],
        lambda x: join(100_000, 200_000, lateness_us=x),
    ),
    "batch": (
        "rows a push, join of two",
        [1, 10, 100, 1_000, 10_000, 100_000],
        lambda x: join(100_000, 200_000, batch=x),
    ),
    "threads": ("threads, join of two", [1, 2], lambda x: join(100_000, 200_000, threads=x)),
}


def batches(case: Case, seed: int) -> Iterator[pa.RecordBatch]:
    rng, start = np.random.default_rng(seed), 0
    while True:
        size = case.batch if start >= case.full else max(case.batch, 20_000)
        times = np.arange(start, start + size)
        if case.lateness_us > 1:
            times = np.maximum(times - rng.integers(0, case.lateness_us, size), 0)
        columns = [np.arange(start, start + size), rng.integers(0, case.keys, size), rng.integers(0, 1000, size)]
        yield pa.record_batch([*columns, pa.array(times, pa.timestamp("us"))], schema=SCHEMA)
        start += size


def cost_ns(case: Case) -> list[float]:
    """Of a row, in each of several batches; all threads of the process."""
    session = wm.Session()
    names = NAMES[: case.streams]
    for name in names:
        session.stream(name, schema=SCHEMA, time="ts", lateness=f"{case.lateness_us} microseconds")
    run = session.sql(case.text).start()
    feeds = {name: batches(case, seed) for seed, name in enumerate(names)}
    filled = 0
    while filled < case.full:
        rows = [next(feed) for feed in feeds.values()]
        for name, one in zip(names, rows, strict=True):
            run.push(name, one)
        run.take()
        filled += rows[0].num_rows
    rounds = max(1, 1_000 // case.batch)  # so that a round has a thousand rows at least
    found = []
    for _ in range(TIMED):
        made = [[next(feed) for feed in feeds.values()] for _ in range(rounds)]
        started = time.process_time()
        for several in made:
            for name, one in zip(names, several, strict=True):
                run.push(name, one)
        run.take()
        found.append((time.process_time() - started) * 1e9 / (rounds * case.streams * made[0][0].num_rows))
    run.stop()
    return found


def exponent(xs: list[int], costs: list[float]) -> float:
    """Of the power that lies nearest: 0 where nothing grows, 1 where twice costs twice."""
    return float(np.polyfit(np.log(xs), np.log(costs), 1)[0])


def measured(name: str, most: int) -> list[Figure]:
    label, values, case = CURVES[name]
    values = [one for one in values if one <= most]
    samples = [cost_ns(case(one)) for one in values]
    grows = exponent(values, [float(np.median(one)) for one in samples])
    return [
        figure(f"{label}: {x:,}", "ns a row", taken, curve=name, x=x, exponent=round(grows, 2))
        for x, taken in zip(values, samples, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=";".join(CURVES), help="curves, parted by semicolons")
    parser.add_argument("--quick", action="store_true", help="nothing above a hundred thousand")
    asked = parser.parse_args()
    most, names = 100_000 if asked.quick else 10**8, asked.only.split(";")
    report("growth", (one for name in names for one in measured(name, most)), beside=set(names) != set(CURVES))


if __name__ == "__main__":
    main()
