"""The check finds equal what is equal, shows the first instant that is not, and says who recomputed the answer."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from tests.runners import Source, local_query
from tests.scenarios.timeline import timeline
from tests.unit.cli.test_commands import call
from watersmeet.checking.compare import differences, same_rows
from watersmeet.checking.inputs import load
from watersmeet.cli import check as command
from watersmeet.hosts.local.host import LocalHost
from watersmeet.plan.query import Plan
from watersmeet.reference.join import answer
from watersmeet.runtime.clock import OnLateRows
from watersmeet.runtime.metrics import Metrics

EPOCH = datetime(1970, 1, 1)
HALF_OPEN = "OPTIONS (boundary = 'half_open')"
Log = Sequence[tuple[str, float, Any]]


def query(sql: str, sources: Sequence[Source]) -> wm.Query:
    session = wm.Session()
    for source in sources:
        if source.time is None:
            session.table(source.name, source.table)
        else:
            session.stream(source.name, source.table, time=source.time, lateness=source.lateness)
    return session.sql(sql)


def by_reference(asked: wm.Query) -> pa.Table:
    """A stand-in for an engine that is right."""
    return as_table(asked, answer(asked.plan, load(asked.plan)))


def as_table(asked: wm.Query, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = [pa.array([row[k] for row in rows], field.type) for k, field in enumerate(asked.schema)]
    return pa.table(columns, schema=asked.schema)


def saying(log: Log) -> Callable[[wm.Query], pa.Table]:
    """A stand-in for an engine that says this: op, second and value of a single column."""
    return lambda asked: as_table(asked, [(op, EPOCH + timedelta(seconds=at), value) for op, at, value in log])


STREAMS = "a: 1@0 2@1 1@2 -@3 5@9\nb: 1@1 2@1 2@5"
QUERIES = [
    "SELECT a.v, b.id FROM a, b WHERE a.v = b.v WINDOW = 3 SECONDS",
    "SELECT a.id AS a, b.id AS b FROM a [ROWS 2], b [RANGE 3 SECONDS] WHERE a.v <= b.v",
    "SELECT DISTINCT v FROM a [RANGE 3 SECONDS]",
    "SELECT v, COUNT(*) AS n, LAST(id) AS newest FROM a [RANGE 3 SECONDS] GROUP BY v HAVING COUNT(*) < 3",
    "SELECT AVG(t) AS mean, STDDEV(t) AS spread, PERCENTILE(t, 0.3) AS p, SUM(t) / 3 AS third FROM a [ROWS 3]",
    "SELECT v FROM a [RANGE 3 SECONDS] EXCEPT ALL SELECT v FROM b [RANGE 2 SECONDS]",
    "SELECT ISTREAM v, COUNT(*) AS n FROM a [RANGE 3 SECONDS] GROUP BY v",
    "SELECT DSTREAM a.v, b.v AS w FROM a [RANGE 3 SECONDS], b [RANGE 1 SECOND]",
    "SELECT RSTREAM v, id FROM a [RANGE 3 SECONDS] ORDER BY v LIMIT 2 EVERY 1 SECOND",
    "SELECT x.v, b.id FROM (SELECT DISTINCT v FROM a [RANGE 3 SECONDS]) x, b [RANGE 2 SECONDS] WHERE x.v = b.v",
    "SELECT ts, ts - TIMESTAMP '1970-01-01' AS age, DATE_TRUNC('minute', ts) AS m FROM a [NOW] "
    "UNION SELECT ts, ts - ts, ts FROM b [NOW]",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_what_is_right_is_found_equal(sql: str) -> None:
    report = wm.check(query(sql, timeline(STREAMS)), run=by_reference)
    assert report.equal, str(report)
    assert report.by == "DuckDB"
    assert report.rows > 0
    assert dict(report.rows_in)["a"] == 5
    assert str(report).startswith("equal")


@pytest.mark.parametrize("sql", QUERIES[:2])
def test_the_engine_is_checked_for_real(sql: str) -> None:
    assert wm.check(query(sql, timeline(STREAMS))).equal


@pytest.mark.parametrize(
    "sql",
    ["SELECT v, n FROM counts", "SELECT * FROM CHANGES(counts)", "SELECT a.v, name FROM a JOIN names ON names.k = a.v"],
)
def test_a_query_that_names_views_is_checked(sql: str) -> None:
    asked = query(
        "CREATE VIEW names (k, name) AS VALUES (1, 'one'); "
        "CREATE VIEW counts AS SELECT v, COUNT(*) AS n FROM a [RANGE 2 SECONDS] GROUP BY v; " + sql,
        timeline(STREAMS),
    )
    assert wm.check(asked).equal


def test_nothing_at_all_is_equal_to_nothing() -> None:
    empty = [Source(source.name, source.table.slice(0, 0)) for source in timeline(STREAMS)]
    for sql in QUERIES:
        report = wm.check(query(sql, empty), run=by_reference)
        assert report.equal
        assert report.rows == 0


# ---- what is wrong is found -----------------------------------------------------------------------------------------


def test_h04_figure_2_voluntary_expiry_is_caught_where_it_says_8() -> None:
    """The rows 5 and 7 are still on their way when the operator's own clock expires what it has."""
    sources = timeline("s: 5@0 8@1 2@2 3@3 1@4 7@5 2@6")
    asked = query(f"SELECT SUM(v) AS total FROM s [RANGE 6 SECONDS] WHERE v > 4 {HALF_OPEN}", sources)
    log = [("+", 0, 5), ("-", 1, 5), ("+", 1, 13), ("-", 6, 13), ("+", 6, 8), ("-", 7, 8), ("+", 8, 7), ("-", 11, 7)]
    report = wm.check(asked, run=saying(log))
    assert report.difference is not None
    assert report.difference.at_us == 5_000_000
    assert report.difference.engine == ((13,),)
    assert report.difference.expected == ((20,),)


def test_h04_minus_as_printed_line_5_leaves_a_row_behind() -> None:
    asked = query(
        f"SELECT v FROM s [RANGE 10 SECONDS] EXCEPT ALL SELECT v FROM r [RANGE 10 SECONDS] {HALF_OPEN}",
        timeline("s: 1@1 1@3\nr: 1@2"),
    )
    right = [("+", 1, 1), ("-", 2, 1), ("+", 3, 1), ("-", 11, 1), ("+", 12, 1), ("-", 13, 1)]
    assert wm.check(asked, run=saying(right)).equal
    printed = [change for change in right if change[1] not in (11, 12)]
    report = wm.check(asked, run=saying(printed))
    assert report.difference is not None
    assert (report.difference.at_us, report.difference.engine, report.difference.expected) == (11_000_000, ((1,),), ())


def test_h04_minus_as_printed_line_31_never_takes_a_row_back() -> None:
    asked = query(
        f"SELECT v FROM s [RANGE 10 SECONDS] EXCEPT ALL SELECT v FROM r [RANGE 10 SECONDS] {HALF_OPEN}",
        timeline("s: 2@-1 1@0 3@1 5@3\nr: 5@-6 1@2"),
    )
    printed = [
        ("+", -1, 2),
        ("+", 0, 1),
        ("+", 1, 3),
        ("+", 4, 5),
        ("-", 9, 2),
        ("-", 10, 1),
        ("-", 11, 3),
        ("-", 13, 5),
    ]
    report = wm.check(asked, run=saying(printed))
    assert report.difference is not None
    assert report.difference.at_us == 2_000_000
    assert sorted(report.difference.expected) == [(2,), (3,)]


def test_h04_distinct_as_printed_shows_two_copies() -> None:
    asked = query(f"SELECT DISTINCT v FROM s [RANGE 5 SECONDS] {HALF_OPEN}", timeline("s: 1@1 1@3"))
    netted = [("+", 1, 1), ("-", 6, 1), ("+", 6, 1), ("-", 8, 1)]
    assert wm.check(asked, run=saying(netted)).equal
    report = wm.check(asked, run=saying([change for change in netted if change != ("-", 6, 1)]))
    assert report.difference is not None
    assert (report.difference.at_us, report.difference.engine) == (6_000_000, ((1,), (1,)))


@pytest.mark.parametrize(
    ("log", "second"),
    [
        ([], 0),
        ([("+", 0, 1), ("-", 4, 1)], 3.000001),
        ([("+", 0, 1), ("+", 2, 7), ("-", 2.5, 7), ("-", 3.000001, 1)], 2),
        ([("+", 0, 1), ("-", 3.000001, 1), ("-", 8, 1)], 8),
        ([("+", 0, 1), ("+", 0, 1), ("-", 3.000001, 1), ("-", 3.000001, 1)], 0),
    ],
    ids=["nothing said", "left too late", "where nothing happens", "left twice", "one copy too many"],
)
def test_the_first_wrong_instant_is_shown(log: Log, second: float) -> None:
    report = wm.check(query("SELECT DISTINCT v FROM a [RANGE 3 SECONDS]", timeline("a: 1@0")), run=saying(log))
    assert report.difference is not None
    assert report.difference.at_us == round(second * 1_000_000)


def test_a_join_that_lost_a_row_is_different() -> None:
    asked = query(QUERIES[0], timeline(STREAMS))
    report = wm.check(asked, run=lambda q: by_reference(q).slice(1))
    assert not report.equal
    assert report.difference is not None
    assert len(report.difference.engine) == len(report.difference.expected) - 1


@pytest.mark.parametrize("number", range(2, len(QUERIES)))
def test_a_log_that_lost_its_last_row_is_different(number: int) -> None:
    asked = query(QUERIES[number], timeline(STREAMS))
    assert not wm.check(asked, run=lambda q: by_reference(q)[:-1]).equal


def test_a_report_shows_both_answers_within_80_columns() -> None:
    asked = query("SELECT v, id || ' and some more words to fill the line' AS text FROM a [ROWS 40] UNION SELECT v, id "
                  "FROM a [NOW]", timeline("a: " + " ".join(f"{k}@{k}" for k in range(50))))  # fmt: skip
    report = wm.check(asked, run=lambda q: by_reference(q)[:90])
    text = str(report)
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("different at 1970-01-01 00:00:")
    assert "the engine" in text
    assert "≠" in text
    assert "more lines" in text


# ---- who recomputes -------------------------------------------------------------------------------------------------

ROUGH = [
    "SELECT v FROM a [RANGE 3 SECONDS] GROUP BY v HAVING SUM(t) > 0.3",
    "SELECT n FROM (SELECT AVG(t) AS n FROM a [RANGE 3 SECONDS]) x",
    "SELECT ISTREAM STDDEV(v) AS n FROM a [RANGE 3 SECONDS]",
    "SELECT DISTINCT TRY_CAST(CAST(t AS STRING) AS DATE) AS day FROM a [NOW]",
]


@pytest.mark.parametrize("sql", ROUGH)
def test_what_duckdb_computes_only_nearly_or_not_at_all_is_left_to_the_reference(sql: str) -> None:
    report = wm.check(query(sql, timeline(STREAMS)), run=by_reference)
    assert report.equal
    assert report.by == "the reference"
    assert "DuckDB was not used because of" in str(report)


def test_what_duckdb_fails_on_is_left_to_the_reference() -> None:
    sql = "SELECT STRFTIME(ts, '%F') AS day FROM a [NOW] UNION ALL SELECT STRFTIME(ts, '%T') FROM a [NOW]"
    report = wm.check(query(sql, timeline(STREAMS)), run=by_reference)
    assert report.equal
    assert report.by == "the reference"
    assert "its error" in str(report)


@pytest.mark.parametrize("word", ["", "RSTREAM "])
def test_where_duckdbs_floating_sums_are_off_the_reference_decides(word: str) -> None:
    values = [1e16, 1.0, -1e16, 0.1, 3e-20, 1e308, 1e308, -1e308]
    table = pa.table({"x": values * 3, "ts": pa.array(range(0, 24_000_000, 1_000_000), pa.timestamp("us"))})
    every = " EVERY 1 SECOND" if word else ""
    asked = query(f"SELECT {word}AVG(x) AS mean, SUM(x) AS total FROM a [ROWS 7]{every}", [Source("a", table)])
    report = wm.check(asked, run=by_reference)
    assert report.equal, str(report)
    assert report.by == "DuckDB"
    assert report.settled > 0
    assert "the reference decided" in str(report)
    assert not wm.check(asked, run=lambda q: by_reference(q)[:-1]).equal


def test_values_of_every_type_survive_the_way_through_duckdb() -> None:
    times = pa.array([0, 1_000_000], pa.timestamp("us"))
    table = pa.table({
        "i8": pa.array([1, None], pa.int8()), "u64": pa.array([2**63, 1], pa.uint64()),
        "f32": pa.array([0.1, None], pa.float32()), "f": pa.array([float("nan"), float("inf")]),
        "d": pa.array([Decimal("1.25"), None], pa.decimal128(20, 2)), "day": pa.array([None, 3], pa.date32()),
        "zoned": times.cast(pa.timestamp("us", tz="UTC")), "gap": pa.array([5, None], pa.duration("us")),
        "flag": [True, None], "bytes": [b"x", None], "text": ["ä", None], "ts": times,
    })  # fmt: skip
    asked = query("SELECT * FROM x [RANGE 2 SECONDS] UNION ALL SELECT * FROM x [NOW]", [Source("x", table)])
    report = wm.check(asked, run=by_reference)
    assert report.equal, str(report)
    assert report.by == "DuckDB"


def test_columns_named_like_those_of_the_check_do_no_harm() -> None:
    table = pa.table({
        "i": [1, 2], "newest": [1, 1], "next": [1, 1], "at": [1, 2], 'quo"ted': [1, 1],
        "ts": pa.array([0, 1_000_000], pa.timestamp("us")),
    })  # fmt: skip
    columns = """i.i, i.newest, i.next, i.at, i."quo""ted" """
    sql = f"SELECT ISTREAM {columns}, COUNT(*) AS copy FROM x [NOW] AS i GROUP BY 1, 2, 3, 4, 5"
    assert wm.check(query(sql, [Source("x", table)]), run=by_reference).equal


def test_without_duckdb_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "watersmeet.checking.recompute.find_spec", lambda name: None if name == "duckdb" else found(name)
    )
    with pytest.raises(wm.WatersmeetError, match=r"watersmeet\[check\]"):
        wm.check(query(QUERIES[0], timeline(STREAMS)))


# ---- inputs ---------------------------------------------------------------------------------------------------------


def test_a_sample_takes_the_first_rows_of_streams_and_all_of_tables() -> None:
    sources = [*timeline(STREAMS), Source("names", pa.table({"v": [1, 2, 3, 4]}), time=None)]
    sql = "SELECT DISTINCT a.v FROM a [NOW], names WHERE a.v = names.v"
    report = wm.check(query(sql, sources), sample=2, run=by_reference)
    assert dict(report.rows_in) == {"a": 2, "names": 4}


def test_inputs_that_flow_once_are_read_once() -> None:
    (source,) = timeline("a: 1@0 2@1")
    session = wm.Session()
    session.stream("a", source.table.to_reader(), time="ts")
    assert wm.check(session.sql("SELECT v FROM a WHERE v > 1")).equal


def test_an_input_without_end_needs_a_sample() -> None:
    (source,) = timeline("a: 1@0 2@1")

    def forever() -> Any:
        while True:
            yield source.table.to_batches()[0]

    session = wm.Session()
    session.stream("a", forever(), time="ts", lateness="1 second")
    asked = session.sql("SELECT v FROM a WHERE v > 1")
    assert wm.check(asked, sample=5).rows == 2


@pytest.mark.parametrize("in_arrival_order", [True, False])
def test_rows_out_of_order_are_read_in_time_order_so_none_is_late(
    monkeypatch: pytest.MonkeyPatch, in_arrival_order: bool
) -> None:
    monkeypatch.setattr(LocalHost, "in_arrival_order", in_arrival_order)
    report = wm.check(query("SELECT v FROM a WHERE v > 0", timeline("a: 1@5 2@1 3@4 4@6", a="1 second")))
    assert (report.equal, dict(report.rows_in), report.rows) == (True, {"a": 4}, 4)


def test_an_answer_over_rows_of_which_some_were_late_is_checked_over_the_others() -> None:
    asked = local_query("SELECT v FROM a WHERE v > 0", timeline("a: 1@5 2@1 3@4 4@6", a="1 second"))
    report = wm.check(asked)
    assert (report.equal, dict(report.rows_in), report.rows) == (True, {"a": 3}, 3)
    assert report.late == {"a": 1}
    assert "Late rows are in neither answer (1 of a)" in str(report)


def test_columns_that_differ_only_in_case_are_left_to_the_reference() -> None:
    table = pa.table({"k": [1], "K": [2], "ts": pa.array([0], pa.timestamp("us"))})
    report = wm.check(query('SELECT DISTINCT "K" FROM x [NOW]', [Source("x", table)]), run=by_reference)
    assert (report.equal, report.by) == (True, "the reference")


@pytest.mark.parametrize(
    ("sql", "shared"),
    [
        ("SELECT DISTINCT v FROM a [NOW]", ()),
        ("SELECT v FROM a [NOW] WHERE v > (SELECT AVG(v) FROM a [RANGE 1 SECOND] b)", ("subqueries as joins",)),
        ("SELECT v FROM a [NOW] WHERE v IN (SELECT v FROM a b [NOW])", ("EXISTS and IN as joins",)),
        ("SELECT x, COUNT(*) OVER (ORDER BY ts) AS n FROM a, UNNEST(SPLIT('a b', ' ')) AS t (x)", ("OVER", "UNNEST")),
    ],
)  # fmt: skip
def test_what_both_answers_go_by_is_told(sql: str, shared: tuple[str, ...]) -> None:
    report = wm.check(query(sql, timeline("a: 1@5 2@6")))
    assert report.equal, str(report)
    assert report.shared == shared
    assert ("Both answers share one reading of the text" in str(report)) == bool(shared)


def test_progress_counts_the_instants() -> None:
    seen: list[tuple[int, int]] = []
    asked = query(QUERIES[2], timeline(STREAMS))
    report = wm.check(asked, run=by_reference, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(k + 1, report.instants) for k in range(report.instants)]


# ---- comparing ------------------------------------------------------------------------------------------------------


def test_bags_are_equal_up_to_the_last_digits_of_floats() -> None:
    assert same_rows([(1, 0.1 + 0.2), (1, None)], [(1, None), (1, 0.3)])
    assert same_rows([(float("nan"),)], [(float("nan"),)])
    assert not same_rows([(1, 0.3)], [(1, 0.3001)])
    assert not same_rows([(1,), (1,)], [(1,)])
    assert not same_rows([(1,), (2,)], [(1,), (1,)])
    assert not same_rows([(None,)], [(0,)])
    assert differences([(1,), (2,)], [(2,), (3,)]) == ([(1,)], [(3,)])


# ---- the command ----------------------------------------------------------------------------------------------------

SCRIPT = """
CREATE STREAM a WITH (path='a.parquet', time='ts');
CREATE STREAM b WITH (path='b.parquet', time='ts');
SELECT a.id AS a, b.id AS b FROM a, b WHERE a.v = b.v WINDOW = 3 SECONDS;
CREATE SINK all_of_a WITH (sink='parquet', path='never_written.parquet') AS SELECT v FROM a WHERE v > 1;
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for source in timeline(STREAMS):
        pa_parquet.write_table(source.table, f"{source.name}.parquet")
    path = tmp_path / "script.sql"
    path.write_text(SCRIPT)
    return path


def test_the_command_checks_every_query_and_writes_nothing(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", str(script)) == 0
    out = capsys.readouterr().out
    assert out.startswith("query 1: equal, 3 rows compared; recomputed by DuckDB")
    assert "\nall_of_a: equal, 2 rows compared" in out
    assert max(map(len, out.splitlines())) <= 80
    assert not (script.parent / "never_written.parquet").exists()


def test_the_command_takes_a_sample(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", str(script), "--sample", "2", "--quiet") == 0
    assert "(2 of a, 2 of b)" in capsys.readouterr().out.replace("\n", " ")


def test_the_command_fails_with_1_where_a_query_is_wrong(
    script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = command.check
    monkeypatch.setattr(command, "check", lambda *a, **k: wrong(*a, run=lambda q: by_reference(q).slice(1), **k))
    assert call("check", str(script)) == 1
    out = capsys.readouterr().out
    assert "query 1: different; recomputed by DuckDB" in out
    assert "all_of_a: different" in out


def test_the_queries_of_a_script_run_where_they_are_told_to(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Elsewhere(LocalHost):
        runs = 0

        def batches(
            self, plan: Plan, batch_rows: int, metrics: Metrics, on_late_rows: OnLateRows | None = None
        ) -> Iterator[pa.RecordBatch]:
            self.runs += 1
            return super().batches(plan, batch_rows, metrics, on_late_rows)

    host = Elsewhere()
    assert command.check_script(SCRIPT, 4, host, sys.stdout, quiet=True)
    assert host.runs == 2


def test_the_command_points_at_mistakes(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.write_text(SCRIPT.replace("v > 1", "w > 1"))
    assert call("check", str(script)) == 2
    assert "there is no column w" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["SEMI", "ANTI", "LEFT"])
def test_a_column_may_be_called_as_an_input_is(kind: str) -> None:
    rows = pa.table({"k": [1, 2], "b": [True, False], "ts": [EPOCH, EPOCH + timedelta(seconds=1)]})
    sources = [Source(name, rows) for name in "xy"]
    asked = query(
        f"SELECT b.k, b.b FROM x AS b {kind} JOIN y AS c ON b.k < c.k AND ABS(b.ts - c.ts) <= 1 SECOND", sources
    )
    report = wm.check(asked)
    assert (report.equal, report.by) == (True, "DuckDB")
