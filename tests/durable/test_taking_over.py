"""One query takes the place of another under load: no answer is lost, and none comes twice."""

from __future__ import annotations

import datetime as dt
import signal
from collections import Counter
from pathlib import Path
from threading import Event, Thread
from time import sleep
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.durable.lives import POINTS_OF_SUCCESSIONS, die_at, rows_of
from tests.durable.test_come_and_go import COUNT, QUERIES, _session, bag, expected, given
from tests.durable.test_savepoint_command import check, command, running, script, wait_for, write
from tests.one_life import lived_through
from watersmeet.errors import RunError

# Other texts that mean the same, but are other queries to a checkpoint.
SAME = {
    "wide": QUERIES["wide"].replace("WHERE", "WHERE a.id >= 0 AND"),
    "near": QUERIES["near"].replace("WHERE", "WHERE b.id >= 0 AND"),
    "groups": "SELECT k, COUNT(id) AS n FROM a [RANGE 5 SECONDS] GROUP BY k",
    "all_of_a": "SELECT ts AS at, id AS x FROM a WHERE id >= 0",
}
PIECE = 5


def sunk(folder: Path, name: str, query: str) -> str:
    return f"CREATE SINK {name} WITH (sink = 'parquet', path = '{folder}/out_{name}') AS {query}"


class Load:
    """All rows, piece by piece, from a thread of its own: pushed, or as files."""

    def __init__(self, folder: Path, runs: Any, *, pushed: bool, holds_back: bool = False) -> None:
        """holds_back: the last quarter, until `may_end`."""
        self._folder, self._runs, self._pushed = folder, runs, pushed
        self.may_end = Event()
        if not holds_back:
            self.may_end.set()
        self._rows = {name: rows_of(name, COUNT) for name in "ab"}
        self.is_half = Event()
        self._thread = Thread(target=self._bring)
        self._thread.start()

    def _bring(self) -> None:
        execution = self._runs[next(iter(self._runs))].driver.execution
        for at in range(0, COUNT, PIECE):
            if at >= 3 * COUNT // 4:
                assert self.may_end.wait(60)
            for name in execution.streams:
                self._bring_piece(name, at)
            if at >= COUNT // 2:
                self.is_half.set()
            sleep(0.02 if self.is_half.is_set() else 0.001)

    def _bring_piece(self, name: str, at: int) -> None:
        piece, path = self._rows[name].slice(at, PIECE), self._folder / name / f"{at:04d}.parquet"
        if self._pushed:
            self._runs.push(name, piece, at=at)
        elif not path.exists():
            draft = self._folder / f".{name}"
            pq.write_table(piece, draft)
            draft.rename(path)

    def wait(self) -> None:
        self._thread.join()
        while any(self._runs.taken(name) < COUNT for name in self._streams()):
            sleep(0.01)

    def _streams(self) -> list[str]:
        return [name for run in self._runs._all() if run.is_open for name in run.driver.execution.streams]


def folders(folder: Path) -> None:
    for name in "ab":
        (folder / name).mkdir(exist_ok=True)


@pytest.mark.parametrize("pushed", [True, False])
@pytest.mark.parametrize("name", SAME)
def test_a_query_that_means_the_same_gives_the_rest_of_the_answer(name: str, tmp_path: Path, *, pushed: bool) -> None:
    folders(tmp_path)
    asked = sunk(tmp_path, name, QUERIES[name])
    with _session(tmp_path, pushed=pushed).start(asked, checkpoint=tmp_path / "state") as runs:
        load = Load(tmp_path, runs, pushed=pushed)
        load.is_half.wait()
        before = runs[name]
        now = runs.replace(name, SAME[name], compare="0.1 seconds", if_same=True)
        assert now.is_open
        assert not before.is_open
        load.wait()
    assert bag(given(tmp_path, name)) == bag(expected(name))
    again = sunk(tmp_path, name, SAME[name])
    with _session(tmp_path, pushed=pushed).start(again, checkpoint=tmp_path / "state") as runs:
        assert {runs.taken(stream) for stream in runs[name].driver.execution.streams} == {COUNT}
    assert bag(given(tmp_path, name)) == bag(expected(name))
    assert [one.name for one in (tmp_path / "state").iterdir()] == [f"{name}.2"]


@pytest.mark.parametrize(("pushed", "wider"), [(True, False), (False, False), (True, True)])
def test_each_batch_is_answered_by_one_of_the_two(tmp_path: Path, *, pushed: bool, wider: bool) -> None:
    """What is in the sink is what the one gave of some rows, and the other of the rest. A wider window waits until it
    is whole."""
    folders(tmp_path)
    queries = [QUERIES["wide"].replace(", a.s", ""), QUERIES["near"]]
    first, then = reversed(queries) if wider else queries
    asked = sunk(tmp_path, "wide", first)
    with _session(tmp_path, pushed=pushed).start(asked, checkpoint=tmp_path / "state") as runs:
        load = Load(tmp_path, runs, pushed=pushed, holds_back=not wider)  # a wider one wants rows before it is whole
        load.is_half.wait()
        runs.replace("wide", then, compare="0 seconds")
        load.may_end.set()
        load.wait()
    found = bag(given(tmp_path, "wide"))
    narrowed = [{name: row[name] for name in ("at", "x", "y")} for row in expected("wide")]
    wide, near = bag(narrowed), bag(expected("near"))
    assert near < found < wide  # between the two: no answer of the narrow one is missing
    last = dt.datetime(1970, 1, 1, 0, 0, 58)
    ends = bag([row for row in (narrowed if wider else expected("near")) if row["at"] > last])
    assert bag([row for row in given(tmp_path, "wide") if row["at"] > last]) == ends


def test_an_answer_that_changes_is_that_of_the_new_query_from_then_on(tmp_path: Path) -> None:
    asked = sunk(tmp_path, "groups", QUERIES["groups"])
    other = "SELECT k, COUNT(*) AS n FROM a [RANGE 3 SECONDS] WHERE k < 15 GROUP BY k"
    with _session(tmp_path, pushed=True).start(asked, checkpoint=tmp_path / "state") as runs:
        load = Load(tmp_path, runs, pushed=True)
        load.is_half.wait()
        now = runs.replace("groups", other)
        load.wait()
        runs.stop()
        answer = now.answer()
    there: Counter[tuple[int, int]] = Counter()
    for row in given(tmp_path, "groups"):
        there[row["k"], row["n"]] += 1 if row["_op"] == "+" else -1
    assert answer.num_rows
    assert +there == Counter((row["k"], row["n"]) for row in answer.to_pylist())
    assert min(there.values()) == 0


def test_other_answers_change_nothing_if_they_must_be_the_same(tmp_path: Path) -> None:
    narrower = QUERIES["near"].replace("2 SECONDS", "1 SECOND")
    message = "near is what it was, as the new query gave other answers; compared: .* only of the one before"
    asked = sunk(tmp_path, "near", QUERIES["near"])
    with _session(tmp_path, pushed=True).start(asked, checkpoint=tmp_path / "state") as runs:
        load = Load(tmp_path, runs, pushed=True)
        load.is_half.wait()
        with pytest.raises(RunError, match=message):
            runs.replace("near", narrower, compare="0.2 seconds", if_same=True)
        load.wait()
    assert bag(given(tmp_path, "near")) == bag(expected("near"))
    assert [one.name for one in (tmp_path / "state").iterdir() if one.is_dir()] == []


@pytest.mark.parametrize(
    ("name", "query", "message"),
    [
        ("near", QUERIES["groups"], "near gives rows that stay, and the new query changes of an answer"),
        (
            "groups",
            "SELECT k, COUNT(*) AS n, 1 AS one FROM a [RANGE 5 SECONDS] GROUP BY k",
            "rows that are in the sink could not be taken",
        ),
        ("nobody", QUERIES["near"], "no query 'nobody' is running"),
        ("near", "CREATE SINK far WITH (sink = 'csv', path = 'x') AS SELECT id FROM a", "'far' cannot take the place"),
    ],
)
def test_what_cannot_take_the_place_is_refused_at_once(name: str, query: str, message: str, tmp_path: Path) -> None:
    asked = "; ".join(sunk(tmp_path, one, QUERIES[one]) for one in ("near", "groups"))
    with _session(tmp_path, pushed=True).start(asked, checkpoint=tmp_path / "state") as runs:
        with pytest.raises(RunError, match=message):
            runs.replace(name, query)
        assert list(runs) == ["near", "groups"]


# ---- killed ---------------------------------------------------------------------------------------------------------


def one_life(folder: Path, name: str, pushed: bool, point: str | None, after: int) -> None:
    """To the end of all rows, with the query that has the place, which the other one takes in the middle."""
    session = _session(folder, pushed=pushed)
    if point is not None:
        die_at(point, after)
    try:
        runs = session.start(sunk(folder, name, SAME[name]), checkpoint=folder / "state", save_every="20 ms")
    except RunError:  # it is before: the checkpoint is of the other one
        runs = session.start(sunk(folder, name, QUERIES[name]), checkpoint=folder / "state", save_every="20 ms")
        load = Load(folder, runs, pushed=pushed)
        load.is_half.wait()
        runs.replace(name, SAME[name], compare="0 seconds")
        load.wait()
    else:
        Load(folder, runs, pushed=pushed).wait()
    runs.finish()


@pytest.mark.parametrize(("at", "point"), list(enumerate(POINTS_OF_SUCCESSIONS)))
def test_killed_at_any_point_it_is_before_or_after(at: int, point: str, tmp_path: Path) -> None:
    folders(tmp_path)
    name, pushed = ("near", "groups")[at % 2], bool(at // 2 % 2)
    with _session(tmp_path, pushed=pushed).start(sunk(tmp_path, name, QUERIES[name]), checkpoint=tmp_path / "state"):
        pass
    assert not lived_through(one_life, tmp_path, name, pushed, point, 0)
    assert lived_through(one_life, tmp_path, name, pushed, None, 0)
    assert bag(given(tmp_path, name)) == bag(expected(name))
    assert len([one for one in (tmp_path / "state").iterdir() if one.is_dir()]) == 1


# ---- by the command -------------------------------------------------------------------------------------------------


def test_by_the_command_of_a_run_in_another_process(tmp_path: Path) -> None:
    old = script(tmp_path)
    new = tmp_path / "new.sql"
    new.write_text(
        old.read_text().replace("WHERE a.k = b.k", "WHERE a.k = b.k AND a.v >= 0").replace("SUM(v) AS", "SUM(v + 0) AS")
    )
    write(tmp_path, 0, 400)
    process = running(old, tmp_path / "state")
    try:
        wait_for(tmp_path, 400)
        stop = Event()

        def load() -> None:
            for at in range(400, 1000, 20):
                write(tmp_path, at, at + 20)
                if not stop.wait(0.05):
                    continue

        thread = Thread(target=load)
        thread.start()
        command("replace", tmp_path / "state", new, "--compare", "0.3 s")
        stop.set()
        thread.join()
        wait_for(tmp_path, 1000)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        process.kill()
    command("run", new, "--engine", "local", "--checkpoint", tmp_path / "state", "--available-now", "--flush", "-q")
    check(tmp_path)
