"""Files by addresses: what is read, read again, found late, and put once. Of this machine, which needs no store."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from tests.lakes import opened
from tests.warned import code_of
from watersmeet.errors import OptionError, SetupError, SinkError, SourceError
from watersmeet.io.connectors.contract import Offsets, PartitionedSource

ROWS = pa.schema([("k", pa.int64()), ("v", pa.string())])


def write(path: Path, *numbers: int, at_s: int | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pa_parquet.write_table(pa.table({"k": list(numbers), "v": [f"v{one}" for one in numbers]}, ROWS), path)
    if at_s is not None:
        os.utime(path, (at_s, at_s))


def keys(found: list[dict[str, Any]]) -> list[int]:
    return [row["k"] for row in found]


@pytest.mark.parametrize("most_rows", [None, 1])
def test_files_are_read_by_their_times_and_then_new_ones(tmp_path: Path, most_rows: int | None) -> None:
    write(tmp_path / "b.parquet", 1, 2, at_s=100)
    write(tmp_path / "a.parquet", 3, at_s=200)
    source = opened.source("files", path=f"file://{tmp_path}")
    found, at = opened.read_all(source, source.begin(), most_rows)
    assert keys(found) == [1, 2, 3]
    write(tmp_path / "c.parquet", 4, at_s=300)
    (tmp_path / "_SUCCESS").touch()
    found, at = opened.read_all(source, at, most_rows)
    assert keys(found) == [4]
    again = opened.source("files", path=f"file://{tmp_path}")
    assert opened.read_all(again, at) == ([], at)


def test_a_file_that_appears_out_of_order_is_read_all_the_same(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet", 1, at_s=100)
    source = opened.source("files", path=f"file://{tmp_path}")
    _, at = opened.read_all(source, source.begin())
    write(tmp_path / "a.parquet", 2, at_s=100)
    write(tmp_path / "older.parquet", 3, at_s=50)
    write(tmp_path / "newer.parquet", 4, at_s=150)
    found, at = opened.read_all(source, at)
    assert keys(found) == [3, 2, 4]
    restarted = opened.source("files", path=f"file://{tmp_path}")
    assert opened.read_all(restarted, at) == ([], at)


def test_a_file_that_came_late_while_nobody_looked_is_told(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet", 1, at_s=100)
    source = opened.source("files", path=f"file://{tmp_path}")
    _, at = opened.read_all(source, source.begin())
    write(tmp_path / "older.parquet", 3, at_s=50)
    with pytest.raises(SourceError, match="others came since that are older"):
        opened.source("files", path=f"file://{tmp_path}").newest(at)


def test_a_file_that_changed_or_went_before_it_was_read_is_told(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", 1, at_s=100)
    source = opened.source("files", path=f"file://{tmp_path}")
    begun = source.begin()
    upto = source.newest(begun)
    (part,) = source.splits(begun, upto)
    write(tmp_path / "a.parquet", 1, 2, 3, at_s=100)
    with pytest.raises(SourceError, match="bytes, but had"):
        list(source.read(part))
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(SourceError, match="there is no file"):
        list(source.read(part))
    with pytest.raises(SourceError, match="has 0 files where 1 were found before"):
        opened.source("files", columns=ROWS, path=f"file://{tmp_path}", format="parquet").splits(begun, upto)


def test_patterns_and_text_are_read_too(tmp_path: Path) -> None:
    for day, number in (("01", 1), ("02", 2)):
        path = tmp_path / f"day={day}" / "x.csv"
        path.parent.mkdir()
        path.write_text(f"k;v\n{number};v{number}\n")
        os.utime(path, (number, number))
    source = opened.source("files", path=f"file://{tmp_path}/**/*.csv", delimiter=";")
    assert keys(opened.read_all(source, source.begin())[0]) == [1, 2]


def test_a_number_is_put_once_and_leftovers_are_removed(tmp_path: Path) -> None:
    where = f"file://{tmp_path}/out"
    sink = opened.sink("files", ROWS, path=where, format="parquet", partition_by="v")
    sink.commit(2, [pa.RecordBatch.from_pydict({"k": [1, 2], "v": ["a", "b"]}, ROWS)])
    # What a crash in the middle of the next commit would leave: files, and no mark.
    write(tmp_path / "out" / "v=a" / f"part-0123456789ab-{5:015d}.parquet", 9)
    again = opened.sink("files", ROWS, path=where, format="parquet", partition_by="v")
    assert again.committed() == 2
    again.commit(2, [pa.RecordBatch.from_pydict({"k": [7], "v": ["a"]}, ROWS)])
    found = sorted(str(one.relative_to(tmp_path / "out")) for one in (tmp_path / "out").rglob("*.parquet"))
    assert found == [f"v=a/part-0123456789ab-{2:015d}.parquet", f"v=b/part-0123456789ab-{2:015d}.parquet"]


def test_a_mark_that_was_damaged_is_named(tmp_path: Path) -> None:
    where = f"file://{tmp_path}/out"
    sink = opened.sink("files", ROWS, path=where, format="parquet", partition_by="v")
    sink.commit(2, [pa.RecordBatch.from_pydict({"k": [1, 2], "v": ["a", "b"]}, ROWS)])
    mark = tmp_path / "out" / "_commit-0123456789ab.json"
    whole = mark.read_bytes()
    for place in range(len(whole)):
        mark.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(SinkError, match=rf"{mark.name} is damaged"):
            opened.sink("files", ROWS, path=where, format="parquet", partition_by="v")


def test_answers_of_others_are_refused_added_to_or_replaced(tmp_path: Path) -> None:
    where = f"file://{tmp_path}/out"
    rows = [pa.RecordBatch.from_pydict({"k": [1], "v": ["a"]}, ROWS)]
    opened.sink("files", ROWS, run="aa", path=where, format="json").commit(0, rows)
    with pytest.raises(SinkError, match="which another run has written"):
        opened.sink("files", ROWS, run="bb", path=where, format="json")
    opened.sink("files", ROWS, run="bb", path=where, format="json", mode="append").commit(0, rows)
    assert len(list((tmp_path / "out").iterdir())) == 2
    opened.sink("files", ROWS, run="cc", path=where, format="json", mode="overwrite").commit(0, rows)
    assert [one.name for one in (tmp_path / "out").iterdir()] == [f"part-cc-{0:015d}.json"]


def test_a_script_reads_and_writes_addresses(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.parquet", 1, 2, 3)
    write(tmp_path / "t" / "t.parquet", 2, 3)
    wm.Session().run(
        f"""CREATE STREAM s WITH (source = 'parquet', path = 'file://{tmp_path}/in', time = 'k', time_unit = 's');
            CREATE TABLE t WITH (path = 'file://{tmp_path}/t/t.parquet');
            CREATE SINK out WITH (sink = 'csv', path = 'file://{tmp_path}/out') AS
            SELECT s.v, t.k FROM s, t WHERE s.v = t.v;"""
    )
    (found,) = (tmp_path / "out").iterdir()
    assert sorted(found.read_text().split()) == ['"v","k"', '"v2",2', '"v3",3']


def test_a_store_that_nobody_knows_is_told() -> None:
    with pytest.raises(SetupError, match="there is no file system for quux://"):
        new_in(opened.source("files", path="quux://x/y", format="csv", columns=ROWS))
    with pytest.raises(OptionError, match=r"has no setting fs\.colour"):
        new_in(opened.source("files", path="s3://x/y", format="csv", columns=ROWS, fs__colour="red"))


def new_in(source: PartitionedSource) -> Offsets:
    return source.newest(source.begin())


def test_a_mark_of_an_older_version_is_refused(tmp_path: Path) -> None:
    source = opened.source("files", path=f"file://{tmp_path}", format="csv", columns=ROWS)
    with pytest.raises(SourceError, match="was noted by another version of watersmeet"):
        source.newest({"files": [1_700_000_000_000_000, "a.csv", 10, 1, []]})


def test_a_format_must_be_known(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="does not say its format"):
        opened.sink("files", ROWS, path=f"file://{tmp_path}/out")
    with pytest.raises(OptionError, match="has format = 'xml'"):
        opened.sink("files", ROWS, path=f"file://{tmp_path}/out", format="xml")


def over(folder: Path) -> wm.Query:
    session = wm.Session()
    session.stream("s", source="parquet", path=f"file://{folder}", time="k", time_unit="s", lateness="1 hour")
    return session.sql("SELECT k, v FROM s")


def told_by_cron(folder: Path) -> tuple[list[str], int]:
    """What a run tells that reads what is there and ends, and how many rows all such runs have read."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = over(folder).start(
            checkpoint=folder.parent / "state", sink=str(folder.parent / "out.csv"), available_now=True
        )
        run.wait(60)
    changed = [str(one.message) for one in told if code_of(one) == "source_changed"]
    assert sum(run.metrics().get("changed_files", {}).values()) == len(changed)
    return changed, run.metrics()["results"]


@pytest.mark.parametrize(
    ("at_s", "words", "rows"),
    [
        (300, "was written anew since, and is read again as a whole, so its rows come twice", 2),
        (50, "was written anew since, and is not read again", 0),
    ],
)
def test_an_object_that_is_written_anew_between_two_runs_is_told_once(
    tmp_path: Path, at_s: int, words: str, rows: int
) -> None:
    folder = tmp_path / "in"
    write(folder / "a.parquet", 1, 2, at_s=100)
    write(folder / "b.parquet", 3, at_s=200)
    assert told_by_cron(folder) == ([], 3)
    assert told_by_cron(folder) == ([], 3)
    write(folder / "a.parquet", 1, 2, at_s=at_s)
    write(folder / "c.parquet", 4, at_s=400)
    (told,), read = told_by_cron(folder)
    assert f"a.parquet, which stream 's' has read, {words}" in told
    assert read == 3 + rows + 1
    (folder / "b.parquet").unlink()
    assert told_by_cron(folder) == ([], read)


def test_an_object_that_is_written_anew_is_told_in_the_same_run(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder / "a.parquet", 1, 2, at_s=100)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with over(folder).start(checkpoint=tmp_path / "state", sink=str(tmp_path / "out.csv")) as run:
            waited_for(lambda: run.metrics()["results"] == 2)
            write(folder / "a.parquet", 1, 2, at_s=200)
            waited_for(lambda: run.metrics()["results"] == 4)
            assert run.metrics()["changed_files"] == {"s": 1}
    assert ["is read again as a whole" in str(one.message) for one in told] == [True]


def waited_for(done: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not done() and time.monotonic() < until:
        time.sleep(0.05)
    assert done()
