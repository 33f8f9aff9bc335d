"""The load that all engines get, and what is noted of their answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.latency import KEYS

WARM_S = 1.5  # longer than any window, so that windows are full when the clock starts
CHECKED_ROWS = 100_000  # up to here DuckDB computes joins, too; beyond, engines are compared with each other

# Which answers an engine gives: all; of groups only the values as rows arrive, not as they leave; or others, of which
# only is known which rows are in them.
Compared = Literal["all", "arrivals", "rows"]


@dataclass(frozen=True)
class Query:
    """Streams that are joined by key in one window, or one stream whose rows are counted and summed by key."""

    name: str
    streams: str
    window_us: int

    @property
    def groups(self) -> bool:
        return len(self.streams) == 1


QUERIES = (
    Query("join of two", "ab", 1_000_000),
    Query("join of three", "abc", 200_000),
    Query("GROUP BY", "a", 1_000_000),
)


@dataclass(frozen=True)
class Sending:
    """So many rows a second for so long, the streams in turn; the first seconds are not timed."""

    query: Query
    rate: int
    seconds: float
    grace_s: float  # what is not answered by then is not waited for
    warm_s: float = WARM_S

    @property
    def rows(self) -> int:
        return int(self.rate * (self.warm_s + self.seconds))

    def write_keys(self, folder: Path) -> Path:
        path = folder / "keys"
        keys_of(self.rows).astype("<i4").tofile(path)
        return path


def keys_of(rows: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(0, KEYS, rows)


@dataclass(frozen=True)
class Outcome:
    """Rows that were taken in, all answers and their checksum, and for how long the timed ones were waited for."""

    rows: int
    answers: int
    checksum: int
    timed: int
    p50_ms: float
    p99_ms: float
    p99_9_ms: float
    max_ms: float


def outcome(rows: int, answers: int, checksum: int, waits_ms: np.ndarray[Any, Any]) -> Outcome:
    p50, p99, p999 = np.percentile(waits_ms, [50, 99, 99.9]) if waits_ms.size else (0.0, 0.0, 0.0)
    longest = float(waits_ms.max()) if waits_ms.size else 0.0
    return Outcome(rows, answers, checksum, waits_ms.size, float(p50), float(p99), float(p999), longest)


def expected(sending: Sending, answers: Compared) -> tuple[int, int] | None:
    """Number and checksum of the answer, by DuckDB; nothing if that would take long."""
    if answers == "rows":
        return sending.rows, sending.rows * (sending.rows - 1) // 2
    if sending.rows > CHECKED_ROWS and not sending.query.groups:
        return None
    ids = np.arange(sending.rows)
    times = (ids * (1_000_000 / sending.rate)).astype(np.int64)
    rows = pa.table({"id": ids, "k": keys_of(sending.rows), "t": times})
    with duckdb.connect() as db:
        db.register("rows", rows)
        found = db.execute(_groups(sending, answers) if sending.query.groups else _join(sending)).fetchone()
    assert found is not None
    return int(found[0]), _wrapped(int(found[1] or 0))


def _wrapped(number: int) -> int:
    """As 64 bits hold it."""
    return (number + 2**63) % 2**64 - 2**63


def _join(sending: Sending) -> str:
    streams, size = sending.query.streams, sending.query.window_us
    tables = ", ".join(
        f"(SELECT * FROM rows WHERE id % {len(streams)} = {number}) {name}" for number, name in enumerate(streams)
    )
    first = streams[0]
    same = [f"{first}.k = {name}.k" for name in streams[1:]]
    near = [f"abs({x}.t - {y}.t) <= {size}" for i, x in enumerate(streams) for y in streams[i + 1 :]]
    product = " * ".join(f"{name}.id::HUGEINT" for name in streams)
    return f"SELECT count(*), sum({product}) FROM {tables} WHERE {' AND '.join(same + near)}"


def _groups(sending: Sending, answers: Compared) -> str:
    """Rows come at their time and leave just after the window; each time their group has another value. The last row
    is left out: whether more come at its instant is never known."""
    only = "came AND" if answers == "arrivals" else ""
    return f"""
        WITH changes AS (
            SELECT k, t AS moment, 1 AS n, id, true AS came FROM rows
            UNION ALL SELECT k, t + {sending.query.window_us} + 1, -1, -id, false FROM rows),
        groups AS (
            SELECT k, moment, came, sum(n) OVER w AS n, sum(id) OVER w AS total
            FROM changes WINDOW w AS (PARTITION BY k ORDER BY moment))
        SELECT count(*), sum(total::HUGEINT * (n + k)) FROM groups
        WHERE {only} n > 0 AND moment < (SELECT max(t) FROM rows)"""
