"""A start over a checkpoint with a join that has other windows or columns: it goes on with the rows that are kept."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import watersmeet as wm
from tests.durable.lives import die_at, rows_of
from tests.durable.test_changed_savepoints import NOON, _bag, _join, _pairs, _rows, _session
from tests.durable.test_changes import diff, push, session, sunk
from tests.durable.test_come_and_go import COUNT, Script, bag, given
from tests.durable.test_savepoint_command import command
from tests.one_life import lived_through
from watersmeet.cli.commands import app
from watersmeet.errors import RunError, WatersmeetError

HALF = COUNT // 2
SECOND = dt.timedelta(seconds=1)
KINDS = {"n": pa.int64(), "k": pa.int64(), "v": pa.string(), "ts": pa.timestamp("us")}
WIDE = "SELECT event_time() AS at, a.id AS x, b.id AS y, a.s FROM a, b WHERE a.k = b.k WINDOW = 8 SECONDS"
NARROW = WIDE.replace("8 S", "3 S")
FEWER = "SELECT b.id AS y, a.id + 1 AS x, UPPER(a.s) AS s FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS"


def found(query: str, until: int = COUNT) -> Counter[str]:
    made = wm.Session()
    for stream in "ab":
        made.stream(stream, rows_of(stream, COUNT).slice(0, until), time="ts", lateness="1 second")
    return bag(made.sql(query).to_arrow().to_pylist())


def changed_after_half(*queries: str) -> Counter[str]:
    """What the first finds of half of the rows, and the last of all others with those; none of those between gave
    anything."""
    return found(queries[0], HALF) + (found(queries[-1]) - found(queries[-1], HALF))


# ---- exact ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pushed", [True, False])
@pytest.mark.parametrize("now", [NARROW, FEWER])
def test_a_narrower_window_and_other_columns_are_exact_from_the_start_on(
    now: str, tmp_path: Path, *, pushed: bool
) -> None:
    script = Script(tmp_path, pushed=pushed)
    before = script.run(script.text(near=WIDE), HALF).runs["near"]
    jobs = script.run(script.text(near=now), COUNT)
    run = jobs.runs["near"]
    assert run.name == before.name
    assert run.progress.first == before.progress.number + 2  # the same numbers, behind one in which nothing came
    assert any(words.startswith("near goes on changed: ") and "window narrower" in words for words in jobs.words)
    assert bag(script.given("near")) == changed_after_half(WIDE, now)


def test_in_other_threads_too(tmp_path: Path) -> None:
    script = Script(tmp_path, pushed=False)
    for number, threads in enumerate((2, 1, 3)):
        query = f"{NARROW if number else WIDE} OPTIONS (threads = {threads})"
        script.run(script.text(near=query), COUNT if number == 2 else HALF)
    assert bag(script.given("near")) == changed_after_half(WIDE, NARROW)


def test_it_may_change_again_and_back_and_beside_others_that_stay(tmp_path: Path) -> None:
    script = Script(tmp_path, pushed=False)
    for now in (WIDE, NARROW, FEWER, WIDE, NARROW):
        script.run(script.text("groups", near=now), HALF)
    script.run(script.text("groups", near=NARROW), COUNT)
    assert bag(script.given("near")) == changed_after_half(WIDE, NARROW)
    groups = [row["n"] * (1 if row["_op"] == "+" else -1) for row in script.given("groups")]
    again = Script(tmp_path / "apart", pushed=False) if (tmp_path / "apart").mkdir() is None else script
    again.run(again.text("groups"), COUNT)
    assert sum(groups) == sum(row["n"] * (1 if row["_op"] == "+" else -1) for row in again.given("groups"))


@pytest.mark.parametrize("seed", range(2))
def test_a_wider_window_is_whole_once_time_has_gone_on_by_the_difference(tmp_path: Path, seed: int) -> None:
    rows, half = _rows(seed), 200
    answers: list[dict[str, Any]] = []
    with _session().sql(_join(5)).start(checkpoint=tmp_path / "state", on_answer=lambda batch: None) as run:
        for name, row in rows[:half]:
            run.push(name, row)
    with (
        _session()
        .sql(_join(20))
        .start(checkpoint=tmp_path / "state", on_answer=lambda b: answers.extend(b.to_pylist())) as run
    ):
        whole = run.whole_from
        assert run.taken("a") + run.taken("b") == half
        for name, row in rows[half:]:
            run.push(name, row)
    watermark = min(max(row["ts"] for name, row in rows[:half] if name == one) for one in "ab")
    assert whole == watermark + 15 * SECOND
    expected = _pairs(rows, half, 20)
    times = {row["n"]: row["ts"] for _, row in rows}
    late = Counter({pair: n for pair, n in expected.items() if max(times[one] for one in pair) >= whole})
    assert late
    assert _pairs(rows, half, 5) <= _bag(answers) <= expected
    assert Counter({pair: n for pair, n in _bag(answers).items() if pair in late}) == late
    with _session().sql(_join(20)).start(checkpoint=tmp_path / "state", on_answer=lambda batch: None) as run:
        assert run.whole_from == whole


BETWEEN_THREE = {
    "window": "WINDOW = {} SECONDS",
    "directed": "DWINDOW (a, b) = {} SECONDS AND DWINDOW (b, c) = {} SECONDS",
    "by times": "AND a.ts BETWEEN b.ts - INTERVAL {} SECONDS AND b.ts + INTERVAL 2 SECONDS DWINDOW (c, b) = {} SECONDS",
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("windows", BETWEEN_THREE)
def test_of_three_streams_out_of_order(windows: str, seed: int, tmp_path: Path) -> None:
    rng, at, rows = random.Random(seed), 0, []
    for n in range(240):
        at += rng.choice([0, 1, 1, 2])
        time = NOON + max(at - rng.choice([0, 0, 1, 2]), 0) * SECOND
        rows.append((rng.choice("abc"), {"n": n, "k": rng.randrange(3), "v": rng.choice("uv"), "ts": time}))
    half, wide = rng.randrange(60, 180), [rng.randrange(8, 14), rng.randrange(8, 14)]
    narrow = [size - rng.randrange(1, 5) for size in wide]
    joined = f"FROM a, b, c WHERE a.k = b.k AND b.k = c.k {BETWEEN_THREE[windows]}"
    before = f"SELECT a.n AS x, b.n AS y, c.n AS z, event_time() AS at {joined.format(*wide)}"
    now = f"SELECT c.n AS z, a.n AS x, b.n AS y, a.n + c.n AS total {joined.format(*narrow)}"

    def of_three(until: int | None = None) -> wm.Session:
        made = wm.Session()
        for name in "abc":
            if until is None:
                made.stream(name, schema=KINDS, time="ts", lateness="3 seconds")
            else:
                some = pa.Table.from_pylist([row for other, row in rows[:until] if other == name], pa.schema(KINDS))
                made.stream(name, some, time="ts", lateness="3 seconds")
        return made

    def bag_of(query: str, until: int) -> Counter[str]:
        return bag(of_three(until).sql(query).to_arrow().to_pylist())

    given: list[dict[str, Any]] = []
    for query, part in ((before, rows[:half]), (now, rows[half:])):
        with (
            of_three()
            .sql(query)
            .start(checkpoint=tmp_path / "state", on_answer=lambda some: given.extend(some.to_pylist())) as run
        ):
            for name, row in part:
                run.push(name, row)
    expected = bag_of(before, half) + (bag_of(now, len(rows)) - bag_of(now, half))
    assert expected
    assert bag(given) == expected


# ---- killed ---------------------------------------------------------------------------------------------------------

POINTS = [
    *(("Place.write_whole before", after) for after in range(0, 8, 2)),
    *(("Place.write_whole after", after) for after in range(1, 6, 2)),
    *((f"Snapshots.{what}", after) for what in ("write before", "write after", "publish after") for after in (0, 1)),
    ("Checkpoint.publish_state before", 1),
    ("Checkpoint.go_on_changed before", 0),
    ("Checkpoint.go_on_changed after", 0),
    ("FilesSink.commit before", 0),
    ("FilesSink.commit after", 0),
    ("Answering.answer after", 1),
]


def one_life(script: Script, query: str, until: int, point: str | None, after: int) -> None:
    if point is not None:
        die_at(point, after)
    script.run(script.text(near=query), until)


@pytest.mark.parametrize(("at", "point"), list(enumerate(POINTS)))
def test_killed_at_any_point_the_answers_are_those_of_one_of_the_two(
    at: int, point: tuple[str, int], tmp_path: Path
) -> None:
    script = Script(tmp_path, pushed=False)
    # All was read, nothing was saved, and some answers are not in the sink.
    assert not lived_through(one_life, script, WIDE, HALF, "Snapshots.write before", 0)
    assert not lived_through(one_life, script, NARROW, HALF, *point)
    if at % 2:  # back to what it was, and changed again
        assert lived_through(one_life, script, WIDE, HALF, None, 0)
    assert lived_through(one_life, script, NARROW, COUNT, None, 0)
    assert bag(script.given("near")) == changed_after_half(WIDE, NARROW)


# ---- what is refused, with nothing changed --------------------------------------------------------------------------


def test_what_is_kept_no_longer_or_was_never_is_refused(tmp_path: Path) -> None:
    script = Script(tmp_path, pushed=False)
    script.run(script.text(near=NARROW), HALF)
    for query, why in (
        (NARROW.replace("a.s ", "a.s, b.v "), r"column added: v = b\.v"),
        (NARROW.replace("WHERE", "WHERE a.id > 3 AND"), "condition added"),
        ("SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k", "another query"),
    ):
        with pytest.raises(RunError, match=why):
            script.run(script.text(near=query), HALF)
    script.run(script.text(near=NARROW), COUNT)
    assert bag(script.given("near")) == found(NARROW)


def test_answers_that_were_not_taken_are_not_passed_over(tmp_path: Path) -> None:
    rows = _rows(1)
    with _session().sql(_join(9)).start(checkpoint=tmp_path / "state") as run:
        for name, row in rows[:200]:
            run.push(name, row)
    with pytest.raises(RunError, match="were not taken, and a query that has changed does not give them"):
        _session().sql(_join(4)).start(checkpoint=tmp_path / "state")
    with _session().sql(_join(9)).start(checkpoint=tmp_path / "state") as run:
        taken = run.take(timeout=10).to_pylist()
    with _session().sql(_join(4)).start(checkpoint=tmp_path / "state") as run:
        for name, row in rows[200:]:
            run.push(name, row)
        taken += run.take(timeout=10).to_pylist()
    assert _bag(taken) == _pairs(rows[:200], 0, 9) + _pairs(rows, 200, 4)


def test_a_script_of_session_start_changes_too(tmp_path: Path) -> None:
    rows = _rows(2)

    def asked(seconds: int) -> str:
        return f"CREATE SINK s WITH (sink = 'parquet', path = '{tmp_path}/out_s') AS {_join(seconds)}"

    for part, seconds in ((rows[:200], 9), (rows[200:], 4)):
        with _session().start(asked(seconds), checkpoint=tmp_path / "state") as runs:
            for name, row in part:
                runs.push(name, row)
    assert _bag(given(tmp_path, "s")) == _pairs(rows[:200], 0, 9) + _pairs(rows, 200, 4)


def test_with_another_lateness_only_where_nothing_has_to_be_repeated(tmp_path: Path) -> None:
    script = Script(tmp_path, pushed=False)
    later = script.text(near=NARROW).replace("1 second", "2 seconds")
    assert not lived_through(one_life, script, WIDE, HALF, "Snapshots.write before", 0)
    with pytest.raises(RunError, match="lateness of stream 'a' was '1 s' and is now '2 s'"):
        script.run(later, HALF)
    script.run(script.text(near=WIDE), HALF)
    script.run(later, COUNT)
    assert bag(script.given("near")) == changed_after_half(WIDE, NARROW)


def test_a_new_column_of_a_stream_comes_along(tmp_path: Path) -> None:
    with session().start(sunk(tmp_path, "near", WIDE), checkpoint=tmp_path / "state") as runs:
        push(runs, 0, HALF)
    with session(a="more").start(sunk(tmp_path, "near", NARROW), checkpoint=tmp_path / "state") as runs:
        push(runs, HALF, COUNT, a="more")
    assert bag(given(tmp_path, "near")) == changed_after_half(WIDE, NARROW)


def test_over_a_checkpoint_in_a_store(tmp_path: Path) -> None:
    rows, where = _rows(4), f"file://{tmp_path}/store/state"
    answers: list[dict[str, Any]] = []

    def heard(batch: pa.RecordBatch) -> None:
        answers.extend(batch.to_pylist())

    for seconds, part in ((9, rows[:150]), (4, rows[150:250]), (4, rows[250:])):
        with _session().sql(_join(seconds)).start(checkpoint=where, on_answer=heard) as run:
            for name, row in part:
                run.push(name, row)
    assert _bag(answers) == _pairs(rows[:150], 0, 9) + _pairs(rows, 150, 4)


def test_a_checkpoint_that_is_older_than_its_sink_is_refused_as_ever(tmp_path: Path) -> None:
    script = Script(tmp_path, pushed=False)
    script.run(script.text(near=WIDE), HALF)
    shutil.copytree(tmp_path / "state", tmp_path / "older")
    script.run(script.text(near=WIDE), HALF + 100)
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "older").rename(tmp_path / "state")
    with pytest.raises(WatersmeetError, match="older than what was written with it"):
        script.run(script.text(near=NARROW), COUNT)


# ---- by the command -------------------------------------------------------------------------------------------------


def test_the_command_goes_on_and_state_diff_has_said_so(tmp_path: Path) -> None:
    script = Script(tmp_path, pushed=False)
    script.run(script.text(near=WIDE), HALF)
    new = tmp_path / "new.sql"
    new.write_text(script.text(near=NARROW))
    (near,) = json.loads(diff(tmp_path / "state", new, "--json"))
    assert near["verdict"] == "goes on"
    assert near["changes"][0]["meaning"].startswith("exact from here on")
    words = ("run", new, "--engine", "local", "--checkpoint", tmp_path / "state", "--available-now", "--flush")
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 0, done.output
    assert "near goes on changed: window narrower: " in done.stderr
    assert diff(tmp_path / "state", new) == "near: the same\n"


def test_savepoint_and_replace_of_a_stopped_run_want_the_script_that_was_running(tmp_path: Path) -> None:
    script = Script(tmp_path, pushed=False)
    script.run(script.text(near=WIDE), HALF)
    new, old = tmp_path / "new.sql", tmp_path / "old.sql"
    new.write_text(script.text(near=NARROW))
    old.write_text(script.text(near=WIDE))
    for words in (("savepoint", tmp_path / "state", tmp_path / "moved"), ("replace", tmp_path / "state", new)):
        done = CliRunner().invoke(app, [*map(str, words), "--script", str(new)])
        assert "is of the query as it was, before:" in str(done.exception)
        assert "window narrower" in str(done.exception)
    command("savepoint", tmp_path / "state", tmp_path / "moved", "--script", old)
    script.run(script.text(near=NARROW), COUNT)
    assert bag(script.given("near")) == changed_after_half(WIDE, NARROW)
