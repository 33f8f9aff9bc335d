"""Iceberg tables as sources, sinks and tables: what is read, read again, and taken once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.lakes import opened
from watersmeet.errors import OptionError, SinkError, SourceError

pyiceberg = pytest.importorskip("pyiceberg", reason="needs pyiceberg: pip install 'watersmeet[iceberg]'")
pytest.importorskip("sqlalchemy", reason="needs SQLAlchemy: pip install 'watersmeet[iceberg]'")

ROWS = pa.schema([("k", pa.int64()), ("v", pa.string())])


class Lake:
    """A catalog in a SQLite file, with one table."""

    def __init__(self, folder: Path) -> None:
        self.options = {
            "table": "db.t",
            "catalog__type": "sql",
            "catalog__uri": f"sqlite:///{folder}/catalog.db",
            "catalog__warehouse": f"file://{folder}/warehouse",
        }

    def catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("default", **{name.split("__")[1]: self.options[name] for name in list(self.options)[1:]})

    def write(self, *numbers: int) -> None:
        catalog = self.catalog()
        catalog.create_namespace_if_not_exists("db")
        catalog.create_table_if_not_exists("db.t", ROWS).append(rows(*numbers))

    def table(self) -> Any:
        return self.catalog().load_table("db.t")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def rows(*numbers: int) -> pa.Table:
    return pa.table({"k": list(numbers), "v": [f"v{number}" for number in numbers]}, ROWS)


def keys(found: list[dict[str, Any]]) -> list[int]:
    return [row["k"] for row in found]


def commit(sink: Any, number: int, *numbers: int) -> None:
    sink.commit(number, rows(*numbers).to_batches())


@pytest.mark.parametrize("most_rows", [None, 1, 3])
def test_a_table_is_read_whole_and_then_what_each_snapshot_adds(lake: Lake, most_rows: int | None) -> None:
    lake.write(1, 2)
    lake.write(3)
    source = opened.source("iceberg", **lake.options)
    found, at = opened.read_all(source, source.begin(), most_rows)
    assert sorted(keys(found)) == [1, 2, 3]
    lake.write(4, 5)
    lake.write(6)
    found, at = opened.read_all(source, at, most_rows)
    assert keys(found) == [4, 5, 6]
    assert opened.read_all(opened.source("iceberg", **lake.options), at) == ([], at)


def test_the_rows_that_a_table_has_come_in_the_order_in_which_they_were_added(lake: Lake) -> None:
    """Files have random names: by them rows of a table that grows with time would be out of order, and late."""
    for number in range(8):
        lake.write(number)
    source = opened.source("iceberg", **lake.options)
    assert keys(opened.read_all(source, source.begin(), 3)[0]) == list(range(8))


def test_a_table_without_rows_yet_is_a_stream_from_its_first(lake: Lake) -> None:
    lake.catalog().create_namespace("db")
    lake.catalog().create_table("db.t", ROWS)
    source = opened.source("iceberg", **lake.options)
    found, at = opened.read_all(source, source.begin())
    lake.write(1)
    assert keys(found + opened.read_all(source, at)[0]) == [1]


def test_a_start_may_be_a_snapshot_or_now(lake: Lake) -> None:
    lake.write(1)
    first = lake.table().current_snapshot().snapshot_id
    lake.write(2)
    late, behind = (opened.source("iceberg", start=start, **lake.options) for start in ("latest", str(first)))
    begun = [one.begin() for one in (late, behind)]
    lake.write(3)
    assert [keys(opened.read_all(one, at)[0]) for one, at in zip((late, behind), begun, strict=True)] == [[3], [2, 3]]
    with pytest.raises(OptionError, match="start = 'yesterday'"):
        opened.source("iceberg", start="yesterday", **lake.options).begin()


def test_a_row_that_is_deleted_is_refused(lake: Lake) -> None:
    lake.write(1, 2)
    source = opened.source("iceberg", **lake.options)
    _, at = opened.read_all(source, source.begin())
    lake.table().delete("k = 1")
    with pytest.raises(SourceError, match="changes or deletes rows"):
        source.newest(at)


def test_a_new_column_is_refused_unless_columns_are_declared(lake: Lake) -> None:
    lake.write(1)
    plain, declared = (opened.source("iceberg", columns=columns, **lake.options) for columns in (None, ROWS))
    plain_at, declared_at = (opened.read_all(one, one.begin())[1] for one in (plain, declared))
    table = lake.table()
    with table.update_schema() as change:
        change.union_by_name(pa.schema([*ROWS, ("extra", pa.int64())]))
    table.append(rows(2).append_column("extra", pa.array([5])))
    with pytest.raises(SourceError, match="new column 'extra'"):
        plain.newest(plain_at)
    assert opened.read_all(declared, declared_at)[0] == [{"k": 2, "v": "v2"}]
    wider = opened.source("iceberg", **lake.options)
    found = opened.read_all(wider, wider.begin())[0]
    assert sorted((row["k"], row["extra"]) for row in found) == [(1, None), (2, 5)]


def test_a_table_that_is_not_there_gone_or_another_is_told(lake: Lake) -> None:
    with pytest.raises(SourceError, match=r"there is no Iceberg table db\.t"):
        opened.source("iceberg", **lake.options).begin()
    lake.write(1)
    source = opened.source("iceberg", **lake.options)
    _, at = opened.read_all(source, source.begin())
    lake.catalog().drop_table("db.t")
    with pytest.raises(SourceError, match=r"there is no Iceberg table db\.t"):
        source.newest(at)
    lake.write(1)
    with pytest.raises(SourceError, match="dropped and made anew"):
        opened.source("iceberg", **lake.options).newest(at)


def test_a_number_is_taken_once_by_any_life_of_a_run(lake: Lake) -> None:
    first = opened.sink("iceberg", ROWS, **lake.options)
    commit(first, 3, 1, 2)
    commit(first, 3, 1, 2)
    second = opened.sink("iceberg", ROWS, **lake.options)
    assert second.committed() == 3
    commit(second, 3, 1, 2)
    commit(second, 7, 3)
    other = opened.sink("iceberg", ROWS, run="ba9876543210", **lake.options)
    assert other.committed() == -1
    commit(other, 0, 9)
    assert sorted(opened.table("iceberg", **lake.options)["k"].to_pylist()) == [1, 2, 3, 9]
    assert lake.table().current_snapshot().summary["watersmeet.batch"] == "0"


def test_a_process_that_was_taken_for_dead_cannot_write_beside_its_successor(lake: Lake) -> None:
    dead = opened.sink("iceberg", ROWS, **lake.options)
    alive = opened.sink("iceberg", ROWS, **lake.options)
    commit(alive, 1, 1)
    with pytest.raises(SinkError, match="which another process has written"):
        commit(dead, 1, 1)


def test_a_column_that_the_table_lacks_is_refused_or_added(lake: Lake) -> None:
    commit(opened.sink("iceberg", ROWS, **lake.options), 0, 1)
    wider = pa.schema([*ROWS, ("extra", pa.int64())])
    with pytest.raises(SinkError, match="gives a column 'extra'"):
        opened.sink("iceberg", wider, run="aa", **lake.options)
    sink = opened.sink("iceberg", wider, run="aa", new_columns="add", **lake.options)
    sink.commit(0, [pa.RecordBatch.from_pydict({"k": [2], "v": ["v2"], "extra": [5]}, wider)])
    found = opened.table("iceberg", **lake.options).to_pylist()
    assert sorted((row["k"], row["extra"]) for row in found) == [(1, None), (2, 5)]


def test_partitions_and_times_have_a_place(lake: Lake) -> None:
    schema = pa.schema([*ROWS, ("d", pa.duration("us")), ("z", pa.timestamp("us", "Europe/Berlin"))])
    sink = opened.sink("iceberg", schema, partition_by="v", **lake.options)
    columns = [pa.array([1, 2]), pa.array(["a", "b"]), *(pa.array([5, 6], kind) for kind in schema.types[2:])]
    sink.commit(0, [pa.RecordBatch.from_arrays(columns, schema=schema)])
    found = opened.table("iceberg", **lake.options)
    assert found.schema.types == [pa.int64(), pa.string(), pa.int64(), pa.timestamp("us", "UTC")]
    assert sorted(found["d"].to_pylist()) == [5, 6]


def test_a_catalog_that_is_not_there_is_told_in_a_sentence(lake: Lake) -> None:
    options = lake.options | {"catalog__uri": "sqlite:////nowhere/hush-hush/catalog.db"}
    with pytest.raises(SourceError, match=r"the Iceberg table db\.t cannot be reached") as told:
        opened.source("iceberg", **options).begin()
    assert "\n" not in told.value.message
