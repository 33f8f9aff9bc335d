"""Outputs appear whole or not at all."""

from __future__ import annotations

import io
import json
import math
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from watersmeet.errors import SinkError
from watersmeet.io import partitioned as partitions
from watersmeet.io.console import ConsoleSink
from watersmeet.io.sinks import Sink, sink_from_options
from watersmeet.io.sources import source_of

BATCH = pa.record_batch(
    {
        "k": pa.array([1, 2, None], pa.int64()),
        "s": pa.array(["x", "", None]),
        "f": pa.array([1.5, math.nan, None]),
        "ts": pa.array([datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 5), None], pa.timestamp("us")),
    }
)


def sink(path: Path, **options: str) -> Sink:
    return sink_from_options("out", {"path": str(path), **options}, BATCH.schema)


def write(path: Path, times: int = 1, **options: str) -> None:
    one = sink(path, **options)
    for _ in range(times):
        one.write(BATCH)
    one.close()


def rows(path: Path) -> list[dict[str, Any]]:
    return [row for batch in source_of(path, "a").batches(100) for row in batch.to_pylist()]


def failure(path: Path, **options: str) -> str:
    with pytest.raises(SinkError) as caught:
        sink(path, **options)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_what_is_written_is_read_back(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "deep" / f"out.{kind}"
    write(path, sink=kind)
    back = rows(path)
    assert [row["k"] for row in back] == [1, 2, None]
    assert [row["s"] for row in back] == ["x", "", None]
    assert [row["f"] for row in back][::2] == [1.5, None]
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_nothing_is_seen_before_close_or_after_abort(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"out.{kind}"
    one = sink(path)
    one.write(BATCH)
    assert not path.exists()
    assert not [p for p in tmp_path.iterdir() if not p.name.startswith(".")]
    one.abort()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_overwrite_replaces_only_at_close(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"out.{kind}"
    write(path)
    before = path.read_bytes()
    aborted = sink(path, mode="overwrite")
    aborted.write(BATCH)
    aborted.abort()
    assert path.read_bytes() == before
    write(path, times=2, mode="overwrite")
    assert len(rows(path)) == 6


def test_an_existing_file_is_not_touched_without_a_mode(tmp_path: Path) -> None:
    write(tmp_path / "out.csv")
    message = failure(tmp_path / "out.csv")
    assert "already exists" in message
    assert "'overwrite'" in message
    assert "'append'" in message


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_text_files_grow(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"out.{kind}"
    write(path, mode="append")
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    write(path, mode="append")
    assert [row["k"] for row in rows(path)] == [1, 2, None] * 2


def test_appending_other_columns_to_csv_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("a,b\n1,2\n")
    assert "has the columns a, b" in failure(tmp_path / "out.csv", mode="append")


def test_parquet_grows_by_files_in_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "out.parquet")
    assert "give a folder" in failure(tmp_path / "out.parquet", mode="append")
    folder = tmp_path / "folder"
    folder.mkdir()
    for _ in range(3):
        write(folder, sink="parquet", mode="append")
    assert [p.name[:10] for p in sorted(folder.iterdir())] == ["part-00000", "part-00001", "part-00002"]
    assert len(rows(folder)) == 9
    assert "is a folder" in failure(folder, sink="parquet", mode="overwrite")


def test_small_batches_share_row_groups(tmp_path: Path) -> None:
    write(tmp_path / "out.parquet", times=500)
    assert pa_parquet.read_metadata(tmp_path / "out.parquet").num_row_groups == 1
    assert pa_parquet.read_metadata(tmp_path / "out.parquet").num_rows == 1500


def test_an_empty_result_is_a_file_with_columns(tmp_path: Path) -> None:
    write(tmp_path / "out.parquet", times=0)
    assert pa_parquet.read_schema(tmp_path / "out.parquet") == BATCH.schema
    write(tmp_path / "out.csv", times=0)
    assert (tmp_path / "out.csv").read_text().strip() == '"k","s","f","ts"'


def test_json_writes_intervals_bytes_and_times_that_python_does_not_have(tmp_path: Path) -> None:
    """Python's dates end with the year 9999, and its times at the microsecond; intervals are in microseconds."""
    columns = {
        "took": pa.array([1_500_000], pa.duration("us")),
        "fine": pa.array([1_999], pa.duration("ns")),
        "raw": pa.array([b"\x00\xff"]),
        "exact": pa.array([Decimal("1.50")]),
        "late": pa.array([253_402_300_800], pa.timestamp("s")),
        "at": pa.array([1_999], pa.timestamp("ns")),
    }
    batch = pa.record_batch(columns)
    one = sink_from_options("out", {"path": str(tmp_path / "o.json")}, batch.schema)
    one.write(batch)
    one.close()
    assert json.loads((tmp_path / "o.json").read_text()) == {
        "took": "PT1.5S", "fine": "PT0.000001S", "raw": "00ff", "exact": "1.50", "late": "10000-01-01T00:00:00",
        "at": "1970-01-01T00:00:00.000001999",
    }  # fmt: skip


def test_json_has_no_nan_and_writes_times_as_text(tmp_path: Path) -> None:
    batch = BATCH.append_column("d", pa.array([timedelta(seconds=1), None, None], pa.duration("us")))
    one = sink_from_options("out", {"path": str(tmp_path / "o.json")}, batch.schema)
    one.write(batch)
    one.close()
    lines = [json.loads(line) for line in (tmp_path / "o.json").read_text().splitlines()]
    assert lines[0] == {"k": 1, "s": "x", "f": 1.5, "ts": "2024-01-01T00:00:00", "d": "PT1S"}
    assert lines[1]["f"] is None


def test_options_that_make_no_sense_say_what_would_do(tmp_path: Path) -> None:
    assert "'parquet', 'csv', 'tsv', 'json' or 'console'" in failure(tmp_path / "o", sink="papyrus")
    assert "does not say its kind" in failure(tmp_path / "o")
    assert "'error', 'overwrite' or 'append'" in failure(tmp_path / "o.csv", mode="replace")
    assert "it may be zstd, snappy" in failure(tmp_path / "o.parquet", compression="none-such")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SinkError, match="has no path"):
        sink_from_options("out", {"sink": "csv"}, BATCH.schema)
    with pytest.raises(SinkError, match="whole number"):
        sink_from_options("out", {"sink": "console", "limit": "many"}, BATCH.schema)


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in failure(tmp_path / "file" / "o.csv")


def test_the_console_prints_plain_lines_up_to_its_limit() -> None:
    out = io.StringIO()
    console = ConsoleSink(BATCH.schema, out, limit=2)
    console.write(BATCH)
    console.write(BATCH)
    console.close()
    lines = out.getvalue().splitlines()
    assert lines[:2] == ["k\ts\tf\tts", "1\tx\t1.5\t2024-01-01 00:00:00"]
    assert lines[3:] == ["… 4 more rows"]


def test_the_console_draws_a_table_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    console = ConsoleSink(BATCH.schema, out)
    console.write(BATCH)
    console.close()
    assert "NULL" in out.getvalue()
    assert "┃" in out.getvalue() or "|" in out.getvalue()


# ---- a folder for each value ----------------------------------------------------------------------------------------

LOG = pa.record_batch({
    "day": pa.array(["2026-01-01", "2026-01-02", "2026-01-01", None, "2026-01-01"]),
    "hm": pa.array(["12:00", "12:00", "12:01", "12:00", "12:00"]),
    "n": pa.array([1, 2, 3, 4, 5]),
})  # fmt: skip


def partitioned(path: Path, **options: str) -> Sink:
    return sink_from_options(
        "log", {"path": str(path), "sink": "csv", "partition_by": "Day, hm", **options}, LOG.schema
    )


def numbers_by_folder(path: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for file in sorted(path.rglob("*.csv")):
        found.setdefault(str(file.parent.relative_to(path)), []).extend(map(int, file.read_text().splitlines()[1:]))
    return found


def test_rows_go_into_a_folder_for_each_value_as_spark_lays_them_out(tmp_path: Path) -> None:
    one = partitioned(tmp_path / "log")
    one.write(LOG)
    one.write(LOG)
    assert not (tmp_path / "log").exists()  # whole or not at all
    one.close()
    assert numbers_by_folder(tmp_path / "log") == {
        "day=2026-01-01/hm=12%3A00": [1, 5, 1, 5],
        "day=2026-01-01/hm=12%3A01": [3, 3],
        "day=2026-01-02/hm=12%3A00": [2, 2],
        "day=__HIVE_DEFAULT_PARTITION__/hm=12%3A00": [4, 4],
    }
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_partitioned_folder_is_added_to_or_replaced_as_said(tmp_path: Path) -> None:
    target = tmp_path / "log"
    for mode, times in (("error", 1), ("append", 2), ("overwrite", 1)):
        one = partitioned(target, mode=mode)
        one.write(LOG)
        one.close()
        assert sum(map(len, numbers_by_folder(target).values())) == times * LOG.num_rows
    with pytest.raises(SinkError, match="already exists"):
        partitioned(target)
    aborted = partitioned(target, mode="overwrite")
    aborted.write(LOG.slice(0, 1))
    aborted.abort()
    assert sum(map(len, numbers_by_folder(target).values())) == LOG.num_rows
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(
        SinkError, match="not a folder that is partitioned by day and hm, and overwrite would remove it"
    ):
        partitioned(tmp_path / "mine", mode="overwrite")


def test_more_folders_than_files_may_be_open(tmp_path: Path) -> None:
    rows = pa.record_batch({"k": [i % 200 for i in range(1000)], "n": list(range(1000))})
    one = sink_from_options("log", {"path": str(tmp_path / "log"), "sink": "parquet", "partition_by": "k"}, rows.schema)
    for at in range(0, 1000, 250):
        one.write(rows.slice(at, 250))
    one.close()
    read = pa_parquet.read_table(tmp_path / "log")  # Arrow takes the folders for a column
    assert sorted(zip(read["k"].to_pylist(), read["n"].to_pylist(), strict=True)) == sorted(
        zip(rows["k"].to_pylist(), rows["n"].to_pylist(), strict=True)
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("dya", "partitioned by 'dya', which is no column of its rows"),
        ("f", "cannot be partitioned by 'f', which is double\nhint: select a text for it"),
        ("k, s, f, ts", "cannot be partitioned by 'f'"),
    ],
)
def test_what_cannot_be_a_folder_is_refused(tmp_path: Path, columns: str, message: str) -> None:
    with pytest.raises(SinkError) as caught:
        sink(tmp_path / "log", sink="csv", partition_by=columns)
    assert message in str(caught.value)


@pytest.mark.parametrize("most", [partitions.MOST_GROUPS, 2])
@pytest.mark.parametrize("sort", [True, False], ids=["in turn", "mixed"])
def test_rows_are_parted_by_all_values_together_and_stay_in_order(
    sort: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "MOST_GROUPS", most)
    rng = np.random.default_rng(5)
    drawn = [tuple(row) for row in rng.integers(0, 3, (40, 3)).tolist()]
    keys = sorted(drawn) if sort else drawn
    columns = {name: [row[place] for row in keys] for place, name in enumerate("abc")}
    batch = pa.RecordBatch.from_pydict({**columns, "n": list(range(40))})
    expected: dict[str, list[int]] = {}
    for number, (a, b, c) in enumerate(keys):
        expected.setdefault(f"a={a}/b={b}/c={c}", []).append(number)
    found = {folder: rows["n"].to_pylist() for folder, rows in partitions.parted(batch, "abc", ["n"])}
    assert found == expected
    assert not list(partitions.parted(batch.slice(0, 0), "abc", ["n"]))
