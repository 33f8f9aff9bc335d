"""`watersmeet run --engine local --checkpoint DIR` as a user types it."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.forked import Running, watersmeet

SCRIPT = """
CREATE STREAM a (id BIGINT, k BIGINT, ts TIMESTAMP)
  WITH (source='parquet', path='{0}/a', time='ts', lateness='1 second');
CREATE SINK counts WITH (sink='parquet', path='{0}/out') AS
  SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k;
"""


def rows(first: int, count: int, every_s: int = 1) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "k": pa.array([i % 2 for i in ids], pa.int64()),
            "ts": pa.array([i * every_s * 1_000_000 for i in ids], pa.timestamp("us")),
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    (tmp_path / "q.sql").write_text(SCRIPT.format(tmp_path))
    return tmp_path


def put(folder: Path, name: str, table: pa.Table) -> None:
    """As whoever writes files beside a run should: under a hidden name first."""
    draft = folder / "a" / f".{name}"
    pq.write_table(table, draft)
    draft.rename(folder / "a" / name)


def started(folder: Path, *options: str) -> Running:
    return watersmeet(
        "run", str(folder / "q.sql"), "--engine", "local", "--checkpoint", str(folder / "state"), *options
    )


def ran(folder: Path, *options: str) -> tuple[int, str]:
    ended = started(folder, *options).communicate()
    return ended.returncode, " ".join(ended.stderr.split())


def answer(folder: Path) -> list[dict[str, object]]:
    return pq.read_table(folder / "out").to_pylist() if (folder / "out").exists() else []


def test_a_run_waits_for_files_and_ends_when_it_is_told_to(folder: Path) -> None:
    process = started(folder, "--commit-every", "50 ms")
    try:
        put(folder, "1.parquet", rows(0, 10))
        until = time.monotonic() + 90
        while not answer(folder) and time.monotonic() < until:
            time.sleep(0.05)
        first = len(answer(folder))
        put(folder, "2.parquet", rows(10, 10))
        while len(answer(folder)) == first and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        told = " ".join(process.communicate().stderr.split())
    finally:
        process.kill()
    assert process.returncode == 130, told
    assert "counts stopped after batch" in told
    assert "the next start goes on from" in told
    assert "20 rows in" in told
    code, told = ran(folder, "--available-now")
    assert code == 0
    assert "counts goes on after" in told
    assert len([one for one in answer(folder) if one["_op"] == "+"]) > 0


def test_what_waits_is_told_and_answered_when_asked_for_and_the_run_goes_on(folder: Path) -> None:
    put(folder, "1.parquet", rows(0, 10))
    code, told = ran(folder, "--available-now")
    assert code == 0
    assert "rows of a wait until" in told
    assert "--flush answers them" in told
    before = len(answer(folder))
    assert ran(folder, "--available-now", "--flush")[0] == 0
    flushed = answer(folder)
    assert len(flushed) > before
    balance = sum({"+": 1, "-": -1}[str(one["_op"])] for one in flushed)
    assert balance == 0  # at an end all rows have left their windows
    put(folder, "2.parquet", rows(20, 10))
    code, told = ran(folder, "--available-now", "--flush")
    assert code == 0
    assert "20 rows in" in told
    assert len(answer(folder)) > len(flushed)
    put(folder, "3.parquet", rows(5, 1))
    code, told = ran(folder, "--available-now")
    assert code == 0
    assert "1 row of stream 'a' came too late" in told


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda folder: (folder / "q.sql").write_text(SCRIPT.format(folder).replace("5 S", "6 S")), "another query"),
        (
            lambda folder: (folder / "q.sql").write_text(
                SCRIPT.format(folder).replace("GROUP BY k;", "GROUP BY k OPTIONS (pipeline = 'ita');")
            ),
            "with no pipeline in OPTIONS, and now it has pipeline = 'ita'",
        ),
        (lambda folder: (folder / "state" / "metadata").write_text("{}"), "is the checkpoint of a query on Spark"),
    ],
    ids=["another query", "another option", "a checkpoint of Spark's"],
)
def test_what_cannot_go_on_is_told_in_a_sentence(folder: Path, change: object, sentence: str) -> None:
    put(folder, "1.parquet", rows(0, 10))
    assert ran(folder, "--available-now")[0] == 0
    assert callable(change)
    change(folder)
    code, told = ran(folder, "--available-now")
    assert code in (1, 2)
    assert sentence in told
    assert "Traceback" not in told


def test_a_file_that_was_read_to_its_end_may_go(folder: Path) -> None:
    put(folder, "1.parquet", rows(0, 10))
    assert ran(folder, "--available-now", "--flush")[0] == 0
    (folder / "a" / "1.parquet").unlink()
    put(folder, "2.parquet", rows(20, 10))
    code, told = ran(folder, "--available-now", "--flush")
    assert code == 0
    assert "20 rows in" in told


def test_two_runs_do_not_share_a_checkpoint(folder: Path) -> None:
    put(folder, "1.parquet", rows(0, 10))
    first = started(folder)
    try:
        until = time.monotonic() + 90
        while not (folder / "state" / "query.json").exists() and time.monotonic() < until:
            time.sleep(0.05)
        code, told = ran(folder, "--available-now")
        assert code in (1, 2)
        assert "another run is using the checkpoint" in told
    finally:
        first.send_signal(signal.SIGINT)
        first.communicate()
    assert first.returncode == 130
    assert os.path.exists(folder / "state" / "query.json")


def test_programs_hear_how_far_each_of_several_queries_is(folder: Path) -> None:
    script = (folder / "q.sql").read_text()
    (folder / "q.sql").write_text(
        script + f"CREATE SINK all_rows WITH (sink='csv', path='{folder}/all') AS SELECT k FROM a;"
    )
    put(folder, "1.parquet", rows(0, 1))
    assert "counts done: 1 row in, 0 results" in ran(folder, "--available-now")[1]
    told = ran(folder, "--available-now")[1]
    assert (
        "counts goes on after 1 batch all_rows goes on after 1 batch counts done: 1 row in, 0 results, 0 rows/s" in told
    )
    assert "1 row of a waits until 1970-01-01 00:00:00; --flush answers it" in told
    process = started(folder, "--available-now", "--json")
    events = [json.loads(line) for line in process.communicate().stderr.splitlines()]
    assert [one["query"] for one in events if one["event"] == "progress"] == ["counts", "all_rows"]


def test_a_run_that_is_stopped_before_its_first_batch_says_so(folder: Path) -> None:
    process = started(folder)
    until = time.monotonic() + 90
    while not (folder / "state" / "reached").exists() and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    told = " ".join(process.communicate().stderr.split())
    assert process.returncode == 130, told
    assert "counts stopped before its first batch; the next start goes on from" in told


def test_a_checkpoint_stays_in_its_folder_whatever_its_queries_are_called(folder: Path) -> None:
    sinks = "".join(
        f"CREATE SINK \"{name}\" WITH (sink='csv', path='{folder}/{i}') AS SELECT k FROM a;"
        for i, name in enumerate(["x/../../y", "query 9"])
    )
    script = SCRIPT.format(folder).split("CREATE SINK")[0]
    (folder / "q.sql").write_text(script + sinks)
    code, told = ran(folder, "--available-now")
    assert code == 0, told
    assert sorted(one.name for one in folder.iterdir()) == ["0", "1", "a", "q.sql", "state"]
    assert sorted(one.name for one in (folder / "state").iterdir()) == ["query_9", "x%2F..%2F..%2Fy"]
    for more, names in (
        (sinks.replace("x/../../y", "query_9"), "'query_9' and 'query 9' would share the folder query_9"),
        (sinks.replace("query 9", "query 3") + "SELECT k FROM a;", "'query 3' and 'query 3' would share the folder"),
    ):
        (folder / "q.sql").write_text(script + more)
        code, told = ran(folder, "--available-now")
        assert code == 1
        assert names in told
        assert "Traceback" not in told
