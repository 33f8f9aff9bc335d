"""The class archive is private, bounded, made by one process at a time, and never needed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from watersmeet.hosts.spark import class_training
from watersmeet.hosts.spark.launching import class_archive
from watersmeet.hosts.spark.launching.class_archive import MOST_ARCHIVES, VARIABLE, ClassArchive, is_wanted


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


def test_of_two_processes_one_makes_it_and_a_failure_is_not_repeated(
    java: Path, jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = archive(java, jars, tmp_path), archive(java, jars, tmp_path)
    tried: list[bool] = []

    def meanwhile(draft: Path, base: Path) -> None:
        tried.append(other.make(train))
        raise RuntimeError("no Spark here")

    with pytest.raises(RuntimeError):
        one.make(meanwhile)
    assert tried == [False]
    started: list[list[str]] = []
    monkeypatch.setattr(class_archive.subprocess, "Popen", lambda command, **named: started.append(command))
    one._start_making()
    assert started == []
    long_ago = time.time() - class_archive.AGAIN_SECONDS - 1
    os.utime(one._trying, (long_ago, long_ago))
    one._start_making()
    (command,) = started
    assert command[2:] == [class_training.__name__, str(one.path), one.chosen_by]


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
    assert not one.make(train)
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


def test_one_may_be_used_and_none_made(java: Path, jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(class_archive.atexit, "register", asked.append)
    one = archive(java, jars, tmp_path)
    one.make_after_this_process({VARIABLE: "ready"})
    assert is_wanted(None, {VARIABLE: "ready"})
    assert asked == []
    one.make_after_this_process({})
    assert asked == [one._start_making]


def test_who_asks_for_one_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []
    monkeypatch.setattr(class_training, "made_now", lambda: made.append(True))
    monkeypatch.setattr(class_training, "_give_way", lambda: pytest.fail("somebody waits"))
    monkeypatch.setattr(class_training.sys, "argv", [class_training.__file__])
    class_training.main()
    assert made
