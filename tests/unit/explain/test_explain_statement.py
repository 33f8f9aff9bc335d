"""EXPLAIN as a statement: in a session, and in a script."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from watersmeet.cli.commands import app
from watersmeet.errors import ParseError, UnsupportedError
from watersmeet.runtime.script import read_script
from watersmeet.session import Session

JOIN = "SELECT x.k FROM s x, s y WHERE x.k = y.k WINDOW = 5 SECONDS"
ROWS = pa.table({"k": [1, 2, 1], "ts": [dt.datetime(2026, 1, 1, 0, 0, second) for second in range(3)]})


def session() -> Session:
    made = Session()
    made.stream("s", ROWS, time="ts")
    return made


def script(folder: Path, queries: str) -> Path:
    pq.write_table(ROWS, folder / "s.parquet")
    file = folder / "script.sql"
    file.write_text(f"CREATE STREAM s WITH (path = '{folder}/s.parquet', time = 'ts');\n{queries}")
    return file


def test_it_gives_the_plan_of_the_query_line_by_line() -> None:
    plan = session().explain(JOIN)
    told = session().sql(f"EXPLAIN {JOIN}")
    assert str(told) == plan.rstrip("\n")
    assert told.schema.names == told.to_arrow().schema.names == ["plan"]
    assert told.to_arrow()["plan"].to_pylist() == told.final()["plan"].to_pylist() == plan.splitlines()


def test_with_analyze_a_sample_is_measured() -> None:
    told = str(session().sql(f"EXPLAIN ANALYZE {JOIN}"))
    assert "measured over 3 rows" in told


def test_a_measured_rate_is_the_mean_over_the_sample_not_that_of_its_end() -> None:
    """Ten rows a second for a minute, then one a second for another; windows are of a second."""
    seconds = [i / 10 for i in range(600)] + [60.0 + i for i in range(60)]
    at = pa.array([int(second * 1_000_000) for second in seconds], pa.timestamp("us"))
    made = Session()
    for name in ("a", "b"):
        made.stream(name, pa.table({"k": range(len(seconds)), "ts": at}), time="ts")
    join = "SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND"
    for sql in (join, f"SELECT COUNT(*) AS n FROM ({join}) [RANGE 1 SECOND] AS j"):
        inputs = json.loads(made.sql(sql).explain(analyze=True, sample=1_320, format="json"))
        rates = [one["rate"] for one in parts_named(inputs, "inputs") if "rate" in one]
        assert rates == pytest.approx([660 / 119] * len(rates), rel=0.02), sql
        assert rates


def parts_named(told: object, name: str) -> list[dict[str, float]]:
    """What stands under a name anywhere in a plan."""
    if isinstance(told, list):
        return [one for part in told for one in parts_named(part, name)]
    if not isinstance(told, dict):
        return []
    own = told.get(name)
    here = list(own.values()) if isinstance(own, dict) else []
    return here + [one for part in told.values() for one in parts_named(part, name)]


@pytest.mark.parametrize("options", ["(FORMAT JSON)", "(ANALYZE, FORMAT JSON)", "(FORMAT JSON, ANALYZE)"])
def test_it_is_told_to_programs_too(options: str) -> None:
    told = json.loads("\n".join(session().sql(f"EXPLAIN {options} {JOIN}").to_arrow()["plan"].to_pylist()))
    assert ("measured" in told) == ("ANALYZE" in options)


def test_a_query_in_parentheses_is_explained_as_it_is_without() -> None:
    assert str(session().sql(f"EXPLAIN ({JOIN})")) == str(session().sql(f"EXPLAIN {JOIN}"))


def test_in_process_there_is_no_dataframe_of_it() -> None:
    with pytest.raises(UnsupportedError, match="no DataFrames"):
        session().sql(f"EXPLAIN {JOIN}").dataframe()


def test_a_mistake_in_the_query_is_pointed_at_in_the_statement() -> None:
    with pytest.raises(ParseError) as caught:
        session().sql("EXPLAIN SELECT k FORM s")
    assert "line 1: EXPLAIN SELECT k FORM s" in str(caught.value)


def test_a_script_prints_its_plans_and_runs_the_rest(tmp_path: Path) -> None:
    file = script(tmp_path, f"EXPLAIN {JOIN}; SELECT k FROM s WHERE k = 2; EXPLAIN ANALYZE {JOIN}")
    result = CliRunner().invoke(app, ["run", str(file), "--engine", "local", "--quiet"])
    assert result.exit_code == 0
    first, rest = result.stdout.split("select: x.k", 2)[1:]
    assert "a new row of" in first
    assert "measured over 3 rows" not in first
    assert "measured over 3 rows" in rest


def test_a_script_may_consist_of_a_plan_alone(tmp_path: Path) -> None:
    file = script(tmp_path, f"EXPLAIN {JOIN}")
    for command in (["run", str(file), "--engine", "local"], ["explain", str(file)]):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0
        assert "a new row of" in result.stdout


def test_what_is_run_keeps_its_name_whatever_is_explained_before_it(tmp_path: Path) -> None:
    text = script(tmp_path, f"EXPLAIN {JOIN}; SELECT k FROM s").read_text()
    assert [job.name for job in read_script(text)] == ["query 1"]
    assert [job.name for job in read_script(text, explain=True)] == ["plan 1", "query 1"]
