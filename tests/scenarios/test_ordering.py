"""ORDER BY, LIMIT and DISTINCT ON: what is given whole is in order, and the first rows are those that DuckDB says."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import watersmeet as wm
from watersmeet.cli.commands import app
from watersmeet.warning import PlanWarning

NOON = dt.datetime(2026, 1, 1, 12)
# With NULLs, rows that are equal in everything, and ties.
ROWS = [(1, 5), (2, 3), (1, 5), (3, None), (2, 9), (None, 3), (1, 1), (3, None), (2, 3), (None, None), (3, 9)]
TABLE = pa.table(
    {
        "k": pa.array([k for k, _ in ROWS], pa.int64()),
        "x": pa.array([x for _, x in ROWS], pa.int64()),
        "n": list(range(len(ROWS))),
        "ts": [NOON + dt.timedelta(seconds=i) for i in range(len(ROWS))],
    }
)


def session(rows: pa.Table = TABLE) -> wm.Session:
    made = wm.Session()
    made.stream("a", rows, time="ts")
    return made


DUCKDB = duckdb.connect()


def duckdb_rows(sql: str, rows: pa.Table) -> list[dict[str, Any]]:
    return DUCKDB.register("a", rows).sql(sql).to_arrow_table().to_pylist()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("SELECT k, x FROM a [UNBOUNDED] ORDER BY x DESC, k", ""),
        ("SELECT k, x FROM a [UNBOUNDED] ORDER BY x, k LIMIT 3 OFFSET 2", ""),
        ("SELECT k, x FROM a [UNBOUNDED] ORDER BY x, k OFFSET 4 ROWS", "OFFSET 4"),
        ("SELECT k, x FROM a [UNBOUNDED] ORDER BY x, k OFFSET 2 LIMIT 3", "LIMIT 3 OFFSET 2"),
        ("SELECT k, x FROM a [UNBOUNDED] ORDER BY x, k OFFSET 1 ROW FETCH NEXT 2 ROWS ONLY", "LIMIT 2 OFFSET 1"),
        ("SELECT k, x FROM a [UNBOUNDED] ORDER BY x, k FETCH FIRST ROW ONLY", "LIMIT 1"),
        ("SELECT k, COUNT(*) AS n FROM a [UNBOUNDED] GROUP BY k ORDER BY n DESC, k LIMIT 2 OFFSET 1", ""),
        ("SELECT DISTINCT x FROM a [UNBOUNDED] ORDER BY x DESC NULLS FIRST LIMIT 2 OFFSET 1", ""),
        ("SELECT DISTINCT ON (k) k, x FROM a [UNBOUNDED] ORDER BY k, x DESC", ""),
        ("SELECT DISTINCT ON (k) k, n FROM a [UNBOUNDED] ORDER BY k, ts DESC", ""),
        ("SELECT DISTINCT ON (k) k, n FROM a [UNBOUNDED] ORDER BY k, ts DESC LIMIT 2 OFFSET 1", ""),
        ("SELECT DISTINCT ON (x, k) k, x, n FROM a [UNBOUNDED] ORDER BY k, x, n DESC", ""),
        ("SELECT DISTINCT ON (x % 3) x % 3 AS m, n FROM a [UNBOUNDED] ORDER BY x % 3, n", ""),
        ("SELECT DISTINCT ON (k) k, n FROM a [UNBOUNDED] WHERE x > 1 ORDER BY n DESC", ""),
        # Names of the select list, which the list of WITH calls otherwise.
        (
            "WITH v (c, d) AS (SELECT k, x AS z FROM a [ROWS 99] ORDER BY z, k LIMIT 3) SELECT * FROM v ORDER BY d, c",
            "",
        ),
        ("WITH v (c) AS (SELECT DISTINCT ON (y) k AS y FROM a [ROWS 99] ORDER BY y, x) SELECT * FROM v ORDER BY c", ""),
        (
            "WITH v (c, n) AS (SELECT k % 2 AS odd, COUNT(*) FROM a [ROWS 99] GROUP BY odd) SELECT * FROM v ORDER BY c",
            "",
        ),
        # The first of each for good: no window is needed.
        ("SELECT DISTINCT ON (k) k, n FROM a ORDER BY k, ts", ""),
        ("SELECT k, x FROM a ORDER BY x, k", ""),
    ],
)
def test_the_final_answer_is_that_of_duckdb_in_its_order(ours: str, theirs: str) -> None:
    sql = ours.replace(" [UNBOUNDED]", "").replace(" [ROWS 99]", "")
    if theirs:
        sql = sql[: min(sql.index(word) for word in (" OFFSET", " FETCH") if word in sql)] + f" {theirs}"
    for rows in (TABLE, TABLE.slice(0, 2), TABLE.slice(0, 0)):
        assert session(rows).sql(ours).final().to_pylist() == duckdb_rows(sql, rows)


@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        ("FETCH FIRST 2 ROWS WITH TIES", "RANK() OVER (ORDER BY x) <= 2"),
        ("LIMIT 4 WITH TIES", "RANK() OVER (ORDER BY x) <= 4"),
        (
            "OFFSET 3 FETCH NEXT 1 ROW WITH TIES",
            "RANK() OVER (ORDER BY x) <= 4 AND ROW_NUMBER() OVER (ORDER BY x, k) > 3",
        ),
    ],
)
def test_ties_are_those_that_have_the_rank_of_the_last(limit: str, kept: str) -> None:
    found = session().sql(f"SELECT k, x FROM a [UNBOUNDED] ORDER BY x {limit}").final()
    assert found.to_pylist() == duckdb_rows(f"SELECT k, x FROM a QUALIFY {kept} ORDER BY x, k", TABLE)


def test_rows_that_only_come_are_in_order_where_they_are_given_whole(capsys: pytest.CaptureFixture[str]) -> None:
    query = session().sql("SELECT n FROM a WHERE n < 4 ORDER BY n DESC")
    assert query.to_arrow()["n"].to_pylist() == [3, 2, 1, 0]
    assert [row["n"] for row in query] == [0, 1, 2, 3]  # as they become certain
    query.show(2)
    assert capsys.readouterr().out.split() == ["n", "-", "3", "2", "(more", "rows", "follow)"]


def test_every_answer_of_rstream_is_in_order() -> None:
    found = session().sql("SELECT RSTREAM n FROM a [RANGE 2 SECONDS] ORDER BY n DESC EVERY 4 SECONDS").to_arrow()
    assert found["n"].to_pylist() == [0, 4, 3, 2, 8, 7, 6]


def test_what_runs_to_its_end_prints_the_final_answer_in_order(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "a.parquet")
    stream = f"CREATE STREAM a WITH (path='{tmp_path / 'a.parquet'}', time='ts');\n"
    for sql, final in (
        ("SELECT n FROM a WHERE n > 7 ORDER BY n DESC;", []),
        ("SELECT n FROM a WHERE n > 7 ORDER BY n DESC;", ["--final"]),
        ("SELECT DISTINCT n FROM a [ROWS 3] ORDER BY n DESC;", ["--final"]),
    ):
        (tmp_path / "q.sql").write_text(stream + sql)
        run = CliRunner().invoke(app, ["run", str(tmp_path / "q.sql"), "--engine", "local", *final])
        assert [word for word in run.stdout.split() if word.isdecimal()][:3] == ["10", "9", "8"], run.output


def test_an_order_of_a_sink_is_told_to_mean_nothing(tmp_path: Path) -> None:
    made = session()
    sink = f"CREATE SINK s WITH (path='{tmp_path / 'out.json'}') AS "
    with pytest.warns(PlanWarning, match="unused_order: ORDER BY without LIMIT means nothing in sink 's'"):
        made.run(sink + "SELECT n FROM a WHERE n < 3 ORDER BY n DESC")
    assert (tmp_path / "out.json").read_text().splitlines() == ['{"n": 0}', '{"n": 1}', '{"n": 2}']


LISTED = [[2, 1], [2], None, [None], [2, None], [], [1, 9, 9], [2, 1]]


@pytest.mark.parametrize("most", [1, 3, 5])
@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("INTEGER[]", LISTED),
        ("STRUCT(a INTEGER, b TEXT)", [{"a": 1, "b": None}, {"a": 1, "b": "x"}, None, {"a": None, "b": "a"}] * 2),
        ("STRUCT(a INTEGER[], b DOUBLE)[]", [None if one is None else [{"a": one, "b": 0.5}] for one in LISTED]),
    ],
)
def test_a_list_that_is_only_selected_may_stand_beside_a_limit(most: int, column: str, values: list[Any]) -> None:
    """Rows that ORDER BY does not tell apart are in the order of their lists, as DuckDB has it."""
    kind = DUCKDB.sql(f"SELECT NULL::{column} AS l").to_arrow_table().schema.field(0).type
    rows = pa.table(
        {
            "k": [1, 1, 2, 2, 1, 1, 1, 2],
            "l": pa.array(values, kind),
            "ts": [NOON + dt.timedelta(seconds=i) for i in range(8)],
        }
    )
    sql = "SELECT l, k FROM a{} ORDER BY k{} LIMIT " + str(most)
    for part in (rows, rows.slice(2), rows.take(pa.array(range(7, -1, -1)))):
        given = session(part).sql(sql.format(" [UNBOUNDED]", ""))
        assert given.final().to_pylist() == duckdb_rows(sql.format("", ", l"), part)
        assert wm.check(given).equal
