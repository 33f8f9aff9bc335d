"""Every kind of input gives the same rows in pieces, or says in a sentence why it cannot."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from tests.unit.declared import source_with
from watersmeet.errors import DataError, SourceError, WatersmeetError
from watersmeet.io.sources import Source, TableSource, source_of
from watersmeet.warning import ConnectorWarning

TABLE = pa.table(
    {
        "ts": pa.array([datetime(2024, 1, 1, 0, 0, k % 60) for k in range(100)], pa.timestamp("us")),
        "k": pa.array(range(100), pa.int64()),
        "s": pa.array([None if k % 7 == 0 else f"t{k}" for k in range(100)]),
    }
)


def read(source: Source, max_rows: int = 30) -> pa.Table:
    batches = list(source.batches(max_rows))
    assert all(0 < batch.num_rows <= max_rows for batch in batches)
    return pa.Table.from_batches(batches, source.schema)


def failure(call: Any, *args: Any) -> str:
    with pytest.raises(SourceError) as caught:
        list(call(*args).batches(10))
    return str(caught.value)


def write_json(table: pa.Table, path: Path) -> None:
    table.to_pandas().to_json(path, orient="records", lines=True, date_format="iso")


def in_memory() -> dict[str, Any]:
    return {
        "table": TABLE,
        "batch": TABLE.combine_chunks().to_batches()[0],
        "list": TABLE.to_batches(max_chunksize=17),
        "reader": TABLE.to_reader(max_chunksize=17),
        "generator": (b for b in TABLE.to_batches(max_chunksize=17)),
        "tables": (TABLE.slice(k, 25) for k in range(0, 100, 25)),
        "polars": pl.from_arrow(TABLE),
        "lazy": pl.from_arrow(TABLE).lazy(),
    }


@pytest.mark.parametrize("kind", in_memory())
def test_data_in_memory_is_read_in_pieces(kind: str) -> None:
    source = source_of(in_memory()[kind], "a")
    assert read(source) == TABLE
    assert source.bounded == (kind not in ("generator", "tables"))
    assert source.known_rows == (None if kind in ("reader", "generator", "tables") else 100)


def test_pandas_frames_keep_their_values() -> None:
    source = source_of(TABLE.to_pandas(), "a")
    assert read(source).column("k").equals(TABLE.column("k"))
    assert read(source).to_pylist() == TABLE.to_pylist()


def test_dictionaries_and_large_layouts_become_plain() -> None:
    frame = pd.DataFrame({"c": pd.Categorical(["x", "y", None])})
    assert source_of(frame, "a").schema.field("c").type == pa.string()
    large = pa.table({"c": pa.array(["x", "y"], pa.large_string())})
    assert read(source_of(large, "a")).schema.field("c").type == pa.string()


@pytest.mark.parametrize("kind", ["reader", "generator"])
def test_what_flows_once_cannot_be_read_twice(kind: str) -> None:
    source = source_of(in_memory()[kind], "a")
    read(source)
    assert failure(lambda: source) == (
        "the input of stream a was already consumed; give a table or a path, or a new reader"
    )


def test_tables_are_read_again_from_the_start() -> None:
    source = source_of(TABLE, "a")
    assert read(source) == read(source)


def test_an_endless_generator_is_not_drained() -> None:
    def forever() -> Iterator[pa.RecordBatch]:
        while True:
            yield TABLE.to_batches()[0]

    batches = source_of(forever(), "a").batches(64)
    assert [next(batches).num_rows for _ in range(4)] == [64, 36, 64, 36]


def test_strange_data_is_refused_in_a_sentence() -> None:
    assert "cannot be read from a int" in failure(source_of, 5, "a")
    assert "list of int" in failure(source_of, [5], "a")
    assert "columns are unknown" in failure(source_of, iter([]), "a")
    doubled = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    assert "two columns named 'x'" in failure(source_of, doubled, "a")
    other = pa.record_batch({"z": [1]})
    assert "change their columns" in failure(source_of, iter([TABLE.to_batches()[0], other]), "a")
    assert "columns of the first" in failure(source_of, [TABLE.to_batches()[0], other], "a")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    paths = {kind: tmp_path / f"a.{kind}" for kind in ("parquet", "csv", "jsonl")}
    pa_parquet.write_table(TABLE, paths["parquet"], row_group_size=40)
    pa_csv.write_csv(TABLE, paths["csv"])
    write_json(TABLE, paths["jsonl"])
    return paths


DECLARED = TABLE.schema


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_files_are_read_in_pieces(files: dict[str, Path], kind: str) -> None:
    source = source_with("a", {"source": kind, "path": str(files[kind])}, DECLARED)
    assert read(source) == TABLE
    assert read(source) == TABLE
    assert source.known_rows == (100 if kind == "parquet" else None)
    assert kind[:4] in source.description


def test_the_format_follows_from_the_name(files: dict[str, Path]) -> None:
    assert read(source_of(files["parquet"], "a")) == TABLE
    assert read(source_of(str(files["csv"]), "a")).column("k") == TABLE.column("k")
    assert read(source_of(files["jsonl"], "a")).column("s") == TABLE.column("s")


def test_folders_and_patterns_are_read_in_name_order(tmp_path: Path) -> None:
    for number in (2, 0, 1):
        pa_parquet.write_table(TABLE.slice(number * 30, 30), tmp_path / f"part-{number}.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".hidden.parquet").write_text("")
    source = source_of(tmp_path, "a")
    assert read(source) == TABLE.slice(0, 90)
    assert source.known_rows == 90
    assert read(source_of(str(tmp_path / "part-[01].parquet"), "a")) == TABLE.slice(0, 60)


def test_text_files_may_be_compressed_and_have_other_delimiters(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1;x\n2;y\n"))
    options = {"source": "csv", "path": str(tmp_path / "a.csv.gz"), "header": "false", "delimiter": ";"}
    declared = pa.schema([("n", pa.int32()), ("c", pa.string())])
    assert read(source_with("a", options, declared)).to_pylist() == [{"n": 1, "c": "x"}, {"n": 2, "c": "y"}]
    (tmp_path / "b.tsv").write_text("n\tc\n1\tx\n")
    (tmp_path / "B2.TSV").write_text("n\tc\n1\tx\n")
    assert read(source_of(tmp_path / "B2.TSV", "b")).to_pylist() == [{"n": 1, "c": "x"}]
    assert read(source_of(tmp_path / "b.tsv", "b")).to_pylist() == [{"n": 1, "c": "x"}]


def test_csv_tells_null_from_empty_text_and_nan(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('s,f\n,\n"",nan\nnull,1.5\n')
    rows = read(source_of(tmp_path / "a.csv", "a")).to_pylist()
    assert [row["s"] for row in rows] == [None, "", "null"]
    assert rows[0]["f"] is None
    assert rows[1]["f"] != rows[1]["f"]


@pytest.mark.parametrize("more", ["", ", on_bad = 'skip'"])
@pytest.mark.parametrize("header", ["true", "false"])
@pytest.mark.parametrize(
    ("kind", "values"), [("BIGINT", [1, None, 3, None]), ("STRING", [None, "x", "", "a\n\nb", None])]
)
def test_a_null_that_is_a_line_of_its_own_comes_back(
    tmp_path: Path, more: str, header: str, kind: str, values: list[Any]
) -> None:
    session = wm.Session()
    times = [datetime(2026, 1, 1, 0, 0, second) for second in range(len(values))]
    session.stream("a", pa.table({"k": values, "ts": times}), time="ts")
    written = f"path = '{tmp_path / 'k.csv'}', header = '{header}'"
    session.run(f"CREATE SINK s WITH (sink = 'csv', {written}) AS SELECT k FROM a")
    made = f"CREATE STREAM b (k {kind}) WITH (source = 'csv', {written}, time = 'arrival'{more})"
    assert session.sql(f"{made}; SELECT k FROM b").to_arrow()["k"].to_pylist() == values


def test_zones_in_text_are_honoured(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts\n2024-01-01T02:00:00+02:00\n2024-01-01T00:00:01Z\n")
    expected = [{"ts": datetime(2024, 1, 1)}, {"ts": datetime(2024, 1, 1, 0, 0, 1)}]
    declared = pa.schema([("ts", pa.timestamp("us"))])
    assert read(source_with("a", {"path": str(tmp_path / "a.csv")}, declared)).to_pylist() == expected


def test_declared_columns_are_picked_and_widened(tmp_path: Path) -> None:
    narrow = pa.table(
        {"k": pa.array([1], pa.int32()), "ts": pa.array([1_000_001_000], pa.timestamp("ns")), "extra": [0]}
    )
    pa_parquet.write_table(narrow, tmp_path / "a.parquet")
    declared = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64())])
    source = source_with("a", {"path": str(tmp_path / "a.parquet"), "maxFilesPerTrigger": "1"}, declared)
    assert source.schema == declared
    assert read(source).to_pylist() == [{"ts": datetime(1970, 1, 1, 0, 0, 1, 1), "k": 1}]


@pytest.mark.parametrize(
    ("declared", "parts"),
    [
        ({"nope": pa.int64()}, ["'nope'", "has none", "ts, k, s"]),
        ({"s": pa.int64()}, ["'s'", "declared BIGINT", "has STRING"]),
        ({"k": pa.int32()}, ["'k'", "declared INT", "has BIGINT"]),
        ({"k": pa.timestamp("us")}, ["'k'", "declared TIMESTAMP"]),
    ],
)
def test_a_declaration_the_file_does_not_keep_names_the_column(
    files: dict[str, Path], declared: dict[str, pa.DataType], parts: list[str]
) -> None:
    message = failure(source_with, "a", {"path": str(files["parquet"])}, pa.schema(list(declared.items())))
    assert all(part in message for part in [*parts, "a.parquet"])


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_text_that_is_not_of_the_declared_type_names_the_file(files: dict[str, Path], kind: str) -> None:
    message = failure(source_with, "a", {"path": str(files[kind])}, pa.schema([("s", pa.int64())]))
    assert str(files[kind]) in message
    missing = failure(source_with, "a", {"path": str(files[kind])}, pa.schema([("zz", pa.int64())]))
    assert "'zz'" in missing


def test_files_that_drift_are_named(tmp_path: Path) -> None:
    pa_parquet.write_table(TABLE, tmp_path / "0.parquet")
    pa_parquet.write_table(TABLE.rename_columns(["ts", "k", "t"]), tmp_path / "1.parquet")
    message = failure(source_of, tmp_path, "a")
    assert "1.parquet" in message
    assert "'s' is missing" in message
    (tmp_path / "0.csv").write_text("a,b\n1,2\n")
    (tmp_path / "1.csv").write_text("a,c\n1,2\n")
    assert "1.csv" in failure(source_of, str(tmp_path / "*.csv"), "a")


def test_guessed_types_that_fail_later_say_how_to_declare(tmp_path: Path) -> None:
    lines = ["n", *(str(k) for k in range(300_000)), "x"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    message = failure(source_of, tmp_path / "a.csv", "a")
    assert "a.csv" in message
    assert "declare the columns" in message


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    assert "there is no file or folder" in failure(source_of, tmp_path / "none.parquet", "a")
    (tmp_path / "rentals.csv").touch()
    assert f"did you mean {tmp_path}/rentals.csv?" in failure(source_of, tmp_path / "rental.csv", "a")
    (tmp_path / "bad.parquet").write_text("not parquet")
    assert "bad.parquet cannot be read" in failure(source_of, tmp_path / "bad.parquet", "a")
    (tmp_path / "bad.json").write_text("[1, 2")
    assert "bad.json cannot be read" in failure(source_of, tmp_path / "bad.json", "a")
    (tmp_path / "empty.csv").write_text("")
    for nothing in ("", "\n\n"):
        (tmp_path / "empty.csv").write_text(nothing)
        told = failure(source_of, tmp_path / "empty.csv", "a")
        assert "empty.csv is empty: it has no header, so the columns of 'a' are unknown" in told
        assert "first line" in told
    (tmp_path / "bare.csv").write_text("k,ts\n")
    told = failure(source_of, tmp_path / "bare.csv", "a")
    assert "bare.csv has a header (k, ts) but no rows, so the types of the columns of 'a' are unknown" in told
    assert "declare them" in told
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n3\n")
    told = failure(source_of, tmp_path / "ragged.csv", "a")
    assert "ragged.csv cannot be read: row 2 after the header is wrong: it has 1 value for 2 columns; it is '3'" in told
    assert "on_bad = 'skip'" in told
    (tmp_path / "cut.json").write_text('{"k": 1}\n{"k": 2}\n{"k": "thr')
    told = failure(source_of, tmp_path / "cut.json", "a")
    assert 'cut.json cannot be read: row 3 is wrong: it is cut off; it is \'{"k": "thr\'' in told
    assert "on_bad = 'skip'" in told
    (tmp_path / "mixed.json").write_text('{"k": 1}\n{"k": "two"}\n')
    told = failure(source_of, tmp_path / "mixed.json", "a")
    assert "'k' is of type number in some rows, and string in others" in told
    (tmp_path / "array.json").write_text('[\n{"k": 1},\n{"k": 2}]\n')
    assert "without [ and ] around them" in failure(source_of, tmp_path / "array.json", "a")
    for path in ("cut.json", "mixed.json", "array.json"):
        (tmp_path / path).unlink()
    (tmp_path / "what.xyz").write_text("")
    assert "not clear from its name" in failure(source_of, tmp_path / "what.xyz", "a")
    (tmp_path / "sub").mkdir()
    assert "holds no" in failure(source_of, tmp_path / "sub", "a")
    assert "several formats" in failure(source_of, tmp_path, "a")


def test_a_file_with_only_a_header_has_no_rows_and_no_say_in_the_types(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("k,ts\n")
    declared = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])
    alone = source_with("a", {"path": str(tmp_path / "1.csv")}, declared)
    assert sum(batch.num_rows for batch in alone.batches(10)) == 0
    (tmp_path / "2.csv").write_text("k,ts\n1,2026-01-01 00:00:00\n")
    (tmp_path / "3.csv").write_text("k,ts\n")
    both = source_of(tmp_path, "a")
    assert pa.types.is_integer(both.schema.field("k").type)
    assert pa.types.is_timestamp(both.schema.field("ts").type)
    assert sum(batch.num_rows for batch in both.batches(10)) == 1


def test_a_file_cut_short_while_it_is_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pa_parquet.write_table(TABLE, path, compression="none")
    source = source_of(path, "a")
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(200) + whole[204:])
    assert "a.parquet cannot be read" in failure(lambda: source)
    path.unlink()
    assert "there is no file" in failure(lambda: source)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pa_parquet.write_table(TABLE, path)
    path.chmod(0)
    assert "permission denied" in failure(source_of, path, "a")


def test_options_that_make_no_sense_say_what_would_do(tmp_path: Path) -> None:
    assert "'parquet', 'csv', 'tsv' or 'json'" in failure(
        source_with, "a", {"source": "carrier pigeons", "path": "x"}, None
    )
    assert "has no path" in failure(source_with, "a", {"source": "csv"}, None)
    (tmp_path / "a.csv").write_text("a\n1\n")
    for option in ({"header": "maybe"}, {"delimiter": "--"}):
        given = {"source": "csv", "path": str(tmp_path / "a.csv"), **option}
        assert "must be" in failure(source_with, "a", given, None)


@pytest.mark.parametrize("read", ["time", "arrival"])
def test_a_run_reads_the_files_that_are_there_when_it_starts(tmp_path: Path, read: str) -> None:
    """Those that came after the stream was declared, and not those that went."""
    for number in (1, 2):
        pa_parquet.write_table(TABLE.slice(number, 1), tmp_path / f"{number}.parquet")
    session = wm.Session()
    session.stream("s", tmp_path, time="ts", read=read)
    session.table("t", tmp_path)
    rows, joined = session.sql("SELECT k FROM s"), session.sql("SELECT s.k FROM s, t WHERE s.k = t.k")
    (tmp_path / "2.parquet").unlink()
    pa_parquet.write_table(TABLE.slice(0, 1), tmp_path / "0.parquet")
    there = sorted(TABLE["k"].to_pylist()[:2])
    assert sorted(rows.to_arrow()["k"].to_pylist()) == there
    assert sorted(joined.to_arrow()["k"].to_pylist()) == there
    pa_parquet.write_table(pa.table({"k": ["text"], "ts": TABLE["ts"][:1]}), tmp_path / "0.parquet")
    with pytest.raises(SourceError, match=r"'k' is string in .*0\.parquet, but int64 when 's' was declared"):
        rows.to_arrow()


PRICED = pa.schema([("k", pa.int64()), ("price", pa.decimal128(6, 2)), ("ts", pa.timestamp("us"))])


def test_rows_may_be_dicts(tmp_path: Path) -> None:
    at = datetime(2026, 1, 1)
    given = [{"k": 1, "ts": at, "price": Decimal("1.5")}, {"ts": at, "price": None, "more": "x"}]
    found = read(source_of(given, "a"))
    assert found.schema.names == ["k", "ts", "price", "more"]
    assert found.to_pylist() == [
        {"k": 1, "ts": at, "price": Decimal("1.5"), "more": None}, {"k": None, "ts": at, "price": None, "more": "x"}
    ]  # fmt: skip
    # As they are pushed: text for decimals and times, and columns that were not declared are left.
    texts = [{"k": 1, "ts": "2026-01-01T00:00:00", "price": "1.5", "more": "x"}, {"k": 2, "ts": at, "price": 2}]
    for rows in (texts[:1], texts[1:]):
        assert read(source_of(rows, "a", PRICED)).schema == PRICED
    assert read(source_of(texts[:1], "a", PRICED))["price"].to_pylist() == [Decimal("1.50")]
    columns = {"k": [1, 2], "ts": [at, at], "price": [1.25, "2"]}
    assert read(source_of(columns, "a", PRICED))["price"].to_pylist() == [Decimal("1.25"), Decimal("2.00")]
    assert read(source_of([], "a", PRICED)).num_rows == 0


def test_dicts_that_make_no_columns_are_refused() -> None:
    assert "is given no rows, so its columns are unknown\nhint: say them: schema={…}" in failure(source_of, [], "a")
    told = failure(source_of, [{"k": 1}, {"k": "two"}], "a")
    assert "the values given for column 'k' of stream a are of no one type" in told
    assert "stream 'a' has a column 'price', but what was given has none" in failure(
        source_of, [{"k": 1, "ts": None}], "a", PRICED
    )
    with pytest.raises(WatersmeetError, match=r"and '1.005' has 3 digits behind the point"):
        source_of([{"k": 1, "ts": None, "price": "1.005"}], "a", PRICED)
    assert "list of int" in failure(source_of, [{"k": 1}, 5], "a")


def test_an_empty_csv_file_is_told_and_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    source = source_with("a", {"path": str(tmp_path / "a.csv")}, PRICED)
    with pytest.warns(ConnectorWarning, match=r"empty_file: .*a.csv is empty: there is not even a header in it"):
        assert list(source.batches(10)) == []


@pytest.mark.parametrize("columns", [PRICED, None])
def test_what_is_wrong_behind_the_first_block_is_told_by_its_row(tmp_path: Path, columns: pa.Schema | None) -> None:
    lines = [f'{{"k": {k}, "price": "1.5", "ts": "2026-01-01T00:00:00"}}' for k in range(40_000)]
    (tmp_path / "a.json").write_text("\n".join([*lines, '{"k": 1, "pri']))
    told = failure(source_with, "a", {"path": str(tmp_path / "a.json")}, columns)
    assert "a.json cannot be read: row 40,001 is wrong: it is cut off" in told
    lines = [f"{k},1.5,2026-01-01 00:00:00" for k in range(60_000)]
    (tmp_path / "a.csv").write_text("\n".join(["k,price,ts", *lines, "1,2"]))
    told = failure(source_with, "a", {"path": str(tmp_path / "a.csv")}, columns)
    assert "a.csv cannot be read: row 60,001 after the header is wrong: it has 2 values for 3 columns" in told


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("much", "'k' is BIGINT, but"),
        (2**64, f"'k' is BIGINT, but {2**64} is there"),
        (1.5, "'k' is BIGINT, but 1.5 is there"),
    ],
)
def test_a_value_of_json_that_its_column_cannot_hold_is_told_with_its_row(
    tmp_path: Path, value: object, words: str
) -> None:
    rows = [{"k": 1, "price": 1.5, "ts": "2026-01-01T00:00:00"}, {"k": value, "price": "2", "ts": None}]
    (tmp_path / "a.json").write_text("".join(json.dumps(one) + "\n" for one in rows))
    told = failure(source_with, "a", {"path": str(tmp_path / "a.json")}, PRICED)
    assert f"a.json cannot be read: row 2 is wrong: {words}" in told


def test_decimals_of_files_are_text_or_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '{"k": 1, "price": "1.50"}\n{"k": 2, "price": 2}\n{"k": 3, "price": 3.25}\n{"k": 4, "ts": null}\n'
    )
    (tmp_path / "a.csv").write_text('k,price,ts\n1,"1.50",\n2,2,\n3,3.25,\n4,,\n')
    for name in ("a.json", "a.csv"):
        found = read(source_with("a", {"path": str(tmp_path / name)}, PRICED))["price"].to_pylist()
        assert found == [Decimal("1.50"), Decimal("2.00"), Decimal("3.25"), None]


def test_a_decimal_that_is_too_fine_is_told_with_its_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,price,ts\n1,1.50,\n2,1.505,\n")
    told = failure(source_with, "a", {"path": str(tmp_path / "a.csv")}, PRICED)
    assert (
        "row 2 after the header is wrong: 'price' is DECIMAL(6, 2), but '1.505' is there, which has more than 2" in told
    )


def test_a_ragged_row_with_a_very_long_value_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"k,price,ts\n1,1.50,\n2,{'x' * 200_000},,\n")
    told = failure(source_with, "a", {"path": str(tmp_path / "a.csv")}, PRICED)
    assert "row 2 after the header is wrong: " in told


def test_columns_of_a_table_that_nobody_looks_at_are_left_out_unless_they_may_be_wrong() -> None:
    table = pa.table({"k": [1, 2], "x": [3, None], "ts": [5, 6]})
    batches = TableSource(table, table.schema).only({"ts", "k", "elsewhere"}).batches(10)
    assert [batch.to_pydict() for batch in batches] == [{"k": [1, 2], "ts": [5, 6]}]
    assert TableSource(table, table.schema).only(()).schema.names == ["k"]
    declared = pa.schema([table.schema.field("k"), pa.field("x", pa.int64(), nullable=False), table.schema.field("ts")])
    with pytest.raises(DataError, match="'x' is declared NOT NULL"):
        list(TableSource(table, declared).only({"k", "ts"}).batches(10))
