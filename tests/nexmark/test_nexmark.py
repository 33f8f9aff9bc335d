"""Every Nexmark query in-process: its answer is DuckDB's, at the end and at every instant at which it changes."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm
from tests.nexmark.expected import EXPECTED
from tests.nexmark.running import (
    QUERIES,
    Rows,
    answer_by_duckdb,
    bag,
    last_us,
    script_of,
    tables,
    used_by,
)
from tests.unit.cli.test_commands import call
from tests.unit.hand_clock import HandClock
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.runtime.final import final_answer
from watersmeet.testing import Trial

WRITES, ARRIVES = "q10", "q12"
RATE = 200.0  # so that a few thousand events last for some windows of ten seconds


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_files(tmp_path_factory.mktemp("nexmark"), 5000)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So few that every instant can be looked at; some bids are for auctions and by people that are there."""
    return made_files(tmp_path_factory.mktemp("few"), 200)


def made_files(folder: Path, rows: int) -> Path:
    assert call("lab", "make", "nexmark", f"rows={rows}", f"rate={RATE}", "--into", str(folder / "nexmark")) == 0
    return folder


@pytest.fixture(autouse=True)
def _there(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts are run from the folder that the files are made in."""
    for name in {"files", "few"} & set(request.fixturenames):
        monkeypatch.chdir(request.getfixturevalue(name))


def answered(query: str) -> Rows:
    asked = wm.Session().sql(script_of(query))
    if asked.plan.kind == "rows":
        return bag(asked.to_arrow())
    return bag(final_answer(asked.to_arrow(), asked.plan, last_us(tables(5000, RATE), used_by(query))))


def test_all_published_queries_are_there() -> None:
    assert set(EXPECTED) == {f"q{number}" for number in (*range(24), *range(101, 108), *range(201, 204))}
    assert {name for name in QUERIES if "_" not in name} == set(EXPECTED)


@pytest.mark.parametrize("query", [one for one in QUERIES if one not in (WRITES, ARRIVES)])
def test_the_answer_is_that_of_duckdb(query: str, files: Path) -> None:
    expected = answer_by_duckdb(query, tables(5000, RATE))
    assert len(expected) > 1 or query in ("q2", "q7", "q7_ranked", "q15", "q15_windowed", "q106", "q107")
    assert expected.total() > 0
    assert answered(query) == expected


@pytest.mark.parametrize("query", [one for one in QUERIES if one != WRITES])
def test_the_answer_is_right_at_every_instant(query: str, few: Path) -> None:
    report = wm.check(wm.Session().sql(script_of(query)))
    assert report.equal, str(report)


@pytest.mark.parametrize("pipeline", ["tpa", "nta", "ita"])
@pytest.mark.parametrize("query", ["q6_windowed", "q9_windowed"])
def test_rows_behind_others_leave_however_that_is_noticed(query: str, pipeline: str, few: Path) -> None:
    asked = script_of(query).rstrip().removesuffix(";") + f" OPTIONS (pipeline = '{pipeline}')"
    report = wm.check(wm.Session().sql(asked))
    assert report.equal, str(report)


def test_bids_are_logged_in_a_folder_for_every_minute(files: Path) -> None:
    wm.Session().run(script_of(WRITES))
    read = "read_csv('nexmark/log/**/*.csv', hive_partitioning=true, hive_types={'dt': VARCHAR, 'hm': VARCHAR})"
    rows = duckdb.sql(f"SELECT auction, bidder, price, ts, extra, dt, hm FROM {read}").to_arrow_table()
    assert bag(rows) == answer_by_duckdb(WRITES, tables(5000, RATE))
    assert sorted(path.name for path in Path("nexmark/log/dt=2026-01-01").iterdir()) == ["hm=00%3A00"]


def test_processing_time_windows_are_those_of_the_recorded_moments(files: Path) -> None:
    """The clock goes on by three seconds for each batch that is read."""
    session = wm.Session()
    query = session.sql(script_of(ARRIVES))
    wall = HandClock(datetime(2026, 1, 1, 9))
    run = PulledExecution(query.plan, batch_rows=500)
    run.wall, run.on_step = wall, lambda: wall.move(3)
    found = pa.Table.from_batches(run.batches(), query.schema)
    recorded = session.sql("SELECT * FROM bid").to_arrow()
    assert len(pc.unique(recorded["arrival"])) == 10
    assert bag(found) == answer_by_duckdb(ARRIVES, {"bid": recorded})
    assert len(pc.unique(found["starttime"])) == 3
    assert query.to_arrow().num_rows == found.num_rows  # and once more


def test_processing_time_windows_end_by_the_clock(files: Path) -> None:
    bid = tables(5000, RATE)["bid"]
    came = []
    with Trial(wm.Session().sql(script_of(ARRIVES)), today="2026-01-01 09:00:00") as trial:
        for number, batch in enumerate(bid.to_batches(max_chunksize=700)):
            trial.push("bid", batch.drop_columns(["ts"]).append_column("ts", batch["ts"]))
            came += [datetime(2026, 1, 1, 9) + timedelta(seconds=4 * number)] * batch.num_rows
            trial.wait("4 seconds")
        trial.wait("10 seconds")
        found = pa.Table.from_pylist(trial.answers())
    recorded = bid.append_column("arrival", pa.array(came, pa.timestamp("us")))
    assert bag(found) == answer_by_duckdb(ARRIVES, {"bid": recorded})


def test_letters_are_counted_by_a_function_of_ones_own(files: Path) -> None:
    """Query 14 as published, whose function is brought along."""
    session = wm.Session()
    session.function(
        "count_char", lambda text, char: pc.count_substring(text, char[0].as_py()), ["STRING", "STRING"], "INT"
    )
    script = script_of("q14").replace("REGEXP_COUNT(extra, 'c')", "count_char(extra, 'c')")
    assert "count_char" in script
    assert bag(session.sql(script).to_arrow()) == answer_by_duckdb("q14", tables(5000, RATE))
