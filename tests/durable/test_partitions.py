"""A partitioned folder that a run adds to: laid out as elsewhere, each number once, and others' files left alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from watersmeet.errors import SinkError
from watersmeet.io.connectors.contract import NumberedSink
from watersmeet.io.connectors.files.local_folder import LocalFolder
from watersmeet.io.connectors.numbered_sinks import numbered_sink
from watersmeet.io.sinks import sink_from_options

ROWS = pa.record_batch({"n": [1, 2, 3, 4], "day": ["x/y", None, "x/y", "z"], "k": [1, 1, 2, 1]})


def sink(path: Path, run: str = "aa", **words: str) -> NumberedSink:
    said = {"sink": "csv", "path": str(path), "partition_by": "Day, k", **words}
    return numbered_sink("out", said, ROWS.schema, run)


def content(path: Path) -> dict[str, list[str]]:
    """The lines of every folder."""
    found: dict[str, list[str]] = {}
    for one in sorted(path.rglob("part-*")):
        found.setdefault(str(one.parent.relative_to(path)), []).extend(one.read_text().splitlines()[1:])
    return found


def test_the_folders_are_those_of_a_run_that_ends(tmp_path: Path) -> None:
    words = {"sink": "csv", "path": str(tmp_path / "whole"), "partition_by": "day, k"}
    whole = sink_from_options("out", words, ROWS.schema)
    whole.write(ROWS)
    whole.close()
    sink(tmp_path / "out").commit(3, [ROWS.slice(0, 2), ROWS.slice(2)])
    assert content(tmp_path / "out") == content(tmp_path / "whole")
    assert len(content(tmp_path / "out")) == 4
    assert not list((tmp_path / "out").rglob(".*"))


def test_a_number_is_taken_once_in_all_lives(tmp_path: Path) -> None:
    first = sink(tmp_path)
    first.commit(3, [ROWS])
    first.commit(3, [ROWS])
    second = sink(tmp_path)
    assert second.committed() == 3
    second.commit(2, [ROWS])
    second.commit(5, [ROWS.slice(0, 1)])
    assert sum(map(len, content(tmp_path).values())) == 5


def test_a_commit_that_was_cut_short_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, left, replace = sink(tmp_path), [2], Path.replace

    def fail_later(path: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] < 0:
            raise OSError("no space left")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fail_later)
    with pytest.raises(SinkError, match="no space left"):
        broken.commit(7, [ROWS])
    monkeypatch.undo()
    assert sum(map(len, content(tmp_path).values())) < 4
    assert sink(tmp_path).committed() == 7
    assert sum(map(len, content(tmp_path).values())) == 4


def test_a_list_of_a_commit_that_was_damaged_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = sink(tmp_path)
    # Killed when the list is there, and no file is in its place.
    monkeypatch.setattr(LocalFolder, "_finish", lambda folder: -1)
    broken.commit(7, [ROWS])
    monkeypatch.undo()
    (note,) = tmp_path.glob(".commit-*")
    whole = note.read_bytes()
    damaged = [whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in range(len(whole))]
    for data in (*damaged, b"", whole[:-1], bytes(len(whole))):
        note.write_bytes(data)
        with pytest.raises(SinkError, match=rf"{note.name} is damaged"):
            sink(tmp_path)
    note.write_bytes(whole)
    assert sink(tmp_path).committed() == 7
    assert sum(map(len, content(tmp_path).values())) == 4


def test_files_of_others_are_left_alone_unless_they_are_to_be_replaced(tmp_path: Path) -> None:
    sink(tmp_path).commit(1, [ROWS])
    with pytest.raises(SinkError, match="which another run has written"):
        sink(tmp_path, "bb")
    sink(tmp_path, "bb", mode="append").commit(0, [ROWS])
    assert sum(map(len, content(tmp_path).values())) == 8
    sink(tmp_path, "cc", mode="overwrite").commit(0, [ROWS])
    assert sum(map(len, content(tmp_path).values())) == 4
    with pytest.raises(SinkError, match="is not a folder that is partitioned by n"):
        sink(tmp_path, "dd", mode="overwrite", partition_by="n")
    with pytest.raises(SinkError, match="which is no column"):
        sink(tmp_path, "dd", partition_by="hour")
