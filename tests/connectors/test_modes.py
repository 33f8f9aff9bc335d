"""mode = 'error', 'append' and 'overwrite' mean the same of files wherever they are, and whoever wrote them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from watersmeet.errors import SinkError
from watersmeet.io.connectors.numbered_sinks import numbered_sink
from watersmeet.io.sinks import sink_from_options

ROWS = pa.record_batch({"n": [1, 2], "day": ["x", "y"]})
Write = Callable[[str, dict[str, str]], None]


def going_on(address: str) -> Write:
    def write(run: str, words: dict[str, str]) -> None:
        numbered_sink("out", {"sink": "csv", "path": address, **words}, ROWS.schema, run).commit(0, [ROWS])

    return write


def once(address: str) -> Write:
    def write(run: str, words: dict[str, str]) -> None:
        sink = sink_from_options("out", {"sink": "csv", "path": address, **words}, ROWS.schema)
        sink.write(ROWS)
        sink.close()

    return write


def lines(folder: Path) -> int:
    return sum(len(one.read_text().splitlines()) - 1 for one in folder.rglob("part-*"))


PARTITIONED = [{}, {"partition_by": "day"}]


@pytest.mark.parametrize("words", PARTITIONED, ids=["plain", "partitioned"])
@pytest.mark.parametrize("scheme", ["", "file://"], ids=["folder", "store"])
def test_what_runs_have_written_is_refused_added_to_or_replaced(
    tmp_path: Path, scheme: str, words: dict[str, str]
) -> None:
    write, out = going_on(f"{scheme}{tmp_path}/out"), tmp_path / "out"
    write("aa", words)
    with pytest.raises(SinkError, match=r"out already holds \S*part-aa-\d+\.csv, which another run has written"):
        write("bb", words)
    write("bb", {**words, "mode": "append"})
    assert lines(out) == 4
    (out / "_spark_metadata").mkdir()  # of a run on Spark: its readers go by that
    write("cc", {**words, "mode": "overwrite"})
    assert lines(out) == 2
    if not scheme:
        assert not (out / "_spark_metadata").exists()


@pytest.mark.parametrize("words", PARTITIONED, ids=["plain", "partitioned"])
def test_a_run_with_a_checkpoint_replaces_the_files_of_one_without(tmp_path: Path, words: dict[str, str]) -> None:
    (tmp_path / "out").mkdir()
    write = once(str(tmp_path / "out"))
    for _ in range(20):  # names have a random part
        write("", {**words, "mode": "append"})
    going_on(str(tmp_path / "out"))("aa", {**words, "mode": "overwrite"})
    assert lines(tmp_path / "out") == 2


@pytest.mark.parametrize(
    ("words", "found", "told"),
    [
        ({}, "thesis.txt", "is a folder that no query wrote"),
        ({}, "day=x/part-aa-000.csv", "is a folder that no query wrote"),
        ({"partition_by": "day"}, "day=x/thesis.txt", "is not a folder that is partitioned by day"),
        ({"partition_by": "day"}, "part-aa-000.csv", "is not a folder that is partitioned by day"),
    ],
)
@pytest.mark.parametrize("opener", [going_on, once])
@pytest.mark.parametrize("scheme", ["", "file://"], ids=["folder", "store"])
def test_overwrite_removes_nothing_that_no_run_has_written_there(
    tmp_path: Path, scheme: str, opener: Callable[[str], Write], words: dict[str, str], found: str, told: str
) -> None:
    path = tmp_path / "out" / found
    path.parent.mkdir(parents=True)
    path.write_text("years of work")
    if opener is once and not scheme and not words:
        told = "is a folder, and overwrite replaces only files"
    with pytest.raises(SinkError, match=f"out {told}"):
        opener(f"{scheme}{tmp_path}/out")("bb", {**words, "mode": "overwrite"})
    assert path.read_text() == "years of work"


@pytest.mark.parametrize("scheme", ["", "file://"], ids=["folder", "store"])
@pytest.mark.parametrize("opener", [going_on, once])
def test_a_file_where_a_folder_would_be_is_refused(tmp_path: Path, opener: Callable[[str], Write], scheme: str) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(SinkError, match="out is a file, but answers go into a folder of files"):
        opener(f"{scheme}{tmp_path}/out")("aa", {"partition_by": "day", "mode": "overwrite"})
