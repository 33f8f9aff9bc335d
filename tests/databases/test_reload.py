"""A table that is loaded again changes what later rows meet, not what earlier ones have met; nor does a kill."""

from __future__ import annotations

import random
import shutil
import sqlite3
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.warned import code_of
from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.pushed_execution import PushedExecution
from watersmeet.io.connectors.numbered_sinks import NoSink
from watersmeet.operators.answers import as_batch
from watersmeet.runtime.declaring import open_in_process
from watersmeet.runtime.reloading import Reloads, loaded
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import read_script

TABLE = (
    "CREATE TABLE t (k BIGINT, word TEXT) WITH (source = 'sqlite', path = '{path}', table = 't', reload = '{every}');"
)
STREAMS = """
CREATE STREAM a (id BIGINT, k BIGINT, ts TIMESTAMP) WITH (time = 'ts', lateness = '1 hour');
CREATE STREAM b (id BIGINT, k BIGINT, ts TIMESTAMP) WITH (time = 'ts', lateness = '1 hour');
"""
THREE = "SELECT a.id AS x, b.id AS y, t.word AS word FROM a, b, t WHERE a.k = b.k AND a.k = t.k WINDOW (a, b) = 1 DAY"


def put(path: Path, *rows: tuple[int, str]) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS t (k BIGINT, word TEXT)")
        connection.execute("DELETE FROM t")
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)


def plan_of(path: Path, query: str, every: str = "1 hour") -> Any:
    text = TABLE.format(path=path, every=every) + STREAMS + query
    return read_script(text, opener=open_in_process, pushed=True)[0].plan


def load_of(*rows: tuple[int, str]) -> list[pa.RecordBatch]:
    return [pa.record_batch({"k": pa.array([k for k, _ in rows], pa.int64()), "word": [word for _, word in rows]})]


def rows_of(first: int, keys: list[int]) -> pa.Table:
    ids = range(first, first + len(keys))
    times = pa.array([i * 1000 for i in ids], pa.timestamp("us"))
    return pa.table({"id": pa.array(ids, pa.int64()), "k": pa.array(keys, pa.int64()), "ts": times})


@pytest.mark.parametrize("seed", range(4))
def test_rows_meet_the_load_that_is_there_when_the_last_of_them_comes(seed: int, tmp_path: Path) -> None:
    at = random.Random(seed)
    put(tmp_path / "t.db", (1, "first"))
    execution = PushedExecution(plan_of(tmp_path / "t.db", THREE))
    table, came = [(1, "first")], {"a": [], "b": []}  # type: ignore[var-annotated]
    expected: Counter[tuple[int, int, str]] = Counter()
    found: Counter[tuple[int, int, str]] = Counter()
    for step in range(60):
        if at.random() < 0.3:
            # The same key may have several rows, or none.
            table = [(at.randrange(4), f"{step}.{i}") for i in range(at.choice([0, 1, 5, 2000]))]
            execution.replace_table("t", load_of(*table))
        name = at.choice("ab")
        new = rows_of(len(came[name]), [at.randrange(4) for _ in range(at.choice([1, 2, 90]) if step < 3 else 1)])
        pairs = [(one["id"], one["k"]) for one in new.to_pylist()]
        other = came["b" if name == "a" else "a"]
        for i, k in pairs:
            met = [j for j, key in other if key == k]
            words = [word for key, word in table if key == k]
            expected.update((i, j, word) if name == "a" else (j, i, word) for j in met for word in words)
        came[name] += pairs
        for piece in execution.rows_of(name, new):
            for answer in execution.push(name, piece):
                found.update((one["x"], one["y"], one["word"]) for one in as_batch(answer).to_pylist())
    assert found == expected


def lived(folder: Path, path: Path, offers: int, at: random.Random) -> tuple[dict[int, list[Any]], Path]:
    """A life of some batches between which the table changes, and the checkpoint as a kill would leave it."""
    run, told = run_in(folder, path)
    run.start()
    for number in range(offers):
        run._parts.loads._reloads.offer("t", load_of(*[(k, f"load {number}") for k in range(at.choice([2, 4]))]))
        run.push("a", rows_of(number * 3, [at.randrange(4) for _ in range(3)]))
        run.push("b", rows_of(number * 3, [at.randrange(4) for _ in range(3)]))
    killed = folder.with_name(folder.name + "-killed")
    shutil.copytree(folder, killed)
    (killed / "lock").unlink(missing_ok=True)
    run.stop()
    return told, killed


def run_in(folder: Path, path: Path, snapshot_s: float = 1000.0) -> tuple[DurableExecution, dict[int, list[Any]]]:
    told: dict[int, list[Any]] = {}
    settings = RunSettings(save_every_s=snapshot_s, sync=False)
    run = DurableExecution(
        plan_of(path, THREE), Place(folder), lambda name, start: NoSink(), {}, settings, tell=lambda what: None
    )
    run.outputs.on_answers = lambda number, batches: told.setdefault(number, []).extend(
        row for batch in batches for row in batch.to_pylist()
    )
    return run, told


def answered(run: DurableExecution, stream: str, rows: pa.Table) -> int:
    number, until = run.push(stream, rows), time.monotonic() + 20
    while run.progress.given < number and time.monotonic() < until:
        time.sleep(0.01)
    return number


def test_batches_that_are_repeated_join_what_they_joined_before(tmp_path: Path) -> None:
    put(tmp_path / "t.db", *[(k, "at first") for k in range(4)])
    told, killed = lived(tmp_path / "run", tmp_path / "t.db", 6, random.Random(1))
    assert {row["word"] for rows in told.values() for row in rows} > {"load 1", "load 5"}
    put(tmp_path / "t.db", *[(k, "after the kill") for k in range(4)])
    again, repeated = run_in(killed, tmp_path / "t.db")
    again.start()
    assert {number: rows for number, rows in repeated.items() if rows} == {n: rows for n, rows in told.items() if rows}
    # What was loaded at the restart holds for what comes now, and after a snapshot too.
    again.push("a", rows_of(100, [1]))
    number = answered(again, "b", rows_of(100, [1]))
    assert repeated[number][-1]["word"] == "after the kill"
    again.stop()
    saved = again._parts.loads.numbers["t"]
    put(tmp_path / "t.db", *[(k, "later") for k in range(4)])
    third, answers = run_in(killed, tmp_path / "t.db")
    third.start()
    assert {row["word"] for row in answers[answered(third, "a", rows_of(200, [1]))]} == {"later"}
    third.stop()
    # Loads before the older of the two states that are kept are gone.
    kept = range(saved, third._parts.loads.numbers["t"] + 1)
    assert sorted(one.name for one in (killed / "tables").iterdir()) == [f"t-{number:012d}.arrow" for number in kept]


@pytest.mark.parametrize("pipeline", ["nta", "tpa"])
def test_a_changing_answer_goes_on_with_the_table_of_its_beginning(pipeline: str, tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    put(path, (1, "x"), (2, "x"))
    query = (
        "SELECT t.word, COUNT(*) AS n FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], t WHERE a.k = b.k AND a.k = t.k "
        f"GROUP BY t.word OPTIONS (pipeline = '{pipeline}')"
    )
    script = TABLE.replace(", reload = '{every}'", "").format(path=path) + STREAMS + query
    present: Counter[tuple[str, int]] = Counter()
    told: list[Warning] = []

    def note(number: int, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            for row in batch.to_pylist():
                present[row["word"], row["n"]] += 1 if row["_op"] == "+" else -1

    def life() -> DurableExecution:
        plan = read_script(script, opener=open_in_process, pushed=True)[0].plan
        run = DurableExecution(
            plan, Place(tmp_path / "run"), lambda name, start: NoSink(), {}, RunSettings(sync=False), tell=told.append
        )
        run.outputs.on_answers = note
        run.start()
        return run

    run = life()
    later = pa.table({"id": [9], "k": [7], "ts": pa.array([3_601_000_000], pa.timestamp("us"))})
    for rows in (rows_of(0, [1, 2]), later):
        run.push("a", rows)
        run.push("b", rows)
    run.stop()
    assert +present == Counter({("x", 2): 1})
    put(path, (1, "y"))
    run = life()
    run.flush()
    run.stop()
    assert +present == -present == Counter()
    assert [code_of(one) for one in told] == ["old_table"]


def test_a_run_loads_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    put(path, (1, "before"))
    session = wm.Session()
    session.stream("a", schema={"id": "BIGINT", "k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    session.table("t", source="sqlite", path=str(path), table="t", reload="1 second")
    with session.sql("SELECT a.id, t.word FROM a, t WHERE a.k = t.k").start() as run:
        run.push("a", rows_of(0, [1]))
        assert run.take()["word"].to_pylist() == ["before"]
        put(path, (1, "after"))
        words, until = ["before"], time.monotonic() + 20
        while words == ["before"] and time.monotonic() < until:
            time.sleep(0.1)
            run.push("a", rows_of(1, [1]))
            words = run.take()["word"].to_pylist()
        assert words == ["after"]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            path.unlink()
            until = time.monotonic() + 20
            while not told and time.monotonic() < until:
                time.sleep(0.1)
        run.push("a", rows_of(2, [1]))
        assert run.take()["word"].to_pylist() == ["after"]
        assert [code_of(one) for one in told][:1] == ["old_table"]


def test_a_run_over_a_source_that_flows_loads_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    put(path, (1, "before"))

    def flowing() -> Iterator[pa.RecordBatch]:
        yield from rows_of(0, [1]).to_batches()
        put(path, (1, "after"))
        for number in range(1, 100):
            time.sleep(0.1)
            yield from rows_of(number, [1]).to_batches()

    session = wm.Session()
    schema = rows_of(0, [1]).schema
    session.stream("a", pa.RecordBatchReader.from_batches(schema, flowing()), time="ts")
    session.table("t", source="sqlite", path=str(path), table="t", reload="1 second")
    words: list[str] = []
    for batch in session.sql("SELECT a.id, t.word FROM a, t WHERE a.k = t.k").batches():
        words += batch["word"].to_pylist()
        if words[-1:] == ["after"]:
            break
    assert words[0] == "before"
    assert words == sorted(words, reverse=True)
    assert words[-1] == "after"


def test_what_reload_does_not_go_with_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    put(path, (1, "x"))
    groups = "SELECT t.word, COUNT(*) AS n FROM a [RANGE 1 HOUR], t WHERE a.k = t.k GROUP BY t.word"
    with pytest.raises(UnsupportedError, match="joined once more when it leaves"):
        PushedExecution(plan_of(path, groups))
    with pytest.raises(OptionError, match="too often"):
        plan_of(path, THREE, every="1 millisecond")
    with pytest.raises(OptionError, match="reload"):
        plan_of(path, THREE, every="soon")


def test_files_of_a_table_are_looked_for_again(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "1.csv").write_text("k,word\n1,one\n")
    table = f"CREATE TABLE t (k BIGINT, word TEXT) WITH (source = 'csv', path = '{tmp_path / 't'}', reload = '1 hour');"
    plan = read_script(table + STREAMS + THREE, opener=open_in_process, pushed=True)[0].plan
    execution = PushedExecution(plan)
    assert sum(len(one) for one in execution.tables_now["t"]) == 1
    (tmp_path / "t" / "2.csv").write_text("k,word\n2,two\n")
    assert sum(len(one) for one in loaded(execution.reloaded["t"])) == 2


def test_whatever_a_load_fails_with_is_told_and_the_next_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[Any] = [load_of((2, "two"))]

    def load(table: Any) -> Any:
        if len(told) < 2:
            raise ValueError("not now")
        return loads[0]

    told: list[str] = []
    monkeypatch.setattr("watersmeet.runtime.reloading.loaded", load)
    table: Any = SimpleNamespace(reload_us=1_000)
    reloads = Reloads({"t": table}, lambda warning: told.append(str(warning)))
    reloads.start({"t": load_of((1, "one"))})
    until_s = time.monotonic() + 30
    while not (found := reloads.take()) and time.monotonic() < until_s:
        time.sleep(0.001)
    reloads.close()
    assert found == {"t": loads[0]}
    assert told[0].startswith(
        "old_table: table 't' could not be loaded again, so the rows of before are joined: ValueError: not"
    )
