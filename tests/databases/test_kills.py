"""After a kill between any two steps of a commit the table is what DuckDB says the answer is, exactly."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.databases.lives import kept_in, killed_again_and_again
from tests.databases.places import Place
from tests.effort import EFFORT

COUNT = 1000
KILLS = {"sqlite": 4, "duckdb": 3, "postgres": 20}
JOIN = "SELECT a.id AS x, b.id AS y, a.s FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS"
GROUPS = "SELECT k, COUNT(*) AS n, SUM(id) AS total FROM a [RANGE 5 SECONDS] GROUP BY k"
ROWS = "SELECT s, k FROM a [RANGE 5 SECONDS] UNION ALL SELECT s, k FROM a [RANGE 3 SECONDS]"
# What has come before the watermark, a second behind the newest row.
NOW = "(SELECT max(ts) - INTERVAL 1 SECOND - INTERVAL 1 MICROSECOND FROM a)"
IN_WINDOW = f"FROM a WHERE ts <= {NOW} AND ts + INTERVAL {{}} SECOND >= {NOW}"
CASES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], str | None, str]] = {
    "rows that only come": (
        JOIN,
        ("a", "b"),
        (),
        None,
        "SELECT a.id, b.id, a.s FROM a, b WHERE a.k = b.k AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= 2000000",
    ),
    "rows with keys": (
        GROUPS,
        ("a",),
        ("k",),
        "_op",
        f"SELECT k, count(*), sum(id)::BIGINT {IN_WINDOW.format(5)} GROUP BY k",
    ),
    "rows without": (
        ROWS,
        ("a",),
        (),
        "_op",
        f"SELECT s, k {IN_WINDOW.format(5)} UNION ALL SELECT s, k {IN_WINDOW.format(3)}",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_kills_between_the_steps_of_commits_change_nothing(case: str, place: Place, tmp_path: Path) -> None:
    sql, read, keys, changes, check = CASES[case]
    kept = kept_in(place, tmp_path / "run", sql, read, COUNT, keys=keys, changes=changes)
    died = killed_again_and_again(kept, KILLS[place.kind] * EFFORT, seed=len(case))
    assert died > KILLS[place.kind] * EFFORT // 3, "hardly a life was killed"
    assert place.rows() == said_by_duckdb(check, tmp_path / "run", read)


def said_by_duckdb(sql: str, folder: Path, names: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        for name in names:
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder / name}/*.parquet'")
        return Counter(connection.execute(sql).fetchall())
