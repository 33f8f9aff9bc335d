"""A disk of a few megabytes, to be filled or made read-only: a file system in memory, which only root may mount."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BYTES = 8 << 20


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, leave: int = 0) -> None:
        """Use all of it but so many bytes."""
        free = os.statvfs(self.path)
        room = free.f_bavail * free.f_frsize - leave
        self._filler.write_bytes(b"x" * max(room, 0))

    def make_room(self) -> None:
        self._filler.unlink()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        self._remount("ro")
        try:
            yield
        finally:
            self._remount("rw")

    def _remount(self, how: str) -> None:
        done = subprocess.run(["mount", "-o", f"remount,{how}", str(self.path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={BYTES}", "none", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True) if os.geteuid() == 0 else None
    if done is None or done.returncode != 0:
        pytest.skip("a small disk cannot be mounted here: that needs root")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)
