"""The class archive is private, bounded, made when it is asked for, by one process at a time, and never needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from tests.spark.harness import ROOT, unfolded
from watersmeet.errors import SetupError
from watersmeet.hosts.spark import class_training
from watersmeet.hosts.spark.launching import class_archive, launch
from watersmeet.hosts.spark.launching.class_archive import MOST_ARCHIVES, VARIABLE, ClassArchive, is_wanted
from watersmeet.noticing import Phase, listen
from watersmeet.runtime.interrupt import INTERRUPTED


@pytest.fixture
def java(tmp_path: Path) -> Path:
    home = tmp_path / "java"
    home.mkdir()
    (home / "release").write_text('JAVA_VERSION="17.0.1"')
    return home


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "spark-core.jar").write_bytes(b"classes")
    return folder


def archive(java: Path, jars: Path, cache: Path) -> ClassArchive:
    found = ClassArchive.of(java, jars, {"XDG_CACHE_HOME": str(cache)})
    assert found is not None
    return found


def train(draft: Path, base: Path) -> None:
    draft.write_bytes(b"an archive")


def train_without_a_base(draft: Path, base: Path) -> None:
    base.write_bytes(b"Java's own classes")
    base.chmod(0o600)
    train(draft, base)


def test_an_archive_is_used_once_it_is_made(java: Path, jars: Path, tmp_path: Path) -> None:
    one = archive(java, jars, tmp_path / "my cache")
    assert one.java_options() == []
    assert one.make(train)
    assert one.java_options()[0] == f'"-XX:SharedArchiveFile={one.path}"'
    assert one.path.stat().st_mode & 0o077 == 0
    assert list(one.folder.iterdir()) == [one.path]
    assert not one.make(train)  # it is there


def test_a_java_that_has_no_archive_of_its_own_gets_one_below_it(java: Path, jars: Path, tmp_path: Path) -> None:
    one = archive(java, jars, tmp_path)
    assert one.make(train_without_a_base)
    assert one.java_options()[0] == f'"-XX:SharedArchiveFile={one.base}{os.pathsep}{one.path}"'
    one.path.unlink()
    assert one.java_options() == []


def test_java_tells_whether_it_has_an_archive_of_its_own(java: Path) -> None:
    assert not class_training._has_base(java)
    (java / "lib" / "server").mkdir(parents=True)
    (java / "lib" / "server" / "classes.jsa").write_bytes(b"")
    assert class_training._has_base(java)


def test_another_java_or_spark_has_an_archive_of_its_own(java: Path, jars: Path, tmp_path: Path) -> None:
    first = archive(java, jars, tmp_path).name
    assert archive(java, jars, tmp_path).name == first
    (java / "release").write_text('JAVA_VERSION="21.0.1"')
    second = archive(java, jars, tmp_path).name
    (jars / "spark-core.jar").write_bytes(b"other classes")
    assert len({first, second, archive(java, jars, tmp_path).name}) == 3


def test_of_two_processes_one_makes_it(java: Path, jars: Path, tmp_path: Path) -> None:
    one, other = archive(java, jars, tmp_path), archive(java, jars, tmp_path)

    def meanwhile(draft: Path, base: Path) -> None:
        with pytest.raises(SetupError, match="another process is making a class archive"):
            other.make(train)
        train(draft, base)

    assert one.make(meanwhile)


def test_a_failure_leaves_nothing_and_is_tried_again_when_asked(java: Path, jars: Path, tmp_path: Path) -> None:
    one = archive(java, jars, tmp_path)

    def failing(draft: Path, base: Path) -> None:
        draft.write_bytes(b"half of it")
        raise RuntimeError("no Spark here")

    with pytest.raises(RuntimeError):
        one.make(failing)
    assert list(one.folder.iterdir()) == []
    assert one.make(train)


@pytest.mark.parametrize("is_there", [True, False])
def test_what_broken_tries_left_is_removed(java: Path, jars: Path, tmp_path: Path, is_there: bool) -> None:
    one = archive(java, jars, tmp_path)
    if is_there:
        one.make(train)
    for name in ("spark-0123456789abcdef.4711", "base-0123456789abcdef.4711", "spark-0123456789abcdef.trying"):
        (one.folder / name).write_bytes(b"of one that was killed")
    assert one.make(train) is not is_there
    assert list(one.folder.iterdir()) == [one.path]


def test_few_archives_are_kept(java: Path, jars: Path, tmp_path: Path) -> None:
    for number in range(MOST_ARCHIVES + 2):
        (java / "release").write_text(f'JAVA_VERSION="{17 + number}"')
        newest = archive(java, jars, tmp_path)
        assert newest.make(train)
        os.utime(newest.path, (number, number))
    kept = {path.name for path in newest.folder.glob("*.jsa")}
    assert newest.name in kept
    assert len(kept) == MOST_ARCHIVES


def test_what_is_too_large_is_not_kept(java: Path, jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "MOST_BYTES", 3)
    one = archive(java, jars, tmp_path)
    with pytest.raises(SetupError, match="no class archive came of it: Java left 10 bytes"):
        one.make(train)
    assert list(one.folder.glob("*.jsa")) == []


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="users have no numbers here")
def test_a_file_that_others_may_write_is_not_used(java: Path, jars: Path, tmp_path: Path) -> None:
    one = archive(java, jars, tmp_path)
    one.make(train)
    one.path.chmod(0o666)
    assert one.java_options() == []


@pytest.mark.parametrize(
    ("environ", "setting", "wanted"),
    [({}, None, True), ({VARIABLE: "off"}, None, False), ({}, "false", False), ({VARIABLE: "on"}, "true", True)],
)
def test_it_can_be_turned_off(environ: dict[str, str], setting: str | None, wanted: bool) -> None:
    assert is_wanted(setting, environ) is wanted


@pytest.mark.parametrize(("variable", "told"), [("", 1), ("ready", 0), ("off", 0)])
def test_a_start_without_one_says_what_it_would_gain_and_starts_nothing(
    java: Path, jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, told: int
) -> None:
    one = archive(java, jars, tmp_path)
    monkeypatch.setenv(VARIABLE, variable)
    monkeypatch.setattr(ClassArchive, "of_this_machine", lambda: one)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process that nobody asked for"))
    heard: list[str] = []
    conf = launch._start_conf("local[2]", {}, "first")
    launch._use_class_archive(conf, heard.append)
    assert heard == [class_archive.GAIN] * told
    assert "watersmeet warm-up --spark" in class_archive.GAIN
    one.make(train)
    launch._use_class_archive(conf, heard.append)
    assert len(heard) == told
    assert (str(one.path) in (conf.get(launch.JAVA_OPTIONS) or "")) is (variable != "off")


# ---- as a process of its own ----------------------------------------------------------------------------------------

# Stands for what starts Spark: a child of its own, as Java is, and then as it is told.
TOY = """
import os, subprocess, sys, tempfile, time
from pathlib import Path
from watersmeet.hosts.spark import class_training

def train(draft, base, begin):
    java = subprocess.Popen(["sleep", "600"])
    draft.write_bytes(b"an archive")
    begin("running a small join")
    Path(tempfile.mkdtemp(), "of Spark").touch()
    Path(os.environ["TOY_PIDS"] + ".folder").write_text(tempfile.gettempdir())
    Path(os.environ["TOY_PIDS"]).write_text(f"{os.getpid()} {java.pid}")
    if os.environ["TOY"] == "fails":
        raise SystemExit("there is no Spark")
    if os.environ["TOY"] == "hangs":
        time.sleep(600)

class_training.train = train
class_training.main()
"""
# The command, but for Spark.
COMMAND = """
import sys
from functools import partial
from watersmeet.cli import main
from watersmeet.hosts.spark import class_training

class_training.train_apart = partial(class_training.train_apart, program="toy_training")
sys.argv = ["watersmeet", "warm-up", "--spark"]
main()
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it tells the numbers of its processes."""
    (tmp_path / "toy_training.py").write_text(TOY)
    paths = [str(tmp_path), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TOY_PIDS", str(tmp_path / "pids"))
    monkeypatch.setenv("TOY", "")
    return tmp_path / "pids"


def made(one: ClassArchive, longest_s: float = 60.0) -> bool:
    told: list[str] = []
    train = partial(class_training.train_apart, tell=told.append, longest_s=longest_s, program="toy_training")
    try:
        return one.make(train)
    finally:
        (words,) = told
        assert words.startswith("Spark is started once")


def assert_ended(pids: Path) -> None:
    """None of them is left; one that has ended and is not yet waited for is none."""
    left = pids.read_text().split()
    for _ in range(100):
        left = [pid for pid in left if is_alive(pid)]
        if not left:
            return
        time.sleep(0.1)
    pytest.fail(f"{left} are left")


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_is_being_done_is_shown_and_nothing_of_it_is_left(
    java: Path, jars: Path, tmp_path: Path, toy: Path
) -> None:
    class Steps:
        seen: ClassVar[list[str]] = []

        def begin(self, phase: Phase) -> None:
            self.seen.append(phase.what)

        def end(self, phase: Phase) -> None:
            self.seen.append("")

    one, before = archive(java, jars, tmp_path), listen(Steps())
    try:
        assert made(one)
    finally:
        listen(before)
    assert Steps.seen == ["starting Spark", "", "running a small join", ""]
    assert list(one.folder.iterdir()) == [one.path]
    assert_ended(toy)


@pytest.mark.parametrize(
    ("behaves", "longest_s", "why"),
    [("fails", 60.0, "there is no Spark"), ("hangs", 3.0, "it took longer than 3 s")],
)
def test_it_is_bounded_in_time_and_says_why_there_is_none(
    java: Path, jars: Path, tmp_path: Path, toy: Path, monkeypatch: pytest.MonkeyPatch,
    behaves: str, longest_s: float, why: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("TOY", behaves)
    one = archive(java, jars, tmp_path)
    with pytest.raises(SetupError, match=f"no class archive was made: {why}"):
        made(one, longest_s)
    assert list(one.folder.iterdir()) == []
    if behaves == "fails":  # else it may not have come so far
        assert_ended(toy)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_the_command_ends_its_java_ends_with_it(
    tmp_path: Path, toy: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    monkeypatch.setenv("TOY", "hangs")
    process = subprocess.Popen([sys.executable, "-c", COMMAND], stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        if toy.exists() and toy.read_text():
            break
        time.sleep(0.1)
    process.send_signal(how)
    _, told = process.communicate(timeout=60)
    assert_ended(toy)
    assert told.startswith("Spark is started once")
    folder = tmp_path / "cache" / "watersmeet" / "classes"
    if how != signal.SIGKILL:
        assert process.returncode == INTERRUPTED
        assert told.endswith("aborted; nothing of it was kept\n")
        assert list(folder.iterdir()) == []
        scratch = Path(toy.with_name("pids.folder").read_text())
        assert scratch != Path(tempfile.gettempdir())
        assert not scratch.exists()
        return
    # What a kill leaves goes with the next try.
    again = subprocess.run(
        [sys.executable, "-c", COMMAND], env={**os.environ, "TOY": ""}, capture_output=True, text=True, check=True
    )
    (path,) = folder.iterdir()
    assert f"Java has its classes in {path}" in unfolded(again.stderr)
    once_more = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, check=True)
    assert unfolded(once_more.stderr).startswith(f"Java had its classes in {path}")
