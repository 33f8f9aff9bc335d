"""Static join shedding on tables in files: what is kept, what is lost, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from watersmeet.errors import DataError, SetupError
from watersmeet.lab.arguments import static
from watersmeet.lab.static import static_command


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    """K(3,1), K(2,2), K(1,4): the example of 11 results."""
    pa.csv.write_csv(pa.table({"k": list("aaabbc"), "x": range(6)}), tmp_path / "A.csv")
    pq.write_table(pa.table({"k": list("abbcccc"), "y": range(7)}), tmp_path / "B.parquet")
    return [tmp_path / "A.csv", tmp_path / "B.parquet"]


def told(files: list[Path], **how: object) -> list[str]:
    lines: list[str] = []
    static_command(files, "k", **how, say=lines.append)
    return lines


@pytest.mark.parametrize(
    ("how", "outcome"),
    [
        ({"keep": 4}, "4 of 11 results kept (36.4%), 7 lost"),
        ({"keep": 9}, "8 of 11 results kept (72.7%), 3 lost"),
        ({"drop": [4]}, "8 of 11 results kept (72.7%), 3 lost"),
        ({"keep_each": (3, 3)}, "5 of 11 results kept (45.5%), 6 lost"),
        ({"keep_each": (2, 4)}, "4 of 11 results kept (36.4%), 7 lost"),
    ],
)
def test_the_papers_programs_are_run_on_files(tables, how, outcome):
    assert outcome in told(tables, **how)


def test_rows_kept_are_told_for_each_value(tables):
    lines = told(tables, keep=4)
    assert [line.split() for line in lines[1:4]] == [
        ["b", "2", "of", "2", "2", "of", "2", "4", "0"],
        ["c", "0", "of", "1", "0", "of", "4", "0", "4"],
        ["a", "0", "of", "3", "0", "of", "1", "0", "3"],
    ]
    assert lines[4] == "kept 2 of 6 rows of A.csv, 2 of 7 rows of B.parquet"


def test_three_tables_are_shed_within_a_bound(tables, tmp_path):
    pq.write_table(pa.table({"k": list("abbc")}), tmp_path / "C.parquet")
    lines = told([*tables, tmp_path / "C.parquet"], drop=[1, 1, 0])
    assert "13 of 15 results kept (86.7%), 2 lost" in lines
    assert lines[-1] == "any choice loses at least 1; this one at most 3 times the least"


def test_the_command_takes_its_numbers_from_the_line(tables):
    app = typer.Typer()
    app.command()(static)
    app.callback()(lambda: None)
    files = [str(path) for path in tables]
    for how, outcome in (
        (["--keep", "4"], "4 of 11 results"),
        (["--drop", "4"], "8 of 11 results"),
        (["--keep-each", "3, 3"], "5 of 11 results"),
        (["--drop", "1,1,0", "--third", files[1]], "any choice loses at least"),
    ):
        shown = CliRunner().invoke(app, ["static", *files, "--on", "k", *how])
        assert shown.exit_code == 0, shown.exception
        assert outcome in shown.output
    wrong = CliRunner().invoke(app, ["static", *files, "--on", "k", "--keep-each", "3"])
    assert "does not give two numbers" in str(wrong.exception)


def test_nulls_meet_nothing(tmp_path):
    for name in "AB":
        pq.write_table(pa.table({"k": pa.array([1, None, None], pa.int64())}), tmp_path / f"{name}.parquet")
    lines = told([tmp_path / "A.parquet", tmp_path / "B.parquet"], keep=2)
    assert "1 of 1 results kept (100.0%), 0 lost" in lines
    assert sum("NULL" in line for line in lines) == 2


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "either how many rows to keep"),
        ({"keep": 3, "drop": [2]}, "either how many rows to keep"),
        ({"drop": [1, 2, 3]}, "3 numbers for 2 tables"),
    ],
)
def test_unclear_wishes_are_refused(tables, how, message):
    with pytest.raises(SetupError, match=message):
        told(tables, **how)


def test_what_cannot_be_joined_or_read_is_told(tables, tmp_path):
    with pytest.raises(DataError, match="there are 13 rows of both sides"):
        told(tables, keep=14)
    with pytest.raises(DataError, match=r"A\.csv has no column 'z'"):
        static_command(tables, "z", keep=1)
    with pytest.raises(SetupError, match="neither Parquet nor CSV"):
        told([tables[0], tmp_path / "B.txt"], keep=1)
    with pytest.raises(DataError, match="cannot be read"):
        told([tables[0], tmp_path / "none.csv"], keep=1)
    with pytest.raises(SetupError, match="NP-hard"):
        told([*tables, tables[0]], keep=1)
    pq.write_table(pa.table({"k": [1, 2]}), tmp_path / "numbers.parquet")
    with pytest.raises(DataError, match="different types"):
        told([tables[0], tmp_path / "numbers.parquet"], keep=1)
