"""Temporary folders go with their process; what a killed one has left goes later, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from watersmeet.private_folders import scratch_folder, temporary_root
from watersmeet.runtime.savepoints.folder import writing_savepoint
from watersmeet.temporary_folders import TemporaryFolder, left_behind, remove_left, temporary_folder

KILLED = """
import os, signal, tempfile
from pathlib import Path
from watersmeet.temporary_folders import TemporaryFolder
tempfile.tempdir = {root!r}
made = [TemporaryFolder("state-"), TemporaryFolder("watersmeet-sort-", Path({root!r}))]
for one in made:
    (one.path / "inside").mkdir()
    (one.path / "inside" / "rows").write_bytes(b"x" * 9)
    print(one.path, flush=True)
signal.pause()
"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def aged(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (time.time() - 3600, time.time() - 3600))


def test_what_a_killed_process_left_goes_with_the_next_of_its_kind(root: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED.format(root=str(root))], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    held = [Path(process.stdout.readline().strip()) for _ in range(2)]
    aged(*held)
    assert left_behind() == [], "its process lives"
    with temporary_folder("state-"):
        assert held[0].exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert left_behind() == held
    with temporary_folder("state-") as made:
        assert [held[0].exists(), held[1].exists(), made.exists()] == [False, True, True]
    assert [remove_left(path) for path in left_behind()] == [True]
    assert [path for path in (*held, made) if path.exists()] == []


def test_one_that_is_held_or_new_or_not_ours_is_left_alone(root: Path) -> None:
    held, young = TemporaryFolder("check-"), scratch_folder() / "check-abcdefgh"
    young.mkdir()
    strange = [root / "watersmeet-sort-mine", root / "watersmeet-cloud-abcdefgh", scratch_folder() / "failure-ab.log"]
    for path in strange:
        path.mkdir()
    aged(held.path, *strange)
    assert left_behind() == []
    assert not remove_left(held.path)
    assert not remove_left(young)
    held.remove()
    assert not held.path.exists()
    aged(young)
    assert left_behind() == [young]


def test_a_child_that_lives_on_holds_it_too(root: Path) -> None:
    made = TemporaryFolder("watersmeet-serve-", temporary_root())
    awaited, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        os.read(awaited, 1)
        os._exit(0)
    assert made._handle is not None
    os.close(made._handle)  # as if this process had ended
    aged(made.path)
    assert left_behind() == []
    os.close(told)
    os.waitpid(child, 0)
    assert left_behind() == [made.path]


def test_what_a_killed_savepoint_left_goes_with_the_next_of_its_name(root: Path) -> None:
    left, mine = root / ".moved.01234567.tmp", root / ".moved.yes.tmp"
    for path in (left, mine):
        path.mkdir()
    aged(left, mine)
    with writing_savepoint(root / "moved"):
        assert [left.exists(), mine.exists()] == [False, True]
        (draft,) = root.glob(".moved.????????.tmp")
        aged(draft)
        assert not remove_left(draft), "it is being written"
    assert (root / "moved" / "manifest.json").exists()
