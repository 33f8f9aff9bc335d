"""Compiled kernels that are not asked for any more are removed; those of a process that runs are not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from watersmeet.compiling import places, pruning
from watersmeet.private_folders import PrivateFolder, private_folder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="without locks nothing is removed")
DAYS_AGO = "abcdefgh"


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[PrivateFolder]:
    """With a folder for each letter, with a file in it, last used so many days ago."""
    with private_folder(tmp_path / "cache") as made:
        for days, letter in enumerate(DAYS_AGO):
            with made.below(f"kernels-{letter}") as folder:
                folder.write("one").close()
            used = time.time() - days * pruning.DAY_S
            os.utime(made.path / f"kernels-{letter}", (used, used))
        yield made


def left(cache: PrivateFolder) -> str:
    return "".join(sorted(path.name[-1] for path in cache.path.glob("kernels-*")))


def test_the_folders_that_were_used_last_stay(cache: PrivateFolder) -> None:
    (cache.path / "java-1").mkdir()
    with cache.below("kernels-h") as ours:
        pruning.prune(cache, ours)
    assert left(cache) == "abch"
    assert (cache.path / "java-1").is_dir()


def test_a_folder_that_is_held_by_a_process_stays_however_old(cache: PrivateFolder) -> None:
    hold = "from pathlib import Path; from watersmeet.private_folders import private_folder as opened;"
    hold += f"held = opened(Path({str(cache.path)!r})).below('kernels-g'); print(held.hold(), flush=True); input()"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    command = [sys.executable, "-c", hold]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"True\n"
        os.utime(cache.path / "kernels-g", (0, 0))
        with cache.below("kernels-a") as ours:
            pruning.prune(cache, ours)
        assert left(cache) == "abcdg"
        other.communicate(b"\n")
    with cache.below("kernels-a") as ours:
        pruning.prune(cache, ours)
    assert left(cache) == "abcd"


def test_use_is_noted(cache: PrivateFolder) -> None:
    with cache.below("kernels-h") as old, cache.below("kernels-a") as ours:
        assert old.hold()
        old.close()
        pruning.prune(cache, ours)
    assert left(cache) == "abch"


def test_a_folder_that_is_removed_while_it_is_opened_is_made_anew(cache: PrivateFolder) -> None:
    with cache.below("kernels-h") as early:
        assert cache.remove_unheld("kernels-h")
        assert not early.hold()
    with places._held(cache, "kernels-h") as again:
        assert again.files() == {}
        assert not cache.remove_unheld("kernels-h")


def test_files_that_were_longest_not_read_make_room(cache: PrivateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "MOST_BYTES", 1000)
    with cache.below("kernels-x") as ours:
        for days in range(12):
            with ours.write(f"{days}") as file:
                file.write(b"x" * 100)
            used = time.time() - days * pruning.DAY_S
            os.utime(ours.path / f"{days}", (used, used))
        with ours.read("11") as file:
            pruning.note_use(file)
        pruning.prune(cache, ours)
        assert sorted(map(int, ours.files())) == [0, 1, 2, 3, 4, 5, 11]


def test_what_a_process_that_died_left_half_written_goes_after_a_day(cache: PrivateFolder) -> None:
    with cache.below("kernels-x") as ours:
        for name in ("whole", "half.12-34", "being-written.56-78"):
            ours.write(name).close()
        for name in ("whole", "half.12-34"):
            os.utime(ours.path / name, (0, 0))
        pruning.prune(cache, ours)
        assert sorted(ours.files()) == ["being-written.56-78", "whole"]


def test_who_keeps_a_kernel_tidies_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    with private_folder(tmp_path / "watersmeet") as cache:
        for number in range(6):
            cache.below(f"kernels-{number}").close()
        ours = places.kept_folder.__wrapped__()
        monkeypatch.setattr(places, "kept_folder", lambda: ours)
        monkeypatch.setattr(places, "_prune_once", places._prune_once.__wrapped__)
        places.keep("some", b"code")
        assert places.read_kept("some") == b"code"
        assert len(list(cache.path.glob("kernels-*"))) == pruning.MOST_FOLDERS
