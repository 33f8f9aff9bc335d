"""What happens to the files of a stream while a run is going on, and between two."""

from __future__ import annotations

import datetime as dt
import os
import time
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.warned import code_of
from watersmeet.io.connectors.contract import SourceBatch
from watersmeet.io.connectors.readers import reader_of
from watersmeet.model.catalog import Stream


def put(folder: Path, name: str, *ids: int) -> None:
    folder.mkdir(exist_ok=True)
    rows = [{"id": one, "ts": dt.datetime(2026, 1, 1) + dt.timedelta(seconds=one)} for one in ids]
    pq.write_table(pa.Table.from_pylist(rows), folder / f".{name}")
    (folder / f".{name}").rename(folder / f"{name}.parquet")


def query_over(folder: Path) -> wm.Query:
    session = wm.Session()
    session.stream("a", str(folder), time="ts", schema={"id": "BIGINT", "ts": "TIMESTAMP"})
    return session.sql("SELECT id FROM a")


def ids(run: wm.Run, count: int) -> list[int]:
    found: list[int] = []
    until = time.monotonic() + 30
    while len(found) < count and time.monotonic() < until:
        found += run.take(timeout=0.1)["id"].to_pylist()
    return found


def test_files_that_were_read_to_their_end_may_go_between_two_runs(tmp_path: Path) -> None:
    put(tmp_path / "a", "1", 1, 2)
    query = query_over(tmp_path / "a")
    with query.start(checkpoint=tmp_path / "state") as run:
        assert ids(run, 2) == [1, 2]
        time.sleep(0.2)  # so that the reader has found the end
    (tmp_path / "a" / "1.parquet").unlink()
    put(tmp_path / "a", "2", 3)
    with query_over(tmp_path / "a").start(checkpoint=tmp_path / "state") as run:
        assert ids(run, 1) == [3]
    put(tmp_path / "a", "1", 1, 2)  # a name that was read is not read again
    put(tmp_path / "a", "3", 4)
    with query_over(tmp_path / "a").start(checkpoint=tmp_path / "state") as run:
        assert ids(run, 1) == [4]


def test_files_are_the_same_however_their_path_is_written_and_wherever_it_is_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put(folder := tmp_path / "a", "0", 0)
    paths = [folder, "a/*.parquet", folder / "*.parquet", "a", folder / "**" / "*.parquet", "./a/[0-9]*.parquet"]
    for number, path in enumerate([*paths, "moved", "moved/7.parquet", tmp_path / "moved" / "8.parquet"]):
        if path == "moved":
            folder = folder.rename("moved")
        put(folder, str(number), number)
        with query_over(Path(path)).start(checkpoint="state", available_now=True) as run:
            assert [one for batch in run for one in batch.column("id").to_pylist()] == [number], path


@pytest.mark.parametrize("left", [0, 1])
def test_a_file_that_is_still_needed_and_gone_or_shorter_is_named(left: int, tmp_path: Path) -> None:
    put(tmp_path / "a", "1", 1, 2, 3)

    def fail_later(batch: pa.RecordBatch) -> None:
        if 2 in batch["id"].to_pylist():
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        query_over(tmp_path / "a").start(checkpoint=tmp_path / "state", on_answer=fail_later, batch_rows=1).wait(30)
    (tmp_path / "a" / "1.parquet").unlink()
    put(tmp_path / "a", "1" if left else "2", 1)
    with pytest.raises(wm.SourceError, match=r"1\.parquet"):
        query_over(tmp_path / "a").start(checkpoint=tmp_path / "state")
    (tmp_path / "a" / "1.parquet").unlink(missing_ok=True)
    put(tmp_path / "a", "1", 1, 2, 3)
    with query_over(tmp_path / "a").start(checkpoint=tmp_path / "state") as run:
        assert ids(run, 3)[:3] == [1, 2, 3]


def test_a_folder_that_is_gone_is_told_once_and_waited_for(tmp_path: Path) -> None:
    put(tmp_path / "a", "1", 1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with query_over(tmp_path / "a").start(checkpoint=tmp_path / "state") as run:
            assert ids(run, 1) == [1]
            (tmp_path / "a").rename(tmp_path / "elsewhere")
            until = time.monotonic() + 30
            while not told and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(0.3)
            (tmp_path / "elsewhere").rename(tmp_path / "a")
            put(tmp_path / "a", "2", 2)
            assert ids(run, 1) == [2]
    assert [code_of(one) for one in told] == ["source_gone"]
    assert "which stream 'a' is read from, is gone; the run waits for it" in str(told[0].message)


def test_a_file_that_grows_after_it_was_read_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,ts\n1,2026-01-01 00:00:01\n")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with query_over(tmp_path / "a.csv").start(checkpoint=tmp_path / "state") as run:
            assert ids(run, 1) == [1]
            with (tmp_path / "a.csv").open("a") as file:
                file.write("2,2026-01-01 00:00:02\n")
            until = time.monotonic() + 30
            while not told and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(1.2)
            assert run.taken("a") == 1
    assert [code_of(one) for one in told] == ["source_changed"]
    assert "a.csv, which stream 'a' has read, has become longer since, and is not read again" in str(told[0].message)


def read_all(folder: Path) -> list[str]:
    """What a run tells that reads what is there and ends, as one by cron does."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = query_over(folder).start(
            checkpoint=folder.parent / "state", sink=str(folder.parent / "out.csv"), available_now=True
        )
        run.wait(60)
    changed = [str(one.message) for one in told if code_of(one) == "source_changed"]
    assert sum(run.metrics().get("changed_files", {}).values()) == len(changed)
    return changed


def changed_between(path: Path, how: str) -> None:
    before = path.read_text()
    at = path.stat().st_mtime_ns
    match how:
        case "has become longer":
            path.write_text(f"{before}7,2026-01-01 00:00:07\n")
        case "has become shorter":
            path.write_text(before[: before.index("\n2,") + 1])
        case "was replaced or written anew":
            path.write_text(before.replace("2,2026-01-01 00:00:02", "3,2026-01-01 00:00:02"))
            os.utime(path, ns=(at, at + 10**9))


@pytest.mark.parametrize("how", ["has become longer", "has become shorter", "was replaced or written anew"])
@pytest.mark.parametrize("new_rows", [False, True])
def test_a_file_that_changes_between_two_runs_is_told_once(tmp_path: Path, how: str, new_rows: bool) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.csv").write_text("id,ts\n1,2026-01-01 00:00:01\n2,2026-01-01 00:00:02\n")
    assert read_all(folder) == []
    assert read_all(folder) == []
    changed_between(folder / "one.csv", how)
    if new_rows:
        (folder / "three.csv").write_text("id,ts\n4,2026-01-01 00:00:09\n")
    (told,) = read_all(folder)
    assert f"one.csv, which stream 'a' has read, {how} since, and is not read again" in told
    if new_rows:  # with them the checkpoint has gone on, and it is told no more
        assert read_all(folder) == []


def test_a_file_that_is_gone_between_two_runs_is_no_change(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.csv").write_text("id,ts\n1,2026-01-01 00:00:01\n")
    assert read_all(folder) == []
    (folder / "one.csv").unlink()
    assert read_all(folder) == []


def test_of_many_files_that_have_changed_some_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.csv").write_text("id,ts\n1,2026-01-01 00:00:01\n")
    assert read_all(folder) == []
    for number in range(30):
        os.utime(folder / f"{number}.csv", (1, 1))
    with pytest.warns(wm.ConnectorWarning, match="source_changed") as told:
        query_over(folder).start(
            checkpoint=tmp_path / "state", sink=str(tmp_path / "out.csv"), available_now=True
        ).wait(60)
    changed = [str(one.message) for one in told if code_of(one) == "source_changed"]
    assert len(changed) == 11
    assert "20 more files that stream 'a' has read have changed since" in changed[-1]


def test_a_file_that_does_not_fit_ends_the_run_and_the_next_goes_on_without_it(tmp_path: Path) -> None:
    put(tmp_path / "a", "1", 1)
    with query_over(tmp_path / "a").start(checkpoint=tmp_path / "state") as run:
        assert ids(run, 1) == [1]
        pq.write_table(pa.table({"id": ["x"], "ts": [dt.datetime(2026, 1, 1)]}), tmp_path / "a" / "2.parquet")
        with pytest.raises(wm.SourceError, match=r"column 'id' of 'a' is declared BIGINT, but .*2\.parquet has STRING"):
            run.wait(30)
        assert "ended by an error" in repr(run)
        (tmp_path / "a" / "2.parquet").unlink()
        put(tmp_path / "a", "3", 3)
    with query_over(tmp_path / "a").start(checkpoint=tmp_path / "state") as run:
        assert ids(run, 1) == [3]  # the first was taken, so it does not come again


def test_batches_have_no_more_rows_than_asked_for(tmp_path: Path) -> None:
    put(tmp_path / "a", "1", *range(10))
    run = query_over(tmp_path / "a").start(
        checkpoint=tmp_path / "state", on_answer=lambda batch: None, batch_rows=3, available_now=True
    )
    assert run.wait(30)
    assert run.batches >= 4


def test_what_is_bad_behind_all_rows_of_a_file_comes_once_however_far_ahead_the_reader_is(tmp_path: Path) -> None:
    for number in range(6):
        row = f'{{"id": {number}, "ts": "2026-01-01 00:00:00"}}\n'
        (tmp_path / f"{number}.json").write_text(("" if number % 2 else row) + "{\n")
    columns = {"id": "BIGINT", "ts": "TIMESTAMP"}
    session = wm.Session()
    session.stream("a", str(tmp_path / "*.json"), time="ts", schema=columns, on_bad="skip")
    stream = session.catalog["a"]
    assert isinstance(stream, Stream)
    ahead, pieces = reader_of(stream), []
    while (piece := ahead.poll(1)) is not None:
        pieces.append(piece)
    for place, one in enumerate(pieces):
        again = reader_of(stream)
        again.resume(ahead.position_after(one.range))
        rest = []
        while (piece := again.poll(1)) is not None:
            rest.append(piece)
        assert told(rest) == told(pieces[place + 1 :])


def test_batches_that_are_repeated_over_empty_files_are_followed_by_what_came_since(tmp_path: Path) -> None:
    def write(name: str, at_s: int, *ids: int) -> None:
        lines = [f"{one},2026-01-01 00:00:00" for one in ids]
        (tmp_path / name).write_text("\n".join(["id,ts", *lines]) + "\n")
        os.utime(tmp_path / name, (at_s, at_s))

    for at_s, (name, ids) in enumerate([("a", [1]), ("b", []), ("c", []), ("d", [2])], 100):
        write(f"{name}.csv", at_s, *ids)
    session = wm.Session()
    session.stream("a", str(tmp_path), time="ts", schema={"id": "BIGINT", "ts": "TIMESTAMP"})
    stream = session.catalog["a"]
    assert isinstance(stream, Stream)
    reader, ranges = reader_of(stream), []
    first = reader.first_position()
    while (piece := reader.poll(10)) is not None:
        ranges.append(piece.range)
    write("old.csv", 50, 3)
    later = reader_of(stream)
    later.resume(first)
    assert [told([later.again(one)])[0] for one in ranges] == [[1], [2]]
    piece = later.poll(10)
    assert piece is not None
    assert told([piece])[0] == [3]
    assert later.poll(10) is None
    names = [one[1] for one in later.position_after(piece.range)["files"]]
    assert {"a.csv", "d.csv", "old.csv"} <= set(names)


def test_what_an_older_version_has_noted_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "a", "1", 1)
    session = wm.Session()
    session.stream("a", str(tmp_path / "a"), time="ts")
    stream = session.catalog["a"]
    assert isinstance(stream, Stream)
    path = str(tmp_path / "a" / "1.parquet")
    with pytest.raises(wm.SourceError, match="was noted by another version of watersmeet"):
        reader_of(stream).resume({"done": [[path, 1, 1]], "inside": None})
    with pytest.raises(wm.SourceError, match="was noted by another version of watersmeet"):
        reader_of(stream).again([path, 0, 1])


def told(pieces: list[SourceBatch]) -> tuple[list[int], int]:
    ids = [one for piece in pieces for one in piece.rows.column("id").to_pylist()]
    return ids, sum(0 if piece.bad is None else piece.bad.num_rows for piece in pieces)
