"""Compiled kernels are kept, found again, refused where they do not fit; and that compiling is told."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.forked import Ended, program
from watersmeet.compiling import kept, kernel, places
from watersmeet.private_folders import PrivateFolder
from watersmeet.warning import StateWarning

ROOT = Path(__file__).parents[3]
# Says whether the kernel had to be compiled, for a type that no query has: whoever this is forked from has others, and
# has looked for where they are kept.
ONE_CALL = """
import sys, numpy as np
from watersmeet.compiling import places
places.kept_folder.cache_clear()
from watersmeet.operators.kernels.spread import nth_later
from watersmeet.operators.kernels.rows import disorder
hits = sum(disorder._cache_hits.values())
assert disorder(np.array([5, 3, 9], np.int16), 4) == (2, 9)
print("found" if sum(disorder._cache_hits.values()) > hits else "compiled")
"""


@kernel
def added(a, b):
    return a + b


@kernel
def added_twice(a):
    return added(added(a, 1), 2)


def in_a_process(cache: Path) -> str:
    return said_by(program(ONE_CALL, NUMBA_CACHE_DIR=str(cache), WATERSMEET_KERNELS="numba").communicate())


def said_by(ran: Ended | subprocess.CompletedProcess[str]) -> str:
    assert (ran.stderr, ran.returncode) == ("", 0)
    return ran.stdout.strip()


def test_one_process_compiles_and_the_next_finds(tmp_path: Path) -> None:
    assert in_a_process(tmp_path) == "compiled"
    assert in_a_process(tmp_path) == "found"
    (file,) = tmp_path.rglob("kernels-*/*")
    file.write_bytes(file.read_bytes()[:100])  # as after a loss of power
    assert in_a_process(tmp_path) == "compiled"
    assert in_a_process(tmp_path) == "found"


def test_processes_may_compile_the_same_at_once(tmp_path: Path) -> None:
    given = {"PYTHONPATH": str(ROOT / "src"), "NUMBA_CACHE_DIR": str(tmp_path), "WATERSMEET_KERNELS": "numba"}
    command = [sys.executable, "-W", "error", "-c", ONE_CALL]
    running = [subprocess.Popen(command, env={**os.environ, **given}, stderr=subprocess.PIPE) for _ in range(2)]
    assert [(one.communicate()[1], one.returncode) for one in running] == [(b"", 0)] * 2
    assert len(list(tmp_path.rglob("kernels-*/*"))) == 1


def test_a_kernel_is_compiled_once_whatever_constants_it_is_called_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "read_kept", lambda name: None)
    assert added_twice(np.int64(4)) == 7
    assert len(added.overloads) == 1


def test_a_change_of_a_file_changes_the_kernels_that_call_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stamp, source = kept.stamp_of.__wrapped__, kept._source
    pair, rows = "watersmeet.operators.kernels.pair", "watersmeet.operators.kernels.rows"
    before = stamp(pair), stamp(rows)
    monkeypatch.setattr(kept, "_source", lambda name: source(name) + b"#" * name.endswith("kernels.walk"))
    assert stamp(pair) != before[0]
    assert stamp(rows) == before[1]


def test_a_full_disk_is_told_once_and_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: PrivateFolder, name: str) -> io.BytesIO:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(PrivateFolder, "write", full)
    with pytest.warns(StateWarning, match=r"kernel_cache: .*cannot be kept, so every process compiles .*no space left"):
        assert added(1.5, 2.5) == 4.0
    with warnings.catch_warnings(action="error"):
        assert added(np.float32(1), np.float32(2)) == 3.0


def test_without_any_folder_kernels_are_compiled_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, chosen_by: str) -> PrivateFolder:
        raise PermissionError(f"{path} cannot be written")

    monkeypatch.setattr(places, "private_folder", refuse)
    with pytest.warns(StateWarning, match="kernel_cache: .*every process compiles them anew"):
        assert places.kept_folder.__wrapped__() is None
