"""What another user of the machine could do to folders and files; as root for real, else as the checks would see it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from watersmeet import private_folders

STRANGER = 65534
Give = Callable[[Path], None]


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Give:
    """Make a file or folder another user's. Without the right to do so, the checks are told so."""
    given: set[tuple[int, int]] = set()
    really = private_folders.owner_of

    def owner_of(status: os.stat_result) -> int:
        return STRANGER if (status.st_dev, status.st_ino) in given else really(status)

    def give(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
            return
        status = os.lstat(path)
        given.add((status.st_dev, status.st_ino))
        monkeypatch.setattr(private_folders, "owner_of", owner_of)

    return give
