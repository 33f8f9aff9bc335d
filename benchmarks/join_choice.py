"""Would one of the papers' joins ever be the better choice? The engine's own join against each of them, whole queries.

Windows from one row to thousands, keys and none, two streams to four, few matches and many. A time is that of the
processor for a whole run, rows in to rows out, the median of several; a ratio above 1 says that the paper's is faster.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from statistics import median
from time import process_time

import numpy as np
import pyarrow as pa

from benchmarks.harness import Figure, figure, report
from watersmeet.errors import WatersmeetError
from watersmeet.session import Session

RUNS = 5
LOOPS = ("own", "nested_loop", "hash", "hybrid", "naive")
H02 = ("merge", "w_join", "nlw", "hw", "ripple", "xjoin")


@dataclass(frozen=True)
class Work:
    """`rows` of each of so many streams, one a tick; windows of so many ticks; keys of so many values. `on` says how
    rows meet: `equal` keys, a `band` of one apart, or `any` two rows."""

    name: str
    streams: int
    rows: int
    window: int
    keys: int
    on: str = "equal"

    def sql(self, options: str) -> str:
        names = [f"s{i}" for i in range(self.streams)]
        tests = {
            "equal": " AND ".join(f"s0.k = {name}.k" for name in names[1:]),
            "band": " AND ".join(f"{name}.k BETWEEN s0.k - 1 AND s0.k + 1" for name in names[1:]),
            "any": "1 = 1",
        }
        windows = ", ".join(f"{name} [RANGE {self.window} US]" for name in names)
        return f"SELECT s0.k FROM {windows} WHERE {tests[self.on]} OPTIONS (join = '{options}')"

    def session(self) -> Session:
        rng, session = np.random.default_rng(1), Session()
        at = pa.array(np.arange(self.rows, dtype=np.int64), pa.timestamp("us"))
        for i in range(self.streams):
            session.stream(f"s{i}", pa.table({"k": rng.integers(0, self.keys, self.rows), "ts": at}), time="ts")
        return session


WORKS = (
    Work("2 streams, window 1", 2, 200_000, 1, 10),
    Work("2 streams, window 10", 2, 200_000, 10, 10),
    Work("2 streams, window 100", 2, 200_000, 100, 100),
    Work("2 streams, window 1,000", 2, 100_000, 1_000, 1_000),
    Work("2 streams, window 10,000", 2, 100_000, 10_000, 10_000),
    Work("2 streams, window 100, one key", 2, 20_000, 100, 1),
    Work("2 streams, window 1,000, few keys", 2, 20_000, 1_000, 10),
    Work("2 streams, window 100, band", 2, 100_000, 100, 100, "band"),
    Work("2 streams, window 1,000, band", 2, 50_000, 1_000, 1_000, "band"),
    Work("2 streams, window 10, any two", 2, 100_000, 10, 10, "any"),
    Work("2 streams, window 100, any two", 2, 20_000, 100, 10, "any"),
    Work("3 streams, window 10", 3, 100_000, 10, 10),
    Work("3 streams, window 1,000", 3, 50_000, 1_000, 1_000),
    Work("4 streams, window 100", 4, 50_000, 100, 100),
    Work("4 streams, window 1,000", 4, 30_000, 1_000, 1_000),
    Work("3 streams, window 10, any three", 3, 20_000, 10, 10, "any"),
)


def timed(session: Session, sql: str) -> tuple[float, int]:
    query = session.sql(sql)
    began = process_time()
    rows = sum(batch.num_rows for batch in query.batches())
    return process_time() - began, rows


def compared(work: Work, runs: int = RUNS) -> tuple[dict[str, float], int]:
    """The median time of each algorithm that can run this work. Runs take turns, so that a slow moment hits all."""
    session, rows = work.session(), -1
    times: dict[str, list[float]] = {}
    algorithms = ["auto", *LOOPS, *H02]
    for number in range(runs + 1):  # the first also compiles
        for name in list(algorithms):
            try:
                spent, found = timed(session, work.sql(name))
            except WatersmeetError:
                algorithms.remove(name)  # it refuses such a join
                continue
            if rows not in (-1, found):
                raise AssertionError(f"{name} found {found} rows, not {rows}, of {work.name}")
            rows = found
            if number:
                times.setdefault(name, []).append(spent)
            # What takes ten times as long need not be measured again and again.
            if name != "auto" and number == 1 and spent > 10 * times["auto"][0]:
                algorithms.remove(name)
    return {name: median(some) for name, some in times.items()}, rows


def figure_of(work: Work) -> Figure:
    times, rows = compared(work)
    own = times.pop("auto")
    ratios = {name: round(own / spent, 2) for name, spent in times.items()}
    best = max(ratios, key=ratios.__getitem__)
    return figure(work.name, "of our speed", [ratios[best]], by=best, own_s=round(own, 3), results=rows, **ratios)


def main() -> None:
    wanted = sys.argv[1:]
    report("join_choice", [figure_of(work) for work in WORKS if not wanted or work.name in wanted])


if __name__ == "__main__":
    main()
