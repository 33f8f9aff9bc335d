"""Where there is no POSIX, the library loads, queries run in this process, and what cannot be done says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from watersmeet.archive import disk
from watersmeet.compiling import places
from watersmeet.errors import SinkError

ROOT = Path(__file__).parents[2]
# What Windows does not have, as far as anything here could ask for it.
WITHOUT_POSIX = """
import os, sys, signal, platformdirs.unix  # which knows by itself what system it is on
for name in ("fcntl", "pwd", "grp", "resource", "termios", "posix_ipc"):
    sys.modules[name] = None
for name in ("getuid", "geteuid", "getgid", "fork", "fchmod", "sched_getaffinity", "O_DIRECTORY", "O_NOFOLLOW"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGUSR1"):
    delattr(signal, name)
"""
QUERIES = """
import datetime as dt, pyarrow as pa, watersmeet as wm
at = [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, 0, 0, 1)]
session = wm.Session()
for name in "ab":
    session.stream(name, pa.table({"k": [1, 2], "ts": at}), time="ts")
assert session.sql("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND").to_arrow().num_rows == 2
assert session.sql("SELECT COUNT(*) AS n FROM a [RANGE 1 SECOND]").final().to_pylist() == [{"n": 2}]
import watersmeet.cli
from nobodys import twice
assert twice(21) == 42
"""
# It is compiled, and kept.
KERNEL = """
from watersmeet.compiling import kernel

@kernel
def twice(number):
    return 2 * number
"""


def test_queries_run_without_posix(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(tmp_path)])
    (tmp_path / "nobodys.py").write_text(KERNEL)
    environment.pop("NUMBA_CACHE_DIR", None)
    kept = places.kept_folder()
    if kept is not None:  # all but one kernel need not be compiled for this
        unfinished = shutil.ignore_patterns("*.*")  # another worker's
        shutil.copytree(kept.path, tmp_path / "watersmeet" / kept.path.name, ignore=unfinished)
    before = len(list(tmp_path.rglob("kernels-*/*")))
    code = WITHOUT_POSIX + QUERIES
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert len(list(tmp_path.rglob("kernels-*/*"))) > before


def test_a_lock_that_a_system_does_not_have_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", None)
    with pytest.raises(SinkError, match="locks files"), disk.locked(tmp_path):
        pass
