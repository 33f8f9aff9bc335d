"""`watersmeet clean`: what killed processes have left on this machine and in checkpoints on Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.unit.cli.test_commands import call
from watersmeet.hosts.spark import memory_folder
from watersmeet.private_folders import kept_file, made_private, scratch_folder

DAY_S = 86_400


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary files of its own, and those who left some."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(memory_folder.WARM_DIR, str(tmp_path))
    return tmp_path


def aged(path: Path, by_s: float) -> Path:
    os.utime(path, (time.time() - by_s, time.time() - by_s))
    return path


def gone_process() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def told_as_json(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [Path(one["path"]).name for one in json.loads(capsys.readouterr().out)["files"]]


def test_of_this_machine_goes_what_processes_have_left_that_are_gone(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone, scratch, warm = gone_process(), scratch_folder(), made_private(memory_folder.base_folder())
    for folder in (warm / f"query.{gone}", warm / f"query.{os.getpid()}", scratch / "state-01234567"):
        folder.mkdir()
        (folder / "rows").write_bytes(b"x" * 5000)
    aged(scratch / "state-01234567", 3600)
    sockets = [scratch / f"python-{pid}.socket" for pid in (gone, os.getpid())]
    for path in sockets:
        path.touch()
    old, new = aged(kept_file("x", "failure-", ".log"), 2 * DAY_S), kept_file("x", "failure-", ".log")
    left = ["state-01234567", old.name, f"query.{gone}", sockets[0].name]

    assert call("clean", "--dry-run", "--json") == 0
    assert told_as_json(capsys) == left
    assert call("clean", "--dry-run") == 0
    assert "4 leftovers would be removed, 20.5 kB" in capsys.readouterr().out
    assert old.exists()
    assert call("clean", "--json") == 0
    assert told_as_json(capsys) == left
    assert [path.exists() for path in (*sockets, old, new)] == [False, True, False, True]
    assert sorted(path.name for path in warm.glob("query.*")) == [f"query.{os.getpid()}"]
    assert call("clean") == 0
    assert capsys.readouterr().out == "nothing was left behind\n"


def test_of_a_checkpoint_on_spark_only_old_drafts_go(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = machine / "ck"
    kept = [checkpoint / name for name in ("metadata", "offsets/0", "offsets/.0.crc", "state/0/0/1.zip")]
    drafts = [checkpoint / f"state/0/0/.{n}.zip.0a1b.tmp" for n in (2, 3)] + [checkpoint / "offsets/..1.0a1b.tmp.crc"]
    for path in [*kept, *drafts]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
        aged(path, 2 * DAY_S)
    os.utime(drafts[1])
    assert call("clean", str(checkpoint), "--json") == 0
    assert told_as_json(capsys) == [drafts[2].name, drafts[0].name]
    assert [path.exists() for path in (*kept, *drafts)] == [True] * 4 + [False, True, False]


def test_an_interval_that_is_none_is_refused(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("clean", "--older-than", "soon") == 2
    assert "--older-than soon is no interval\nhint: write it as '1 day'" in capsys.readouterr().err
