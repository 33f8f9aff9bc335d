"""A script that goes on from a savepoint, and has queries that are not in it."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import watersmeet as wm
from tests.durable.lives import die_at, rows_of
from tests.durable.test_changes import diff, session
from tests.durable.test_come_and_go import COUNT, Script, bag, expected
from tests.durable.test_savepoint_command import command
from tests.one_life import lived_through
from watersmeet.cli.commands import app
from watersmeet.errors import RunError
from watersmeet.runtime.savepoints.matching import queries_of
from watersmeet.runtime.script import read_script

HALF = COUNT // 2


def moved(folder: Path, *names: str) -> tuple[Script, Path]:
    """A savepoint of queries that have had half of the rows, and all rows to go on with."""
    script = Script(folder, pushed=False)
    script.run(script.text(*names), HALF)
    old = folder / "old.sql"
    old.write_text(script.text(*names))
    command("savepoint", folder / "state", folder / "moved", "--script", old)
    more = Script.__new__(Script)
    more.folder, more.pushed = folder, False
    return more, folder / "moved"


def going_on(script: Script, text: str, *more: object) -> str:
    path = script.folder / "new.sql"
    path.write_text(text)
    words = ("run", path, "--engine", "local", "--available-now", "--checkpoint", script.folder / "there", *more)
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 0, done.output
    return " ".join(done.stderr.split())


def write(script: Script) -> None:
    """All rows."""
    for name in "ab":
        for at in range(HALF, COUNT, 50):
            path = script.folder / name / f"{at:04d}.parquet"
            if not path.exists():
                pq.write_table(rows_of(name, COUNT).slice(at, 50), path)


def whole() -> dt.datetime:
    """From when on the narrower join has all that it looks at among what the wider one keeps."""
    newest = [max(rows_of(name, COUNT).slice(0, HALF)["ts"].to_pylist()) for name in "ab"]
    return min(newest) - (1 + 8 - 2) * dt.timedelta(seconds=1)


def since_whole() -> Counter[str]:
    rows = [row for row in expected("near") if row["at"] >= whole()]
    assert len(rows) < len(expected("near"))
    return bag(rows)


def test_what_is_new_begins_with_what_joins_keep_or_reads_its_streams_anew(tmp_path: Path) -> None:
    script, savepoint = moved(tmp_path, "wide", "groups")
    text = script.text("near", "wide", "all_of_a")
    (tmp_path / "new.sql").write_text(text)
    assert "near: new" in diff(savepoint, tmp_path / "new.sql")
    write(script)
    said = going_on(script, text, "--from", savepoint)
    assert "groups of the savepoint" in said
    assert "near begins with" in said
    assert f"its answer is whole from {whole()}" in said
    assert "all_of_a was added, and reads its streams from their beginning" in said
    for _ in range(2):  # said again, as a service does, and when the savepoint is gone
        going_on(script, text, "--flush", "--from", savepoint)
        if savepoint.exists():
            savepoint.rename(tmp_path / "gone")
    assert bag(script.given("wide")) == bag(expected("wide"))
    assert bag(script.given("all_of_a")) == bag(expected("all_of_a"))
    assert bag(script.given("near")) == since_whole()


def one_life(script: Script, point: str | None, after: int) -> None:
    if point is not None:
        die_at(point, after)
    going_on(script, script.text("near", "wide"), "--flush", "--from", script.folder / "moved")


@pytest.mark.parametrize(
    ("point", "after"),
    [
        *(("Place.write_whole after", after) for after in range(0, 12, 3)),
        ("Snapshots.publish after", 0),
        ("Journal.append before", 0),
        ("Journal.append after", 0),
        ("FilesSink.commit after", 0),
    ],
)
def test_killed_at_any_point_it_begins_with_the_same(point: str, after: int, tmp_path: Path) -> None:
    script, _ = moved(tmp_path, "wide")
    assert not lived_through(one_life, script, point, after)
    assert lived_through(one_life, script, None, 0)
    write(script)
    assert lived_through(one_life, script, None, 0)
    assert bag(script.given("wide")) == bag(expected("wide"))
    assert bag(script.given("near")) == since_whole()


def test_a_script_of_other_queries_is_refused(tmp_path: Path) -> None:
    script, savepoint = moved(tmp_path, "wide", "groups")
    (tmp_path / "new.sql").write_text(script.text("near", "all_of_a"))
    words = ("run", tmp_path / "new.sql", "--engine", "local", "--checkpoint", tmp_path / "there", "--from", savepoint)
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code != 0
    assert "has none of the queries of the script; it has 'wide', 'groups'" in str(done.exception)
    assert not list((tmp_path / "there").glob("*/query.json"))


# ---- which is which -------------------------------------------------------------------------------------------------


def matched(before: dict[str, str], now: str) -> dict[str, str]:
    """As which of some queries those of a script go on."""
    held = {name: _identity(text) for name, text in before.items()}
    savepoint: Any = SimpleNamespace(place="moved", identities=lambda: dict(held))
    return queries_of(savepoint, read_script(now, session().catalog))


def _identity(text: str) -> str:
    from watersmeet.plan.identity import identity_of, sum_of

    made: wm.Session = session()
    return sum_of(identity_of(made.sql(text).plan))


ONE, TWO, THREE = ("SELECT id FROM a", "SELECT k FROM a", "SELECT v FROM a")


def test_queries_without_names_are_known_by_what_they_ask() -> None:
    before = {"query 1": ONE, "query 2": TWO}
    assert matched(before, f"{THREE}; {ONE}; {TWO}") == {"query 2": "query 1", "query 3": "query 2"}
    assert matched(before, f"{TWO}; {THREE}") == {"query 1": "query 2"}
    assert matched(before, f"{ONE}; {THREE}") == {"query 1": "query 1", "query 2": "query 2"}  # changed, or refused
    assert matched({"query": ONE}, f"{TWO}; {ONE}") == {"query 2": "query"}
    assert matched({"query": ONE}, TWO) == {"query 1": "query"}


def test_queries_with_names_go_by_them() -> None:
    sink = "CREATE SINK {} WITH (sink = 'parquet', path = 'out-{}') AS {}"
    before = {"x": ONE, "y": TWO}
    script = "; ".join([sink.format("y", "y", THREE), sink.format("z", "z", ONE)])
    assert matched(before, script) == {"y": "y", "z": "x"}
    with pytest.raises(RunError, match="has none of the queries"):
        matched({"x": ONE, "y": TWO}, sink.format("z", "z", THREE))


def test_changes_of_an_answer_go_on_beside_one_that_is_added(tmp_path: Path) -> None:
    script, savepoint = moved(tmp_path, "groups")
    write(script)
    going_on(script, script.text("groups", "near"), "--flush", "--from", savepoint)
    alone = Script(_made(tmp_path / "alone"), pushed=False)
    alone.run(alone.text("groups"), COUNT)
    command(
        "run",
        _written(alone),
        "--engine",
        "local",
        "--available-now",
        "--flush",
        "--checkpoint",
        alone.folder / "state",
    )

    def summed(rows: list[dict[str, Any]]) -> Counter[tuple[int, int]]:
        total: Counter[tuple[int, int]] = Counter()
        for row in rows:
            total[row["k"], row["n"]] += 1 if row["_op"] == "+" else -1
        return Counter({row: n for row, n in total.items() if n})

    assert summed(script.given("groups")) == summed(alone.given("groups"))
    assert bag(script.given("near")) == bag(expected("near"))  # it reads its streams from their beginning


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _written(script: Script) -> Path:
    path = script.folder / "script.sql"
    path.write_text(script.text("groups"))
    return path
