"""Sinks of which one would replace what another wrote."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from watersmeet.errors import BindError, SinkError

ROWS = pa.table({"k": [1, 2], "ts": [dt.datetime(2026, 1, 1, 12), dt.datetime(2026, 1, 1, 13)]})


def session() -> wm.Session:
    made = wm.Session()
    made.stream("a", ROWS, time="ts")
    made.stream("pushed", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    return made


def sinks(path: Path, *, mode: str, stream: str = "a", other: str = "") -> list[str]:
    """Two that go to one path, spelled otherwise."""
    kind = f"sink = 'parquet', mode = '{mode}'"
    return [
        f"CREATE SINK {name} WITH ({kind}, path = '{one}') AS SELECT k FROM {stream} WHERE k = {k}"
        for name, one, k in (("first", path, 1), ("second", other or f"{path.parent}/./{path.name}", 2))
    ]


@pytest.mark.parametrize("mode", ["error", "overwrite", "append"])
def test_two_of_a_script_do_not_write_to_one_file(mode: str, tmp_path: Path) -> None:
    with pytest.raises(BindError, match="sinks 'first' and 'second' would both write to"):
        session().run("; ".join(sinks(tmp_path / "out.parquet", mode=mode)))
    assert list(tmp_path.iterdir()) == []


def test_nor_do_those_for_rows_beside_answers(tmp_path: Path) -> None:
    late = f"CREATE SINK late WITH (sink = 'parquet', path = '{tmp_path}/out')"
    with pytest.raises(BindError, match="sinks 'late' and 'first' would both write to"):
        session().run(f"{late}; {sinks(tmp_path / 'out', mode='error')[0]}")


def test_several_add_to_a_folder_that_is_there(tmp_path: Path) -> None:
    session().run("; ".join(sinks(tmp_path, mode="append")))
    assert sorted(pq.read_table(tmp_path)["k"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_one_that_is_added_does_not_write_where_another_does(checkpoint: bool, tmp_path: Path) -> None:
    first, second = sinks(tmp_path / "out", mode="overwrite", stream="pushed")
    runs = session().start(first, checkpoint=tmp_path / "state" if checkpoint else None)
    with pytest.raises(SinkError, match="sinks 'first' and 'second' would both write to"):
        runs.add(second)
    runs.push("pushed", {"k": 1, "ts": dt.datetime(2026, 1, 1)})
    runs.drop("first")
    if checkpoint:
        runs.add(second)  # which replaces what the first has written, as its mode says
    runs.finish()


def test_a_file_that_came_meanwhile_stays(tmp_path: Path) -> None:
    (sink, _) = sinks(tmp_path / "out.parquet", mode="error", stream="pushed")
    runs = session().start(sink)
    runs.push("pushed", {"k": 1, "ts": dt.datetime(2026, 1, 1)})
    (tmp_path / "out.parquet").write_bytes(b"somebody else's")
    with pytest.raises(SinkError, match="already exists"):
        runs.finish()
    assert (tmp_path / "out.parquet").read_bytes() == b"somebody else's"
    assert [one.name for one in tmp_path.iterdir()] == ["out.parquet"]
