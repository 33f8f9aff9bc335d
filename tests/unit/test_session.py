"""The session and its queries at hand: values in queries, CREATE, scripts, other libraries' forms, how they look."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm

START = datetime(2026, 1, 1)
ROWS = pa.table(
    {
        "k": [1, 2, 3],
        "x": [0.5, 1.5, -2.5],
        "name": ["one", "it's two", "x' OR '1' = '1"],
        "price": pa.array([Decimal("1.50"), Decimal("2.00"), None], pa.decimal128(10, 2)),
        "day": [date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3)],
        "at": pa.array([START + timedelta(hours=hour) for hour in range(3)], pa.timestamp("us", "UTC")),
        "ts": [START + timedelta(seconds=second) for second in range(3)],
    }
)


def session() -> wm.Session:
    made = wm.Session()
    made.stream("s", ROWS, time="ts")
    return made


def keys(text: str, parameters: Any) -> list[int]:
    return [row["k"] for row in session().sql(text, parameters)]


# ---- values in queries ----------------------------------------------------------------------------------------------

VALUES: list[tuple[str, Any, list[int]]] = [
    ("k = :v", 2, [2]),
    ("k = $v", np.int64(2), [2]),
    ("x = :v", -2.5, [3]),
    ("x < :v", float("inf"), [1, 2, 3]),
    ("x > :v", -3, [1, 2, 3]),
    ("name = :v", "it's two", [2]),
    ("name = :v", "x' OR '1' = '1", [3]),
    ("name = :v", "nothing'; DROP", []),
    ("name = :v", ":v ? $v", []),
    ("price = :v", Decimal("1.5"), [1]),
    ("price > :v", Decimal("1.999"), [2]),
    ("day >= :v", date(2026, 1, 2), [2, 3]),
    ("ts > :v", START, [2, 3]),
    ("ts > :v", pd.Timestamp(START), [2, 3]),
    ("ts >= :v", np.datetime64("2026-01-01T00:00:02", "us"), [3]),
    ("at > :v", START.replace(tzinfo=UTC), [2, 3]),
    ("at > :v", datetime(2026, 1, 1, 2, tzinfo=UTC).astimezone(), []),
    ("ts - :v < TIMESTAMP '2026-01-01 00:00:00'", timedelta(seconds=2), [1, 2]),
    ("price IS NULL = :v", True, [3]),
    ("COALESCE(:v, k) = 2", None, [2]),
    ("k IN :v", [1, 3], [1, 3]),
    ("k IN (:v)", (1, 3), [1, 3]),
    ("k NOT IN :v", {1}, [2, 3]),
    ("name IN :v", ["one", "a, b"], [1]),
]


@pytest.mark.parametrize(("condition", "value", "found"), VALUES)
def test_a_value_is_the_constant_of_its_type(condition: str, value: Any, found: list[int]) -> None:
    condition = condition.replace("TIMESTAMP '", "CAST('").replace("00:00:00'", "00:00:00' AS TIMESTAMP)")
    assert keys(f"SELECT k FROM s WHERE {condition}", {"v": value}) == found


def test_values_by_place_by_number_and_by_cast() -> None:
    assert keys("SELECT k FROM s WHERE k > ? AND k < ?", [1, 3]) == [2]
    assert keys("SELECT k FROM s WHERE k > $2 AND k < :1", [3, 1]) == [2]
    assert keys("SELECT k FROM s WHERE k = ?::BIGINT", ["2"]) == [2]
    assert keys("SELECT k FROM s WHERE name = '? :v' OR k = :v -- :w ?\n", {"v": 1}) == [1]


def test_values_stand_wherever_constants_do() -> None:
    text = (
        "SELECT k, COUNT(*) AS n FROM s [RANGE :w] GROUP BY k ORDER BY n DESC, k LIMIT :most OPTIONS (pipeline = :how)"
    )
    query = session().sql(text, {"w": timedelta(seconds=1), "most": 2, "how": "nta"})
    assert query.final().to_pylist() == [{"k": 2, "n": 1}, {"k": 3, "n": 1}]
    assert keys("SELECT k FROM s [ROWS ?]", [2]) == [1, 2, 3]
    assert keys("SELECT s.k FROM s, s AS t WHERE s.k = t.k WINDOW = :n SECONDS", {"n": 1}) == [1, 2, 3]


WRONG: list[tuple[str, Any, str]] = [
    ("k = :kk", {"k": 1}, r"no value for :kk\nline 1: .*\n *\^\^\^\nhint: did you mean :k\?"),
    ("k = :v", None, "no value for :v"),
    ("k = :v", [1], "no value for :v"),
    ("k = ?", {"v": 1}, r"no value for \?"),
    ("k = ? OR k = ?", [1], r"no value for \? number 2: 1 is given"),
    ("k = ?", [1, 2], "value number 2 is given, but the text does not use it"),
    ("k = 1", {"v": 1}, "the value 'v' is given, but the text does not use it"),
    ("k IN :v", {"v": []}, "the list for :v is empty"),
    ("k = :v", {"v": b"1"}, "the value for :v is a bytes"),
    ("k = :v", {"v": object()}, "the value for :v is a object"),
    ("price = :v", {"v": Decimal("1e40")}, "41 digits"),
    ("ts > :v", {"v": pd.Timestamp("2026-01-01 00:00:00.000000001")}, "finer than a microsecond"),
    ("k = :v", "1", "as a dict or a list, not as a str"),
    ("k = :v", {"v": "two"}, "cannot be compared"),
]


@pytest.mark.parametrize(("condition", "values", "words"), WRONG)
def test_a_value_that_is_missing_or_none_of_ours_is_told(condition: str, values: Any, words: str) -> None:
    with pytest.raises(wm.SqlError, match=words):
        session().sql(f"SELECT k FROM s WHERE {condition}", values)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT 1 AS x, 'a' AS y, NULL AS z", [{"x": 1, "y": "a", "z": None}]),
        ("VALUES (1, 2.5), (NULL, 3)", [{"column1": 1, "column2": 2.5}, {"column1": None, "column2": 3.0}]),
        ("SELECT n * n AS n FROM generate_series(1, 5, 2) AS n WHERE n > 1", [{"n": 9}, {"n": 25}]),
        ("SELECT k FROM said UNION ALL SELECT 7", [{"k": 1}, {"k": 2}, {"k": 7}]),
        ("SELECT k FROM said ORDER BY k DESC", [{"k": 2}, {"k": 1}]),
        (
            "SELECT k % 2 AS odd, COUNT(*) AS n FROM said GROUP BY odd ORDER BY odd",
            [{"odd": 0, "n": 1}, {"odd": 1, "n": 1}],
        ),
        ("SELECT COUNT(*) AS n, MAX(k) AS m FROM said WHERE k > 2", [{"n": 0, "m": None}]),
        ("SELECT k FROM said ORDER BY k DESC LIMIT 1", [{"k": 2}]),
        ("SELECT DISTINCT k > 0 AS b FROM said", [{"b": True}]),
        ("SELECT k FROM said EXCEPT SELECT 2", [{"k": 1}]),
        ("SELECT k FROM said INTERSECT ALL VALUES (2), (2)", [{"k": 2}]),
        ("SELECT said.k, n FROM said, generate_series(2, 3) AS n WHERE n = k", [{"k": 2, "n": 2}]),
        (
            "SELECT said.k, n FROM said LEFT JOIN generate_series(2, 3) AS n ON n = k ORDER BY k",
            [{"k": 1, "n": None}, {"k": 2, "n": 2}],
        ),
        ("SELECT k FROM said WHERE k NOT IN (SELECT n FROM generate_series(2, 3) AS n)", [{"k": 1}]),
        ("SELECT k FROM said WHERE k = (SELECT MAX(column1) FROM (VALUES (2), (1)) AS t)", [{"k": 2}]),
        (
            "WITH two AS (SELECT k, RANK() OVER (ORDER BY k DESC) AS r FROM said) SELECT k FROM two WHERE r = 1",
            [{"k": 2}],
        ),
        (
            "SELECT a.n + b.n AS n FROM (SELECT SUM(k) AS n FROM said) AS a, (SELECT COUNT(*) AS n FROM said) AS b",
            [{"n": 5}],
        ),
    ],
)
def test_a_query_over_nothing_but_constants_gives_its_rows_once(text: str, rows: list[dict[str, Any]]) -> None:
    asked = wm.Session().sql(f"CREATE VIEW said (k) AS VALUES (1), (2); {text}")
    assert asked.to_arrow().to_pylist() == rows
    assert asked.final().to_pylist() == rows
    assert wm.check(asked).equal


def test_constants_alone_are_not_pushed_and_have_no_windows() -> None:
    with pytest.raises(wm.SourceError, match="says all the rows that it reads itself, so there is nothing to push"):
        wm.Session().sql("SELECT 1 AS x").start()
    for text in ("TUMBLE((VALUES (1)), 1 MINUTE) AS t GROUP BY window_start", "(VALUES (1)) AS t [RANGE 1 MINUTE]"):
        with pytest.raises(wm.WindowError, match="static table"):
            wm.Session().sql(f"SELECT COUNT(*) FROM {text}")
    with pytest.raises(wm.UnsupportedError, match="over constants that have no rows"):
        wm.Session().sql("SELECT COUNT(*) FROM generate_series(1, 0) AS n")


def test_a_value_is_never_a_name() -> None:
    with pytest.raises(wm.ParseError, match="expected a stream or table"):
        session().sql("SELECT k FROM :v", {"v": "s"})


def test_a_query_with_values_is_checked_and_run_over_other_rows() -> None:
    query = session().sql("SELECT k FROM s WHERE k > :least", {"least": 1})
    assert query.over({"s": ROWS.slice(2)}).to_arrow()["k"].to_pylist() == [3]
    assert wm.check(query).equal
    with pytest.raises(wm.SourceError, match="'x', but the table given for it has none"):
        query.over({"s": ROWS.drop_columns(["x"])})


# ---- CREATE, scripts ------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    pa_parquet.write_table(ROWS, path)
    return path


def test_create_declares_and_a_query_may_follow(file: Path) -> None:
    made = wm.Session()
    declared = made.sql("CREATE STREAM f WITH (path = :path, time = 'ts')", {"path": str(file)})
    assert declared.to_arrow().select(["name", "kind"]).to_pylist() == [{"name": "f", "kind": "stream"}]
    assert repr(declared).startswith("stream f (k BIGINT, x DOUBLE")
    assert len(list(made.sql("SELECT k FROM f"))) == 3
    with pytest.raises(wm.BindError, match="'f' is declared twice"):
        made.sql(f"CREATE STREAM f WITH (path = '{file}', time = 'ts')")
    with pytest.raises(wm.BindError, match="'f' is declared twice"):  # not: there is no stream f
        made.sql("CREATE VIEW f AS SELECT k FROM f; SELECT k FROM f")
    text = f"CREATE OR REPLACE STREAM f WITH (path = '{file}', time = 'ts'); SELECT k FROM f WHERE k = 2"
    assert list(made.sql(text)) == [{"k": 2}]


def test_what_is_created_stays_only_if_all_is_well(file: Path) -> None:
    made = wm.Session()
    with pytest.raises(wm.BindError, match="no column"):
        made.sql(f"CREATE STREAM f WITH (path = '{file}', time = 'ts'); SELECT nothing FROM f")
    assert made.catalog.names() == []


def test_a_stream_created_without_a_source_is_pushed() -> None:
    made = wm.Session()
    query = made.sql("CREATE STREAM p (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', lateness = '1 s'); SELECT k FROM p")
    with query.start() as run:
        run.push("p", {"k": 1, "ts": START})
        assert run.take().to_pylist() == [{"k": 1}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the text is empty"),
        ("SELECT k FROM s; SELECT k FROM s", "found several statements"),
        ("CREATE SINK o WITH (path = 'o.csv') AS SELECT k FROM s", "found CREATE SINK.*\n.*\n.*\nhint: session.run"),
        ("CREATE OR REPLACE SINK o WITH (path = 'o.csv') AS SELECT k FROM s", "a sink is not replaced"),
    ],
)
def test_what_is_no_single_query_is_told(text: str, words: str) -> None:
    with pytest.raises(wm.ParseError, match=words):
        session().sql(text)


def test_a_script_is_run_from_a_file(tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("""
        CREATE TABLE names (k BIGINT, word STRING) WITH (path = :names);
        CREATE SINK found WITH (path = :out) AS SELECT n.word FROM s, names n WHERE s.k = n.k;
        SELECT k FROM s WHERE k > :least;
        EXPLAIN SELECT k FROM s;
    """)
    (tmp_path / "names.csv").write_text("k,word\n2,zwei\n")
    made, out = session(), tmp_path / "out.csv"
    values = {"names": str(tmp_path / "names.csv"), "out": str(out), "least": 2}
    found, query, plan = made.run_file(script, values)
    assert (found.name, found.answer, found.metrics["results"]) == ("found", None, 1)
    assert out.read_text().split() == ['"word"', '"zwei"']
    assert query.answer is not None
    assert query.answer.to_pylist() == [{"k": 3}]
    assert [str(one) for one in (found, query)] == ["found: 1 row", "query 2: 1 row"]
    assert plan.answer is not None
    assert "read stream s" in plan.answer["plan"].to_pylist()[1]
    assert made.catalog.names() == ["s", "names"]
    with pytest.raises(wm.SourceError, match=r"the script .* cannot be read"):
        made.run_file(tmp_path / "none.sql")


def test_the_zone_of_a_session_is_that_of_its_scripts() -> None:
    made = wm.Session(timezone="America/New_York")
    made.stream("s", ROWS, time="ts")
    (outcome,) = made.run("SELECT HOUR(at) AS h FROM s")
    assert outcome.answer is not None
    assert outcome.answer["h"].to_pylist() == [19, 20, 21]


def test_a_name_may_be_used_again() -> None:
    made = session()
    before = made.sql("SELECT k FROM s")
    made.stream("S", ROWS.slice(1), time="ts", replace=True)
    assert len(list(made.sql("SELECT k FROM s"))) == 2
    made.drop("s")
    with pytest.raises(wm.BindError, match="no stream or table"):
        made.sql("SELECT k FROM s")
    assert len(list(before)) == 3
    with pytest.raises(wm.CatalogError, match="no stream, table, view or function 's' to drop"):
        made.drop("s")
    made.table("t", ROWS)
    made.table("t", ROWS, replace=True)
    with pytest.raises(wm.CatalogError, match="declared twice"):
        made.table("t", ROWS)


# ---- forms ----------------------------------------------------------------------------------------------------------


def test_an_answer_comes_in_the_forms_of_other_libraries() -> None:
    query = session().sql("SELECT k, name FROM s")
    assert query.to_pandas()["k"].tolist() == [1, 2, 3]
    assert query.to_polars()["k"].to_list() == [1, 2, 3]
    assert query.to_duckdb().aggregate("sum(k)").fetchall() == [(6,)]
    import duckdb

    assert query.to_duckdb(duckdb.connect()).filter("k > 2").fetchall() == [(3, "x' OR '1' = '1")]
    assert list(query) == query.to_arrow().to_pylist()


@pytest.mark.parametrize("library", ["pandas", "polars", "duckdb"])
def test_a_library_that_is_missing_is_named(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    query = session().sql("SELECT k FROM s")
    with pytest.raises(wm.WatersmeetError, match=rf"to_{library}\(\) needs {library}.*\nhint: pip install"):
        getattr(query, f"to_{library}")()


def test_show_prints_what_fits(capsys: pytest.CaptureFixture[str]) -> None:
    query = session().sql("SELECT k, x, name FROM s")
    query.show(width=80)
    assert capsys.readouterr().out.splitlines() == [
        "k     x  name",
        "-  ----  --------------",
        "1   0.5  one",
        "2   1.5  it's two",
        "3  -2.5  x' OR '1' = '1",
    ]
    query.show(1, width=10)
    assert capsys.readouterr().out.splitlines()[2:] == ["1  0.5", "(more rows follow)", "(1 more column: name)"]
    session().sql("SELECT k FROM s WHERE k > 5").show()
    assert "(no rows)" in capsys.readouterr().out
    session().sql("SELECT COUNT(*) AS n FROM s [RANGE 1 HOUR]").show(final=True)
    assert capsys.readouterr().out.splitlines() == ["n", "-", "3"]
    with pytest.raises(wm.OptionError, match="1 or more, not 0"):
        query.show(0)


def test_show_reads_no_more_than_it_prints() -> None:
    made, read = wm.Session(), []

    def endless() -> Any:
        while True:
            read.append(1)
            yield ROWS.to_batches()[0]

    made.stream("e", endless(), time="ts", lateness="1 hour")
    made.sql("SELECT k FROM e").show(4)
    assert len(read) < 10


def test_what_a_session_and_a_query_are_is_seen() -> None:
    made = session()
    made.table("names", pa.table({"k": [1], "<b>": ["x"]}))
    assert repr(made).splitlines()[::2] == ["<Session>", "  table names (k BIGINT, <b> STRING)"]
    assert "&lt;b&gt; STRING" in made._repr_html_()
    query = made.sql("SELECT s.k, n.k AS other FROM s, names n WHERE s.k = n.k AND s.name <> '<i>'")
    assert repr(query) == "<Query: k BIGINT, other BIGINT; from s, names; show() runs it>"
    assert "&lt;i&gt;" in query._repr_html_()
    assert '<td style="text-align:left; font-variant-numeric:tabular-nums">BIGINT</td>' in query._repr_html_()
    plan = made.sql("EXPLAIN SELECT k FROM s")
    assert repr(plan) == str(plan)
    assert plan._repr_html_().startswith("<pre>select: s.k")
    pushed = wm.Session()
    pushed.stream("p", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    with pushed.sql("SELECT k FROM p").start() as run:
        assert repr(run) == "<Run over p: open, 0 answers to take>"
        assert "rows_in" in run._repr_html_()


def test_what_was_only_declared_says_that_it_is_no_query() -> None:
    declared = wm.Session().sql("CREATE STREAM p (k BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
    assert "<td" in declared._repr_html_()
    for asked in (declared.start, declared.explain, declared.advise):
        with pytest.raises(wm.UnsupportedError, match="CREATE only declares"):
            asked()


def test_on_spark_late_rows_are_counted_and_not_told_by_their_numbers() -> None:
    from watersmeet.hosts.spark.host import SparkHost

    session = wm.Session()
    session.stream("s", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    query = session.sql("SELECT k FROM s")
    query.host = SparkHost.__new__(SparkHost)
    with pytest.raises(wm.UnsupportedError, match="in-process only"):
        query.batches(on_late_rows=lambda name, numbers: None)
