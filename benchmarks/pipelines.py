"""`pipeline = 'auto'` against what is measured: H04's five queries, and joins of many shapes under six operators.

    python -m benchmarks.pipelines [--runs 3] [--short]

Each case runs under `tpa` and `nta` in turn; of each the fastest run counts, in processor time. `auto` is right where
it took the faster one, and near where it lost at most 5 %. Rows held are the most at the end of any batch.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from time import thread_time

import numpy as np
import pyarrow as pa

import watersmeet as wm
from benchmarks.harness import Figure, figure, report
from watersmeet.hosts.local.execution import BATCH_ROWS
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.lab.papers.h04.throughput import FAST
from watersmeet.lab.papers.h04.workload import QUERIES, WORKLOAD, shop
from watersmeet.optimizer.choose_pipeline import choose_pipeline

PIPELINES = ("tpa", "nta")
NEAR = 1.05
FROM = "FROM a [RANGE {w} MILLISECONDS] AS a, b [RANGE {w} MILLISECONDS] AS b WHERE a.k = b.k"
OPERATORS = {
    "COUNT": f"SELECT COUNT(*) AS n {FROM}",
    "MAX": f"SELECT MAX(a.v) AS m, COUNT(*) AS n {FROM}",
    "GROUP BY": f"SELECT a.g, SUM(b.v) AS s {FROM} GROUP BY a.g",
    "DISTINCT": f"SELECT DISTINCT a.g {FROM}",
    "EXCEPT": f"SELECT a.v {FROM} EXCEPT SELECT a.g {FROM} AND a.g = 1",
    "UNION ALL": f"SELECT a.v {FROM} UNION ALL SELECT a.v {FROM} AND a.g = 1",
}
WINDOWS = (100, 1_000, 10_000, 100_000)  # rows
PARTNERS = (0.01, 0.1, 1.0, 4.0)  # of a row


@dataclass(frozen=True)
class Case:
    name: str
    session: wm.Session
    sql: str
    batch_rows: int = BATCH_ROWS

    def asked(self, pipeline: str) -> str:
        return f"{self.sql} OPTIONS (pipeline = '{pipeline}')"

    @property
    def chosen(self) -> str:
        return choose_pipeline(self.session.sql(self.asked("auto")).plan).pipeline

    def run(self, pipeline: str) -> tuple[float, int, int]:
        """Seconds of processor time, the most rows held, and rows read."""
        run = PulledExecution(self.session.sql(self.asked(pipeline)).plan, batch_rows=self.batch_rows)
        held, started = 0, thread_time()
        for _ in run.batches():
            held = max(held, run.metrics.kept_rows)
        return thread_time() - started, held, run.metrics.rows_in


def stream(rows: int, keys: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {"k": rng.integers(0, keys, rows), "v": rng.integers(0, 1000, rows), "g": rng.integers(0, 100, rows)}
    return pa.table({**columns, "ts": (np.arange(rows) * 1000).astype("M8[us]")})


def joins(short: bool) -> Iterator[Case]:
    for window, partners in product(WINDOWS[: 2 if short else None], PARTNERS):
        rows, keys = max(60_000, window * 5 // 2), max(1, round(window / partners))
        session = wm.Session()
        for seed, name in enumerate("ab"):
            session.stream(name, stream(rows, keys, seed), time="ts", rate=1000.0, distinct={"k": keys})
        for operator, sql in OPERATORS.items():
            yield Case(f"{operator}, window {window}, {partners:g} partners", session, sql.format(w=window))


def papers() -> Iterator[Case]:
    """H04's queries: slow streams in small batches, and fast ones."""
    slow = {**WORKLOAD, "rate": 20, "seconds": 600}
    for word, settings in (("20 rows/s", slow), ("2056 rows/s", {**FAST, "seconds": 120})):
        for query, text in QUERIES.items():
            price = round((1 - settings["selection"]) * 10_000)
            sql = text.format(w=settings["window"], half=settings["window"] / 2, price=price)
            batch = 64 if word.startswith("20 ") else BATCH_ROWS
            yield Case(f"{query} at {word}", shop(query, settings, seed=1), sql, batch)


def measured(case: Case, runs: int) -> tuple[Figure, bool]:
    """A line of the table, and whether the choice was right or near."""
    samples: dict[str, list[float]] = {pipeline: [] for pipeline in PIPELINES}
    held = dict.fromkeys(PIPELINES, 0)
    for _ in range(runs + 1):
        for pipeline in PIPELINES:
            seconds, held[pipeline], rows = case.run(pipeline)
            samples[pipeline].append(seconds / rows * 1e9)
    best = {pipeline: min(found) for pipeline, found in samples.items()}
    faster = min(best, key=lambda one: best[one])
    near = best[case.chosen] <= NEAR * best[faster]
    notes = {f"{one} ns/row": round(best[one]) for one in PIPELINES} | {f"{one} rows": held[one] for one in PIPELINES}
    word = "right" if case.chosen == faster else ("near" if near else "wrong")
    ratio = best["nta"] / best["tpa"]
    return figure(case.name, "nta/tpa", [ratio], **notes, chosen=case.chosen, choice=word), near


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="runs of each, after one to warm up")
    parser.add_argument("--short", action="store_true", help="only the smaller windows")
    asked = parser.parse_args()
    found = [measured(case, asked.runs) for case in (*papers(), *joins(asked.short))]
    share = sum(near for _, near in found) / len(found)
    report(
        "pipelines", [*(one for one, _ in found), figure("choices right or within 5 %", "of all", [share], ">= 0.9")]
    )


if __name__ == "__main__":
    main()
