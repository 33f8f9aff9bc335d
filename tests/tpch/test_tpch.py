"""Every TPC-H query in-process: its answer is DuckDB's, at the end and, with windows, at any instant."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import watersmeet as wm
from tests.tpch.running import (
    FOLDER,
    QUERIES,
    ROWS,
    answer_by_duckdb,
    as_bag,
    in_windows,
    listed,
    script_of,
    tables,
    times_us,
)
from tests.unit.cli.test_commands import call
from watersmeet.model.time import UNITS_US
from watersmeet.runtime.final import final_answer

DAYS, DAY_US = 2000, UNITS_US["day"]  # in windows of so many all queries find something at some instants
INSTANTS = 5
WITH_SUBQUERIES = ("q2", "q4", "q11", "q15", "q16", "q17", "q20", "q21", "q22")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_files(tmp_path_factory.mktemp("tpch"), ROWS)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So few that every instant can be looked at."""
    return made_files(tmp_path_factory.mktemp("few"), 300)


def made_files(folder: Path, rows: int) -> Path:
    assert call("lab", "make", "tpch", f"rows={rows}", "--into", str(folder / "tpch")) == 0
    return folder


@pytest.fixture(autouse=True)
def _there(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts are run from the folder that the files are made in."""
    for name in {"files", "few"} & set(request.fixturenames):
        monkeypatch.chdir(request.getfixturevalue(name))


def test_all_published_queries_are_there() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.sql")) == sorted(QUERIES)


@pytest.mark.parametrize("query", QUERIES)
def test_the_answer_is_that_of_duckdb_and_in_its_order(query: str, files: Path) -> None:
    expected = answer_by_duckdb(query, tables())
    assert expected
    assert expected[0] != (None,)
    assert listed(wm.Session().sql(script_of(query)).final()) == expected


@pytest.mark.parametrize(
    "query", [pytest.param(one, marks=() if one in WITH_SUBQUERIES else pytest.mark.soak) for one in QUERIES]
)
def test_with_windows_the_answer_is_that_of_duckdb_at_any_instant(query: str, files: Path) -> None:
    asked = wm.Session().sql(script_of(query, f"RANGE {DAYS} DAYS"))
    log = asked.to_arrow()
    draw = random.Random(query)
    first_us, last_us = times_us()
    instants = [draw.randrange(first_us + 1000 * DAY_US, last_us + 500 * DAY_US) for _ in range(INSTANTS)]
    expected = [answer_by_duckdb(query, in_windows(tables(), at_us, DAYS * DAY_US)) for at_us in instants]
    for at_us, rows in zip(instants, expected, strict=True):
        assert as_bag(listed(final_answer(log, asked.plan, at_us))) == as_bag(rows)
    assert any(rows not in ([], [(None,)]) for rows in expected)


@pytest.mark.parametrize(
    "query", [pytest.param(one, marks=() if one in ("q4", "q20", "q22") else pytest.mark.soak) for one in QUERIES]
)
def test_the_answer_is_right_at_every_instant(query: str, few: Path) -> None:
    report = wm.check(wm.Session().sql(script_of(query)))
    assert report.equal, str(report)
