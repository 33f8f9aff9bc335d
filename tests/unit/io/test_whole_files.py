"""Whoever reads a file finds the old or the whole new one."""

import os
from pathlib import Path

import pyarrow.fs as pa_fs
import pytest

from watersmeet.io.whole_files import put_whole, write_whole


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_file_is_replaced_and_brought_onto_the_disk_with_its_name_if_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_disk: bool
) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append((tmp_path / "note").exists()))
    write_whole(tmp_path / "note", b"old", on_disk=on_disk)
    assert synced == ([False, True] if on_disk else [])  # the bytes before they have their name, and then the name
    write_whole(tmp_path / "note", b"new", on_disk=on_disk)
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("note", b"new")]


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_whole(tmp_path / "note", b"old")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(tmp_path / "note", b"new")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("note", b"old")]


def test_a_store_of_folders_makes_those_it_needs(tmp_path: Path) -> None:
    put_whole(pa_fs.LocalFileSystem(), f"{tmp_path}/a/b/note", b"new")
    assert [one.name for one in (tmp_path / "a" / "b").iterdir()] == ["note"]
