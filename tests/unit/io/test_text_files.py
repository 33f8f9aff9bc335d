"""Files of text: dates of JSON, lines that are no objects, and lines that are longer than what is read at once."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import watersmeet as wm
from watersmeet.errors import SourceError
from watersmeet.io import long_lines

DAY = dt.date(2026, 1, 31)


def read(path: Path, kind: str, more: str = "") -> list[Any]:
    options = f"path = '{path}', time = 'ts'{more}"
    query = wm.Session().sql(f"CREATE STREAM s (ts TIMESTAMP, x {kind}) WITH ({options}); SELECT x FROM s")
    return query.to_arrow()["x"].to_pylist()  # type: ignore[no-any-return]


def write(path: Path, *values: object) -> None:
    rows = [{"ts": f"2026-01-01 12:00:{second:02}", "x": value} for second, value in enumerate(values)]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


@pytest.mark.parametrize("more", ["", ", on_bad = 'skip'"])
@pytest.mark.parametrize(
    ("kind", "written", "meant"),
    [
        ("DATE", "2026-01-31", DAY),
        ("DATE", None, None),
        ("ARRAY<DATE>", ["2026-01-31", None], [DAY, None]),
        ("STRUCT<d DATE, n BIGINT>", {"d": "2026-01-31", "n": 1}, {"d": DAY, "n": 1}),
    ],
)
def test_dates_of_json_are_written_as_text(
    tmp_path: Path, kind: str, written: object, meant: object, more: str
) -> None:
    write(tmp_path / "a.json", written)
    assert read(tmp_path / "a.json", kind, more) == [meant]


def test_a_text_that_is_no_date_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "2026-13-01")
    with pytest.raises(SourceError, match=r"a\.json cannot be read: .*'2026-13-01'"):
        read(tmp_path / "a.json", "DATE")


def test_what_a_sink_writes_as_json_is_read_again(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "2026-01-31")
    wm.Session().run(
        f"""CREATE STREAM s (ts TIMESTAMP, x DATE) WITH (path = '{tmp_path}/a.json', time = 'ts');
            CREATE SINK out WITH (sink = 'json', path = '{tmp_path}/b.json') AS SELECT ts, x FROM s;"""
    )
    assert read(tmp_path / "b.json", "DATE") == [DAY]


@pytest.mark.parametrize("columns", ["(ts TIMESTAMP, x STRING)", ""])
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_lines_may_be_longer_than_a_block(tmp_path: Path, kind: str, columns: str) -> None:
    texts = ["a", "é" * 2_000_000, "b", "c" * 1_100_000, "d"]
    path = tmp_path / f"a.{kind}"
    write(path, *texts)
    if kind == "csv":
        rows = [json.loads(line) for line in path.open()]
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerows([["ts", "x"], *([row["ts"], row["x"]] for row in rows)])
    query = wm.Session().sql(f"CREATE STREAM s {columns} WITH (path = '{path}', time = 'ts'); SELECT x FROM s")
    assert query.to_arrow()["x"].to_pylist() == texts


def test_a_line_without_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_lines, "BLOCK_BYTES", (1 << 10, 1 << 20))
    write(tmp_path / "a.json", "a", "b" * (1 << 21))
    with pytest.raises(SourceError, match="it has a line of more than 1 MB"):
        read(tmp_path / "a.json", "STRING")


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=repr)
@pytest.mark.filterwarnings("ignore:bad_rows")
def test_a_carriage_return_ends_a_line_whether_or_not_bad_ones_are_left_out(tmp_path: Path, end: bytes) -> None:
    """And is part of a text that stands in quotes."""
    stamp = b"2026-01-01 12:00:00"
    lines = [b"ts,x", stamp + b',"a\rb"', stamp + b',"c\r\nd"', stamp + b",e"]
    path = tmp_path / "a.csv"
    path.write_bytes(end.join(lines) + end)
    assert read(path, "STRING") == read(path, "STRING", ", on_bad = 'skip'") == ["a\rb", "c\r\nd", "e"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"2026-01-01 12:00:00,1\r2", "not csv"),
        (b"2026-01-01 12:00:00," + b"y" * 200_000, "wrong type"),
        (b"2026-01-01 12:00:00,1,2\r3", "not csv"),
    ],
    ids=["a line that is cut in two", "a long text", "too many fields"],
)
def test_whatever_a_line_holds_is_told_with_its_reason(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"ts,x\n" + line + b"\n2026-01-01 12:00:00,7\n")
    with pytest.warns(wm.DataWarning, match=f"bad_rows: .*{reason}"):
        assert read(path, "BIGINT", ", on_bad = 'skip'")[-1] == 7


def test_a_stream_by_arrival_leaves_bad_lines_out_too(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"x": 1}\n{"x": "y"}\n')
    options = f"path = '{tmp_path}/a.json', time = 'arrival', on_bad = 'skip'"
    query = wm.Session().sql(f"CREATE STREAM s (x BIGINT) WITH ({options}); SELECT x FROM s")
    with pytest.warns(wm.DataWarning, match="bad_rows: .*1 wrong type"):
        assert query.to_arrow()["x"].to_pylist() == [1]


ROW = b'{"ts": "2026-01-01 12:00:00", "x": %d}'
NULLS = [b"null", b" \tnull", b"nullnull", b"null " + ROW % 9, ROW % 9 + b" null"]
NO_OBJECTS = [*NULLS, b"true", b"1", b'"a"', b"[1]", b"\0"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r", b"\n\n \n"])
@pytest.mark.parametrize("line", NO_OBJECTS)
def test_a_line_of_json_that_is_no_object_is_told_wherever_it_stands(tmp_path: Path, line: bytes, end: bytes) -> None:
    path = tmp_path / "a.json"
    for before, behind in ([], [1]), ([1], [2]), ([1, 2], []):
        lines = [*(ROW % x for x in before), line, *(ROW % x for x in behind)]
        path.write_bytes(end.join(lines))
        with pytest.warns(wm.DataWarning, match="bad_rows: .*1 not json"):
            assert read(path, "BIGINT", ", on_bad = 'skip'") == before + behind
        with pytest.raises(wm.WatersmeetError):
            read(path, "BIGINT")


@pytest.mark.parametrize("columns", ["(ts TIMESTAMP, x BIGINT)", ""])
@pytest.mark.parametrize("start", [b"null", b"\xef\xbb\xbfnull", b"\n \r\n null"])
def test_a_file_that_begins_with_null_is_refused_in_a_sentence(tmp_path: Path, start: bytes, columns: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(start + b"\n" + ROW % 1)
    with pytest.raises(SourceError, match=r"a\.json cannot be read: row 1 is wrong: it is no JSON object"):
        wm.Session().sql(f"CREATE STREAM s {columns} WITH (path = '{path}', time = 'ts'); SELECT x FROM s").to_arrow()


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_null_is_seen_wherever_a_block_of_a_file_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: str
) -> None:
    monkeypatch.setattr(long_lines, "BLOCK_BYTES", (100, 200))
    path = tmp_path / f"a.json{packed}"
    for good in range(1, 12):
        for blanks in range(5):
            text = (ROW % 1 + b"\n") * good + b" " * blanks + b"null\n" + ROW % 2
            path.write_bytes(gzip.compress(text) if packed else text)
            with pytest.raises(SourceError, match=r"row \d+ is wrong: it is no JSON object; it is ' *null'"):
                read(path, "BIGINT")


def test_values_that_are_nested_too_deep_to_guess_their_type_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for begun, ended in (b"[", b"]"), (b'{"a":', b"}"), (b"[\n", b"]"):
        deep = begun * 100_000 + b"1" + ended * 100_000
        path.write_bytes(b'{"y": ' + deep + b', "ts": "2026-01-01 12:00:00", "x": 1}\n')
        with pytest.raises(SourceError, match="nested more than 1,000 deep"):
            read(path, "BIGINT")


def test_brackets_in_texts_are_not_taken_for_nested_values(tmp_path: Path) -> None:
    write(tmp_path / "a.json", *(['[{"'] * 59))
    text = (tmp_path / "a.json").read_text()
    (tmp_path / "a.json").write_text(text * 100)
    assert read(tmp_path / "a.json", "STRING") == ['[{"'] * 5_900


@pytest.mark.parametrize("between", [b"\r", b" ", b"\t", b""])
def test_objects_of_one_line_are_read_whether_or_not_bad_ones_are_left_out(tmp_path: Path, between: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(between.join([ROW % 1, ROW % 2]) + b"\n" + (ROW % 3).replace(b", ", b"," + between) + b"\n")
    assert read(path, "BIGINT") == read(path, "BIGINT", ", on_bad = 'skip'") == [1, 2, 3]


def test_a_carriage_return_parts_bad_objects_from_good_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"\r".join([ROW % 1, b"{oops", ROW % 2, b""]) + b"\n")
    with pytest.warns(wm.DataWarning, match="bad_rows: .*1 not json.*row 2: .*it is '{oops'"):
        assert read(path, "BIGINT", ", on_bad = 'skip'") == [1, 2]
