"""Text by addresses is read as that of plain paths: bad records are kept, and times are written in many ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from watersmeet.errors import OptionError, WatersmeetError

GOOD = '{"id": 1, "ts": "2026-01-01 12:00:00"}'
BROKEN = '{"id": 2, "ts'
TYPED = '{"id": "x", "ts": "2026-01-01 12:00:01"}'
TIMELESS = '{"id": 3}'
COLUMNS = "(id BIGINT, ts TIMESTAMP)"

pytestmark = pytest.mark.filterwarnings("ignore:bad_rows")


def kept(tmp_path: Path, address: str, columns: str = COLUMNS, more: str = "") -> list[dict[str, Any]]:
    """The bad records of a run, which gives the good ones as its answer."""
    query = wm.Session().sql(
        f"""CREATE SINK bad WITH (sink = 'json', path = '{tmp_path / "bad"}');
            CREATE STREAM s {columns} WITH (path = '{address}', time = 'ts', on_bad = 'sink bad'{more});
            SELECT id FROM s"""
    )
    with query.start(checkpoint=tmp_path / "state", sink=tmp_path / "out.parquet", available_now=True) as run:
        run.wait(60)
    assert pa_parquet.read_table(tmp_path / "out.parquet").to_pylist() == [{"id": 1}]
    found = [json.loads(line) for path in sorted((tmp_path / "bad").glob("part-*")) for line in path.open()]
    return sorted(found, key=lambda one: int(one["offset"]))


@pytest.mark.parametrize("how", ["plain path", "address"])
def test_lines_are_kept_with_their_file_and_number(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.json").write_text("\n".join([BROKEN, GOOD, TYPED, TIMELESS]) + "\n")
    address = str(folder) if how == "plain path" else f"file://{folder}"
    found = kept(tmp_path, address, more=", source = 'json'")
    assert [(one["offset"], one["reason"]) for one in found] == [(1, "not json"), (3, "wrong type"), (4, "null time")]
    assert [bytes.fromhex(one["raw"]).decode() for one in found] == [BROKEN, TYPED, TIMELESS]
    assert {one["place"] for one in found} == {f"{address}/1.json"}


def test_rows_of_parquet_are_kept_with_their_file(tmp_path: Path) -> None:
    times = pa.array([None, 1], pa.timestamp("us"))
    pa_parquet.write_table(pa.table({"id": [3, 1], "ts": times}), tmp_path / "a.parquet")
    (found,) = kept(tmp_path, f"file://{tmp_path}/a.parquet", "")
    assert (found["reason"], found["offset"]) == ("null time", 1)
    assert found["place"] == f"file://{tmp_path}/a.parquet"


def test_times_that_are_written_in_another_way_are_judged_later(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,ts\n1,01.02.2026\n2,soon\n")
    (found,) = kept(tmp_path, f"file://{tmp_path}/a.csv", COLUMNS, ", time_format = '%d.%m.%Y'")
    assert found["reason"] == "unreadable time"


def test_what_is_not_tolerated_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(f"{GOOD}\n{BROKEN}\n")
    script = f"CREATE STREAM s {COLUMNS} WITH (path = 'file://{tmp_path}/a.json', time = 'ts'); SELECT id FROM s"
    with pytest.raises(WatersmeetError, match=r"a\.json cannot be read"):
        wm.Session().sql(script).to_arrow()


def test_columns_must_be_declared(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(f"{GOOD}\n")
    options = f"path = 'file://{tmp_path}/a.json', time = 'ts', on_bad = 'skip'"
    with pytest.raises(OptionError, match="says on_bad, and not its columns"):
        wm.Session().sql(f"CREATE STREAM s WITH ({options}); SELECT id FROM s").to_arrow()


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_history_leaves_out_what_its_stream_does(tmp_path: Path, scheme: str) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "1.json").write_text(f"{BROKEN}\n{GOOD}\n")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "1.json").write_text('{"id": 9, "ts": "2026-01-02 00:00:00"}\n')
    query = wm.Session().sql(
        f"""CREATE STREAM s {COLUMNS} WITH (source = 'files', format = 'json', path = 'file://{tmp_path}/new',
              time = 'ts', on_bad = 'skip', handover = 'start',
              history = 'json', history_path = '{scheme}{tmp_path}/old');
            SELECT id FROM s"""
    )
    assert query.to_arrow()["id"].to_pylist() == [1, 9]
    assert query.metrics()["bad_rows"] == 1


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize(
    ("written", "more", "meant"),
    [
        ("2026-01-01 00:00:00.123456789", ", rounding = 'down'", "2026-01-01 00:00:00.123456"),
        ("2026-06-01 00:00:00", ", time_zone = 'Europe/Berlin'", "2026-05-31 22:00:00"),
    ],
)
def test_times_are_read_as_those_of_plain_paths(
    tmp_path: Path, scheme: str, written: str, more: str, meant: str
) -> None:
    (tmp_path / "a.csv").write_text(f"id,ts\n1,{written}\n")
    options = f"path = '{scheme}{tmp_path}/a.csv', time = 'ts'{more}"
    answer = wm.Session().sql(f"CREATE STREAM s {COLUMNS} WITH ({options}); SELECT ts FROM s").to_arrow()
    assert [str(one) for one in answer["ts"].to_pylist()] == [meant]
