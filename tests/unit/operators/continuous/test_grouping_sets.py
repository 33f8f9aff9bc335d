"""Several groupings side by side are those groupings, one after the other."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from tests.runners import Source, by_local_engine

START = datetime(2026, 1, 1)
ROWS = pa.table(
    {
        "k": [1, 1, 2, None, 2],
        "s": ["a", "b", "a", "a", None],
        "x": [1, 2, 3, 4, 5],
        "ts": pa.array([START + timedelta(seconds=at) for at in range(5)], pa.timestamp("us")),
    }
)
FROM = "FROM t [RANGE 2 SECONDS]"
BOTH = f"SELECT k, s, SUM(x) AS n {FROM} GROUP BY k, s"
BY_K = f"SELECT k, CAST(NULL AS STRING) AS s, SUM(x) AS n {FROM} GROUP BY k"
BY_S = f"SELECT CAST(NULL AS BIGINT) AS k, s, SUM(x) AS n {FROM} GROUP BY s"
ALL = f"SELECT CAST(NULL AS BIGINT) AS k, CAST(NULL AS STRING) AS s, SUM(x) AS n {FROM}"
WAYS = {
    "GROUPING SETS ((k, s), (k), (s), ())": (BOTH, BY_K, BY_S, ALL),
    "GROUPING SETS (k, s)": (BY_K, BY_S),
    "ROLLUP (k, s)": (BOTH, BY_K, ALL),
    "CUBE (k, s)": (BOTH, BY_K, BY_S, ALL),
    "k, ROLLUP (s)": (BOTH, BY_K),
    "GROUPING SETS (ROLLUP (k), s)": (BY_K, ALL, BY_S),
    "GROUPING SETS ((k), (s), (k))": (BY_K, BY_S, BY_K),
}


@pytest.mark.parametrize("written", WAYS)
def test_groupings_side_by_side(written: str) -> None:
    sources = [Source("t", ROWS)]
    together = by_local_engine(f"SELECT k, s, SUM(x) AS n {FROM} GROUP BY {written}", sources)
    assert together == by_local_engine(" UNION ALL ".join(WAYS[written]), sources)


def test_grouping_tells_which_keys_are_missing() -> None:
    sql = f"SELECT k, s, GROUPING(k, s) AS missing, COUNT(*) AS n {FROM} GROUP BY CUBE (k, s)"
    found = by_local_engine(sql, [Source("t", ROWS.slice(0, 1))])
    entered = {row[2:5] for row in found if row[0] == "+"}
    assert entered == {(1, "a", 0), (1, None, 1), (None, "a", 2), (None, None, 3)}
