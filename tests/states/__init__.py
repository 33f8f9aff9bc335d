"""Kinds of operators, each with rows for it, and the states of them that are kept, one folder per format.

`python -m tests.states` writes the states that are missing for the format of today. From the first release on those of
older formats stay, and stay readable: they are what somebody's checkpoint holds.
"""

from __future__ import annotations

import gzip
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.relays import Batch, Relay
from tests.runners import Source, bound_plan
from watersmeet.model.versions import Versions
from watersmeet.operators.contract import Operator
from watersmeet.operators.memory_bound import Sharing
from watersmeet.operators.saving import FORMAT, Saved

HERE = Path(__file__).parent
BATCHES, SAVED_AFTER = 6, 3

SELECT = "SELECT a.id, b.id AS other, a.s, b.w"
MEMORY = "OPTIONS (memory = '30 rows', shed = '{}', recall = '{}')"
AGGREGATES = """COUNT(*) AS n, COUNT(DISTINCT a.s) AS d, SUM(a.x) AS total, AVG(a.id) AS mean, STDDEV(a.x) AS spread,
    MIN(a.s) AS least, MAX(a.x) AS most, FIRST(a.s) AS first, MEDIAN(a.x) AS middle, SUM(a.m) AS money"""
KINDS = {
    "select": "SELECT a.id, a.s FROM a WHERE a.x > 0.5",
    "counted select": "SELECT a.id, a.s FROM a [PARTITION BY k, s ROWS 2]",
    "join": f"{SELECT} FROM a, b WHERE a.k = b.k WINDOW = 20 SECONDS",
    "join by order": f"{SELECT} FROM a, b WHERE a.k < b.k AND b.x > a.x AND a.k > 2 WINDOW = 20 SECONDS",
    "join of three": f"{SELECT} FROM a, b, c WHERE a.k = b.k AND b.x < c.x AND a.s = c.s WINDOW = 9 SECONDS",
    "join with a table": f"{SELECT}, names.name FROM a, b, names WHERE a.k = b.k AND a.k = names.k WINDOW = 9 SECONDS",
    "join of counted rows": f"{SELECT} FROM a [ROWS 9], b [PARTITION BY s ROWS 2] WHERE a.k = b.k",
    "nested loops": f"{SELECT} FROM a, b WHERE a.k = b.k WINDOW = 9 SECONDS OPTIONS (join = 'hash', buckets = 3)",
    "pipeline": f"{SELECT} FROM a, b WHERE a.k = b.k WINDOW = 9 SECONDS OPTIONS (join = 'hw', buckets = 3)",
    "merge": f"{SELECT} FROM a, b WHERE a.k = b.k WINDOW = 9 SECONDS OPTIONS (join = 'merge')",
    "bounded": f"{SELECT} FROM a, b WHERE a.k = b.k WINDOW = 20 SECONDS {MEMORY.format('age', 'exact')[:-1]}, "
    "archive = 'nowhere')",
    "bounded, panes": f"{SELECT} FROM a, b WHERE a.k = b.k WINDOW = 20 SECONDS {MEMORY.format('prob', 'panes')}",
    "bounded, counted": f"{SELECT} FROM a [ROWS 20], b [ROWS 30] WHERE a.k = b.k {MEMORY.format('drift', 'none')}",
    "left join of a left join": f"{SELECT}, c.id AS third FROM a LEFT JOIN b ON a.k = b.k AND ABS(b.ts - a.ts) <= "
    "5 SECONDS LEFT JOIN c ON a.s = c.s AND ABS(c.ts - a.ts) <= 3 SECONDS",
    "semi join in time": "SELECT a.id, EVENT_TIME() AS at FROM a SEMI JOIN b ON a.k = b.k AND "
    "ABS(b.ts - a.ts) <= 9 SECONDS",
    "full join of windows": "SELECT a.k, COUNT(*) AS n, COUNT(b.k) AS m FROM a [RANGE 9 SECONDS] FULL JOIN b [ROWS 7] "
    "ON a.k = b.k GROUP BY a.k",
    "anti join of a view": "SELECT DISTINCT a.k FROM a [RANGE 9 SECONDS] ANTI JOIN (SELECT k, COUNT(*) AS n FROM b "
    "[RANGE 9 SECONDS] GROUP BY k) v ON a.k = v.k AND v.n > 1 OPTIONS (pipeline = 'nta')",
    "rows not in a view": "SELECT a.id, a.s FROM a [RANGE 9 SECONDS] WHERE a.s NOT IN (SELECT b.s FROM b [RANGE 9 "
    "SECONDS] WHERE b.k < 2 GROUP BY b.s HAVING COUNT(*) > 1)",
    "versions by another column": f"{SELECT} FROM a JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.s = b.s AND b.x > 3",
    "versions of a table": f"{SELECT} FROM a LEFT JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.k = b.k AND b.x > 3",
    "groups of the latest": "SELECT a.k, SUM(b.x) AS total FROM a [RANGE 9 SECONDS] ASOF JOIN b ON a.k = b.k AND "
    "b.ts <= a.ts GROUP BY a.k OPTIONS (pipeline = 'nta')",
    "by panes": "SELECT k, COUNT(*) AS n FROM a [RANGE 9 SECONDS] GROUP BY k OPTIONS (expire = '4 seconds')",
    "latched": "SELECT k, COUNT(*) AS n FROM a [LATCH 9 SECONDS] GROUP BY k",
    "since a landmark": "SELECT k, COUNT(*) AS n FROM a [LANDMARK '1970-01-01' EVERY 9 SECONDS] GROUP BY k",
    "groups": f"SELECT a.k, {AGGREGATES} FROM a [RANGE 9 SECONDS] GROUP BY a.k",
    "groups of a join": "SELECT a.k, MIN(b.s) AS least, LAST(b.x) AS last, PERCENTILE(a.x, 0.9) AS high "
    "FROM a [RANGE 9 SECONDS], b [ROWS 7] WHERE a.k = b.k GROUP BY a.k HAVING COUNT(*) > 1",
    "groups as a whole": "SELECT a.k, STRING_AGG(a.s, '-') AS words, STRING_AGG(DISTINCT a.s) AS known, "
    "MODE(a.s) AS usual, "
    "ARG_MAX(a.s, a.x) AS largest, ARG_MIN(a.id, a.x) AS least, VAR_POP(a.x) AS spread, BOOL_AND(a.x > 0) AS positive "
    "FROM a [RANGE 9 SECONDS] GROUP BY a.k",
    "lists of groups": "SELECT a.k, ARRAY_AGG(a.s ORDER BY a.x) AS l, MAP_AGG(a.s, a.id) AS m, JSON_AGG(a.id) AS j "
    "FROM a [RANGE 9 SECONDS] GROUP BY a.k",
    "moments of groups": "SELECT a.k, COVAR_POP(a.x, a.id) AS v, BIT_XOR(a.id) AS b, SKEWNESS(a.x) AS s, "
    "QUANTILE_DISC(a.s, 0.4) AS q, AVG(a.ts - TIMESTAMP '2026-01-01') AS d FROM a [RANGE 9 SECONDS] GROUP BY a.k",
    "groups in steps": "SELECT a.k, COUNT(*) AS n FROM a [RANGE 9 SECONDS SLIDE 2 SECONDS], b [ROWS 6 SLIDE 3] "
    "WHERE a.k = b.k GROUP BY a.k",
    "groups of hops": "SELECT k, window_end, COUNT(*) AS n FROM HOP(a, 2 SECONDS, 9 SECONDS) "
    "GROUP BY k, window_start, window_end",
    "groups that cumulate": "SELECT k, window_start, window_end, COUNT(*) AS n, MAX(s) AS s "
    "FROM CUMULATE(a, 2 SECONDS, 8 SECONDS) GROUP BY k, window_start, window_end",
    "sessions": "SELECT k, window_end, MAX(s) AS s FROM SESSION(a, 9 SECONDS PARTITION BY k) "
    "GROUP BY k, window_start, window_end",
    "sessions that grow": "SELECT k, window_end, COUNT(*) AS n FROM SESSION(a, 9 SECONDS PARTITION BY k) "
    "GROUP BY k, window_start, window_end OPTIONS (emit = 'changes')",
    "as of": f"{SELECT} FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.ts <= a.ts",
    "sets": "SELECT k, s FROM a [RANGE 9 SECONDS] EXCEPT ALL SELECT k, s FROM b [ROWS 6] OPTIONS (pipeline = 'nta')",
    "first rows": "SELECT DISTINCT a.s, a.k FROM a [RANGE 20 SECONDS] ORDER BY s DESC LIMIT 3",
    "snapshots": "SELECT RSTREAM a.k, COUNT(*) AS n FROM a [RANGE 9 SECONDS] GROUP BY a.k EVERY 3 SECONDS",
    "negative tuples": "SELECT a.k, COUNT(*) AS n FROM a [RANGE 9 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k "
    "GROUP BY a.k OPTIONS (pipeline = 'nta')",
    "input trigger": "SELECT a.k, COUNT(*) AS n FROM a [RANGE 9 SECONDS] GROUP BY a.k OPTIONS (pipeline = 'ita')",
    "a join inside": "SELECT j.k, COUNT(*) AS n FROM (SELECT a.k, EVENT_TIME() AS at FROM a, b WHERE a.k = b.k "
    "WINDOW = 5 SECONDS) j [RANGE 9 SECONDS] GROUP BY j.k",
    "streams together": "SELECT k, COUNT(*) AS n FROM TUMBLE((SELECT k, ts FROM a UNION ALL SELECT k, ts FROM b), "
    "9 SECONDS) GROUP BY k, window_start",
    "over rows around a row": "SELECT id, SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND "
    "1 FOLLOWING EXCLUDE CURRENT ROW) AS others, LAST_VALUE(s) IGNORE NULLS OVER (PARTITION BY k ORDER BY ts) AS last "
    "FROM a",
    "over rows ahead": "SELECT id, SUM(x) OVER near AS sum, FIRST_VALUE(s) OVER near AS first FROM a "
    "WINDOW near AS (PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING)",
    "over rows of a stream": "SELECT id, SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS 3 PRECEDING) AS v, LAG(s) OVER "
    "(PARTITION BY k ORDER BY ts) AS l, LEAD(w, 2, w) OVER (ORDER BY ts, x DESC) AS m, MIN(s) OVER (ORDER BY ts) AS n, "
    "FIRST_VALUE(m) OVER (PARTITION BY s ORDER BY ts) AS f, DENSE_RANK() OVER (PARTITION BY s ORDER BY ts) AS d FROM a",
    "over rows of a while": "SELECT id, SUM(m) OVER (PARTITION BY id % 30 ORDER BY ts RANGE 3 SECONDS PRECEDING) AS v, "
    "MAX(s) OVER (PARTITION BY id % 30 ORDER BY ts RANGE 3 SECONDS PRECEDING) AS w FROM a",
    "over rows that change": "SELECT k, s, LAG(x) OVER (PARTITION BY k ORDER BY x) AS l, RANK() OVER (PARTITION BY k "
    "ORDER BY x) AS r FROM a [RANGE 9 SECONDS]",
    "first rows of each": "SELECT k, s, x FROM a [UNBOUNDED] QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x "
    "DESC) <= 2",
    "first rows of each in a window": "SELECT k, s, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY s) AS n "
    "FROM a [RANGE 9 SECONDS] QUALIFY n <= 2",
    "first to arrive": "SELECT o.id, o.s, b.id AS other FROM DEDUPLICATE(TABLE a, 3 SECONDS PARTITION BY k, s) AS o, b "
    "WHERE o.k = b.k WINDOW = 5 SECONDS",
    "rows against a value": "SELECT a.id, a.s FROM a [RANGE 9 SECONDS] WHERE a.x > (SELECT AVG(b.x) FROM b [ROWS 20] "
    "WHERE b.k = a.k)",
    "left join of entries": "SELECT e.id, e.word, b.id AS other FROM (SELECT a.id, a.k, a.ts, word FROM a CROSS JOIN "
    "UNNEST(SPLIT(a.w, ' ')) AS t (word)) e LEFT JOIN b ON e.k = b.k AND ABS(b.ts - e.ts) <= 3 SECONDS",
    "a view": "SELECT v.k, v.n, a.id FROM (SELECT k, COUNT(*) AS n FROM b [RANGE 9 SECONDS] GROUP BY k) v, "
    "a [RANGE 3 SECONDS] WHERE v.k = a.k OPTIONS (pipeline = 'nta')",
}


def relay_of(kind: str) -> Relay:
    relay = relay_for(KINDS[kind])
    return replace(relay, prepare=_prepared) if kind == "bounded" else relay


def relay_for(sql: str) -> Relay:
    sources = [*(Source(name, stream_of(number)) for number, name in enumerate("abc")), Source("names", _names(), None)]
    used = [source for source in sources if any(f"{before}{source.name}" in sql for before in " (")]
    used = [replace(one, versions=Versions(("k",))) if f"{one.name} FOR" in sql else one for one in used]
    return Relay(bound_plan(sql, used), used)


def _prepared(operator: Operator) -> None:
    """One of two buckets, which writes down what it lets go of."""
    assert operator.bounded is not None
    operator.bounded.start_recording()
    operator.bounded.share_by(Sharing(operator.bounded.memory, fixed=False, streams=("a", "b"), buckets=2, finer=4))


def stream_of(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    count = 120
    times = np.datetime64("2024-01-01", "us") + 1000 * np.sort(random.integers(0, 60_000, count))
    words = pa.array([f"word {i}" for i in random.integers(0, 5, count)])
    return pa.table(
        {
            "id": np.arange(count),
            "k": random.integers(0, 6, count),
            "x": np.round(random.normal(0, 9, count), 3),
            "s": pa.array([None if i % 7 == 0 else f"text {i % 5}" for i in range(count)]),
            "w": words,
            "m": pa.array([Decimal(3 * i) for i in range(count)], pa.decimal128(12, 2)),
            "ts": pa.array(times, pa.timestamp("us")),
        }
    )


def _names() -> pa.Table:
    return pa.table({"k": np.arange(4), "name": [f"name {i}" for i in range(4)]})


def batches_of(relay: Relay) -> tuple[list[Batch], list[Batch]]:
    """What comes before a state is saved, and after."""
    batches = list(relay.batches(BATCHES))
    return batches[:SAVED_AFTER], batches[SAVED_AFTER:]


def path_of(kind: str, number: int = FORMAT) -> Path:
    return HERE / f"format_{number}" / f"{kind.replace(' ', '_').replace(',', '')}.gz"


def kept_state(path: Path) -> Saved:
    return Saved.from_bytes(gzip.decompress(path.read_bytes()))


def write_missing() -> list[Path]:
    written = []
    for kind in KINDS:
        path = path_of(kind)
        if path.exists():
            continue
        relay = relay_of(kind)
        operator = relay.fresh()
        for rows, watermarks in batches_of(relay)[0]:
            for _ in operator.take(rows, watermarks):
                pass
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(operator.save().to_bytes(), mtime=0))
        written.append(path)
    return written
