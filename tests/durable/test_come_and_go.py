"""A script is changed over the same checkpoint: what stays goes on, what is new begins with what the others keep, and
what is gone is let go of."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.durable.lives import rows_of
from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.jobs import DurableJobs
from watersmeet.runtime.declaring import open_to_go_on
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import read_script

COUNT = 400
QUERIES = {
    "wide": "SELECT event_time() AS at, a.id AS x, b.id AS y, a.s FROM a, b WHERE a.k = b.k WINDOW = 8 SECONDS",
    "near": "SELECT event_time() AS at, a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS",
    "groups": "SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k",
    "all_of_a": "SELECT ts AS at, id AS x FROM a",
}


class Script:
    """Queries over two streams that are read from folders, or pushed."""

    def __init__(self, folder: Path, *, pushed: bool) -> None:
        self.folder, self.pushed = folder, pushed
        for name in "ab":
            (folder / name).mkdir()

    def text(self, *names: str, **more: str) -> str:
        parts = []
        for name in "ab":
            source = "" if self.pushed else f"source = 'parquet', path = '{self.folder}/{name}', "
            parts.append(
                f"CREATE STREAM {name} (id BIGINT, k BIGINT, v DOUBLE, s VARCHAR, ts TIMESTAMP) "
                f"WITH ({source}time = 'ts', lateness = '1 second');"
            )
        for name in [*names, *more]:
            sink = f"sink = 'parquet', path = '{self.folder}/out_{name}'"
            parts.append(f"CREATE SINK {name} WITH ({sink}) AS {more.get(name) or QUERIES[name]};")
        return "\n".join(parts)

    def made(self, text: str, **settings: Any) -> DurableJobs:
        jobs = read_script(text, opener=open_to_go_on, pushed=self.pushed)
        said = RunSettings(available_now=not self.pushed, **settings)
        return DurableJobs(jobs, self.folder / "state", said, tell=lambda what: None, pushed=self.pushed)

    def run(self, text: str, until: int) -> DurableJobs:
        """A start that takes all rows up to a number of each stream."""
        if not self.pushed:
            for name in "ab":
                for at in range(0, until, 50):
                    path = self.folder / name / f"{at:04d}.parquet"
                    if not path.exists():
                        pq.write_table(rows_of(name, COUNT).slice(at, 50), path)
        jobs = self.made(text)
        jobs.start()
        if self.pushed:
            for run in jobs.runs.values():
                for at in range(0, until, 10):
                    for name in run.execution.streams:
                        if run.taken(name) <= at:
                            run.push(name, rows_of(name, COUNT).slice(at, 10))
            jobs.stop()
        else:
            jobs.wait()
        return jobs

    def given(self, name: str) -> list[dict[str, Any]]:
        return given(self.folder, name)


def given(folder: Path, name: str) -> list[dict[str, Any]]:
    files = sorted((folder / f"out_{name}").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def expected(name: str, until: int = COUNT) -> list[dict[str, Any]]:
    session = wm.Session()
    for stream in "ab":
        session.stream(stream, rows_of(stream, COUNT).slice(0, until), time="ts", lateness="1 second")
    found: list[dict[str, Any]] = session.sql(QUERIES[name]).to_arrow().to_pylist()
    return found


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, rows))


@pytest.mark.parametrize("pushed", [True, False])
def test_one_that_is_added_begins_with_what_others_keep_and_one_that_is_dropped_is_let_go_of(
    tmp_path: Path, *, pushed: bool
) -> None:
    script = Script(tmp_path, pushed=pushed)
    script.run(script.text("wide", "groups"), 200)
    jobs = script.run(script.text("near", "wide"), 300)
    near = jobs.runs["near"].execution
    assert "near begins with" in jobs.words[0]
    assert "groups is no longer in the script, and its state" in jobs.words[1]
    assert sorted(one.name for one in (tmp_path / "state").iterdir()) == ["near", "wide"]
    jobs = script.run(script.text("near", "wide"), COUNT)
    assert jobs.words == []
    assert jobs.runs["near"].execution.whole_us == near.whole_us > 0
    assert bag(script.given("wide")) == bag(expected("wide"))
    whole = [row for row in expected("near") if row["at"].timestamp() * 1e6 >= near.whole_us]
    assert 0 < len(whole) < len(expected("near"))
    first = min(row["at"] for row in whole)
    assert first < max(row["ts"] for row in rows_of("a", COUNT).slice(0, 200).to_pylist())
    assert bag(script.given("near")) == bag(whole)


def test_what_others_do_not_keep_is_read_from_the_beginning(tmp_path: Path) -> None:
    script = Script(tmp_path, pushed=False)
    script.run(script.text("near"), 200)  # alone, in the folder itself
    jobs = script.run(script.text("near", "all_of_a", "wide"), 300)
    assert jobs.words[0] == "all_of_a was added, and reads its streams from their beginning"
    assert "wide begins with" not in jobs.words[1]  # it looks at a.s, which `near` does not keep
    script.run(script.text("all_of_a"), COUNT)
    assert bag(script.given("all_of_a")) == bag(expected("all_of_a"))
    assert bag(script.given("wide")) <= bag(expected("wide"))
    assert not (tmp_path / "state" / "query.json").exists()


def test_queries_without_names_are_known_by_what_they_ask(tmp_path: Path) -> None:
    script = Script(tmp_path, pushed=True)
    declared = script.text()
    one, two, three = (f"SELECT id FROM a WHERE k = {number};" for number in range(3))

    def folders(*queries: str) -> list[str]:
        jobs = script.run(declared + "".join(queries), 100)
        return [run.folder.name for run in jobs.runs.values()]

    assert folders(one, two) == ["query_1", "query_2"]
    assert folders(two, one) == ["query_2", "query_1"]
    assert folders(three, two, one) == ["query_3", "query_2", "query_1"]
    assert folders(two) == ["query_2"]
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["query_2"]


def test_a_changed_query_of_the_same_name_and_a_strange_script_are_refused(tmp_path: Path) -> None:
    script = Script(tmp_path, pushed=True)
    script.run(script.text("wide", "groups"), 100)
    with pytest.raises(RunError, match="belongs to another query"):
        script.run(script.text("groups", wide=QUERIES["near"].replace("WHERE", "WHERE a.id > 5 AND")), 100)
    with pytest.raises(RunError, match=r"several queries .groups and wide., and this is another"):
        script.run(script.text("near"), 100)
    assert sorted(one.name for one in (tmp_path / "state").iterdir()) == ["groups", "wide"]


def test_parts_of_a_memory_go_by_who_shares_it(tmp_path: Path) -> None:
    script = Script(tmp_path, pushed=True)
    texts = {
        name: f"SELECT a.id FROM a, b WHERE a.k = b.k WINDOW = {width} SECONDS OPTIONS (shed = 'rand')"
        for name, width in (("one", 8), ("two", 4), ("three", 6))
    }

    def parts(*names: str) -> dict[str, int]:
        text = "SET memory = '60 rows';" + script.text(**{name: texts[name] for name in names})
        jobs = script.run(text, COUNT)
        return {name: run.metrics()["memory_rows"] for name, run in jobs.runs.items()}

    assert parts("one", "two") == {"one": 30, "two": 30}
    assert parts("one", "two", "three") == {"one": 20, "two": 20, "three": 20}
    assert parts("three", "one") == {"three": 30, "one": 30}


def _session(folder: Path, *, pushed: bool) -> wm.Session:
    session = wm.Session()
    schema = {"id": "BIGINT", "k": "BIGINT", "v": "DOUBLE", "s": "VARCHAR", "ts": "TIMESTAMP"}
    for name in "ab":
        if pushed:
            session.stream(name, schema=schema, time="ts", lateness="1 second")
        else:
            session.stream(
                name, source="parquet", path=str(folder / name), schema=schema, time="ts", lateness="1 second"
            )
    return session


def _sunk(folder: Path, name: str) -> str:
    return f"CREATE SINK {name} WITH (sink = 'parquet', path = '{folder}/out_{name}') AS {QUERIES[name]}"


def test_queries_come_and_go_in_a_run_with_a_checkpoint_and_after_a_restart(tmp_path: Path) -> None:
    rows = {name: rows_of(name, COUNT) for name in "ab"}

    def push(runs: Any, start: int, stop: int) -> None:
        for at in range(start, stop, 20):
            for name in "ab":
                runs.push(name, rows[name].slice(at, 20), at=at)

    wide, near, all_of_a = (_sunk(tmp_path, name) for name in ("wide", "near", "all_of_a"))
    with _session(tmp_path, pushed=True).start(f"{wide}; {all_of_a}", checkpoint=tmp_path / "state") as runs:
        push(runs, 0, 200)
        added = runs.add(near)
        assert added.taken("a") == 200
        whole = added.whole_from
        push(runs, 200, 240)
        taken = runs.add(QUERIES["near"], name="taken")
        dropped = runs.drop("all_of_a")
        assert not dropped.is_open
        push(runs, 240, 300)
    assert sorted(one.name for one in (tmp_path / "state").iterdir()) == ["near", "taken", "wide"]
    found = taken.take()
    with _session(tmp_path, pushed=True).start(f"{near}; {wide}", checkpoint=tmp_path / "state") as runs:
        assert runs["near"].whole_from == whole
        assert runs.taken("a") == runs.taken("b") == 300
        push(runs, 280, COUNT)  # of which 20 are there
    assert bag(given(tmp_path, "wide")) == bag(expected("wide"))
    assert bag(given(tmp_path, "near")) == bag([row for row in expected("near") if row["at"] >= whole])
    assert bag(given(tmp_path, "all_of_a")) == bag(expected("all_of_a", 240))
    assert bag(found.to_pylist()) == bag([row for row in expected("near", 300) if row["at"] >= taken.whole_from])


def test_queries_come_and_go_while_files_are_read(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()

    def put(number: int) -> None:
        for name in "ab":
            pq.write_table(rows_of(name, COUNT).slice(100 * number, 100), tmp_path / "draft")
            (tmp_path / "draft").rename(tmp_path / name / f"{number}.parquet")

    def wait(run: Any, rows: int) -> None:
        until = monotonic() + 60
        while any(run.taken(name) < rows for name in "ab"):
            assert monotonic() < until
            sleep(0.01)

    wide, near = (_sunk(tmp_path, name) for name in ("wide", "near"))
    put(0)
    with _session(tmp_path, pushed=False).start(wide, checkpoint=tmp_path / "state") as runs:
        put(1)
        wait(runs["wide"], 200)
        added = runs.add(near)
        put(2)
        wait(runs["wide"], 300)
        wait(added, 300)
        runs.drop("wide")
        put(3)
        wait(added, COUNT)
    assert bag(given(tmp_path, "wide")) == bag(expected("wide", 300))
    assert bag(given(tmp_path, "near")) == bag([row for row in expected("near") if row["at"] >= added.whole_from])
