"""Compiled kernels are kept, found again, refused where they do not fit; and that compiling is told."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.forked import Ended, program
from watersmeet.compiling import kept, kernel, places
from watersmeet.compiling.machine import baseline, environment_for, this_machine
from watersmeet.private_folders import PrivateFolder
from watersmeet.warning import StateWarning

ROOT = Path(__file__).parents[3]
# Says whether the kernel had to be compiled, for a type that no query has: whoever this is forked from has others, and
# has looked for where they are kept.
ONE_CALL = """
import sys, numpy as np
from watersmeet.compiling import places
for found in (places.kept_folder, places.shipped_for, places.why_not_shipped):
    found.cache_clear()
{before}
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


def in_a_process(cache: Path, before: str = "") -> str:
    return said_by(program(ONE_CALL.format(before=before), NUMBA_CACHE_DIR=str(cache)).communicate())


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
    given = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", ONE_CALL.format(before="")]
    running = [subprocess.Popen(command, env=given, stderr=subprocess.PIPE) for _ in range(2)]
    assert [(one.communicate()[1], one.returncode) for one in running] == [(b"", 0)] * 2
    assert len(list(tmp_path.rglob("kernels-*/*"))) == 1


def test_what_came_with_the_package_is_found_where_it_fits(tmp_path: Path) -> None:
    made, shipped = tmp_path / "made", tmp_path / "shipped"
    target = baseline()
    if target.why_not_here():
        pytest.skip("this processor is older than what wheels are made for")
    given = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NUMBA_CACHE_DIR": str(made), **environment_for(target)}
    command = [sys.executable, "-c", ONE_CALL.format(before="")]  # Numba reads the target where it is imported
    assert said_by(subprocess.run(command, env=given, capture_output=True, text=True)) == "compiled"
    (file,) = made.rglob("kernels-*/*")
    shipped.mkdir()
    (shipped / file.name).write_bytes(file.read_bytes())
    said = {**target.as_json(), "features": sorted(target.features)}
    (shipped / places.DESCRIPTION).write_text(json.dumps(said))
    before = f"from pathlib import Path; places.SHIPPED = Path({str(shipped)!r})"
    assert in_a_process(tmp_path / "a", before) == "found"
    (shipped / places.DESCRIPTION).write_text(json.dumps({**said, "features": [*said["features"], "tea"]}))
    assert in_a_process(tmp_path / "b", before) == "compiled"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"numba": "0.1 O3"}, "with Numba 0.1 O3, not for"),
        ({"python": "cpython-299"}, "for cpython-299 with Numba"),
        ({"system": "abacus"}, "for abacus, not for"),
        ({"features": ("tea",)}, "for a processor that has tea"),
    ],
)
def test_code_for_another_machine_is_refused_with_the_reason(other: dict[str, Any], words: str) -> None:
    assert this_machine().why_not_here() is None
    assert words in str(replace(this_machine(), **other).why_not_here())


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
