"""Bad records and late rows of runs that go on: each is in its sink once, whatever stopped the run in between."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from time import monotonic

import pyarrow.parquet as pq
import pytest

from tests.beside.rack import RACK, line, put
from watersmeet.errors import DataError, WatersmeetError
from watersmeet.hosts.local.durable.jobs import DurableJobs
from watersmeet.io.connectors import registry
from watersmeet.io.connectors.files.sink import FilesSink
from watersmeet.runtime.declaring import open_to_go_on
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import read_script

SECOND_US = 1_000_000


@pytest.fixture(autouse=True)
def rack() -> object:
    registry.register(RACK)
    yield
    registry.forget("rack")


class DiskFullError(WatersmeetError):
    pass


def script(folder: Path, on_bad: str = "sink bad", more: str = "") -> str:
    return f"""
        CREATE SINK bad WITH (sink = 'parquet', path = '{folder}/bad');
        CREATE SINK late WITH (sink = 'json', path = '{folder}/late');
        CREATE STREAM a (id BIGINT, k BIGINT, ts TIMESTAMP)
        WITH (source = 'rack', folder = '{folder}/a', time = 'ts', on_bad = '{on_bad}', on_late = 'sink late' {more});
        CREATE SINK out WITH (sink = 'parquet', path = '{folder}/out') AS SELECT id, k FROM a;
    """


def life(text: str, folder: Path, *, flush: bool = False) -> DurableJobs:
    jobs = read_script(text, opener=open_to_go_on)
    settings = RunSettings(
        batch_rows=16, save_every_s=0.01, commit_every_s=0.0, available_now=True, flush=flush, sync=False
    )
    runs = DurableJobs(jobs, folder / "checkpoint", settings, tell=lambda told: None)
    runs.start()
    runs.wait(every_s=0.02)
    return runs


def bad_of(folder: Path) -> list[int]:
    return sorted(pq.read_table(folder / "bad").column("offset").to_pylist()) if any((folder / "bad").iterdir()) else []


def late_of(folder: Path) -> list[int]:
    return sorted(json.loads(one)["id"] for path in (folder / "late").glob("part-*") for one in path.open())


def answers(folder: Path) -> list[int]:
    return sorted(pq.read_table(folder / "out").column("id").to_pylist())


def lay(folder: Path, rng: random.Random, count: int) -> tuple[list[int], list[int], list[int]]:
    """Lines of one partition: which are in time, late and bad."""
    lines: list[str] = []
    good: list[int] = []
    late: list[int] = []
    bad: list[int] = []
    newest = 0
    for number in range(count):
        if rng.random() < 0.15:
            lines.append("{" if rng.random() < 0.8 else "")
            bad.append(number)
            continue
        us = newest + rng.randint(-2 if good else 0, 5) * SECOND_US
        (late if us < newest else good).append(number)
        newest = max(newest, us)
        lines.append(line(number, number % 3, us))
    put(folder / "a", "0", lines)
    return good, late, bad


@pytest.mark.parametrize("seed", range(3))
def test_each_is_there_once_over_faults_of_the_sinks(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    good, late, bad = lay(tmp_path, rng, 150)
    commit = FilesSink.commit
    left = [rng.randint(0, 6)]

    def failing(self: FilesSink, number: int, rows: object) -> None:
        if left[0] == 0:
            raise DiskFullError("the disk is full")
        left[0] -= 1
        commit(self, number, rows)  # type: ignore[arg-type]
        if left[0] == 0 and rng.random() < 0.5:
            raise DiskFullError("the disk is full")

    monkeypatch.setattr(FilesSink, "commit", failing)
    for _ in range(40):
        try:
            runs = life(script(tmp_path), tmp_path)
            break
        except DiskFullError:
            left[0] = rng.randint(1, 6)
    else:
        raise AssertionError("it never came to its end")
    assert (answers(tmp_path), late_of(tmp_path), bad_of(tmp_path)) == (good, late, bad)
    told = runs.runs["out"].latest()
    assert told.bad_by_reason == {"a: not json": len(bad)}
    assert told.late_rows == len(late)


def test_the_first_bad_record_ends_a_run_and_another_word_lets_it_go_on(tmp_path: Path) -> None:
    good, late, bad = lay(tmp_path, random.Random(1), 60)
    with pytest.raises(DataError, match=r"cannot be read \(not json\): in rack 0, partition 0, offset \d+") as raised:
        life(script(tmp_path, "error"), tmp_path)
    assert "on_bad = 'skip'" in (raised.value.hint or "")
    life(script(tmp_path, "sink bad"), tmp_path)
    assert (answers(tmp_path), late_of(tmp_path), bad_of(tmp_path)) == (good, late, bad)


def test_two_queries_may_send_to_one_sink(tmp_path: Path) -> None:
    _, _, bad = lay(tmp_path, random.Random(2), 60)
    text = script(tmp_path) + f"CREATE SINK more WITH (sink = 'parquet', path = '{tmp_path}/more') AS SELECT k FROM a;"
    life(text, tmp_path)
    put(tmp_path / "a", "0", ["}"])
    life(text, tmp_path)
    assert bad_of(tmp_path) == sorted([*bad, *bad, 60, 60])


@pytest.mark.parametrize("mode", ["", ", mode = 'overwrite'"])
@pytest.mark.parametrize("kind", ["parquet", "sqlite"])
@pytest.mark.parametrize("stands", ["first", "last"])
def test_a_query_that_is_added_sends_to_the_sink_of_the_others_and_leaves_theirs(
    tmp_path: Path, mode: str, kind: str, stands: str
) -> None:
    put(tmp_path / "a", "0", [line(0, 0, 0), "{"])
    more = "CREATE SINK {0} WITH (sink = 'parquet', path = '{1}/{0}') AS SELECT k FROM a;"
    bad = "sink = 'sqlite', table = 'bad'" if kind == "sqlite" else "sink = 'parquet'"
    text = script(tmp_path).replace("sink = 'parquet', path", f"{bad}{mode}, path", 1) + more.format("more", tmp_path)
    life(text, tmp_path)
    added = more.format("added", tmp_path)
    text = text.replace("CREATE SINK out", f"{added} CREATE SINK out") if stands == "first" else text + added
    for _ in range(2):
        life(text, tmp_path)
        if kind == "sqlite":
            with closing(sqlite3.connect(tmp_path / "bad")) as database:
                assert database.execute('SELECT "offset" FROM bad').fetchall() == [(1,)] * 3
        else:
            assert bad_of(tmp_path) == [1] * 3


def test_a_run_that_ends_waits_for_no_commit_of_a_sink_that_wants_few(tmp_path: Path) -> None:
    put(tmp_path / "a", "0", [line(0, 0, 0), "{"])
    rare = f"sink = 'files', format = 'json', path = 'file://{tmp_path}/bad', commit_every = '1 hour'"
    text = script(tmp_path).replace(f"sink = 'parquet', path = '{tmp_path}/bad'", rare)
    began_s = monotonic()
    life(text, tmp_path)
    assert monotonic() - began_s < 600
    assert [json.loads(one)["offset"] for path in (tmp_path / "bad").glob("part-*") for one in path.open()] == [1]


@pytest.mark.parametrize("kind", ["sink = 'json', path = '", "sink = 'files', format = 'json', path = 'file://"])
def test_what_another_query_has_sent_beside_is_no_stranger_to_a_run_that_goes_on(tmp_path: Path, kind: str) -> None:
    put(tmp_path / "a", "0", [line(0, 0, 0)])
    text = script(tmp_path).replace("sink = 'parquet', path = '", kind, 1)
    life(text, tmp_path)
    (tmp_path / "bad").mkdir(exist_ok=True)
    (tmp_path / "bad" / f"part-abc-{0:015d}.json").write_text("{}\n")
    put(tmp_path / "a", "0", ["{"])
    life(text, tmp_path)
    assert len(list((tmp_path / "bad").glob("part-*"))) == 2
