"""What a run has written and does not find when it goes on: one sentence, and nothing is made anew unless told."""

from __future__ import annotations

import datetime as dt
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

import watersmeet as wm
from tests.lakes import opened
from watersmeet.errors import OptionError, RunError, SinkError
from watersmeet.warning import ConnectorWarning


@dataclass(frozen=True)
class Kept:
    """A sink, how to remove what it has written, and its rows."""

    options: dict[str, str]
    remove: Callable[[], None]
    rows: Callable[[], list[int]]
    is_there: Callable[[], bool]


def keys(table: Any) -> list[int]:
    return sorted(table["k"].to_pylist())


def delta(folder: Path) -> Kept:
    pytest.importorskip("deltalake")
    path = folder / "table"
    return Kept(
        {"sink": "delta", "path": str(path)},
        lambda: shutil.rmtree(path),
        lambda: keys(opened.table("delta", path=str(path))),
        path.exists,
    )


def iceberg(folder: Path) -> Kept:
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog import load_catalog

    ways = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    said = {f"catalog.{name}": value for name, value in ways.items()}
    dotted = {f"catalog__{name}": value for name, value in ways.items()}
    return Kept(
        {"sink": "iceberg", "table": "db.t", **said},
        lambda: load_catalog("default", **ways).drop_table("db.t"),
        lambda: keys(opened.table("iceberg", table="db.t", **dotted)),
        lambda: load_catalog("default", **ways).table_exists("db.t"),
    )


def sqlite_file(folder: Path) -> Kept:
    path = folder / "here.db"

    def rows() -> list[int]:
        with sqlite3.connect(path) as connection:
            return sorted(row[0] for row in connection.execute("SELECT k FROM out"))

    return Kept({"sink": "sqlite", "path": str(path)}, path.unlink, rows, path.exists)


def duckdb_file(folder: Path) -> Kept:
    path = folder / "here.duckdb"

    def rows() -> list[int]:
        with duckdb.connect(str(path)) as connection:
            return sorted(row[0] for row in connection.execute("SELECT k FROM out").fetchall())

    return Kept({"sink": "duckdb", "path": str(path)}, path.unlink, rows, path.exists)


def table_of_sqlite(folder: Path) -> Kept:
    whole = sqlite_file(folder)

    def run(sql: str) -> list[Any]:
        with sqlite3.connect(folder / "here.db") as connection:
            return connection.execute(sql).fetchall()

    return Kept(
        whole.options,
        lambda: run("DROP TABLE out") and None,
        whole.rows,
        lambda: bool(run("SELECT 1 FROM sqlite_master WHERE name = 'out'")),
    )


def notes_of_sqlite(folder: Path) -> Kept:
    """Its rows are there, but not how far they go."""
    whole = sqlite_file(folder)

    def forget() -> None:
        with sqlite3.connect(folder / "here.db") as connection:
            connection.execute("DELETE FROM watersmeet_batches")

    return Kept(whole.options, forget, whole.rows, lambda: False)


KINDS = [delta, iceberg, sqlite_file, duckdb_file, table_of_sqlite]


@pytest.fixture
def session(tmp_path: Path) -> wm.Session:
    (tmp_path / "in").mkdir()
    made = wm.Session()
    made.sql(
        f"CREATE STREAM s (k BIGINT, ts TIMESTAMP) "
        f"WITH (source = 'csv', path = 'file://{tmp_path}/in', time = 'ts', lateness = '1 minute')"
    )
    return made


@pytest.fixture
def query(session: wm.Session) -> wm.Query:
    return session.sql("SELECT k FROM s")


def go_on(query: wm.Query, folder: Path, sink: dict[str, str], step: int) -> None:
    (folder / "in" / f"{step}.csv").write_text(f"k,ts\n{step},2026-01-01 00:0{step}:00\n")
    query.start(checkpoint=folder / "state", sink=sink, available_now=True).wait()


@pytest.mark.parametrize("kind", [*KINDS, notes_of_sqlite])
def test_what_is_gone_ends_the_next_life_and_is_not_made_anew(
    kind: Callable[[Path], Kept], query: wm.Query, tmp_path: Path
) -> None:
    kept = kind(tmp_path)
    go_on(query, tmp_path, kept.options, 0)
    go_on(query, tmp_path, kept.options, 1)
    assert kept.rows() == [0, 1]
    kept.remove()
    for _ in range(2):  # to start once more is no way around it
        with pytest.raises(SinkError, match="sink 'out' was given the answers of this run up to batch 1, but ") as told:
            go_on(query, tmp_path, kept.options, 2)
        assert "a new checkpoint; if_gone = 'make' goes on" in str(told.value)
        assert "\n" not in told.value.message
        assert not kept.is_there()


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_made_anew_if_that_is_said_and_a_word_is_said_too(
    kind: Callable[[Path], Kept], query: wm.Query, tmp_path: Path
) -> None:
    kept = kind(tmp_path)
    go_on(query, tmp_path, kept.options, 0)
    kept.remove()
    with pytest.warns(ConnectorWarning, match="sink_gone: .*up to batch 0, and it has none of them; the run goes on"):
        go_on(query, tmp_path, kept.options | {"if_gone": "make"}, 1)
    go_on(query, tmp_path, kept.options | {"if_gone": "make"}, 2)
    assert kept.rows() == [1, 2]


@pytest.mark.parametrize("kind", [delta, iceberg, table_of_sqlite])
def test_what_goes_amid_a_run_ends_it(kind: Callable[[Path], Kept], query: wm.Query, tmp_path: Path) -> None:
    kept = kind(tmp_path)
    (tmp_path / "in" / "0.csv").write_text("k,ts\n0,2026-01-01 00:00:00\n")
    run = query.start(checkpoint=tmp_path / "state", sink=kept.options, commit_every="50 ms")
    wait_until(lambda: kept.is_there() and kept.rows() == [0])
    kept.remove()
    (tmp_path / "in" / "1.csv").write_text("k,ts\n1,2026-01-01 00:01:00\n")
    with pytest.raises(SinkError, match=r"out|no such table") as told:
        run.wait(20)
    assert "\n" not in told.value.message
    assert not kept.is_there()


@pytest.mark.parametrize("kind", [delta, sqlite_file])
@pytest.mark.parametrize("beside", [False, True])
def test_a_checkpoint_that_was_put_back_to_an_older_state_loses_nothing_without_a_word(
    kind: Callable[[Path], Kept], beside: bool, tmp_path: Path
) -> None:
    """Its next batches would have numbers that the sink has already, and be passed over."""
    (tmp_path / "in").mkdir()
    kept = kind(tmp_path)
    late = f"""CREATE SINK out WITH ({", ".join(f"{name} = '{value}'" for name, value in kept.options.items())});"""
    session = wm.Session()
    session.sql(
        f"""{late if beside else ""} CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (source = 'csv', time = 'ts',
        path = 'file://{tmp_path}/in' {", on_bad = 'sink out'" if beside else ""})"""
    )
    query = session.sql("SELECT k FROM s")
    options = {"sink": "sqlite", "path": str(tmp_path / "answers.db")} if beside else kept.options

    def go_on_with(step: int) -> None:
        rows = [f"{step},2026-01-01 00:0{step}:00", *([f"{step},never"] if beside else [])]
        (tmp_path / "in" / f"{step}.csv").write_text("\n".join(["k,ts", *rows, ""]))
        query.start(checkpoint=tmp_path / "state", sink=options, available_now=True).wait()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        go_on_with(0)
        shutil.copytree(tmp_path / "state", tmp_path / "copy")
        go_on_with(1)
        go_on_with(2)
        shutil.rmtree(tmp_path / "state")
        shutil.copytree(tmp_path / "copy", tmp_path / "state")
        if beside:
            (tmp_path / "answers.db").unlink()
            options["if_gone"] = "make"
        for _ in range(2):
            with pytest.raises(SinkError, match=r"this checkpoint does not know .* is older than what was written"):
                go_on_with(3)


def test_a_copy_of_a_checkpoint_that_was_in_use_is_older_than_what_that_start_wrote_later(tmp_path: Path) -> None:
    kept = sqlite_file(tmp_path)
    session = wm.Session()
    session.stream("s", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    query = session.sql("SELECT k FROM s")
    with query.start(checkpoint=tmp_path / "state", sink=kept.options, commit_every="1 ms") as run:
        run.push("s", [{"k": 1, "ts": dt.datetime(2026, 1, 1)}])
        shutil.copytree(tmp_path / "state", tmp_path / "copy")
        run.push("s", [{"k": 2, "ts": dt.datetime(2026, 1, 2)}])
    with pytest.raises(RunError, match=r"the sink has the answers of batches up to 1, but the journal ends with"):
        query.start(checkpoint=tmp_path / "copy", sink=kept.options)
    assert kept.rows() == [1, 2]


def test_what_was_put_back_to_an_older_state_is_noticed(query: wm.Query, tmp_path: Path) -> None:
    kept = sqlite_file(tmp_path)
    go_on(query, tmp_path, kept.options, 0)
    shutil.copy(tmp_path / "here.db", tmp_path / "backup.db")
    go_on(query, tmp_path, kept.options, 1)
    shutil.copy(tmp_path / "backup.db", tmp_path / "here.db")
    with pytest.raises(SinkError, match="up to batch 1, and it has them up to batch 0 only"):
        go_on(query, tmp_path, kept.options, 2)


@pytest.mark.parametrize("more", [{}, {"partition_by": "k"}])
def test_files_may_be_taken_away_by_those_they_are_for(
    more: dict[str, str], session: wm.Session, tmp_path: Path
) -> None:
    query = session.sql("SELECT k, ts FROM s")
    sink = {"sink": "json", "path": str(tmp_path / "out"), **more}
    go_on(query, tmp_path, sink, 0)
    shutil.rmtree(tmp_path / "out")
    with pytest.warns(ConnectorWarning, match="sink_gone: .*up to batch 0, and it has none of them; the run goes on"):
        go_on(query, tmp_path, sink, 1)


def test_a_run_that_gave_nothing_misses_nothing(session: wm.Session, tmp_path: Path) -> None:
    kept = sqlite_file(tmp_path)
    nothing = session.sql("SELECT k FROM s WHERE k > 100")
    go_on(nothing, tmp_path, kept.options, 0)
    kept.remove()
    go_on(nothing, tmp_path, kept.options, 1)
    assert kept.rows() == []


def test_sinks_beside_the_answers_are_missed_too(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.csv").write_text("k,ts\nnothing,2026-01-01 00:00:00\n")
    session = wm.Session()
    session.sql(
        f"""CREATE SINK bad WITH (sink = 'sqlite', path = '{tmp_path}/bad.db');
            CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (source = 'csv', path = '{tmp_path}/in', time = 'ts',
              lateness = '1 minute', on_bad = 'sink bad')"""
    )
    query = session.sql("SELECT k FROM s")
    sink = {"sink": "sqlite", "path": str(tmp_path / "out.db")}
    go_on(query, tmp_path, sink, 1)
    (tmp_path / "bad.db").unlink()
    with pytest.raises(SinkError, match="sink 'bad' was given"):
        go_on(query, tmp_path, sink, 2)


def test_the_option_says_error_or_make(query: wm.Query, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="has if_gone = 'ignore'"):
        go_on(query, tmp_path, sqlite_file(tmp_path).options | {"if_gone": "ignore"}, 0)


def wait_until(done: Callable[[], bool]) -> None:
    from time import monotonic, sleep

    until_s = monotonic() + 20
    while not done():
        assert monotonic() < until_s
        sleep(0.05)
