"""Folders of very many files: what is new is found, little is listed in vain, a checkpoint hardly grows with them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.snapshots import BLOCK, Snapshot, Snapshots
from watersmeet.io.connectors import folder_source, local_folder
from watersmeet.io.connectors.folder_source import file_of
from watersmeet.io.connectors.local_files import LocalFiles
from watersmeet.io.files import open_files
from watersmeet.operators.saving import Saved

LONG_AGO_S = 1_700_000_000


def old(path: Path) -> None:
    os.utime(path, (LONG_AGO_S, LONG_AGO_S))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that were read."""
    found: list[str] = []
    scandir = os.scandir

    def counted(path: Any) -> Any:
        found.append(str(path))
        return scandir(path)

    monkeypatch.setattr("watersmeet.io.connectors.local_folder.os.scandir", counted)
    return found


def source_of(folder: Path) -> LocalFiles:
    files = open_files("s", str(folder), "csv", {}, pa.schema([("k", pa.int64())]), may_be_empty=True)
    return LocalFiles("s", str(folder), "csv", files)


class NewFiles:
    """Those that nobody was told of."""

    def __init__(self, source: LocalFiles) -> None:
        self._source, self._at = source, source.begin()

    def __call__(self) -> list[str]:
        upto = self._source.newest(self._at)
        found = [file_of(one).path for one in self._source.splits(self._at, upto)]
        self._at = upto
        return found


def test_a_folder_that_stands_still_is_not_read_again(
    tmp_path: Path, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b.csv", "a.csv", "_SUCCESS", "x.json"):
        (tmp_path / name).write_text("k\n1\n")
        old(tmp_path / name)
    old(tmp_path)
    new = NewFiles(source_of(tmp_path))
    looks.clear()
    assert new() == ["a.csv", "b.csv"]
    assert [new() for _ in range(50)] == [[]] * 50
    assert len(looks) == 1
    (tmp_path / "c.csv").write_text("k\n1\n")
    assert new() == ["c.csv"]
    (tmp_path / "d.csv").write_text("k\n1\n")  # in the same moment, when the folder's time need not have moved
    assert new() == ["d.csv"]
    old(tmp_path)
    new()
    monkeypatch.setattr(local_folder, "ANYWAY_S", 0.0)
    many = len(looks)
    new()
    assert len(looks) == many + 1  # some file systems keep no time of folders


def test_many_files_are_looked_for_more_rarely(
    tmp_path: Path, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_source, "FEW", 3)
    monkeypatch.setattr(folder_source, "SHARE", 1e6)
    for number in range(5):
        (tmp_path / f"{number}.csv").write_text("k\n1\n")
    new = NewFiles(source_of(tmp_path))
    looks.clear()
    assert len(new()) == 5
    assert new() == []
    assert len(looks) == 1


@pytest.mark.parametrize("in_another_life", [False, True])
def test_files_that_appear_with_old_times_are_read_and_name_few_others(tmp_path: Path, in_another_life: bool) -> None:
    def put(name: str, at_s: int) -> None:
        (tmp_path / name).write_text("k\n1\n")
        os.utime(tmp_path / name, (at_s, at_s))

    put("z.csv", LONG_AGO_S)
    source = source_of(tmp_path)
    first = source.newest(source.begin())
    for number in range(50):
        put(f"{number:02}.csv", LONG_AGO_S - 1_000_000 + number)
    put("new.csv", LONG_AGO_S + 1)
    if in_another_life:
        again = source_of(tmp_path)
        again.remember(json.loads(json.dumps(source.noted(first))), first)
        source = again
    upto = source.newest(first)
    splits = source.splits(first, upto)
    assert [file_of(one).path for one in splits] == [*(f"{number:02}.csv" for number in range(50)), "new.csv"]
    assert all(len(json.dumps(one.upto)) < 200 for one in splits)  # or very many of them would fill the memory
    later = source_of(tmp_path)  # a repeat, which was told of nothing but the offsets
    assert later.splits(first, upto) == splits
    assert source.newest(upto) == upto


def test_a_life_that_was_told_of_a_mark_alone_notes_what_is_there_up_to_it(tmp_path: Path) -> None:
    for second, name in enumerate("abc"):
        (tmp_path / f"{name}.csv").write_text("k\n1\n")
        os.utime(tmp_path / f"{name}.csv", (LONG_AGO_S + second, LONG_AGO_S + second))
    source = source_of(tmp_path)
    upto = source.newest_files(source.begin(), 2)
    source.begin()  # to be asked changes nothing
    assert [one[1] for one in source.noted(upto)] == ["a.csv", "b.csv"]
    assert [one[1] for one in source_of(tmp_path).noted(upto)] == ["a.csv", "b.csv"]


def test_of_a_position_that_grows_only_the_end_is_written(tmp_path: Path) -> None:
    done = [f"/data/in/{number:09d}.csv" for number in range(40_000)]

    def saved(snapshots: Snapshots, number: int, files: int) -> int:
        position = {"done": done[:files], "inside": None}
        notes = {"positions": {"s": position, "t": {"done": [], "inside": None}}, "answered": 1}
        snapshots.write(Snapshot(number, Saved({"x": np.arange(3)}), notes))
        snapshots.publish(number)
        return snapshots.written_bytes

    snapshots = Snapshots(Place(tmp_path))
    assert saved(snapshots, 1, 39_000) > 3 * BLOCK
    assert saved(snapshots, 2, 40_000) < 2 * BLOCK
    assert all(one.stat().st_size < BLOCK for one in tmp_path.glob("snapshot-*.json"))
    found = Snapshots(Place(tmp_path)).latest()
    assert found is not None
    assert found.notes["positions"] == {"s": {"done": done, "inside": None}, "t": {"done": [], "inside": None}}


def test_a_run_goes_on_behind_files_whose_names_fill_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.hosts.local.durable.snapshots.BLOCK", 256)
    (tmp_path / "in").mkdir()
    for step in range(3):
        for number in range(20):
            name = tmp_path / "in" / f"{step}-{number}.csv"
            name.write_text(f"k,ts\n{step * 20 + number},2026-01-01 00:{step:02d}:{number:02d}\n")
        session = wm.Session()
        session.stream("s", str(tmp_path / "in"), time="ts", lateness="1 hour")
        query = session.sql("SELECT k FROM s")
        query.start(
            checkpoint=tmp_path / "state", sink={"sink": "csv", "path": str(tmp_path / "out")}, available_now=True
        ).wait()
    rows = [line for one in (tmp_path / "out").glob("*.csv") for line in one.read_text().splitlines() if line != '"k"']
    assert sorted(map(int, rows)) == list(range(60))
