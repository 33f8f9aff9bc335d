"""Delta tables as sources, sinks and tables: what is read, read again, and taken once."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.lakes import opened
from watersmeet.errors import OptionError, SinkError, SourceError

deltalake = pytest.importorskip("deltalake", reason="needs deltalake: pip install 'watersmeet[delta]'")

ASKED = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
ROWS = pa.schema([("k", pa.int64()), ("v", pa.string())])


def rows(*numbers: int) -> pa.Table:
    return pa.table({"k": list(numbers), "v": [f"v{number}" for number in numbers]}, ROWS)


def write(path: Path, table: pa.Table, **how: Any) -> None:
    deltalake.write_deltalake(path, table, mode="append", **how)


def keys(found: list[dict[str, Any]]) -> list[int]:
    return [row["k"] for row in found]


def commit(sink: Any, number: int, *numbers: int) -> None:
    sink.commit(number, rows(*numbers).to_batches())


# ---- sources --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most_rows", [None, 1, 2, 5])
def test_a_table_is_read_whole_and_then_what_each_version_adds(tmp_path: Path, most_rows: int | None) -> None:
    path = tmp_path / "t"
    write(path, rows(1, 2))
    write(path, rows(3))
    source = opened.source("delta", path=str(path))
    found, at = opened.read_all(source, source.begin(), most_rows)
    assert sorted(keys(found)) == [1, 2, 3]
    write(path, rows(4, 5))
    write(path, rows(6))
    found, at = opened.read_all(source, at, most_rows)
    assert keys(found) == [4, 5, 6]
    assert opened.read_all(opened.source("delta", path=str(path)), at) == ([], at)


def test_a_run_reads_the_snapshot_it_began_with_whatever_came_since(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, rows(1, 2))
    write(path, rows(3))
    source = opened.source("delta", path=str(path))
    upto = source.newest(source.begin(), 1)
    write(path, rows(4))
    deltalake.DeltaTable(path).optimize.compact()
    found, _ = opened.read_all(opened.source("delta", path=str(path)), upto)
    assert keys(found) == [3, 4]


def test_compaction_brings_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, rows(1))
    source = opened.source("delta", path=str(path), start="0")
    write(path, rows(2))
    deltalake.DeltaTable(path).optimize.compact()
    write(path, rows(3))
    assert keys(opened.read_all(source, source.begin())[0]) == [1, 2, 3]


@pytest.mark.parametrize(("start", "expected"), [("latest", [4]), ("1", [2, 3, 4]), ("2000-01-01", [1, 2, 3, 4])])
def test_a_start_may_be_a_version_a_time_or_now(tmp_path: Path, start: str, expected: list[int]) -> None:
    path = tmp_path / "t"
    write(path, rows(1))
    write(path, rows(2, 3))
    source = opened.source("delta", path=str(path), start=start)
    begun = source.begin()
    write(path, rows(4))
    assert keys(opened.read_all(source, begun)[0]) == expected


def test_partitions_are_columns_again_with_any_value(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = pa.table({"k": [1, 2, 3], "v": ["a:b/c %41", None, "ü"]}, ROWS)
    write(path, table, partition_by=["v"])
    for start in ("earliest", "0"):
        source = opened.source("delta", path=str(path), start=start)
        found, _ = opened.read_all(source, source.begin())
        assert sorted(found, key=lambda row: row["k"]) == table.to_pylist()


def test_a_row_that_is_changed_or_deleted_is_refused_in_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, rows(1, 2))
    source = opened.source("delta", path=str(path))
    _, at = opened.read_all(source, source.begin())
    deltalake.DeltaTable(path).delete("k = 1")
    with pytest.raises(SourceError, match=r"version 1 of the Delta table .* changes or deletes rows"):
        source.newest(at)


def test_the_change_feed_tells_every_change(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, rows(1, 2, 3), configuration={"delta.enableChangeDataFeed": "true"})
    source = opened.source("delta", path=str(path), changes="feed", start="0")
    deltalake.DeltaTable(path).update(updates={"v": "'new'"}, predicate="k = 1")
    deltalake.DeltaTable(path).delete("k = 2")
    found, _ = opened.read_all(source, source.begin())
    told = [(row["_commit_version"], row["_change_type"], row["k"], row["v"]) for row in found]
    assert told[:3] == [(0, "insert", 1, "v1"), (0, "insert", 2, "v2"), (0, "insert", 3, "v3")]
    assert told[3:5] == [(1, "update_preimage", 1, "v1"), (1, "update_postimage", 1, "new")]
    assert told[5:] == [(2, "delete", 2, "v2")]


def test_a_change_feed_is_a_table_with_versions(tmp_path: Path) -> None:
    path, moments = tmp_path / "t", []

    def moment() -> None:
        sleep(0.02)
        moments.append(datetime.now(UTC))
        sleep(0.02)

    write(path, rows(1, 2, 3), configuration={"delta.enableChangeDataFeed": "true"})
    moment()
    deltalake.DeltaTable(path).update(updates={"v": "'new'"}, predicate="k <> 2")
    moment()
    deltalake.DeltaTable(path).delete("k = 2")
    moment()
    session = wm.Session()
    asked = [(number, k, at) for number, at in enumerate(moments) for k in (1, 2, 3)]
    columns = [pa.array(one, kind) for one, kind in zip(zip(*asked, strict=True), ASKED.types, strict=True)]
    session.stream("o", pa.Table.from_arrays(columns, schema=ASKED), time="ts")
    words = f"source = 'delta', path = '{path}', changes = 'feed', start = '0', key = 'k', op = '_change_type'"
    with pytest.raises(OptionError, match="reads a change feed with time = 'v'"):
        session.sql(f"CREATE TABLE t WITH ({words}, time = 'v')")
    session.sql(f"CREATE TABLE t WITH ({words}, time = '_commit_timestamp')")
    found = session.sql("SELECT o.id, t.k, t.v FROM o JOIN t FOR SYSTEM_TIME AS OF o.ts ON o.k = t.k").to_arrow()
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == [
        (0, 1, "v1"), (0, 2, "v2"), (0, 3, "v3"), (1, 1, "new"), (1, 2, "v2"), (1, 3, "new"),
        (2, 1, "new"), (2, 3, "new"),
    ]  # fmt: skip


def test_a_table_without_a_feed_says_so(tmp_path: Path) -> None:
    write(tmp_path / "t", rows(1))
    with pytest.raises(SourceError, match="keeps no change feed"):
        opened.source("delta", path=str(tmp_path / "t"), changes="feed").schema  # noqa: B018


def test_a_new_column_is_refused_unless_columns_are_declared(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, rows(1))
    plain, declared = (opened.source("delta", columns=columns, path=str(path)) for columns in (None, ROWS))
    plain_at, declared_at = (opened.read_all(one, one.begin())[1] for one in (plain, declared))
    write(path, rows(2).append_column("extra", pa.array([1])), schema_mode="merge")
    with pytest.raises(SourceError, match="new column 'extra' since version 1"):
        plain.newest(plain_at)
    assert opened.read_all(declared, declared_at)[0] == [{"k": 2, "v": "v2"}]
    wider = opened.source("delta", path=str(path))
    found = opened.read_all(wider, wider.begin())[0]
    assert sorted(found, key=lambda row: row["k"]) == [
        {"k": 1, "v": "v1", "extra": None},
        {"k": 2, "v": "v2", "extra": 1},
    ]


def test_a_table_that_is_gone_or_another_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with pytest.raises(SourceError, match="there is no Delta table at"):
        opened.source("delta", path=str(path)).begin()
    write(path, rows(1))
    write(path, rows(2))
    source = opened.source("delta", path=str(path))
    _, at = opened.read_all(source, source.begin())
    shutil.rmtree(path)
    with pytest.raises(SourceError, match="there is no Delta table at"):
        source.newest(at)
    write(path, rows(1))
    with pytest.raises(SourceError, match="dropped and made anew"):
        opened.source("delta", path=str(path)).newest(at)


@pytest.mark.parametrize("versions", [1, 2, 5])
def test_a_table_that_is_made_anew_while_it_is_read_is_told(tmp_path: Path, versions: int) -> None:
    path = tmp_path / "t"
    write(path, rows(1))
    write(path, rows(2))
    source = opened.source("delta", path=str(path))
    _, at = opened.read_all(source, source.begin())
    write(path, rows(3))
    found, at = opened.read_all(source, at)
    assert keys(found) == [3]
    shutil.rmtree(path)
    for number in range(versions):
        write(path, rows(100 + number))
    with pytest.raises(SourceError, match="dropped and made anew"):
        source.newest(at)


def test_a_file_that_was_removed_before_it_was_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, rows(1))
    source = opened.source("delta", path=str(path))
    begun = source.begin()
    upto = source.newest(begun)
    next(path.glob("*.parquet")).unlink()
    with pytest.raises(SourceError, match="cannot be read"):
        list(source.read(source.splits(begun, upto)[0]))


def test_a_start_that_is_none_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "t", rows(1))
    with pytest.raises(OptionError, match="start = 'yesterday'"):
        opened.source("delta", path=str(tmp_path / "t"), start="yesterday").begin()
    with pytest.raises(SourceError, match="start at version 7"):
        opened.source("delta", path=str(tmp_path / "t"), start="7").begin()


# ---- sinks ----------------------------------------------------------------------------------------------------------


def test_a_number_is_taken_once_by_any_life_of_a_run(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    first = opened.sink("delta", ROWS, path=path)
    assert first.committed() == -1
    commit(first, 3, 1, 2)
    commit(first, 3, 1, 2)
    second = opened.sink("delta", ROWS, path=path)
    assert second.committed() == 3
    commit(second, 3, 1, 2)
    commit(second, 7, 3)
    other = opened.sink("delta", ROWS, run="ba9876543210", path=path)
    assert other.committed() == -1
    commit(other, 0, 9)
    assert sorted(opened.table("delta", path=path)["k"].to_pylist()) == [1, 2, 3, 9]


def test_a_process_that_was_taken_for_dead_cannot_write_beside_its_successor(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    dead = opened.sink("delta", ROWS, path=path)
    alive = opened.sink("delta", ROWS, path=path)
    commit(alive, 1, 1)
    with pytest.raises(SinkError, match="which another process has written"):
        commit(dead, 1, 1)
    assert opened.table("delta", path=path)["k"].to_pylist() == [1]


def test_intervals_and_instants_have_a_place_in_the_table(tmp_path: Path) -> None:
    schema = pa.schema(
        [("d", pa.duration("us")), ("t", pa.timestamp("us")), ("z", pa.timestamp("us", "Europe/Berlin"))]
    )
    sink = opened.sink("delta", schema, path=str(tmp_path / "t"))
    sink.commit(0, [pa.RecordBatch.from_arrays([pa.array([5], kind) for kind in schema.types], schema=schema)])
    found = opened.table("delta", path=str(tmp_path / "t"))
    assert found.schema.types == [pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC")]
    assert [column[0].cast(pa.int64()).as_py() for column in found.columns] == [5, 5, 5]


def test_a_column_that_the_table_lacks_is_refused_or_added(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    commit(opened.sink("delta", ROWS, path=path), 0, 1)
    wider = pa.schema([*ROWS, ("extra", pa.int64())])
    with pytest.raises(SinkError, match="gives a column 'extra'"):
        opened.sink("delta", wider, run="aa", path=path)
    sink = opened.sink("delta", wider, run="aa", path=path, new_columns="add")
    sink.commit(0, [pa.RecordBatch.from_pydict({"k": [2], "v": ["v2"], "extra": [5]}, wider)])
    commit(opened.sink("delta", ROWS, run="bb", path=path), 0, 3)
    found = sorted(opened.table("delta", path=path).to_pylist(), key=lambda row: row["k"])
    assert [row["extra"] for row in found] == [None, 5, None]


def test_a_column_of_another_type_is_refused(tmp_path: Path) -> None:
    commit(opened.sink("delta", ROWS, path=str(tmp_path / "t")), 0, 1)
    with pytest.raises(SinkError, match="gives 'v' as BIGINT"):
        opened.sink("delta", pa.schema([("k", pa.int64()), ("v", pa.int64())]), run="aa", path=str(tmp_path / "t"))


def test_many_small_commits_leave_few_files(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = opened.sink("delta", ROWS, path=str(path), compact_every="20", keep="1 hour", target_file_size="1 MB")
    for number in range(100):
        commit(sink, number, number)
    assert len(deltalake.DeltaTable(path).file_uris()) == 1
    assert sorted(opened.table("delta", path=str(path))["k"].to_pylist()) == list(range(100))
    source = opened.source("delta", path=str(path))
    assert sorted(keys(opened.read_all(source, source.begin())[0])) == list(range(100))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target_file_size": "big"}, "a size such as '128 MB'"),
        ({"compact_every": "0"}, "a whole number from 1 on"),
        ({"commit_every": "soon"}, "is not an interval"),
        ({"mode": "replace"}, "it may be 'append' or 'error'"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(tmp_path: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        opened.sink("delta", ROWS, path=str(tmp_path / "t"), **options)


def test_a_table_that_cannot_be_made_is_told() -> None:
    with pytest.raises(SinkError, match="the Delta table /proc/nowhere/out cannot be made"):
        opened.sink("delta", ROWS, path="/proc/nowhere/out")


def test_a_path_is_needed() -> None:
    with pytest.raises(OptionError, match="does not say path"):
        opened.sink("delta", ROWS)
