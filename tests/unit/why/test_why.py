"""Why rows did not meet: every reason that there is, and never one where they met."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import watersmeet as wm
from watersmeet.cli.commands import app
from watersmeet.errors import WatersmeetError
from watersmeet.why.asked import parse_rows

SECOND_US = 1_000_000


def stream(ids: list[int], keys: list[int | None], seconds: list[float]) -> pa.Table:
    times = pa.array([int(at * SECOND_US) for at in seconds], pa.timestamp("us"))
    return pa.table({"id": pa.array(ids, pa.int64()), "k": pa.array(keys, pa.int64()), "ts": times})


def session_of(**tables: pa.Table) -> wm.Session:
    session = wm.Session()
    for name, table in tables.items():
        session.stream(name, table, time="ts", read="arrival")
    return session


A = stream([1, 2, 3, 4], [7, 7, None, 7], [0, 5, 6, 30])
B = stream([1, 2, 3], [7, 8, 7], [2, 4, 20])


PAIR = "SELECT a.id FROM a, b WHERE a.k = b.k WINDOW = 10 SECONDS"
TOLD = [
    (PAIR, (1, 1), [], "they meet"),
    (PAIR, (1, 2), ["condition"], "7 on the left, 8 on the right"),
    (PAIR, (3, 1), ["condition"], "is NULL, which is not true"),
    ("SELECT a.id FROM a JOIN (VALUES (7), (8)) AS b (k) ON a.k = b.k", (1, 1), [], "they meet"),
    ("SELECT a.id FROM a JOIN (VALUES (7), (8)) AS b (k) ON a.k = b.k", (1, 2), ["condition"], "8 on the right"),
    (PAIR, (1, 3), ["window"], "b is 20 s later than a, 10 s too much"),
    (PAIR.replace("WINDOW", "AND a.id > 5 WINDOW"), (1, 3), ["condition", "window"], "a.id > 5"),
    ("SELECT a.id FROM a, b WHERE a.k = b.k DWINDOW (b, a) = 9 SECONDS", (1, 1), ["window"], "b is 2 s later than a"),
    ("SELECT a.id FROM a [RANGE 1 SECONDS], b [NOW] WHERE a.k = b.k", (1, 1), ["window"], "a [RANGE 1 s]: b is 2 s"),
    ("SELECT a.id FROM a [ROWS 1], b [RANGE 1 MINUTE] WHERE a.k = b.k", (1, 3), ["expired"], "2 rows had come after"),
    ("SELECT COUNT(*) AS n FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k", (1, 1), [], "they meet"),
    (
        "SELECT a.id FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + 5 SECONDS",
        (1, 3),
        ["window"],
        "15 s too much",
    ),
]


@pytest.mark.parametrize(("sql", "rows", "kinds", "words"), TOLD)
def test_what_keeps_rows_apart_is_told(sql: str, rows: tuple[int, int], kinds: list[str], words: str) -> None:
    found = session_of(a=A, b=B).sql(sql).why(dict(zip("ab", rows, strict=True)))
    assert [one.kind for one in found.reasons] == kinds
    assert found.met == (not kinds)
    assert words in str(found)


def test_a_row_that_came_too_late_is_told() -> None:
    late = stream([1, 2, 3], [7, 7, 7], [0, 50, 1])
    query = session_of(a=late).sql("SELECT x.id FROM a x, a y WHERE x.k = y.k WINDOW = 10 SECONDS")
    found = query.why({"x": 3, "y": 1})
    assert [one.kind for one in found.reasons] == ["late"]
    assert "x: its row came too late" in str(found)


def test_rows_that_bounded_memory_let_go_of_are_told() -> None:
    count = 200
    rng = np.random.default_rng(1)
    tables = {name: stream([*range(count)], rng.integers(0, 50, count).tolist(), [*range(count)]) for name in "ab"}
    sql = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 150 SECONDS"
    session = session_of(**tables)
    exact = {(one["x"], one["y"]) for one in session.sql(sql).to_arrow().to_pylist()}
    bounded = session.sql(f"{sql} OPTIONS (memory = '20 rows', shed = 'age')")
    given = {(one["x"], one["y"]) for one in bounded.to_arrow().to_pylist()}
    lost = min(exact - given)
    found = bounded.why({"a": {"id": lost[0]}, "b": {"id": lost[1]}})
    assert [one.kind for one in found.reasons] == ["forgotten"]
    kept = min(given)
    assert bounded.why({"a": {"id": kept[0]}, "b": {"id": kept[1]}}).met


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 3 SECONDS",
        "SELECT a.id AS x, b.id AS y FROM a [RANGE 2 SECONDS], b [RANGE 4 SECONDS] WHERE a.k <= b.k "
        "OPTIONS (boundary = 'half_open')",
        "SELECT a.id AS x, b.id AS y FROM a [ROWS 3], b [PARTITION BY k ROWS 1] WHERE a.k = b.k",
        "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k + b.k > 2 WINDOW PATH (a, b) = (2 SECONDS)",
    ],
)
def test_what_is_said_of_every_pair_is_what_the_engine_gives(sql: str) -> None:
    rng = np.random.default_rng(len(sql))
    session = wm.Session()
    for name in "ab":
        keys = [None if one == 3 else int(one) for one in rng.integers(0, 4, 12)]
        session.stream(name, stream([*range(12)], keys, np.sort(rng.integers(0, 12, 12)).tolist()), time="ts")
    query = session.sql(sql)
    given = {(one["x"], one["y"]) for one in query.to_arrow().to_pylist()}
    for x in range(12):
        for y in range(12):
            found = query.why({"a": x + 1, "b": {"id": y}})
            assert found.met == ((x, y) in given), str(found)
            assert found.met != bool(found.reasons)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"a": 1}, "no row of b is given"),
        ({"a": 1, "c": 1}, "c is not in FROM"),
        ({"a": 99, "b": 1}, "a has 4 rows, and no row 99"),
        ({"a": {"k": 7}, "b": 1}, "3 rows of a have k = 7"),
        ({"a": {"id": 77}, "b": 1}, "no row of a has id = 77"),
        ({"a": {"idd": 7}, "b": 1}, "a has no column 'idd'"),
        ({"a": {"id": "seven"}, "b": 1}, "^'seven' is no value of a.id, which is BIGINT$"),
        ({"a": {"id": 2**70}, "b": 1}, "is no value of a.id, which is BIGINT$"),
        ({"a": {}, "b": 1}, "{} names no row of a\nhint: write {'a': 17}"),
        ({"a": True, "b": 1}, "True names no row of a"),
        ({"a": "1", "b": 1}, "'1' names no row of a"),
        ({"a": {1: 1}, "b": 1}, "names no row of a"),
        ({"a": 1, "A": 2, "b": 1}, "a is asked for twice"),
        ({1: 1}, "rows are named by a dict"),
        (None, "rows are named by a dict, with a row for each input, not by None"),
    ],
)
def test_rows_that_are_not_there_are_told(rows: dict[str, object], message: str) -> None:
    query = session_of(a=A, b=B).sql("SELECT a.id FROM a, b WHERE a.k = b.k WINDOW = 10 SECONDS")
    with pytest.raises(WatersmeetError, match=message):
        query.why(rows)  # type: ignore[arg-type]


@pytest.mark.parametrize("written", ["a:1,b:1,a:2", "a.id=1,b:1,a:2", "a:2,a.id=1,b:1", "a.id=1,a.id=2,b:1"])
def test_a_row_that_is_asked_for_twice_is_told(written: str) -> None:
    with pytest.raises(WatersmeetError, match="is asked for twice"):
        parse_rows([written])


def test_the_command_tells_it(tmp_path: Path) -> None:
    for name, table in (("a", A), ("b", B)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    script = tmp_path / "q.sql"
    script.write_text(
        f"CREATE STREAM a WITH (path='{tmp_path}/a.parquet', time='ts');"
        f"CREATE STREAM b WITH (path='{tmp_path}/b.parquet', time='ts');"
        "SELECT a.id FROM a, b WHERE a.k = b.k WINDOW = 10 SECONDS;"
    )
    told = CliRunner().invoke(app, ["why", str(script), "--rows", "a:1,b.id=3"])
    assert told.exit_code == 0, told.output
    assert "b is 20 s later than a, 10 s too much" in told.output
    as_json = CliRunner().invoke(app, ["why", str(script), "--rows", "a:1", "--rows", "b:1", "--format", "json"])
    assert '"met": true' in as_json.output


# ---- two of three inputs --------------------------------------------------------------------------------------------

THREE = (
    "SELECT a.id FROM a, b, c WHERE a.k = b.k AND b.k = c.k DWINDOW (a, b) = 5 SECONDS AND DWINDOW (b, c) = 5 SECONDS"
)


def three() -> wm.Query:
    c = stream([1, 2, 3], [7, 9, 7], [4, 5, 26])
    return session_of(a=A, b=B, c=c).sql(THREE)


@pytest.mark.parametrize(
    ("rows", "kinds", "words"),
    [
        ({"a": 1, "b": 1}, [], "c, row 1: id 1, k 7"),
        ({"a": 1, "c": 1}, [], "b, row 1: id 1, k 7"),
        ({"a": 1, "b": 2}, ["condition"], "7 on the left, 8 on the right"),
        ({"b": 1, "c": 3}, ["window"], "c is 24 s later than b, 19 s too much"),
        ({"a": 1, "c": 3}, ["window"], "all windows together: c is 26 s later than a, 16 s too much"),
        ({"b": 3, "c": 1}, ["window"], "b is 16 s later than c"),
        ({"a": 2, "c": 1}, ["window"], "a is 1 s later than c"),
        ({"a": {"id": 4}, "c": {"id": 1}}, ["window"], "a is 26 s later than c"),
    ],
)
def test_two_of_three_inputs_are_enough(rows: dict[str, int], kinds: list[str], words: str) -> None:
    found = three().why(rows)
    assert [one.kind for one in found.reasons] == kinds, str(found)
    assert (found.met, words in str(found)) == (not kinds, True), str(found)
    assert found.met == (set(found.rows) == {"a", "b", "c"})


def test_rows_that_nothing_keeps_apart_but_that_no_third_joins_are_told_so() -> None:
    query = session_of(a=A, b=B, c=stream([1], [99], [4])).sql(THREE)
    found = query.why({"a": 1, "b": 1})
    assert [one.kind for one in found.reasons] == ["partner"]
    assert "nothing keeps a and b apart, but no row of c meets them" in str(found)


def test_what_is_said_of_two_of_three_is_what_the_engine_gives() -> None:
    rng = np.random.default_rng(3)
    session = wm.Session()
    for name in "abc":
        keys = rng.integers(0, 3, 8).tolist()
        session.stream(name, stream([*range(8)], keys, np.sort(rng.integers(0, 12, 8)).tolist()), time="ts")
    sql = (
        "SELECT a.id AS x, b.id AS y, c.id AS z FROM a, b [ROWS 3], c WHERE a.k = b.k AND b.k <= c.k WINDOW = 4 SECONDS"
    )
    query = session.sql(sql)
    given = query.to_arrow().to_pylist()
    for first, second, columns in (("a", "b", "xy"), ("b", "c", "yz"), ("a", "c", "xz")):
        together = {tuple(one[column] for column in columns) for one in given}
        for one in range(8):
            for other in range(8):
                found = query.why({first: one + 1, second: other + 1})
                assert found.met == ((one, other) in together), str(found)
                assert found.met != bool(found.reasons)
