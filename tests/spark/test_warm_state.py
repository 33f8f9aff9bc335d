"""Warm copies are a short cut only: used when they are exactly the present state, ignored in every other case."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.hosts.spark import memory_folder
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.operators.select import Select
from watersmeet.private_folders import made_private, private_folder

pytestmark = pytest.mark.usefixtures("warm_copies")


@pytest.fixture(autouse=True)
def _fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_state, "_at_hand", {})
    monkeypatch.setattr(memory_folder, "_sweep_at_s", 0.0)


class Held(Select):
    """An operator that holds values of several kinds."""

    STATE = ("times", "empty", "flags", "text", "words")

    def __init__(self, times: Any = None, text: str = "") -> None:
        super().__init__((), ())
        self.times, self.text = times, text
        self.empty, self.flags, self.words = np.empty(0), np.array([True]), pa.array(["a", None, "b"])


def value() -> Held:
    return Held(np.arange(1000, dtype=np.int64), "x" * 99)


def fetch(query: str, bucket: int, version: int, nonce: int) -> Any:
    return warm_state.fetch(query, bucket, version, nonce, Held)


def as_another_worker() -> None:
    """Forget what this process has at hand, so that only the shared file is left."""
    warm_state._at_hand.clear()


def assert_same(found: Any) -> None:
    assert found is not None
    assert (found.text, found.words) == (value().text, value().words)
    assert all(np.array_equal(getattr(found, name), getattr(value(), name)) for name in ("times", "empty", "flags"))


def test_another_worker_finds_what_one_kept():
    warm_state.keep("q", 3, 7, 1234, value())
    as_another_worker()
    assert_same(fetch("q", 3, 7, 1234))


@pytest.mark.parametrize("asked", [(8, 1234), (6, 1234), (7, 1235), (0, 0)])
@pytest.mark.parametrize("same_worker", [True, False], ids=["same worker", "another worker"])
def test_only_the_exact_version_and_nonce_will_do(asked, same_worker):
    warm_state.keep("q", 3, 7, 1234, value())
    if not same_worker:
        as_another_worker()
    assert fetch("q", 3, *asked) is None


def test_other_buckets_and_queries_have_other_copies():
    warm_state.keep("q", 3, 7, 1234, value())
    as_another_worker()
    assert fetch("q", 4, 7, 1234) is None
    assert fetch("p", 3, 7, 1234) is None


def test_a_failed_attempt_in_the_same_worker_leaves_nothing_half_done_behind():
    """A worker takes a copy, changes it, fails before it is kept again; the next attempt must not see the changes."""
    warm_state.keep("q", 0, 1, 11, value())
    taken = fetch("q", 0, 1, 11)
    taken.times[:] = -1
    taken.text = "changed"
    assert_same(fetch("q", 0, 1, 11))


def test_changes_to_a_mapped_copy_stay_private():
    warm_state.keep("q", 0, 1, 11, value())
    as_another_worker()
    fetch("q", 0, 1, 11).times[:] = -1
    as_another_worker()
    assert_same(fetch("q", 0, 1, 11))


def test_a_later_copy_replaces_an_earlier_one():
    warm_state.keep("q", 0, 1, 11, value())
    warm_state.keep("q", 0, 2, 22, value())
    as_another_worker()
    assert fetch("q", 0, 1, 11) is None
    assert_same(fetch("q", 0, 2, 22))


@pytest.mark.parametrize("keep_bytes", [0, 1, 31, 32, 40, 100, 400, 1000, -1])
def test_a_truncated_file_counts_as_absent(keep_bytes):
    warm_state.keep("q", 0, 1, 11, value())
    as_another_worker()
    path = memory_folder.folder_of("q") / "0"
    data = path.read_bytes()
    path.write_bytes(data[:keep_bytes] if keep_bytes >= 0 else data[:-2000])
    assert fetch("q", 0, 1, 11) is None


@pytest.mark.parametrize("position", range(32, 600, 23))
def test_a_file_with_wrong_bytes_never_raises(position):
    """Behind the stamp anything may be wrong after a full disk; a damaged state must not bring a query down."""
    warm_state.keep("q", 0, 1, 11, Held(np.arange(3), "text"))
    as_another_worker()
    path = memory_folder.folder_of("q") / "0"
    data = bytearray(path.read_bytes())
    if position < len(data):
        data[position] ^= 0xFF
    path.write_bytes(bytes(data))
    fetch("q", 0, 1, 11)


def test_a_folder_that_cannot_be_written_costs_only_the_short_cut(monkeypatch):
    monkeypatch.setenv(memory_folder.WARM_DIR, "/proc/nowhere")
    warm_state.keep("q", 0, 1, 11, value())
    assert "/proc/nowhere" in (warm_state.trouble() or "")
    as_another_worker()
    assert fetch("q", 0, 1, 11) is None


def test_no_temporary_files_stay(warm_copies):
    for version in range(5):
        warm_state.keep("q", 0, version, version, value())
    assert [path.name for path in memory_folder.folder_of("q").iterdir()] == ["0"]


def test_what_dead_executors_left_is_swept():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    base = made_private(memory_folder.base_folder())
    left, living = base / f"old.{ended.pid}", base / f"other.{os.getpid()}"
    for folder in (left, living):
        folder.mkdir()
        (folder / "0").write_bytes(b"x")
    warm_state.keep("q", 0, 1, 11, value())
    assert (left.exists(), living.exists()) == (False, True)


def test_what_a_query_left_that_is_no_more_is_swept_while_its_executor_goes_on(monkeypatch: pytest.MonkeyPatch):
    warm_state.keep("ended", 0, 1, 11, value())
    warm_state.keep("running", 0, 1, 11, value())
    long_ago = time.time() - 2 * memory_folder.SILENT_S
    for query in ("ended", "q"):
        memory_folder.folder_of(query).mkdir(exist_ok=True)
        os.utime(memory_folder.folder_of(query), (long_ago, long_ago))
    warm_state.keep("running", 0, 2, 12, value())
    assert memory_folder.folder_of("ended").exists(), "it is looked at now and then only"
    monkeypatch.setattr(memory_folder, "_sweep_at_s", 0.0)
    warm_state.keep("q", 0, 1, 11, value())
    as_another_worker()
    assert not memory_folder.folder_of("ended").exists()
    assert_same(fetch("running", 0, 2, 12))
    assert_same(fetch("q", 0, 1, 11))


def test_discard_removes_one_query_only():
    warm_state.keep("q", 0, 1, 11, value())
    warm_state.keep("p", 0, 1, 11, value())
    memory_folder.discard("q")
    as_another_worker()
    assert fetch("q", 0, 1, 11) is None
    assert_same(fetch("p", 0, 1, 11))


def _write_often(worker: int, times: int) -> None:
    for version in range(times):
        warm_state.keep("q", 0, version, worker, Held(np.full(50_000, worker), f"{worker} {version}"))


def test_writers_at_the_same_time_leave_one_whole_copy():
    with multiprocessing.get_context("fork").Pool(3) as pool:
        parent = os.getpid()
        pool.starmap(_write_often, [(worker, 20) for worker in range(3)])
    path = memory_folder.base_folder() / f"q.{parent}" / "0"
    version, nonce, *_ = warm_state._HEAD.unpack_from(path.read_bytes(), 0)
    with private_folder(path.parent) as folder:
        found = warm_state._load(folder, path.name, version, nonce)
    assert found.values["text"] == f"{nonce} {version}"
    assert np.array_equal(found.values["times"], np.full(50_000, nonce))
    assert [p.name for p in path.parent.iterdir()] == ["0"]


def test_the_folder_can_be_chosen(warm_copies: Path):
    warm_state.keep("q", 0, 1, 11, value())
    assert memory_folder.folder_of("q").parent.parent == warm_copies
    assert (memory_folder.folder_of("q") / "0").is_file()
