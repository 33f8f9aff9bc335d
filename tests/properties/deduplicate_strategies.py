"""Random queries over streams without their duplicates, alone and below everything else."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.properties.over_strategies import OverCase
from tests.properties.strategies import streams

QUERIES = (
    "SELECT id, k, ts FROM {a} AS a",
    "SELECT id, s FROM {a} AS a WHERE j > 0",
    "SELECT k, COUNT(*) AS n, MAX(s) AS m FROM {a} [RANGE 2 SECONDS] AS a GROUP BY k",
    "SELECT k, COUNT(*) AS n FROM {a} [ROWS 3] AS a GROUP BY k",
    "SELECT DISTINCT k FROM {a} [RANGE 1 SECONDS] AS a",
    "SELECT id, LAG(id) OVER (PARTITION BY k ORDER BY ts) AS l FROM {a} AS a",
    "SELECT id, LEAD(id) OVER (PARTITION BY k ORDER BY ts) AS l FROM {a} AS a",
    "SELECT RSTREAM k, COUNT(*) AS n FROM {a} [RANGE 2 SECONDS] AS a GROUP BY k EVERY 1 SECONDS",
    "SELECT a.id, b.id AS y FROM {a} AS a, s1 AS b WHERE a.k = b.k WINDOW = 2 SECONDS",
    "SELECT a.id, b.id AS y FROM {a} AS a, {b} AS b WHERE a.k = b.k WINDOW = 2 SECONDS",
    "SELECT a.id, b.id AS y FROM {a} AS a LEFT JOIN {b} AS b ON a.k = b.k AND ABS(a.ts - b.ts) <= 1 SECONDS",
    "SELECT k, COUNT(*) AS n, window_end FROM TUMBLE((SELECT k, ts FROM {a}), 2 SECONDS) AS t GROUP BY k, "
    "window_start, window_end",
)
KEYS = (" PARTITION BY k", " PARTITION BY k", " PARTITION BY k, j", " PARTITION BY s", " PARTITION BY f, k")


@st.composite
def deduplicated_cases(draw: st.DrawFn, late: bool = False) -> OverCase:
    def drawn(name: str) -> str:
        return f"DEDUPLICATE({name}, {draw(st.integers(0, 3))} SECONDS{draw(st.sampled_from(KEYS))})"

    sql = draw(st.sampled_from(QUERIES)).format(a=drawn("s0"), b=drawn("s1"))
    sources = tuple(draw(streams(name, 9, late)) for name in ("s0", "s1") if f"{name}" in sql)
    return OverCase(sql, "", sources)
