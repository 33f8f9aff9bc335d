"""What each engine's process is asked and tells: the same query several times, and of each run what came and when.

    python in_ENGINE.py '{"query": "join 2", "folder": …}'

It has no imports but NumPy and Arrow: every engine has an environment of its own. A line of JSON is printed after each
run, so that whoever started the process knows when the first answer was whole.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

WEIGHTS = (3, 5, 7, 11)
PRIME = 1_000_003
LAST_ID = -1  # of a row behind all others, where an engine has no other end of its input
LAST_MS = 60_000  # so much later than the others it is


@dataclass(frozen=True)
class Asked:
    """Joins are of rows with equal `k`, all within the window; the others are answers for windows that hop.

    An answer has, in this order: of a join the `id` of each stream; of groups the end of the window in seconds, `k`,
    COUNT(*) and SUM(v); of distinct keys that end and `k`; of the first ten that end, `id` and `v`. Windows that end
    after `last_s` are left out, as engines differ in whether the end of the input ends them.
    """

    query: str
    folder: str
    streams: str
    window_ms: int
    slide_ms: int
    last_s: int
    runs: int
    more: dict[str, str]
    rows_in_all: int = 0  # of all streams

    def file(self, stream: str) -> Path:
        return Path(self.folder) / f"{stream}.parquet"

    def pieces(self, stream: str) -> Path:
        return Path(self.folder) / "pieces" / stream

    @property
    def joins(self) -> bool:
        return self.query.startswith("join")

    def rows(self, stream: str) -> list[tuple[int, int, int, int]]:
        """For engines that take one row after the other: `id`, `k`, `v` and the time in milliseconds."""
        table = pq.read_table(self.file(stream))
        times = table["ts"].cast("int64").to_numpy() // 1_000
        columns = [table[name].to_pylist() for name in ("id", "k", "v")]
        return list(zip(*columns, times.tolist(), strict=True))


class Tally:
    """Rows of an answer and a sum over them that does not depend on their order."""

    def __init__(self, asked: Asked) -> None:
        self.rows = self.checksum = 0
        self.last = None if asked.joins else asked.last_s

    def row(self, *values: int) -> None:
        if self.last is None or values[0] <= self.last:
            self.rows += 1
            self.checksum += sum(value * weight for value, weight in zip(values, WEIGHTS, strict=False)) % PRIME

    def columns(self, *columns: Any) -> None:
        arrays = [np.asarray(one, dtype=np.int64) for one in columns]
        if self.last is not None:
            arrays = [one[arrays[0] <= self.last] for one in arrays]
        mixed = sum((one * weight for one, weight in zip(arrays, WEIGHTS, strict=False)), np.int64(0)) % PRIME
        self.rows += len(arrays[0])
        self.checksum += int(mixed.sum())


def answer(run: Callable[[Asked, Tally], None]) -> None:
    asked = Asked(**json.loads(sys.argv[1]))
    for _ in range(asked.runs):
        tally = Tally(asked)
        started, worked = time.perf_counter(), time.process_time()
        run(asked, tally)
        tell(tally.rows, tally.checksum, time.perf_counter() - started, time.process_time() - worked)


def tell(rows: int, checksum: int, seconds: float, processor: float, waited: float = 0.0) -> None:
    """`waited` is for how long nothing more had come when this is told."""
    told = {"rows": rows, "checksum": checksum, "seconds": seconds, "processor": processor, "waited": waited}
    print(json.dumps(told), flush=True)
