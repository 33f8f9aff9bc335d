"""How a value is written: the same in JSON and CSV of files, topics and HTTP, whichever host writes it."""

from __future__ import annotations

import csv
import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from watersmeet.errors import SinkError
from watersmeet.io.connectors.kafka.encoding import CsvEncoder, json_records
from watersmeet.io.row_texts import csv_lines, json_objects
from watersmeet.io.sinks import sink_from_options
from watersmeet.serve.row_formats import rows_json

BERLIN = pa.timestamp("us", tz="Europe/Berlin")
AT = datetime(2026, 1, 31, 12)
# A type, and values of it with what stands in JSON and in CSV.
TEXTS: dict[str, tuple[pa.DataType, list[tuple[Any, str, str]]]] = {
    "null": (pa.null(), [(None, "null", "")]),
    "boolean": (pa.bool_(), [(True, "true", "true"), (False, "false", "false"), (None, "null", "")]),
    "integer": (pa.int64(), [(-(2**63), str(-(2**63)), str(-(2**63))), (0, "0", "0"), (None, "null", "")]),
    "unsigned": (pa.uint64(), [(2**64 - 1, str(2**64 - 1), str(2**64 - 1))]),
    "double": (
        pa.float64(),
        [
            (1.0, "1.0", "1.0"), (-0.0, "-0.0", "-0.0"), (0.1, "0.1", "0.1"), (1e300, "1e+300", "1e+300"),
            (1e15, "1000000000000000.0", "1000000000000000.0"), (5e-324, "5e-324", "5e-324"),
            (float("nan"), "null", "nan"), (float("inf"), "null", "inf"), (float("-inf"), "null", "-inf"),
            (None, "null", ""),
        ],
    ),
    "float": (pa.float32(), [(0.1, "0.1", "0.1"), (16777216.0, "16777216.0", "16777216.0")]),
    "text": (
        pa.string(),
        [
            ("x", '"x"', '"x"'), ("", '""', '""'), ('a"b', r'"a\"b"', '"a""b"'), ("a\\b", r'"a\\b"', '"a\\b"'),
            ("two\nlines\t\r", r'"two\nlines\t\r"', '"two\nlines\t\r"'), ("\x00\x1f", r'"\u0000\u001f"', '"\x00\x1f"'),
            ("naïve ☃ 𝄞, ;", '"naïve ☃ 𝄞, ;"', '"naïve ☃ 𝄞, ;"'), (None, "null", ""),
        ],
    ),
    "bytes": (
        pa.binary(),
        [(b"", '""', '""'), (b"a\xff", '"61ff"', '"a\\xff"'), (b"'\"", '"2722"', '"\'"""'), (None, "null", "")],
    ),
    "decimal": (
        pa.decimal128(38, 10),
        [
            (Decimal("1.5"), '"1.5000000000"', "1.5000000000"), (Decimal("1E-10"), '"0.0000000001"', "0.0000000001"),
            (Decimal("-0.5"), '"-0.5000000000"', "-0.5000000000"), (None, "null", ""),
        ],
    ),
    "date": (pa.date32(), [(date(2026, 1, 31), '"2026-01-31"', "2026-01-31"), (None, "null", "")]),
    "time": (pa.time64("us"), [
        (time(1), '"01:00:00"', "01:00:00"), (time(1, 0, 0, 500), '"01:00:00.0005"', "01:00:00.0005")]),
    "timestamp": (
        pa.timestamp("us"),
        [
            (AT, '"2026-01-31T12:00:00"', "2026-01-31 12:00:00"),
            (AT.replace(microsecond=500_000), '"2026-01-31T12:00:00.5"', "2026-01-31 12:00:00.5"),
            (AT.replace(microsecond=1), '"2026-01-31T12:00:00.000001"', "2026-01-31 12:00:00.000001"),
            (datetime(1, 1, 1), '"0001-01-01T00:00:00"', "0001-01-01 00:00:00"), (None, "null", ""),
        ],
    ),
    "seconds": (pa.timestamp("s"), [(253_402_300_800, '"10000-01-01T00:00:00"', "10000-01-01 00:00:00")]),
    "instant": (
        BERLIN,
        [
            (AT, '"2026-01-31T13:00:00+01:00"', "2026-01-31 13:00:00+01:00"),
            (AT.replace(month=7, microsecond=10), '"2026-07-31T14:00:00.00001+02:00"',
             "2026-07-31 14:00:00.00001+02:00"),
            (None, "null", ""),
        ],
    ),
    "UTC": (pa.timestamp("us", tz="UTC"), [(AT, '"2026-01-31T12:00:00+00:00"', "2026-01-31 12:00:00+00:00")]),
    "interval": (
        pa.duration("us"),
        [
            (timedelta(0), '"PT0S"', "PT0S"), (timedelta(minutes=90), '"PT1H30M"', "PT1H30M"),
            (timedelta(days=1, seconds=1), '"PT24H1S"', "PT24H1S"),
            (timedelta(milliseconds=-500), '"-PT0.5S"', "-PT0.5S"),
            (timedelta(hours=1, microseconds=1), '"PT1H0.000001S"', "PT1H0.000001S"), (None, "null", ""),
        ],
    ),
}  # fmt: skip
NESTED: dict[str, tuple[pa.DataType, list[tuple[Any, str]]]] = {
    "list": (pa.list_(pa.float64()), [([1.0, None, float("nan")], "[1.0, null, null]"), ([], "[]"), (None, "null")]),
    "struct": (
        pa.struct([("x", pa.decimal128(5, 2)), ("y", pa.list_(pa.string()))]),
        [({"x": Decimal("1.5"), "y": ['"', None]}, r'{"x": "1.50", "y": ["\"", null]}'), (None, "null"),
         ({"x": None, "y": None}, '{"x": null, "y": null}')],
    ),
    "map": (
        pa.map_(pa.string(), pa.int64()),
        [([("a", 1), ('b"', None)], r'{"a": 1, "b\"": null}'), ([], "{}"), (None, "null")],
    ),
    "map of numbers": (pa.map_(pa.int64(), pa.duration("us")), [([(1, timedelta(seconds=2))], '{"1": "PT2S"}')]),
}  # fmt: skip


def every_value() -> pa.RecordBatch:
    """A column of every type, as many rows as the longest has values: NULLs behind them."""
    rows = max(len(values) for _, values in TEXTS.values())
    columns = {
        name: pa.array([value for value, *_ in values] + [None] * (rows - len(values)), kind)
        for name, (kind, values) in TEXTS.items()
    }
    return pa.record_batch(columns)


@pytest.mark.parametrize("name", [*TEXTS, *NESTED])
def test_a_value_is_written_so_in_json(name: str) -> None:
    kind, values = (TEXTS | NESTED)[name]  # type: ignore[operator]
    column = pa.array([one[0] for one in values], kind)
    expected = [f'{{"v": {one[1]}}}' for one in values]
    assert json_objects(pa.record_batch({"v": column})).to_pylist() == expected
    # Of a slice only its own rows, of any of Arrow's layouts the same text.
    assert json_objects(pa.record_batch({"v": column}).slice(1)).to_pylist() == expected[1:]
    assert [json.loads(one).keys() for one in expected] == [{"v"}] * len(expected)


@pytest.mark.parametrize("name", TEXTS)
def test_a_value_is_written_so_in_csv(name: str) -> None:
    kind, values = TEXTS[name]
    rows = pa.record_batch({"k": pa.array([1] * len(values)), "v": pa.array([one[0] for one in values], kind)})
    assert csv_lines(rows, ",").to_pylist() == [f"1,{one[2]}" for one in values]


def test_files_topics_and_http_have_the_same_bytes(tmp_path: Path) -> None:
    rows = every_value()
    for kind in ("csv", "json"):
        sink = sink_from_options("o", {"path": str(tmp_path / f"o.{kind}")}, rows.schema)
        sink.write(rows)
        sink.close()
    lines = (tmp_path / "o.json").read_bytes().removesuffix(b"\n").split(b"\n")
    assert lines == json_records(rows)
    assert rows_json(pa.table(rows)).encode() == b"[" + b",".join(lines) + b"]"
    header, _, body = (tmp_path / "o.csv").read_bytes().partition(b"\n")
    assert header == b",".join(f'"{name}"'.encode() for name in rows.schema.names)
    assert body == b"".join(f"{one.decode()}\n".encode() for one in CsvEncoder().encode(rows) if one is not None)
    with (tmp_path / "o.csv").open(newline="") as file:
        assert [len(row) for row in csv.reader(file)] == [rows.num_columns] * (rows.num_rows + 1)


def test_a_delimiter_that_numbers_and_times_have_puts_them_in_quotes(tmp_path: Path) -> None:
    rows = pa.record_batch({"n": pa.array([-1, None]), "ts": pa.array([AT, None])})
    sink = sink_from_options("o", {"path": str(tmp_path / "o.csv"), "delimiter": "-"}, rows.schema)
    sink.write(rows)
    sink.close()
    read = pa_csv.read_csv(tmp_path / "o.csv", parse_options=pa_csv.ParseOptions(delimiter="-"))
    assert read["n"].to_pylist() == [-1, None]


@pytest.mark.parametrize(("path", "more"), [("o.tsv", {}), ("o", {"sink": "tsv"}), ("o.x", {"sink": "TSV"})])
def test_a_tsv_has_tabs_and_is_read_so(tmp_path: Path, path: str, more: dict[str, str]) -> None:
    from watersmeet.io.files import open_files

    rows = pa.record_batch({"a": ["x\ty", None], "b": [1, 2]})
    sink = sink_from_options("o", {"path": str(tmp_path / path), **more}, rows.schema)
    sink.write(rows)
    sink.close()
    assert (tmp_path / path).read_text() == '"a"\t"b"\n"x\ty"\t1\n\t2\n'
    source = open_files("o", str(tmp_path / path), "tsv", {}, None)
    assert [row for batch in source.batches(10) for row in batch.to_pylist()] == rows.to_pylist()


def test_lines_hold_no_nested_values(tmp_path: Path) -> None:
    rows = pa.record_batch({"l": [[1]]})
    with pytest.raises(SinkError, match="column 'l' is nested and cannot be written as csv\nhint: use parquet or json"):
        sink_from_options("o", {"path": str(tmp_path / "o.csv")}, rows.schema)
