"""Files and frames as they come from elsewhere: read, or refused with the column, the value and a way out."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.io.conform import check_columns
from watersmeet.io.console import ConsoleSink
from watersmeet.runtime.script import read_script

AT = "2026-01-01 00:00:0"


def answer(script: str) -> list[dict[str, object]]:
    (job,) = read_script(script)
    return pa.Table.from_batches(PulledExecution(job.plan).batches(), schema=job.plan.output_schema).to_pylist()


def failure(script: str) -> str:
    with pytest.raises(wm.errors.WatersmeetError) as caught:
        answer(script)
    return str(caught.value)


def csv(folder: Path, text: str) -> Path:
    path = folder / "a.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("oops", None),
        ("2.0", "declare n DOUBLE, and CAST it in the query: CAST(n AS BIGINT)"),
        ("NA", "null_values = 'NA' in WITH (…) reads it as NULL"),
        ("99999999999999999999", "declare n DECIMAL(38, 0), which holds it"),
    ],
)
def test_a_value_of_another_type_is_told_with_column_row_and_way_out(
    tmp_path: Path, value: str, hint: str | None
) -> None:
    path = csv(tmp_path, f"ts,s,n\n{AT}0,x,1\n{AT}1,x,{value}\n")
    told = failure(f"CREATE STREAM a (n BIGINT, ts TIMESTAMP) WITH (path='{path}', time='ts'); SELECT n FROM a")
    first = f"{path} cannot be read: column 'n' is BIGINT, but holds {value!r} in row 2 after the header"
    assert told == first + (f"\nhint: {hint}" if hint else "")


def test_a_time_that_is_none_is_told_with_its_row(tmp_path: Path) -> None:
    path = csv(tmp_path, f"{AT}0,1\nyesterday,2\n")
    told = failure(
        f"CREATE STREAM a (ts TIMESTAMP, n BIGINT) WITH (path='{path}', time='ts', header='false'); SELECT n FROM a"
    )
    assert "column 'ts' is TIMESTAMP, but holds 'yesterday' in row 2\n" in told


def test_words_for_null_are_read_as_such_unless_they_are_in_quotes(tmp_path: Path) -> None:
    path = csv(tmp_path, f'ts,n,s\n{AT}0,1,NA\n{AT}1,NA,"NA"\n{AT}2,-,\n')
    rows = answer(f"CREATE STREAM a WITH (path='{path}', time='ts', null_values='NA, -'); SELECT n + 1 AS m, s FROM a")
    assert rows == [{"m": 2, "s": None}, {"m": None, "s": "NA"}, {"m": None, "s": None}]


def test_the_console_prints_no_names_of_columns_before_a_failure() -> None:
    out = io.StringIO()
    console = ConsoleSink(pa.schema([("n", pa.int64())]), out)
    console.abort()
    assert out.getvalue() == ""
    console.close()
    assert out.getvalue() == "n\n"


@pytest.mark.parametrize(("mark", "written"), [(";", ";"), ("|", "|"), ("\t", "\\t")])
@pytest.mark.parametrize("columns", ["", " (ts TIMESTAMP, n BIGINT)"])
def test_a_file_with_another_delimiter_is_told_so(tmp_path: Path, mark: str, written: str, columns: str) -> None:
    path = csv(tmp_path, f"ts{mark}n\n{AT}0{mark}1\n")
    told = failure(f"CREATE STREAM a{columns} WITH (path='{path}', time='ts'); SELECT n FROM a")
    assert f"say delimiter = '{written}'" in told
    options = f"path='{path}', time='ts', delimiter='{written}'"
    assert answer(f"CREATE STREAM a{columns} WITH ({options}); SELECT n FROM a") == [{"n": 1}]


def test_columns_are_named_in_any_case(tmp_path: Path) -> None:
    path = csv(tmp_path, f"Ts,n\n{AT}0,1\n")
    options = f"path='{path}', time='TS', distinct='N: 5'"
    assert answer(f"CREATE STREAM a WITH ({options}); SELECT n FROM a") == [{"n": 1}]
    session = wm.Session()
    session.stream("a", str(path), time="ts", distinct={"N": np.int64(5)})
    assert session.catalog.find("a").statistics.distinct == {"n": 5}
    assert session.sql("SELECT n FROM a").to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("good", "bad", "told"),
    [
        (f"{AT}0", "yesterday", "'yesterday' in row 2 after the header\n"),
        (f"{AT}0Z", "yesterday", "'yesterday' in row 2 after the header\n"),
        (f"{AT}0Z", f"{AT}1", f"'{AT}1' in row 2 after the header, without a zone\n"),
    ],
)
def test_what_makes_an_event_time_text_is_told(tmp_path: Path, good: str, bad: str, told: str) -> None:
    path = csv(tmp_path, f"ts,n\n{good},1\n{bad},2\n")
    assert told in failure(f"CREATE STREAM a WITH (path='{path}', time='ts'); SELECT n FROM a")
    with pytest.raises(wm.errors.CatalogError, match="was taken for text"):
        wm.Session().stream("a", str(path), time="ts")


@pytest.mark.parametrize("name", ["ts", None])
def test_times_in_the_index_of_a_frame_are_told_how_to_become_a_column(name: str | None) -> None:
    frame = pd.DataFrame({"n": [1]}, index=pd.DatetimeIndex([f"{AT}0"], name=name))
    session = wm.Session()
    with pytest.raises(wm.errors.CatalogError, match="reset_index"):
        session.stream("a", frame, time="ts")
    session.stream("a", frame.rename_axis("ts").reset_index(), time="ts")
    with pytest.raises(wm.errors.CatalogError) as caught:
        session.stream("A", frame.rename_axis("ts").reset_index(), time="ts")
    assert "drop" not in str(caught.value)


def test_two_columns_of_one_name_in_a_frame_are_named() -> None:
    frame = pd.DataFrame([[1, 2, pd.Timestamp(f"{AT}0")]], columns=["a", "a", "ts"])
    with pytest.raises(wm.errors.SourceError, match="has two columns named 'a'"):
        wm.Session().stream("a", frame, time="ts")


@pytest.mark.parametrize("batch_rows", [0, -1, 1.5, None])
def test_batches_have_at_least_a_row(batch_rows: Any) -> None:
    session = wm.Session()
    session.stream("a", pd.DataFrame({"n": [1], "ts": pd.to_datetime([f"{AT}0"])}), time="ts")
    for text in ("SELECT n FROM a", "EXPLAIN SELECT n FROM a"):
        with pytest.raises(wm.errors.OptionError, match="1 or more"):
            session.sql(text).to_arrow(batch_rows=batch_rows)


@pytest.mark.parametrize("source", ["", "source='parquet', "])
def test_data_in_subfolders_is_told_how_to_be_read(tmp_path: Path, source: str) -> None:
    for month in (1, 2):
        folder = tmp_path / f"month={month}"
        folder.mkdir()
        pa_parquet.write_table(pa.table({"ts": pa.array([month], pa.timestamp("us"))}), folder / "x.parquet")
    told = failure(f"CREATE STREAM a WITH ({source}path='{tmp_path}', time='ts'); SELECT * FROM a")
    assert f"its subfolders do: say path = '{tmp_path}/**/*.parquet'" in told
    rows = answer(f"CREATE STREAM a WITH ({source}path='{tmp_path}/**/*.parquet', time='ts'); SELECT * FROM a")
    assert len(rows) == 2


def whole_and_broken(folder: Path, whole: int = 1) -> Path:
    """A column of whole numbers, which pandas writes as DOUBLE where some are missing."""
    for number, values in enumerate([[whole], [1.5, None]]):
        times = pa.array([number] * len(values), pa.timestamp("us"))
        pa_parquet.write_table(pa.table({"ts": times, "n": values}), folder / f"{number}.parquet")
    return folder


def test_doubles_take_whole_numbers_of_other_files(tmp_path: Path) -> None:
    path = whole_and_broken(tmp_path)
    assert "declare the columns, n as DOUBLE" in failure(
        f"CREATE STREAM a WITH (path='{path}', time='ts'); SELECT n FROM a"
    )
    declared = "CREATE STREAM a (ts TIMESTAMP, n {}) WITH (path='" + str(path) + "', time='ts'); SELECT n FROM a"
    assert "declare it DOUBLE, and CAST it" in failure(declared.format("BIGINT"))
    assert answer(declared.format("DOUBLE")) == [{"n": 1.0}, {"n": 1.5}, {"n": None}]


@pytest.mark.parametrize("whole", [2**53 + 1, -(2**53) - 1])
def test_a_whole_number_that_a_double_cannot_hold_is_an_error(tmp_path: Path, whole: int) -> None:
    path = whole_and_broken(tmp_path, whole)
    told = failure(f"CREATE STREAM a (ts TIMESTAMP, n DOUBLE) WITH (path='{path}', time='ts'); SELECT n FROM a")
    assert "'a': column 'n': it holds integers beyond 9,007,199,254,740,992" in told


def test_where_values_are_not_looked_at_doubles_take_no_whole_numbers() -> None:
    found, wanted = pa.schema([("n", pa.int64())]), pa.schema([("n", pa.float64())])
    with pytest.raises(wm.errors.SourceError, match="if all files have it so"):
        check_columns(found, wanted, "a", "a.parquet", value_by_value=False)
    check_columns(found.set(0, pa.field("n", pa.int32())), wanted, "a", "a.parquet", value_by_value=False)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", f"ts;n\n{AT}0;1,5\n", "say what separates columns: delimiter = ';'"),
        ("a.csv", f"ts,n,n\n{AT}0,1,2\n", "a.csv has two columns named 'n'"),
        ("a.csv", f"ts,n\n{AT}0,\xe9\n", "column 'n' holds invalid UTF8 data"),
        ("a.json", f'[{{"ts": "{AT}0", "n": "x"}}]', "one object a line, without [ and ]"),
    ],
)
def test_files_in_another_shape_are_told_so(tmp_path: Path, name: str, content: str, told: str) -> None:
    (tmp_path / name).write_text(content, encoding="latin-1")
    script = f"CREATE STREAM a (ts TIMESTAMP, n STRING) WITH (path='{tmp_path / name}', time='ts'); SELECT n FROM a"
    assert told in failure(script)


@pytest.mark.parametrize("count", ["many", -3, 0, float("inf"), float("nan"), None])
def test_a_number_of_values_that_is_none_is_refused(count: Any) -> None:
    frame = pd.DataFrame({"n": [1], "ts": pd.to_datetime([f"{AT}0"])})
    with pytest.raises(wm.errors.CatalogError, match="is no number of values of n"):
        wm.Session().stream("a", frame, time="ts", distinct={"n": count})


@pytest.mark.parametrize("sample", [0, -1])
def test_a_check_of_no_rows_is_refused(sample: int) -> None:
    session = wm.Session()
    session.stream("a", pd.DataFrame({"n": [1], "ts": pd.to_datetime([f"{AT}0"])}), time="ts")
    with pytest.raises(wm.errors.OptionError, match="shows nothing"):
        wm.check(session.sql("SELECT n FROM a"), sample=sample)


def test_text_in_another_encoding_does_not_become_bytes_unasked(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"ts,s\n{AT}0,caf\xe9\n", encoding="latin-1")
    assert "declare the column BINARY" in failure(f"CREATE STREAM a WITH (path='{path}', time='ts'); SELECT s FROM a")
    declared = f"CREATE STREAM a (ts TIMESTAMP, s BINARY) WITH (path='{path}', time='ts'); SELECT s FROM a"
    assert answer(declared) == [{"s": b"caf\xe9"}]


def test_a_declared_column_that_the_file_has_in_another_case_is_told_so(tmp_path: Path) -> None:
    path = csv(tmp_path, f"ts,n\n{AT}0,1\n")
    told = failure(f"CREATE STREAM a (ts TIMESTAMP, N BIGINT) WITH (path='{path}', time='ts'); SELECT n FROM a")
    assert "declare it as n: columns of files are found by their case" in told
