"""`watersmeet savepoint` and `run --from`: of a run that goes on in another process, that was stopped, and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from watersmeet.cli.commands import app

QUERY = "SELECT a.k AS k, a.v AS av, b.v AS bv FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE"
TOTALS = "SELECT window_end, k, SUM(v) AS total FROM TUMBLE(a, 10 SECONDS) GROUP BY window_start, window_end, k"


def script(folder: Path, out: str = "out") -> Path:
    streams = "".join(
        f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) "
        f"WITH (source = 'parquet', path = '{folder / name}', time = 'ts', lateness = '1 second');\n"
        for name in "ab"
    )
    sinks = "".join(
        f"CREATE SINK {name} WITH (sink = 'parquet', path = '{folder / f'{out}-{name}'}') AS {query};\n"
        for name, query in (("pairs", QUERY), ("totals", TOTALS))
    )
    path = folder / f"{out}.sql"
    path.write_text(streams + sinks)
    return path


def write(folder: Path, first: int, until: int) -> None:
    for name, keys in (("a", 7), ("b", 5)):
        (folder / name).mkdir(exist_ok=True)
        numbers = list(range(first, until))
        times = pa.array([i * 250_000 for i in numbers], pa.timestamp("us"))
        rows = pa.table({"k": [i % keys for i in numbers], "v": numbers, "ts": times})
        draft = folder / name / f".{first}"
        pq.write_table(rows, draft)
        draft.rename(folder / name / f"{first:06d}.parquet")


def command(*words: object) -> None:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output


def running(path: Path, checkpoint: Path) -> subprocess.Popen[bytes]:
    words = ["run", path, "--engine", "local", "--checkpoint", checkpoint, "--commit-every", "50 ms", "-q"]
    return subprocess.Popen([sys.executable, "-m", "watersmeet", *map(str, words)])


def rows_in(folder: Path, until: int) -> bool:
    """Whether the pairs of the last rows are there."""
    files = list((folder / "out-pairs").glob("*.parquet"))
    return any(max(pq.read_table(one)["av"].to_pylist(), default=0) >= until - 20 for one in files)


def wait_for(folder: Path, until: int) -> None:
    end_s = time.monotonic() + 60
    while not rows_in(folder, until):
        assert time.monotonic() < end_s
        time.sleep(0.05)


def check(folder: Path) -> None:
    """By DuckDB, over all files, whichever run has written them."""
    streams = {name: f"'{folder / name}/*.parquet'" for name in "ab"}
    pairs = (
        f"SELECT a.k AS k, a.v AS av, b.v AS bv FROM {streams['a']} a, {streams['b']} b "
        "WHERE a.k = b.k AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= 60000000"
    )
    totals = (
        "SELECT time_bucket(INTERVAL 10 SECONDS, ts) + INTERVAL 10 SECONDS AS window_end, k, SUM(v)::BIGINT AS total "
        f"FROM {streams['a']} GROUP BY ALL"
    )
    for name, expected in (("pairs", pairs), ("totals", totals)):
        found = f"SELECT * FROM '{folder}/out-{name}/*.parquet'"
        for one, other in ((found, expected), (expected, found)):
            assert duckdb.sql(f"({one}) EXCEPT ALL ({other})").fetchall() == []


@pytest.mark.parametrize("ends_by", ["stop", "kill"])
def test_a_run_of_another_process_is_moved(ends_by: str, tmp_path: Path) -> None:
    write(tmp_path, 0, 400)
    path = script(tmp_path)
    process = running(path, tmp_path / "one")
    try:
        wait_for(tmp_path, 400)
        command("savepoint", tmp_path / "one", tmp_path / "while-it-runs")
        write(tmp_path, 400, 700)
        wait_for(tmp_path, 700)
    finally:
        os.kill(process.pid, signal.SIGTERM if ends_by == "stop" else signal.SIGKILL)
        process.wait(30)
    command("savepoint", tmp_path / "one", tmp_path / "after")
    write(tmp_path, 700, 900)
    ahead = CliRunner().invoke(
        app, ["run", str(path), "--engine", "local", "--checkpoint", str(tmp_path / "two"), "--from",
              str(tmp_path / "while-it-runs"), "--available-now"],
    )  # fmt: skip
    assert ahead.exit_code != 0
    assert "is ahead of the savepoint" in str(ahead.exception)
    last = ("--engine", "local", "--available-now", "--flush", "-q")
    command("run", path, *last, "--checkpoint", tmp_path / "three", "--from", tmp_path / "after")
    check(tmp_path)


def test_a_savepoint_of_a_stopped_run_needs_its_script(tmp_path: Path) -> None:
    write(tmp_path, 0, 100)
    path = script(tmp_path)
    command("run", path, "--engine", "local", "--available-now", "-q", "--checkpoint", tmp_path / "one")
    path.rename(tmp_path / "renamed.sql")
    without = CliRunner().invoke(app, ["savepoint", str(tmp_path / "one"), str(tmp_path / "moved")])
    assert without.exit_code == 2
    assert "hint: name it: --script FILE.sql" in without.output
    command("savepoint", tmp_path / "one", tmp_path / "moved", "--script", tmp_path / "renamed.sql")
    nothing = CliRunner().invoke(app, ["savepoint", str(tmp_path / "a"), str(tmp_path / "other")])
    assert nothing.exit_code == 2
    assert "is not the checkpoint of a run" in nothing.output
    apart = CliRunner().invoke(app, ["run", str(path), "--engine", "local", "--from", str(tmp_path / "moved")])
    assert apart.exit_code == 2


def refused(*words: object, because: str) -> None:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code != 0
    assert because in (done.output if done.exception is None or done.exit_code == 2 else str(done.exception))


def test_a_savepoint_is_named_once_more_when_it_is_gone_and_is_no_checkpoint(tmp_path: Path) -> None:
    write(tmp_path, 0, 100)
    path = script(tmp_path)
    run = ("run", path, "--engine", "local", "--available-now", "-q")
    command(*run, "--checkpoint", tmp_path / "one")
    command("savepoint", tmp_path / "one", tmp_path / "moved")
    with_it = (*run, "--checkpoint", tmp_path / "two", "--from", tmp_path / "moved")
    command(*with_it)
    refused(*run, "--checkpoint", tmp_path / "moved", because="is a savepoint, and no checkpoint")
    assert not (tmp_path / "moved/pairs/query.json").exists()
    (tmp_path / "moved").rename(tmp_path / "away")
    write(tmp_path, 100, 200)
    command(*with_it, "--flush")  # as a service says it at every start
    check(tmp_path)
    other = (*run, "--checkpoint", tmp_path / "three", "--from", tmp_path / "moved")
    refused(*other, because="is no savepoint")


def test_what_a_savepoint_has_and_the_script_has_not_is_told(tmp_path: Path) -> None:
    write(tmp_path, 0, 100)
    path = script(tmp_path)
    command("run", path, "--engine", "local", "--available-now", "-q", "--checkpoint", tmp_path / "one")
    command("savepoint", tmp_path / "one", tmp_path / "moved")
    less = tmp_path / "less.sql"
    less.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    words = ["run", less, "--engine", "local", "--available-now", "--checkpoint", tmp_path / "two"]
    done = CliRunner().invoke(app, [*map(str, words), "--from", str(tmp_path / "moved")])
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "totals of the savepoint" in said
    assert "is not in the script, and left there" in said


def test_a_savepoint_is_of_what_the_checkpoint_has(tmp_path: Path) -> None:
    write(tmp_path, 0, 100)
    path = script(tmp_path)
    command("run", path, "--engine", "local", "--available-now", "-q", "--checkpoint", tmp_path / "one")
    part = ("savepoint", tmp_path / "one/pairs", tmp_path / "moved", "--script", path)
    refused(*part, because="has no checkpoint of totals")
    assert not (tmp_path / "one/pairs/totals").exists()
    refused("savepoint", "", tmp_path / "moved", because="CHECKPOINT names no folder")
    refused("savepoint", tmp_path / "one", " ", because="OUT names no folder")


def test_one_is_taken_of_a_checkpoint_in_a_store(tmp_path: Path) -> None:
    write(tmp_path, 0, 300)
    where = f"file://{tmp_path}/store/state"
    command("run", script(tmp_path), "--engine", "local", "--checkpoint", where, "--available-now", "-q")
    command("savepoint", where, tmp_path / "moved")
    write(tmp_path, 300, 600)
    moved = script(tmp_path, "later")
    there = tmp_path / "there"
    command("run", moved, "--engine", "local", "--checkpoint", there, "--from", tmp_path / "moved", "--available-now")
    numbers = [pq.read_table(tmp_path / f"{out}-pairs").num_rows for out in ("out", "later")]
    streams = {name: f"'{tmp_path / name}/*.parquet'" for name in "ab"}
    minute = "abs(epoch_us(a.ts) - epoch_us(b.ts)) <= 60000000"
    wanted = duckdb.sql(f"SELECT count(*) FROM {streams['a']} a, {streams['b']} b WHERE a.k = b.k AND {minute}")
    assert sum(numbers) == wanted.fetchall()[0][0] > numbers[0] > 0
    nothing = CliRunner().invoke(app, ["savepoint", f"file://{tmp_path}/store/none", str(tmp_path / "other")])
    assert nothing.exit_code == 2
    assert f"file://{tmp_path}/store/none is not the checkpoint of a run" in " ".join(nothing.output.split())
