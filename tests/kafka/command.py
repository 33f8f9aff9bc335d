"""`watersmeet run` as a process of its own, as people start it, on either host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.spark.harness import ROOT, SHORT_LIVED
from watersmeet.hosts.spark.launching import class_archive

LOCAL = ("--engine", "local")
SPARK = ("--engine", "spark", "--master", "local[2]", "--buckets", "2")
HOSTS = {"in-process": LOCAL, "spark": SPARK}
LONG_S = 240.0


class Command:
    """A run of a script in a folder; its checkpoint is there, too."""

    def __init__(self, folder: Path, script: str, *options: str, environment: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "script.sql").write_text(script)
        self._said = folder / "said"
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "watersmeet", "run", "script.sql", "--checkpoint", "checkpoint", *options],
                cwd=folder,
                stdout=said,
                stderr=said,
                env={**os.environ, **_SURROUNDINGS, **(environment or {})},
            )

    @property
    def said(self) -> str:
        return self._said.read_text(errors="replace")

    @property
    def pid(self) -> int:
        return self._process.pid

    def until(self, is_so: Callable[[], bool], timeout_s: float = LONG_S) -> None:
        """Wait while it runs until something is so."""
        until_s = time.monotonic() + timeout_s
        while not is_so():
            assert self._process.poll() is None, f"it ended with {self._process.returncode}:\n{self.said}"
            if time.monotonic() > until_s:
                self.kill()
                raise AssertionError(f"not so after {timeout_s:g} s:\n{self.said}")
            time.sleep(0.2)

    def interrupt(self) -> int:
        """Ctrl-C; its exit code."""
        self._process.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self, timeout_s: float = LONG_S) -> int:
        """Its exit code, when it has ended by itself."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end within {timeout_s:g} s:\n{self.said}") from None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def told_once(said: str, *words: str) -> None:
    """One error, in a sentence with these words, and no traceback."""
    assert "Traceback" not in said, said
    assert "panicked" not in said, said
    for word in words:
        assert word in said, f"{word!r} is not in:\n{said}"


_SURROUNDINGS = {
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
    "PYTHONPATH": os.pathsep.join(
        dict.fromkeys([str(ROOT / "src"), str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])
    ),
    "SPARK_SUBMIT_OPTS": SHORT_LIVED,
    class_archive.VARIABLE: "off",
}
