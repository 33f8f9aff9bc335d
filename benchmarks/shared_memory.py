"""One memory for the joins of a script (`SET memory`), beside equal parts and the best fixed parts there are.

    python -m benchmarks.shared_memory

Four joins over two streams, two of few frequent keys and two of many, with narrow and wide windows, all shed by `prob`.
What each finds by itself is measured with 1 to 32 parts of the largest memory. From these curves the best fixed split
is found by trying all (the joins are independent, so by dynamic programming), knowing the future; then the same
script runs with a pool. Results are recalls added up, of four at most.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from benchmarks.harness import Figure, figure, report
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.runtime.script import read_script

ROWS, PARTS, SEEDS = 40_000, 32, 3
JOINS = (
    "SELECT a.hot FROM a [RANGE 500 SECONDS], b [RANGE 500 SECONDS] WHERE a.hot = b.hot",
    "SELECT a.cold FROM a [RANGE 1000 SECONDS], b [RANGE 1000 SECONDS] WHERE a.cold = b.cold",
    "SELECT a.hot FROM a [RANGE 3000 SECONDS], b [RANGE 3000 SECONDS] WHERE a.hot = b.warm",
    "SELECT a.warm FROM a [RANGE 4000 SECONDS], b [RANGE 4000 SECONDS] WHERE a.warm = b.warm",
)
NEEDED = 2 * (500 + 1000 + 3000 + 4000)
SHARES = {"half": 1 / 2, "a quarter": 1 / 4, "an eighth": 1 / 8}  # of what all windows need


def main() -> None:
    report("shared_memory", figures())


def figures() -> Iterator[Figure]:
    found: dict[str, dict[str, list[float]]] = {name: {} for name in SHARES}
    for seed in range(SEEDS):
        with tempfile.TemporaryDirectory() as folder:
            for number, name in enumerate("ab"):
                pa_parquet.write_table(stream(2 * seed + number), Path(folder) / f"{name}.parquet")
            unit = NEEDED // 2 // PARTS
            curves = [[0.0, *(recalls(folder, [one], unit * n)[0] for n in range(1, PARTS + 1))] for one in JOINS]
            for name, share in SHARES.items():
                parts = round(PARTS * 2 * share)
                best = found[name]
                best.setdefault("shared", []).append(sum(shared(folder, unit * parts)))
                best.setdefault("equal parts", []).append(sum(at(curve, parts / len(JOINS)) for curve in curves))
                best.setdefault("the best fixed parts", []).append(best_split(curves, parts))
    for name, ways in found.items():
        for way, sums in ways.items():
            yield figure(f"{name} of what is needed, {way}", "recalls added up", sums)


def stream(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)

    def keys(many: int, skew: float) -> np.ndarray:
        chances = 1 / np.arange(1, many + 1) ** skew
        return rng.choice(many, ROWS, p=chances / chances.sum())

    return pa.table(
        {
            "hot": keys(500, 1.0),
            "warm": keys(500, 0.5),
            "cold": keys(500, 0.0),
            "ts": pa.array(np.arange(ROWS) * 1_000_000, pa.timestamp("us")),
        }
    )


def recalls(folder: str, joins: Sequence[str], rows: int) -> list[float]:
    return ran(folder, "", [f"{one} OPTIONS (memory = '{rows} rows')" for one in joins])


def shared(folder: str, rows: int) -> list[float]:
    return ran(folder, f"SET memory = '{rows} rows';", JOINS)


def ran(folder: str, settings: str, queries: Sequence[str]) -> list[float]:
    streams = [
        f"CREATE STREAM {name} WITH (source = 'parquet', path = '{folder}/{name}.parquet', time = 'ts');"
        for name in "ab"
    ]
    jobs = read_script("\n".join([*streams, settings, *(f"{one};" for one in queries)]))
    runs = [PulledExecution(job.plan) for job in jobs]
    for _ in Pull(runs).answers():
        pass
    for run in runs:
        if run.failure is not None:
            raise run.failure
    return [run.metrics.recall or 0.0 for run in runs]


def at(curve: Sequence[float], parts: float) -> float:
    return float(np.interp(parts, range(len(curve)), curve))


def best_split(curves: Sequence[Sequence[float]], parts: int) -> float:
    """The most that whole parts, given to whom they may, find together."""
    best = [0.0] * (parts + 1)
    for curve in curves:
        best = [
            max(best[have - own] + curve[min(own, len(curve) - 1)] for own in range(have + 1))
            for have in range(parts + 1)
        ]
    return best[parts]


if __name__ == "__main__":
    main()
