"""Compile every kernel that queries need, before anyone waits for it.

    watersmeet warm-up                       for this machine, into the user's cache folder
    python -m watersmeet.warm_up --into DIR  for many machines, a library that goes with the package

It runs small queries of all kinds, so what is compiled is what queries call, for the types that they call it with.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa

from watersmeet.compiling.library import CHOICE
from watersmeet.io.connectors.kafka.decoding.avro_shape import are_whole, steps_of
from watersmeet.operators.continuous.aggregates.ordered_rows import Tree
from watersmeet.operators.keeping.kernels.priorities import count_held
from watersmeet.operators.keeping.online_statistics import Factors
from watersmeet.operators.kernels.spread import coordinates, grouped
from watersmeet.session import Session

FEW, MANY = 240, 3000
SHIFT = np.uint64(61)  # of hashes, to the numbers of eight counters

SELECT = "SELECT a.id, b.id AS other, a.s, b.w, a.m, b.x, a.flag, b.small"
AGGREGATES = """COUNT(*) AS n, COUNT(DISTINCT a.s) AS d, COUNT(DISTINCT a.id) AS e, SUM(a.x) AS total, SUM(a.id) AS ids,
    SUM(a.m) AS money, AVG(a.id) AS mean, AVG(a.x) AS mean_x, AVG(a.m) AS mean_m, STDDEV(a.x) AS spread,
    VARIANCE(a.id) AS vary, STDDEV(a.m) AS spread_m, MIN(a.s) AS least, MAX(a.t) AS word, MAX(a.x) AS most,
    MIN(a.m) AS cheapest, MAX(a.id) AS last_id, FIRST(a.s) AS first, LAST(a.x) AS last, MEDIAN(a.x) AS middle,
    MEDIAN(a.m) AS middle_m, PERCENTILE(a.id, 0.9) AS high,
    VAR_POP(a.x) AS vary_x, STRING_AGG(a.s) AS words, STRING_AGG(DISTINCT a.s) AS dictionary, MODE(a.id) AS usual,
    ARG_MAX(a.s, a.x) AS largest, ARRAY_AGG(a.s ORDER BY a.x) AS listed,
    COVAR_POP(a.x, a.id) AS together, BIT_XOR(a.id) AS bits, SKEWNESS(a.x) AS skew"""
MEMORY = "OPTIONS (memory = '30 rows', shed = '{}', recall = '{}')"

JOINS = (
    "SELECT a.id, a.s FROM a WHERE a.x > 0.5",
    "SELECT s, COUNT(*) AS n FROM a [PARTITION BY k, s ROWS 2] GROUP BY s",
    f"{SELECT} FROM a, b WHERE a.k = b.k WINDOW = 20 SECONDS",
    f"{SELECT} FROM a, b WHERE a.s = b.s WINDOW = 9 SECONDS",
    f"{SELECT}, b.t FROM a, b WHERE a.t = b.t WINDOW = 9 SECONDS",
    f"{SELECT} FROM a, b WHERE a.k < b.k AND b.x > a.x AND a.k > 2 WINDOW = 20 SECONDS",
    f"{SELECT} FROM a, b WHERE ABS(a.x - b.x) <= 3 AND a.k <> b.k WINDOW = 9 SECONDS",
    f"{SELECT} FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW = 9 SECONDS",
    f"{SELECT} FROM a, b, c WHERE a.k = b.k AND b.x < c.x AND a.s = c.s WINDOW = 9 SECONDS",
    f"{SELECT}, names.name FROM a, b, names WHERE a.k = b.k AND a.k = names.k WINDOW = 9 SECONDS",
    f"{SELECT} FROM a [ROWS 9], b [PARTITION BY s ROWS 2] WHERE a.k = b.k",
    f"{SELECT} FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW PATH (a, b, c) = (5 SECONDS, 5 SECONDS)",
)
BOUNDED = (
    *(
        f"{SELECT} FROM a, b WHERE a.k = b.k WINDOW = 20 SECONDS {MEMORY.format(shed, recall)}"
        for shed, recall in (("age", "exact"), ("prob", "panes"), ("life", "none"), ("rand", "exact"), ("arm", "exact"))
    ),
    f"{SELECT} FROM a [ROWS 20], b [ROWS 30] WHERE a.k = b.k {MEMORY.format('drift', 'none')}",
    f"{SELECT} FROM a, b WHERE a.s = b.s WINDOW = 20 SECONDS OPTIONS (memory = '4 kB')",
    f"{SELECT} FROM a, b WHERE a.k = b.k WINDOW = 20 SECONDS OPTIONS (memory = '30 rows', max_lag = '5 seconds')",
)
CHANGING = (
    f"SELECT a.k, {AGGREGATES} FROM a [RANGE 9 SECONDS] GROUP BY a.k",
    "SELECT k, COUNT(*) AS n FROM a [RANGE 9 SECONDS] GROUP BY k OPTIONS (threads = 2)",
    f"SELECT a.s, a.flag, {AGGREGATES} FROM a [ROWS 30] GROUP BY a.s, a.flag",
    "SELECT a.k, MIN(b.s) AS least, LAST(b.x) AS last, PERCENTILE(a.x, 0.9) AS high "
    "FROM a [RANGE 9 SECONDS], b [ROWS 7] WHERE a.k = b.k GROUP BY a.k HAVING COUNT(*) > 1",
    "SELECT k, s FROM a [RANGE 9 SECONDS] EXCEPT ALL SELECT k, s FROM b [ROWS 6]",
    "SELECT k, x FROM a [RANGE 9 SECONDS] UNION SELECT k, x FROM b [RANGE 4 SECONDS]",
    "SELECT k, m FROM a [RANGE 9 SECONDS] INTERSECT SELECT k, m FROM b [RANGE 4 SECONDS]",
    "SELECT DISTINCT a.s, a.k FROM a [RANGE 20 SECONDS] ORDER BY s DESC LIMIT 3",
    "SELECT a.id, a.x FROM a [RANGE 20 SECONDS] ORDER BY x, id LIMIT 5",
    "SELECT RSTREAM a.k, COUNT(*) AS n FROM a [RANGE 9 SECONDS] GROUP BY a.k EVERY 3 SECONDS",
    "SELECT ISTREAM DISTINCT k FROM a [RANGE 9 SECONDS]",
    "SELECT DSTREAM DISTINCT k FROM a [RANGE 9 SECONDS]",
    "SELECT a.k, COUNT(*) AS n FROM a [RANGE 9 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k "
    "GROUP BY a.k OPTIONS (pipeline = 'nta')",
    "SELECT a.k, COUNT(*) AS n FROM a [RANGE 9 SECONDS] GROUP BY a.k OPTIONS (pipeline = 'ita')",
    "SELECT j.k, COUNT(*) AS n FROM (SELECT a.k, EVENT_TIME() AS at FROM a, b WHERE a.k = b.k "
    "WINDOW = 5 SECONDS) j [RANGE 9 SECONDS] GROUP BY j.k",
    "SELECT v.k, v.n, a.id FROM (SELECT k, COUNT(*) AS n FROM b [RANGE 9 SECONDS] GROUP BY k) v, "
    "a [RANGE 3 SECONDS] WHERE v.k = a.k",
    "SELECT a.id, a.s FROM a [RANGE 9 SECONDS] WHERE a.x > (SELECT AVG(b.x) FROM b [RANGE 9 SECONDS] WHERE b.k = a.k)",
    "SELECT id, SUM(x) OVER t AS v, MAX(s) OVER t AS w, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n, LAG(x) "
    "OVER (ORDER BY ts, k DESC) AS l, LEAD(x) OVER (PARTITION BY k ORDER BY ts) AS m FROM a WINDOW t AS (PARTITION BY "
    "k ORDER BY ts RANGE 3 SECONDS PRECEDING)",
    "SELECT id, COUNT(*) OVER (PARTITION BY k ORDER BY ts RANGE 1 SECOND PRECEDING) AS v FROM a",
    "SELECT id, x FROM a [RANGE 9 SECONDS] QUALIFY RANK() OVER (PARTITION BY k ORDER BY x DESC) <= 2",
    "SELECT id, x, s FROM a [UNBOUNDED] QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC) <= 2",
    "SELECT id FROM DEDUPLICATE(a, 3 SECONDS PARTITION BY k, s)",
    "SELECT id, AVG(x) OVER (PARTITION BY k ORDER BY s ROWS 3 PRECEDING) AS v FROM a [RANGE 9 SECONDS]",
    "SELECT id, MAX(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW) "
    "AS v FROM a",
)


# Over more rows, as memory grows, moves and is given back then.
LONGER = (
    f"{SELECT} FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND",
    f"{SELECT}, a.t FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS OPTIONS (memory = '30 kB')",
    f"{SELECT} FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS OPTIONS (memory = '20 kB', max_lag = '5 seconds')",
    # Records of rows that are gone are squeezed out; and what is gone is archived.
    f"{SELECT}, a.t FROM a, b WHERE a.k = b.k WINDOW = 30 SECONDS {MEMORY.format('prob', 'none')}",
    f"{SELECT}, a.t, a.tiny, a.short FROM a, b WHERE a.k = b.k WINDOW = 20 SECONDS "
    "OPTIONS (memory = '1000 rows', archive = '{folder}')",
    "SELECT DISTINCT id, t FROM a [RANGE 1 SECOND]",
    "SELECT id, MEDIAN(x) AS middle FROM a [RANGE 1 SECOND] GROUP BY id",
    "SELECT id, x FROM a [RANGE 30 SECONDS] ORDER BY x LIMIT 3",
    "SELECT id FROM DEDUPLICATE(a, 1 SECOND PARTITION BY id)",
)


def warm_up() -> None:
    """Run a query of each kind, over rows in time order and out of it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "late_rows")
        _run_all()


def _run_all() -> None:
    kinds = (*JOINS, *BOUNDED, *CHANGING)
    with tempfile.TemporaryDirectory() as folder:
        for session, queries in ((_in_order(FEW), kinds), (_as_they_come(), kinds), (_in_order(MANY), LONGER)):
            for query in queries:
                asked = session.sql(query.replace("{folder}", f"{folder}/archive"))
                for _ in asked.batches(batch_rows=64 if queries is kinds else 1 << 16):
                    pass
    _push_few()
    # Spark spreads rows by these.
    numbers = np.arange(8)
    grouped(coordinates(numbers, 4), 4)
    # A join that is behind weighs rows before it lets them in.
    counts, codes = Factors(np.zeros((1, 3), np.int64), numbers, np.zeros((1, 8), np.float32), SHIFT), numbers[None]
    count_held(codes, 0, 8, numbers.astype(np.int32), True, *counts.of_rows[:4])
    counts.weights(codes)
    tree = Tree()  # which is made anew where its keys get other names
    tree.rebuilt(tree.entries())
    steps = steps_of("long")  # of records of Avro
    assert steps is not None
    are_whole([b"\x02"], steps)


def ship(folder: Path) -> None:
    """Compile for processors of this kind into a library."""
    from watersmeet.compiling.machine import baseline, environment_for

    environment = {**os.environ, **environment_for(baseline()), CHOICE: "record"}
    subprocess.run([sys.executable, "-m", "watersmeet.warm_up", "--record", str(folder)], env=environment, check=True)


def _record(folder: Path) -> None:
    from watersmeet.compiling.build import build

    warm_up()
    made = build(folder)
    print(f"{made} ({made.stat().st_size >> 10} kB)")


def _in_order(count: int) -> Session:
    session = Session()
    for number, name in enumerate("abc"):
        session.stream(name, _rows(number, count), time="ts")
    session.table("names", pa.table({"k": np.arange(4), "name": [f"name {i}" for i in range(4)]}))
    return session


def _as_they_come() -> Session:
    session = Session()
    for number, name in enumerate("abc"):
        swapped = _rows(number, FEW).take(np.arange(FEW) ^ 1)
        session.stream(name, swapped, time="ts", read="arrival", lateness="5 seconds")
    session.table("names", pa.table({"k": np.arange(4), "name": [f"name {i}" for i in range(4)]}))
    return session


def _push_few() -> None:
    """A few rows at a time take a shorter way through a join."""
    session = Session()
    for number, name in enumerate("ab"):
        session.stream(name, schema=_rows(number, 1).schema, time="ts")
    join = "SELECT a.id, b.x FROM a, b WHERE a.k = b.k WINDOW = 20 SECONDS"
    with session.sql(join).start() as joining, session.sql("SELECT a.id, 2 * x AS y FROM a").start() as selecting:
        for start in range(0, FEW, 8):
            selecting.push("a", _rows(0, FEW).slice(start, 8))
            for number, name in enumerate("ab"):
                joining.push(name, _rows(number, FEW).slice(start, 8))


def _rows(seed: int, count: int) -> pa.Table:
    """Rows with columns of every family of types, with and without NULLs."""
    random = np.random.default_rng(seed)
    numbers = np.arange(count)
    times = np.sort(random.integers(0, 60_000, count)) * 1000
    cents = pa.array(3 * numbers).cast(pa.decimal128(19)).cast(pa.decimal128(30, 2))
    missing = numbers % 7 == 0
    return pa.table(
        {
            "id": numbers,
            "k": random.integers(0, 6, count),
            "x": np.round(random.normal(0, 9, count), 3),
            "s": pa.array(np.char.add("text ", (numbers % 5).astype(str)).tolist(), pa.string(), mask=missing),
            "w": pa.array(np.char.add("word ", random.integers(0, 5, count).astype(str)).tolist()).dictionary_encode(),
            "t": pa.array(np.char.add("item ", (numbers % 9).astype(str)).tolist()),
            "m": cents,
            "flag": pa.array(numbers % 2 == 0, mask=missing),
            "small": pa.array(numbers % 100, pa.int32()),
            "short": pa.array(numbers % 100, pa.int16()),
            "tiny": pa.array(numbers % 100, pa.int8()),
            "ts": pa.array(times, pa.timestamp("us")),
        }
    )


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m watersmeet.warm_up", description="compile all kernels now")
    options.add_argument("--into", type=Path, help="compile for many machines, a library into this folder")
    options.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.into is not None:
        ship(asked.into)
    elif asked.record is not None:
        _record(asked.record)
    else:
        warm_up()


if __name__ == "__main__":
    main()
