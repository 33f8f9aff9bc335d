"""`query.start(checkpoint=…)`: what goes in is kept, what comes out is exact, and what makes no sense is refused."""

from __future__ import annotations

import asyncio
import datetime as dt
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import watersmeet as wm
from watersmeet.cli.commands import app
from watersmeet.io.connectors.contract import NumberedSink

NOON = dt.datetime(2026, 1, 1, 12)
COLUMNS = {"id": "BIGINT", "k": "BIGINT", "ts": "TIMESTAMP"}
BOTH = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 1 HOUR"
COUNTS = "SELECT k, COUNT(*) AS n FROM a [RANGE 10 SECONDS] GROUP BY k"


def pushed(sql: str = BOTH) -> wm.Query:
    session = wm.Session()
    for name in "ab":
        session.stream(name, schema=COLUMNS, time="ts")
    return session.sql(sql)


def at(*ids: int) -> list[dict[str, Any]]:
    return [{"id": one, "k": one % 3, "ts": NOON + dt.timedelta(seconds=one)} for one in ids]


def written(folder: Path, name: str, *ids: int) -> str:
    folder.mkdir(exist_ok=True)
    draft = folder / f".{name}"
    pq.write_table(pa.Table.from_pylist(at(*ids)), draft)
    draft.rename(folder / f"{name}.parquet")
    return str(folder)


def pairs(rows: pa.Table) -> list[tuple[int, int]]:
    return sorted((row["x"], row["y"]) for row in rows.to_pylist())


def test_rows_of_an_earlier_run_meet_those_of_a_later_one(tmp_path: Path) -> None:
    query = pushed()
    with query.start(checkpoint=tmp_path / "state", sink=tmp_path / "out.parquet") as run:
        assert run.push("a", at(1, 2)) == 0
        assert run.taken("a") == 2
    assert not run.is_open
    with query.start(checkpoint=tmp_path / "state", sink=tmp_path / "out.parquet") as run:
        assert run.batches > 0
        run.push("b", at(4, 6))
    assert pairs(pq.read_table(tmp_path / "out.parquet")) == [(1, 4)]
    assert query.metrics()["rows_in"] == 4


def test_answers_can_be_taken_and_iterated(tmp_path: Path) -> None:
    with pushed().start(checkpoint=tmp_path) as run:
        run.push("a", at(1, 2))
        run.push("b", at(4))
        assert pairs(run.take(timeout=30)) == [(1, 4)]
        assert run.take().num_rows == 0
        seen: list[tuple[int, int]] = []
        reader = threading.Thread(target=lambda: seen.extend(pair for one in run for pair in pairs(one)))
        reader.start()
        run.push("b", at(7, 8))
        while not seen and reader.is_alive():
            reader.join(0.01)
    reader.join()
    assert sorted(seen) == [(1, 7), (2, 8)]


def test_what_was_taken_does_not_come_again_though_later_answers_were_left(tmp_path: Path) -> None:
    with pushed().start(checkpoint=tmp_path) as run:
        run.push("a", at(1))
        run.push("b", at(4))
        assert pairs(run.take(timeout=30)) == [(1, 4)]
        run.push("b", at(7))
        until = time.monotonic() + 30
        while not run.metrics()["waiting_answers"] and time.monotonic() < until:
            time.sleep(0.01)
    with pushed().start(checkpoint=tmp_path) as run:
        assert pairs(run.take(timeout=30)) == [(1, 7)]
    with pushed().start(checkpoint=tmp_path) as run:
        run.push("b", at(10))
        assert pairs(run.take(timeout=30)) == [(1, 10)]


def test_answers_that_nobody_took_come_again_and_those_that_were_taken_do_not(tmp_path: Path) -> None:
    query = pushed()
    with query.start(checkpoint=tmp_path) as run:
        run.push("a", at(1, 2))
        run.push("b", at(4))
        run.take(timeout=30)
    with query.start(checkpoint=tmp_path) as run:
        assert run.take().num_rows == 0
        number = run.push("b", at(7))
        while run.metrics()["results"] < 2:
            assert run.is_open, number
    assert pairs(run.take()) == [(1, 7)]  # still there after the end
    with query.start(checkpoint=tmp_path) as run:
        assert run.repeated_batches > 0
        assert pairs(run.take(timeout=30)) == [(1, 7)]
    with query.start(checkpoint=tmp_path) as run:
        assert run.repeated_batches == 0
        assert run.take().num_rows == 0


def test_too_many_answers_hold_up_whoever_pushes_until_some_are_taken(tmp_path: Path) -> None:
    with pushed().start(checkpoint=tmp_path, max_waiting=2) as run:
        run.push("a", at(3, 6, 9))
        run.push("b", at(12))
        run.push("b", at(15))  # which is in a batch, and its answers wait for room
        with pytest.raises(wm.RunError, match="rows of the answer wait to be taken"):
            run.push("b", at(18), timeout=0.2)
        got = 0
        while got < 9:
            got += run.take(timeout=30).num_rows
        assert run.taken("b") == 3


def test_files_are_read_as_they_come_and_available_now_ends(tmp_path: Path) -> None:
    session = wm.Session()
    session.stream("a", written(tmp_path / "a", "1", 0, 1, 2), time="ts")
    query = session.sql(COUNTS)
    words = {"sink": "json", "path": tmp_path / "out"}
    run = query.start(checkpoint=tmp_path / "state", sink=words, available_now=True)
    assert run.wait(60)
    written(tmp_path / "a", "2", 30)
    assert query.start(checkpoint=tmp_path / "state", sink=words, available_now=True, flush=True).wait(60)
    lines = [line for path in (tmp_path / "out").glob("*.json") for line in path.read_text().splitlines()]
    assert len(lines) == 2 * 4
    reading = query.start(checkpoint=tmp_path / "state", sink=words)
    with reading, pytest.raises(wm.RunError, match="stream 'a' is read by the run itself, so it cannot be pushed"):
        reading.push("a", at(3))


@pytest.mark.parametrize("in_sql", [True, False])
def test_a_folder_may_be_empty_at_first_if_columns_and_source_are_declared(tmp_path: Path, in_sql: bool) -> None:
    (folder := tmp_path / "in").mkdir()
    session = wm.Session()
    if in_sql:
        session.sql(
            f"CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (source = 'parquet', path = '{folder}', time = 'ts')"
        )
    else:
        session.stream("s", source="parquet", path=folder, schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    query = session.sql("SELECT k FROM s")
    with pytest.raises(wm.SourceError, match="holds no parquet file"):
        query.to_arrow()
    with query.start(checkpoint=tmp_path / "state") as run:
        pq.write_table(pa.table({"k": [7], "ts": [NOON]}), folder / ".first")
        (folder / ".first").rename(folder / "first.parquet")  # a file must appear whole
        assert run.take(timeout=30).to_pylist() == [{"k": 7}]
    assert query.to_arrow().to_pylist() == [{"k": 7}]


def test_an_answer_that_changes_is_there_at_any_time_and_flush_answers_what_waits(tmp_path: Path) -> None:
    with pushed(COUNTS).start(checkpoint=tmp_path, on_answer=lambda batch: None) as run:
        run.push("a", at(0, 1, 30))
        run.advance("a", NOON + dt.timedelta(seconds=35))
        assert run.answer().to_pylist() == [{"k": 0, "n": 1}]
        run.flush()
        assert run.answer().num_rows == 0
    growing = pushed("SELECT id FROM a").start(checkpoint=tmp_path / "other")
    with growing, pytest.raises(wm.UnsupportedError, match="rows that stay"):
        growing.answer()


class Ledger(NumberedSink):
    """A sink of one's own: a number and its rows are kept together, as a database would in one transaction."""

    def __init__(self, kept: dict[str, Any], run: str) -> None:
        self.kept = kept
        assert kept.setdefault("run", run) == run
        self.number: int = kept.get("number", -1)

    def committed(self) -> int:
        return self.number

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        if number > self.number:
            self.kept.setdefault("rows", []).extend(row for batch in rows for row in batch.to_pylist())
            self.number = self.kept["number"] = number


def test_an_aggregate_over_nothing_goes_on_as_one_row_whichever_life_it_began_in(tmp_path: Path) -> None:
    """Every row is pushed in a life of its own, when the one before has left its window."""
    query = pushed("SELECT COUNT(*) AS n, SUM(id) AS t FROM a [RANGE 1 SECOND] WHERE k <> 0")
    for second in (3, 6, 10, 20, 30, 41, 51):
        with query.start(checkpoint=tmp_path / "state", sink=tmp_path / "out.parquet") as run:
            run.push("a", at(second))
    found = pq.read_table(tmp_path / "out.parquet").to_pylist()
    log = sorted(((row["_op"], row["_ts"].second, row["n"]) for row in found), key=lambda row: (row[1], row[0] == "+"))
    assert log == [
        ("+", 3, 0), ("-", 10, 0), ("+", 10, 1), ("-", 11, 1), ("+", 11, 0), ("-", 20, 0), ("+", 20, 1), ("-", 21, 1),
        ("+", 21, 0), ("-", 41, 0), ("+", 41, 1), ("-", 42, 1), ("+", 42, 0),
    ]  # fmt: skip


def test_a_sink_of_ones_own_has_every_row_once(tmp_path: Path) -> None:
    kept: dict[str, Any] = {}
    for first in (1, 4, 7):
        with pushed().start(checkpoint=tmp_path, sink=lambda run: Ledger(kept, run)) as run:
            run.push("a", at(first))
            run.push("b", at(first))
    found = sorted((row["x"], row["y"]) for row in kept["rows"])
    assert found == [(x, y) for x in (1, 4, 7) for y in (1, 4, 7)]


def test_what_a_callback_does_wrong_is_told(tmp_path: Path) -> None:
    run = pushed("SELECT id FROM a").start(checkpoint=tmp_path / "1", on_answer=lambda batch: run.push("a", at(9)))
    run.push("a", at(1))
    with pytest.raises(wm.RunError, match=r"push\(\) would wait for ever inside on_answer"):
        run.wait(60)

    def refuse(batch: pa.RecordBatch) -> None:
        raise ValueError("not today")

    with (
        pytest.raises(ValueError, match="not today"),
        pushed("SELECT id FROM a").start(checkpoint=tmp_path / "2", on_answer=refuse) as failing,
    ):
        failing.push("a", at(1))
    with pushed("SELECT id FROM a").start(checkpoint=tmp_path / "2") as mended:
        assert mended.take().to_pylist() == [{"id": 1}]


def test_a_callback_may_push_soon_and_stop(tmp_path: Path) -> None:
    seen: list[int] = []

    def follow(batch: pa.RecordBatch) -> None:
        seen.extend(batch["id"].to_pylist())
        if seen[-1] < 3:
            run.push_soon("a", at(seen[-1] + 1))
        else:
            run.stop()

    run = pushed("SELECT id FROM a").start(checkpoint=tmp_path, on_answer=follow)
    run.push("a", at(1))
    assert run.wait(60)
    assert seen == [1, 2, 3]


def test_coroutines_wait_for_the_disk_without_blocking(tmp_path: Path) -> None:
    async def main() -> list[int]:
        with pushed().start(checkpoint=tmp_path) as run:
            return [await asyncio.wrap_future(one) for one in run.push_soon("a", at(1))]

    assert asyncio.run(main()) == [0]


def generator() -> Any:
    yield pa.RecordBatch.from_pylist(at(1))


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"checkpoint": ""}, "checkpoint must be the path of a folder"),
        ({"save_every": "10 seconds"}, "save_every is for runs that keep their progress"),
        ({"available_now": True}, "available_now is for runs"),
        ({"checkpoint": "s", "save_every": "often"}, "save_every: 'often' is not an interval"),
        ({"checkpoint": "s", "save_every": "0 s"}, "save_every must be above 0 s"),
        ({"checkpoint": "s", "gather": 5}, "gather: 5 is not an interval"),
        ({"checkpoint": "s", "batch_rows": 0}, "batch_rows must be a whole number of rows"),
        ({"checkpoint": "s", "flush": True}, "needs available_now=True"),
        ({"checkpoint": "s", "available_now": True}, "stream 'a' is pushed"),
        ({"checkpoint": "s", "sink": 7}, "sink must be a path"),
        ({"checkpoint": "s", "sink": "out"}, "does not say its kind"),
        ({"checkpoint": "s", "sink": {"sink": "parquet", "path": "o", "partitionby": "k"}}, "no option 'partitionby'"),
        ({"checkpoint": "s", "sink": {"sink": "json", "path": "o", "Path": "p"}}, "the path of 'out' is said twice"),
        ({"checkpoint": "s", "sink": {"sink": "csv", "path": "o", "sep": "ab"}}, "must be one character"),
        ({"checkpoint": "s", "sink": {"sink": "parquet", "path": "o", "compression": "zip"}}, "none of Parquet's"),
        (
            {"checkpoint": "s", "sink": lambda run: run},
            "the sink that was made is a str, which does not derive from NumberedSink",
        ),
        ({"checkpoint": "s", "max_waiting": 0}, "max_waiting"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_makes_no_sense_is_refused(
    asked: dict[str, Any], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(wm.WatersmeetError) as caught:
        pushed().start(**asked)
    assert sentence in str(caught.value)


def test_what_flows_once_cannot_go_on(tmp_path: Path) -> None:
    session = wm.Session()
    session.stream("a", generator(), time="ts")
    with pytest.raises(wm.SourceError, match="cannot be read again"):
        session.sql("SELECT id FROM a").start(checkpoint=tmp_path)


def test_a_run_that_has_ended_takes_no_rows_and_rows_that_do_not_fit_leave_it_going(tmp_path: Path) -> None:
    with pushed().start(checkpoint=tmp_path) as run:
        with pytest.raises(wm.WatersmeetError):
            run.push("a", [{"id": "one", "k": 1, "ts": NOON}])
        with pytest.raises(wm.CatalogError, match="no stream 'c'"):
            run.push("c", at(1))
        run.end("a")
        with pytest.raises(wm.RunError, match="has ended"):
            run.push("a", at(1))
        assert run.is_open
        with pytest.raises(wm.RunError, match="another run is using the checkpoint") as caught:
            pushed().start(checkpoint=tmp_path)
        assert caught.value.hint == "stop it first, or give another checkpoint"  # no words of the command line
    with pytest.raises(wm.RunError, match="has ended"):
        run.push("b", at(1))


def test_on_spark_it_says_how_a_query_is_started_there() -> None:
    from watersmeet.hosts.spark.host import SparkHost

    query = pushed()
    query.host = SparkHost.__new__(SparkHost)
    with pytest.raises(wm.UnsupportedError, match="on Spark it is started as every DataFrame is"):
        query.start(checkpoint="state")


def test_a_stream_that_was_read_and_is_pushed_now_cannot_be_repeated(tmp_path: Path) -> None:
    session = wm.Session()
    session.stream("a", written(tmp_path / "in", "0", 1, 2), time="ts")
    run = session.sql("SELECT id FROM a").start(checkpoint=tmp_path / "state", sink=tmp_path / "out.parquet")
    while run.taken("a") < 2:
        time.sleep(0.01)
    shutil.copytree(tmp_path / "state", tmp_path / "killed")
    run.stop()
    session = wm.Session()
    session.stream("a", schema=COLUMNS, time="ts")
    with pytest.raises(wm.RunError, match="has to be read again for the batches that are repeated"):
        session.sql("SELECT id FROM a").start(checkpoint=tmp_path / "killed", on_answer=print)


def test_time_that_stands_still_is_told_as_it_is_now_and_who_is_waited_for(tmp_path: Path) -> None:
    """Between batches nothing moves the clock that decides, yet those who look see for how long they have waited."""
    with pushed().start(checkpoint=tmp_path) as run:
        run.push("a", at(1))
        until = time.monotonic() + 30
        while run.metrics()["rows_in"] < 1 and time.monotonic() < until:
            time.sleep(0.01)
        first = run.metrics()
        time.sleep(0.05)
        then = run.metrics()
        assert (first["held_back_by"], first["waits_for_rows"]) == ("b", True)
        assert then["still_for_s"] >= first["still_for_s"] + 0.05


# ---- what a checkpoint remembers ------------------------------------------------------------------------------------


def state_of(folder: Path, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["state", str(folder), *options])
    return done.exit_code, done.output if done.exception is None else str(done.exception)


def test_the_state_of_a_run_in_process_is_shown(tmp_path: Path) -> None:
    with pushed().start(checkpoint=tmp_path) as run:
        run.push("a", at(1, 2, 6))
        run.push("b", at(4, 3, 2))
        assert pairs(run.take(timeout=30)) == [(1, 4)]
    code, told = state_of(tmp_path)
    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert code == 0
    assert lines[0].startswith(f"{tmp_path}: a run in-process, by watersmeet ")
    assert lines[1].startswith("batches up to 1 are written down; batches up to 1 are noted as answered")
    assert lines[2].startswith("state after batch 1: ")
    assert lines[2].endswith(", watermark 2026-01-01 12:00:04")
    assert lines[3:] == [
        "a 3 rows came up to 2026-01-01 12:00:06",
        "b 3 rows came 2 late up to 2026-01-01 12:00:04",
        "window of a 3 rows kept",
        "window of b 1 row kept",
    ]
    assert "cannot be shown one by one" in state_of(tmp_path, "--rows", "3")[1]
    assert "has no state of batch 77" in state_of(tmp_path, "--batch", "77")[1]


def test_the_state_of_a_run_that_goes_on_is_shown_and_that_of_several_queries(tmp_path: Path) -> None:
    with pushed().start(checkpoint=tmp_path / "one"), pushed().start(checkpoint=tmp_path / "two"):
        code, told = state_of(tmp_path)
    assert (code, told.count("a run in-process"), told.count("no state was saved yet")) == (0, 2, 2)


def test_rows_that_were_left_out_are_told_with_the_state(tmp_path: Path) -> None:
    session = wm.Session()
    session.stream("a", schema=COLUMNS, time="ts", on_null="skip", on_bad="skip")
    with session.sql(COUNTS).start(checkpoint=tmp_path, on_answer=lambda batch: None) as run:
        run.push("a", [*at(5, 1), {"id": 9, "k": 1, "ts": None}])
    _, told = state_of(tmp_path)
    assert " ".join(told.splitlines()[3].split()) == "a 3 rows came 1 late, 1 without a time up to 2026-01-01 12:00:05"
