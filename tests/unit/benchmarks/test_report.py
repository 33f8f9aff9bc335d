"""A benchmark keeps each figure as it comes, and one that is cut off keeps those it had and leaves nothing running."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import all as every
from benchmarks import harness
from benchmarks.harness import Figure, figure, report

LONG = """
import subprocess, sys
from pathlib import Path
from benchmarks import harness
from benchmarks.harness import figure, report
harness.RESULTS = Path(sys.argv[1])
def figures():
    yield figure("new", "s", [1.0])
    subprocess.run([sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)"])
report("some", figures())
"""


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    return tmp_path / "some.json"


def kept(path: Path) -> dict[str, float]:
    return {one["name"]: one["median"] for one in json.loads(path.read_text())["figures"]}


def test_figures_of_before_stay_until_all_have_come(results: Path):
    report("some", [figure("old", "s", [1.0]), figure("both", "s", [1.0])])
    between: list[dict[str, float]] = []

    def figures() -> Iterator[Figure]:
        yield figure("both", "s", [2.0])
        between.append(kept(results))
        assert not json.loads(results.read_text())["whole"]
        yield figure("new", "s", [3.0])

    report("some", figures())
    assert between == [{"old": 1.0, "both": 2.0}]
    assert kept(results) == {"both": 2.0, "new": 3.0}
    assert json.loads(results.read_text())["whole"]


def test_a_part_stands_beside_the_others(results: Path):
    report("some", [figure("old", "s", [1.0]), figure("both", "s", [1.0])])
    report("some", [figure("both", "s", [2.0])], beside=True)
    assert kept(results) == {"old": 1.0, "both": 2.0}
    assert not json.loads(results.read_text())["whole"]


def test_one_that_fails_keeps_what_it_had(results: Path):
    def figures() -> Iterator[Figure]:
        yield figure("new", "s", [3.0])
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        report("some", figures())
    assert kept(results) == {"new": 3.0}


def test_one_that_is_ended_ends_its_children(tmp_path: Path):
    run = subprocess.Popen(
        [sys.executable, "-c", LONG, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=every.TOP
    )
    assert run.stdout is not None
    lines = [run.stdout.readline(), run.stdout.readline()]
    assert "begun\n" in lines
    child = int(Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text())
    run.terminate()
    run.wait(timeout=30)
    assert run.returncode != 0
    assert not alive(child)
    assert kept(tmp_path / "some.json") == {"new": 1.0}


def test_a_part_beyond_its_time_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    told = tmp_path / "child"
    below = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
    monkeypatch.setattr(every, "command", lambda _: [sys.executable, "-c", code, below, str(told)])
    monkeypatch.setattr(every, "PARTS", {"long": ("", 0.02)})  # 3.6 s
    assert not every.finished("long")
    assert "was ended" in capsys.readouterr().out
    child, until_s = int(told.read_text()), time.monotonic() + 10
    while alive(child) and time.monotonic() < until_s:
        time.sleep(0.01)
    assert not alive(child)


def alive(process: int) -> bool:
    """One that has ended may still be waited for by its parent."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
