"""What may change of a query over its checkpoint, and over a savepoint; what else has changed is shown."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import watersmeet as wm
from tests.durable.lives import rows_of
from tests.durable.test_come_and_go import COUNT, QUERIES, bag, expected, given
from watersmeet.cli.commands import app
from watersmeet.errors import RunError

STREAM = {"id": "BIGINT", "k": "BIGINT", "v": "DOUBLE", "s": "VARCHAR", "ts": "TIMESTAMP"}
WIDER = "window wider: a at most 2 s after b, b at most 2 s after a; now a at most 3 s after b, b at most 3 s after a"


def session(**more: str) -> wm.Session:
    made = wm.Session()
    for name in "ab":
        made.stream(
            name, schema={"extra": "BIGINT"} | STREAM if more.get(name) else STREAM, time="ts", lateness="1 second"
        )
    return made


def sunk(folder: Path, name: str, query: str = "") -> str:
    return f"CREATE SINK {name} WITH (sink = 'parquet', path = '{folder}/out_{name}') AS {query or QUERIES[name]}"


def rows(name: str, start: int, stop: int, *, more: bool) -> pa.Table:
    found = rows_of(name, COUNT).slice(start, stop - start)
    return found.append_column("extra", found["id"]) if more else found


def push(runs: Any, start: int, stop: int, **more: str) -> None:
    for at in range(start, stop, 20):
        for name in "ab":
            runs.push(name, rows(name, at, at + 20, more=name in more), at=at)


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_new_column_of_a_stream_goes_on_where_nobody_looks_at_it(name: str, tmp_path: Path) -> None:
    asked = "; ".join(sunk(tmp_path, one) for one in ("near", "groups"))
    with session().start(asked, checkpoint=tmp_path / "state") as runs:
        push(runs, 0, 200)
        runs.stop()
    for start in (200, 300):
        with session(**{name: "more"}).start(asked, checkpoint=tmp_path / "state") as runs:
            assert runs.taken("a") == start
            push(runs, start, start + 100, **{name: "more"})
            runs.stop()
    assert bag(given(tmp_path, "near")) == bag(expected("near"))
    with pytest.raises(RunError, match="stream column dropped: extra int64 of"):
        session().start(asked, checkpoint=tmp_path / "state")


def test_a_query_that_looks_at_the_new_column_is_refused(tmp_path: Path) -> None:
    with session().start(sunk(tmp_path, "near"), checkpoint=tmp_path / "state") as runs:
        push(runs, 0, 100)
    changed = sunk(tmp_path, "near", QUERIES["near"].replace("a.id AS x", "a.extra AS x"))
    with pytest.raises(RunError, match=r"stream column added: extra int64 of a \(the query looks at it, and rows"):
        session(a="more").start(changed, checkpoint=tmp_path / "state")


def test_what_has_changed_is_shown_with_the_way_out(tmp_path: Path) -> None:
    with session().start(sunk(tmp_path, "groups"), checkpoint=tmp_path / "state") as runs:
        runs.push("a", rows("a", 0, 100, more=False))
    wider = sunk(tmp_path, "groups", QUERIES["groups"].replace("5 S", "6 S"))
    wrong = r"belongs to another query.*\n  window wider: a \[range 5 s\]; now a \[range 6 s\]"
    with pytest.raises(RunError, match=wrong) as refused:
        session().start(wider, checkpoint=tmp_path / "state")
    assert "watersmeet replace has the changed query take the place" in str(refused.value.hint)


def test_a_savepoint_takes_a_new_column_and_shows_what_else_has_changed(tmp_path: Path) -> None:
    query = QUERIES["near"]
    with session().sql(query).start(checkpoint=tmp_path / "here", sink=str(tmp_path / "out_near.parquet")) as run:
        for name in "ab":
            run.push(name, rows(name, 0, 200, more=False))
        run.savepoint(tmp_path / "moved")
    changed = query.replace("WHERE ", "WHERE a.v > 3 AND ")
    with pytest.raises(RunError, match=r"the savepoint is of another query.*\n  condition added: .*a\.v"):
        session().sql(changed).start(checkpoint=tmp_path / "no", savepoint=tmp_path / "moved")
    again = session(a="more", b="more").sql(query)
    with again.start(checkpoint=tmp_path / "there", savepoint=tmp_path / "moved") as run:
        assert run.taken("a") == 200
        for name in "ab":
            run.push(name, rows(name, 200, COUNT, more=True))
        assert run.take(timeout=20).num_rows > 0


def diff(*words: object) -> str:
    done = CliRunner().invoke(app, ["state", "diff", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_tells_of_each_query_what_becomes_of_it(tmp_path: Path) -> None:
    summed = "SELECT k, SUM(v) AS total FROM a [RANGE 5 SECONDS] GROUP BY k"
    asked = "; ".join([*(sunk(tmp_path, one) for one in ("near", "wide", "groups")), sunk(tmp_path, "sum", summed)])
    with session().start(asked, checkpoint=tmp_path / "state") as runs:
        push(runs, 0, 100)
    columns = ", ".join(f"{name} {kind}" for name, kind in STREAM.items())
    declared = "".join(
        f"CREATE STREAM {name} ({columns}{more}) WITH (time = 'ts');\n"
        for name, more in (("a", ""), ("b", ", extra INT"))
    )
    changed = [sunk(tmp_path, "near", QUERIES["near"].replace("2 S", "3 S")), sunk(tmp_path, "wide")]
    added = [sunk(tmp_path, "more", "SELECT id FROM a"), sunk(tmp_path, "sum", summed.replace("5 S", "2 S"))]
    script = tmp_path / "new.sql"
    script.write_text(declared + ";\n".join([*changed, *added]) + ";\n")
    assert diff(tmp_path / "state", script).splitlines() == [
        "near: goes on",
        "  stream column added: extra int32 of b",
        "    goes on: the query does not look at it",
        f"  {WIDER}",
        "    goes on: over the rows that are kept, and whole once time has gone on by the difference",
        "wide: goes on",
        "  stream column added: extra int32 of b",
        "    goes on: the query does not look at it",
        "more: new (it begins with what others keep, or reads its streams from their beginning)",
        "sum: replace",
        "  window narrower: a [range 5 s]; now a [range 2 s]",
        "    replace: exact from the instant on at which the changed query takes the place",
        "groups: dropped (its state is let go of with the next start)",
    ]
    near = json.loads(diff(tmp_path / "state", script, "--json"))[0]
    assert (near["query"], near["verdict"]) == ("near", "goes on")
    assert {one["kind"]: one["verdict"] for one in near["changes"]} == {
        "window wider": "goes on",
        "stream column added": "goes on",
    }


def test_the_command_looks_at_savepoints_and_at_checkpoints_on_spark(tmp_path: Path) -> None:
    from watersmeet.hosts.spark.checkpoints.checkpoint import METADATA, Owner
    from watersmeet.hosts.spark.checkpoints.place import SparkPlace
    from watersmeet.hosts.spark.paths import NOTES
    from watersmeet.runtime.checkpoints import CheckpointNotes

    query = session().sql(QUERIES["near"])
    with query.start(checkpoint=tmp_path / "here") as run:
        run.savepoint(tmp_path / "moved")
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / METADATA).write_text("{}")
    notes = CheckpointNotes(SparkPlace(None, str(tmp_path / "spark"), is_here=True), NOTES)
    notes.note(owner=asdict(Owner.of(query.plan, 4)))
    columns = ", ".join(f"{name} {kind}" for name, kind in STREAM.items())
    declared = "".join(f"CREATE STREAM {name} ({columns}) WITH (time = 'ts');\n" for name in "ab")
    same, wider, grown = tmp_path / "same.sql", tmp_path / "wider.sql", tmp_path / "grown.sql"
    same.write_text(f"{declared}{QUERIES['near']};")
    wider.write_text(f"{declared}{QUERIES['near'].replace('2 S', '3 S')};")
    grown.write_text(f"{declared}{QUERIES['near'].replace('WHERE ', 'WHERE a.v > 3 AND ')};")
    for place, script, why in (
        ("moved", grown, "refused: a savepoint is what one query knows"),
        ("moved", wider, "goes on: over the rows that are kept, and whole once time has gone on by the difference"),
        (
            "spark",
            wider,
            "replace: over the rows that are kept, and whole once time has gone on by the difference; on Sp",
        ),
        (
            "spark",
            grown,
            "replace: another answer from the instant on at which the changed query takes the place; on Sp",
        ),
    ):
        assert diff(tmp_path / place, same) == "query 1: the same\n"
        assert f"    {why}" in diff(tmp_path / place, script)
