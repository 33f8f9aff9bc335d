"""Tables with versions: how they are declared, what their changes may say, and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from watersmeet.model.catalog import Stream

PLAIN = "SELECT a.id, r.v FROM a LEFT JOIN r FOR SYSTEM_TIME AS OF a.ts ON a.k = r.k"


def at(*seconds: int) -> pa.Array:
    return pa.array([datetime(2026, 1, 1) + timedelta(seconds=s) for s in seconds], pa.timestamp("us"))


def session(changes: pa.Table, **told: Any) -> wm.Session:
    made = wm.Session()
    made.stream("a", pa.table({"id": [0, 1, 2], "k": ["x", "x", "x"], "ts": at(1, 3, 5)}), time="ts")
    made.table("r", changes, time="ts", key="k", **told)
    return made


def found(made: wm.Session, sql: str = PLAIN) -> list[Any]:
    return [value for _, value in sorted((row["id"], row["v"]) for row in made.sql(sql))]


def test_without_an_op_every_row_is_a_new_version() -> None:
    changes = pa.table({"k": ["x", "y", "x"], "v": [1, 7, 2], "ts": at(2, 2, 4)})
    assert found(session(changes)) == [None, 1, 2]


@pytest.mark.parametrize("words", [("+I", "-D"), ("insert", "DELETE"), ("c", "d"), ("+", "-"), ("r", "-U"), ("i", "d")])
def test_a_deleted_key_has_no_version(words: tuple[str, str]) -> None:
    changes = pa.table({"k": ["x", "x"], "v": [1, 1], "op": list(words), "ts": at(0, 4)})
    assert found(session(changes, op="op")) == [1, 1, None]


def test_of_equal_times_the_last_to_arrive_holds() -> None:
    changes = pa.table({"k": ["x"] * 4, "v": [9, 9, 1, 0], "op": ["+I", "-U", "+U", "+U"], "ts": at(0, 2, 2, 2)})
    assert found(session(changes, op="op")) == [9, 0, 0]


@pytest.mark.parametrize(
    ("word", "told"), [(None, "is NULL"), ("truncate", "is 'truncate', which is no kind of change")]
)
def test_a_change_that_is_none_is_an_error(word: str | None, told: str) -> None:
    changes = pa.table({"k": ["x", "x"], "v": [1, 1], "op": ["+I", word], "ts": at(0, 4)})
    with pytest.raises(wm.DataError, match=f"the op 'op' of 'r' {told}"):
        session(changes, op="op").sql(PLAIN).to_arrow()


def test_an_answer_that_changes_is_read_again_as_a_table(tmp_path: Path) -> None:
    first = wm.Session()
    first.stream("s", pa.table({"k": ["x", "x", "x"], "ts": at(0, 2, 9)}), time="ts")
    log = first.sql("SELECT k, COUNT(*) AS v FROM s [RANGE 2 SECONDS] GROUP BY k").to_arrow()
    pq.write_table(log, tmp_path / "log.parquet")
    second = wm.Session()
    second.stream("a", pa.table({"id": [0, 1, 2], "k": ["x"] * 3, "ts": at(1, 2, 6)}), time="ts")
    second.sql(f"CREATE TABLE r WITH (path = '{tmp_path / 'log.parquet'}', time = '_ts', key = 'k', op = '_op')")
    assert found(second) == [1, 2, None]


def test_a_table_and_a_stream_of_changes_are_declared_alike_in_sql_and_python() -> None:
    made = wm.Session()
    columns = "(k STRING, v BIGINT, op STRING, ts TIMESTAMP)"
    made.sql(f"CREATE TABLE r {columns} WITH (time = 'ts', key = 'K, v', op = 'OP', lateness = '2 seconds')")
    made.sql(f"CREATE STREAM s {columns} WITH (time = 'ts', key = 'k')")
    table, stream = made.catalog.find("r"), made.catalog.find("s")
    assert isinstance(table, Stream)
    assert isinstance(stream, Stream)
    assert (table.versions, table.lateness_us) == (wm.model.versions.Versions(("k", "v"), "op", True), 2_000_000)
    assert stream.versions == wm.model.versions.Versions(("k",), None, False)
    assert "table r" in repr(made)


def test_a_stream_of_changes_is_read_as_a_stream_too() -> None:
    made = wm.Session()
    made.stream("s", pa.table({"k": ["x", "x"], "v": [1, 2], "ts": at(0, 1)}), time="ts", key="k")
    assert made.sql("SELECT v FROM s").to_arrow()["v"].to_pylist() == [1, 2]


def test_changes_are_pushed() -> None:
    made = wm.Session()
    made.stream("a", schema={"id": "BIGINT", "k": "STRING", "ts": "TIMESTAMP"}, time="ts")
    made.table("r", None, schema={"k": "STRING", "v": "BIGINT", "ts": "TIMESTAMP"}, time="ts", key="k")
    with made.sql(PLAIN).start() as run:
        run.push("r", pa.table({"k": ["x"], "v": [1], "ts": at(0)}))
        run.push("a", pa.table({"id": [0], "k": ["x"], "ts": at(3)}))
        run.push("r", pa.table({"k": ["x", "x"], "v": [2, 3], "ts": at(2, 4)}))
        run.finish()
        assert run.take()["v"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"key": "nothing"}, "key names column 'nothing'"),
        ({"key": "k, k"}, "name each of its columns once"),
        ({"key": "ts"}, "which is its event time"),
        ({"key": ","}, "is no list of columns"),
        ({"key": "k", "op": "v"}, "the op 'v' of 'r' is int64, not text"),
        ({"key": "k", "op": "nothing"}, "op names column 'nothing'"),
        ({"op": "k"}, "op says which rows delete"),
    ],
)
def test_what_cannot_be_a_key_or_an_op_is_refused(told: dict[str, str], message: str) -> None:
    rows = pa.table({"k": ["x"], "v": [1], "ts": at(0)})
    with pytest.raises(wm.WatersmeetError, match=message):
        wm.Session().stream("r", rows, time="ts", **told)
    settings = "".join(f", {name} = '{value}'" for name, value in told.items())
    with pytest.raises(wm.WatersmeetError, match=message):
        wm.Session().sql(f"CREATE STREAM r (k STRING, v BIGINT, ts TIMESTAMP) WITH (time = 'ts'{settings})")


def test_a_static_table_has_one_version() -> None:
    made = wm.Session()
    made.stream("a", pa.table({"id": [0, 1], "k": ["x", "y"], "ts": at(1, 3)}), time="ts")
    made.table("r", pa.table({"k": ["x"], "v": [5]}))
    assert found(made) == [5, None]
    with pytest.raises(wm.CatalogError, match="and no key"):
        made.table("q", pa.table({"k": ["x"], "ts": at(0)}), time="ts")
    with pytest.raises(wm.OptionError, match="no option 'time'") as caught:
        made.sql("CREATE TABLE q (k STRING, ts TIMESTAMP) WITH (path = 'q.csv', time = 'ts')")
    assert "also say key" in str(caught.value)


def test_of_a_deleted_key_nothing_is_kept() -> None:
    rows = 3000
    ops = ["+I", "-D"] * (rows // 2)
    keys = [f"k{i // 2}" for i in range(rows)]
    changes = pa.table({"k": keys, "v": range(rows), "op": ops, "ts": at(*range(rows))})
    made = wm.Session()
    made.stream("a", pa.table({"id": range(rows), "k": ["k0"] * rows, "ts": at(*range(rows))}), time="ts")
    made.stream("r", pa.Table.from_batches(changes.to_batches(100)), time="ts", key="k", op="op", read="arrival")
    query = made.sql(PLAIN)
    batches = list(query.batches())
    assert sum(batch.num_rows for batch in batches) == rows
    assert query.metrics()["kept_rows"] == 0
