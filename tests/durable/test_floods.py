"""A batch that brings about more answers than are given at once, in a run that goes on."""

from __future__ import annotations

import datetime as dt
import shutil
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.forked import Running, watersmeet
from watersmeet.errors import RunError
from watersmeet.hosts.local.durable import batch_loop, durable_driver
from watersmeet.hosts.local.durable.answering import cut
from watersmeet.io.connectors.contract import NumberedSink
from watersmeet.operators.continuous import parts
from watersmeet.warning import DataWarning

NOON = dt.datetime(2026, 1, 1, 12)
FAR = dt.datetime(9999, 1, 1)
LATER = NOON + dt.timedelta(seconds=9_000)


class Numbered(NumberedSink):
    """A sink in memory that a run finds again, and that fails at its so manieth commit."""

    def __init__(self, fails_at: int) -> None:
        self.number = -1
        self.rows: list[dict[str, object]] = []
        self.left = fails_at

    def committed(self) -> int:
        return self.number

    def commit(self, number: int, batches: Sequence[pa.RecordBatch]) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError("the disk is full")
        self.rows += [row for batch in batches for row in batch.to_pylist()]
        self.number = number


def query(sql: str = "SELECT RSTREAM COUNT(*) AS n FROM s [UNBOUNDED] EVERY 1 SECOND") -> wm.Query:
    session = wm.Session()
    session.stream("s", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    return session.sql(sql)


@pytest.mark.parametrize("fails_at", [1, 2, 3])
@pytest.mark.parametrize(
    ("sql", "answers"),
    [
        ("SELECT RSTREAM COUNT(*) AS n FROM s [UNBOUNDED] EVERY 1 SECOND", 9_000),
        ("SELECT a.k, b.k AS other FROM s a [RANGE 1 DAY], s b [RANGE 1 DAY]", 100 * 100),
    ],
)
def test_parts_of_a_batch_are_each_given_once_in_all_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, answers: int, fails_at: int
) -> None:
    monkeypatch.setattr(batch_loop, "PART_ROWS", 3_000)
    sink = Numbered(fails_at)
    rows = {"k": range(100), "ts": [NOON] * 99 + [LATER]}
    # Commits take as many parts as are there, so there may be too few of them to fail.
    with suppress(OSError), query(sql).start(checkpoint=tmp_path, sink=lambda _: sink, commit_every="0 s") as run:
        run.push("s", rows)
        run.stop()
    assert fails_at > 1 or not sink.rows
    sink.left = 0  # from now on it takes all
    # Another life makes its blocks of other sizes; what is given under a number stays the same.
    monkeypatch.setattr(parts, "MOST_STEPS", 7)
    monkeypatch.setattr(batch_loop, "PART_ROWS", 5_000)
    with query(sql).start(checkpoint=tmp_path, sink=lambda _: sink) as run:
        run.stop()
    assert len(sink.rows) == answers
    assert len({tuple(row.values()) for row in sink.rows}) == answers


@pytest.mark.parametrize(("rows", "first"), [(1, 3), (2, 3), (3, 3), (4, 3), (5, 5), (6, 5), (7, None)])
def test_changes_of_one_instant_are_not_divided(rows: int, first: int | None) -> None:
    def batch(*instants: int) -> pa.RecordBatch:
        return pa.record_batch({"_ts": pa.array(instants, pa.timestamp("us")), "k": range(len(instants))})

    found = cut([batch(1, 1, 1), batch(2, 2, 3, 3)], rows)
    if first is None:
        assert found is None
        return
    assert found is not None
    before, after = ([one for batch in part for one in batch["_ts"].cast(pa.int64()).to_pylist()] for part in found)
    assert (len(before), before + after) == (first, [1, 1, 1, 2, 2, 3, 3])


def test_a_flood_is_stopped_and_left_out_at_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_loop, "PART_ROWS", 1_000)
    monkeypatch.setattr(durable_driver, "FINISHING_S", 0.1)
    sink = Numbered(0)
    run = query().start(checkpoint=tmp_path, sink=lambda _: sink, commit_every="0 s")
    run.push("s", {"k": [1], "ts": [NOON]})
    run.push("s", {"k": [2], "ts": [FAR]})
    until_s = monotonic() + 30
    while sink.number < 3 and monotonic() < until_s:
        time.sleep(0.01)
    began_s = monotonic()
    with pytest.warns(DataWarning, match="many_answers: .*left in the middle of its answers.*--skip-batch 1"):
        run.stop()
    assert monotonic() - began_s < 20
    with pytest.warns(DataWarning, match="skipped_batch: .*batch 1 with its 1 row"):
        run = query().start(checkpoint=tmp_path, sink=lambda _: sink, skip_batches=[1])
    run.push("s", {"k": [3], "ts": [NOON + dt.timedelta(seconds=3)]})
    run.stop()
    assert run.metrics()["late_rows"] == 0
    assert run.metrics()["skipped_batch_rows"] == 1


def test_finish_waits_for_all_answers_however_long_they_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_driver, "FINISHING_S", -1)  # whoever stops has no patience
    monkeypatch.setattr(parts, "MOST_STEPS", 7)
    sink = Numbered(0)
    run = query().start(checkpoint=tmp_path, sink=lambda _: sink)
    run.push("s", {"k": [1, 2], "ts": [NOON, NOON + dt.timedelta(seconds=99)]})
    run.finish()
    assert [row["n"] for row in sink.rows] == [1] * 99 + [2]


def test_a_batch_that_only_takes_long_is_no_flood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_driver, "FINISHING_S", -1)
    held = Event()
    session = wm.Session()
    session.stream("s", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")

    def slow(number: int) -> int:
        held.wait(60)
        return number

    session.function("slow", slow)
    sink = Numbered(0)
    run = session.sql("SELECT slow(k) AS k FROM s").start(checkpoint=tmp_path, sink=lambda _: sink)
    run.push("s", {"k": [1], "ts": [NOON]})
    stopping = Thread(target=run.stop)
    stopping.start()
    while run.is_open:  # until the stop was asked for
        time.sleep(0.001)
    held.set()
    stopping.join()
    assert sink.rows == [{"k": 1}]


def test_a_batch_that_is_not_repeated_cannot_be_left_out(tmp_path: Path) -> None:
    with query().start(checkpoint=tmp_path) as run:
        run.push("s", {"k": [1], "ts": [NOON]})
    with pytest.warns(DataWarning, match="batch_not_skipped: .*batch 7 is not one that this start repeats"):
        query().start(checkpoint=tmp_path, skip_batches=[7]).stop()


NESTED = (
    "SELECT n, COUNT(*) AS c FROM (SELECT RSTREAM COUNT(*) AS n FROM s [RANGE 10 SECONDS] EVERY 1 SECOND) "
    "[RANGE 5 SECONDS] AS r GROUP BY n"
)


def present(sink: Numbered) -> Counter[tuple[object, ...]]:
    """What the changes in a sink add up to."""
    found: Counter[tuple[object, ...]] = Counter()
    for row in sink.rows:
        found[row["n"], row["c"]] += 1 if row["_op"] == "+" else -1
    assert min(found.values(), default=0) >= 0
    return +found


@pytest.mark.parametrize("dies", [False, True])
def test_changes_of_a_batch_that_is_left_out_are_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    monkeypatch.setattr(batch_loop, "PART_ROWS", 1_000)
    monkeypatch.setattr(durable_driver, "FINISHING_S", 0.1)
    sink = Numbered(0)
    run = query(NESTED).start(checkpoint=tmp_path, sink=lambda _: sink, commit_every="0 s")
    run.push("s", {"k": [1, 2], "ts": [NOON, NOON + dt.timedelta(seconds=7)]})
    until_s = monotonic() + 30
    while not sink.rows and monotonic() < until_s:
        time.sleep(0.01)
    before = present(sink)
    run.push("s", {"k": [3], "ts": [FAR]})
    while sink.number < 3 and monotonic() < until_s:
        time.sleep(0.01)
    with pytest.warns(DataWarning, match="many_answers: .*--skip-batch 1"):
        run.stop()
    assert present(sink) != before
    asked = [1]
    if dies:  # before what is taken back is in the sink
        sink.left = 1
        with pytest.raises(OSError, match="the disk is full"), pytest.warns(DataWarning, match="skipped_batch"):
            query(NESTED).start(checkpoint=tmp_path, sink=lambda _: sink, skip_batches=asked).stop()
        sink.left, asked = 0, []
    told = r"skipped_batch: batch 1 with its 1 row.* about [\d,]+, were given before, and are taken back"
    with pytest.warns(DataWarning, match=told):
        query(NESTED).start(checkpoint=tmp_path, sink=lambda _: sink, skip_batches=asked).stop()
    assert present(sink) == before
    later = {"k": [4, 5], "ts": [NOON + dt.timedelta(seconds=one) for one in (9, 12)]}
    run = query(NESTED).start(checkpoint=tmp_path, sink=lambda _: sink)
    run.push("s", later)
    run.stop()
    without = Numbered(0)
    run = query(NESTED).start(checkpoint=tmp_path / "without", sink=lambda _: without)
    run.push("s", {"k": [1, 2], "ts": [NOON, NOON + dt.timedelta(seconds=7)]})
    run.push("s", later)
    run.stop()
    assert present(sink) == present(without) != before


def test_a_batch_whose_answers_were_given_is_not_left_out(tmp_path: Path) -> None:
    sink = Numbered(0)
    run = query().start(checkpoint=tmp_path, sink=lambda _: sink, save_every="1 hour", commit_every="0 s")
    run.push("s", {"k": [1, 2], "ts": [NOON, NOON + dt.timedelta(seconds=7)]})
    until_s = monotonic() + 30
    while not sink.rows and monotonic() < until_s:
        time.sleep(0.01)
    shutil.copytree(tmp_path, tmp_path / "killed")
    run.stop()
    with pytest.raises(RunError, match=r"^batch 0 cannot be left out: all its answers were given already"):
        query().start(checkpoint=tmp_path / "killed", sink=lambda _: sink, skip_batches=[0])


def test_a_batch_whose_rows_are_refused_when_they_are_looked_at_may_be_left_out(tmp_path: Path) -> None:
    def started(*skipped: int) -> wm.Run:
        session = wm.Session()
        session.stream("s", str(tmp_path / "in"), time="ts")
        return session.sql("SELECT k FROM s").start(
            checkpoint=tmp_path / "state", sink=lambda _: sink, available_now=True, skip_batches=skipped
        )

    def put(when: dt.datetime | None) -> None:
        pq.write_table(pa.table({"k": [1], "ts": pa.array([when], pa.timestamp("us"))}), tmp_path / "in" / "1.parquet")

    sink = Numbered(1)
    (tmp_path / "in").mkdir()
    put(NOON)
    with pytest.raises(OSError, match="the disk is full"):
        started().wait(30)
    put(None)
    with pytest.raises(RunError, match=r"batch 0 fails whenever it is repeated: .* is NULL"):
        started()
    with pytest.warns(DataWarning, match="skipped_batch: .*batch 0 with its 1 row"):
        started(0).wait(30)
    assert sink.rows == []


SCRIPT = """
CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (source='parquet', path='{0}/s', time='ts');
CREATE SINK counts WITH (sink='parquet', path='{0}/out') AS
  SELECT RSTREAM COUNT(*) AS n FROM s [UNBOUNDED] EVERY 1 SECOND;
"""


def started(folder: Path, *options: str) -> Running:
    checkpoint = ("--checkpoint", str(folder / "state"))
    return watersmeet("run", str(folder / "q.sql"), "--engine", "local", *checkpoint, "--quiet", *options)


@pytest.mark.slow
def test_ctrl_c_is_heard_in_a_flood_and_at_the_start_that_repeats_it(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "q.sql").write_text(SCRIPT.format(tmp_path))
    pq.write_table(pa.table({"k": [1, 2], "ts": pa.array([NOON, FAR], pa.timestamp("us"))}), tmp_path / "s/1.parquet")
    for _ in range(2):  # the second time it is repeated
        process = started(tmp_path)
        told = ""
        while "--skip-batch 0" not in told:
            told += process.stderr.readline().replace("\n", " ")
        assert "9999-01-01" in told
        assert "max_future" in told
        process.send_signal(signal.SIGTERM)
        assert process.communicate().returncode == 130
    ended = started(tmp_path, "--skip-batch", "0", "--available-now").communicate()
    assert "batch 0 with its 2 rows was left out" in ended.stderr
    assert ended.returncode == 0
