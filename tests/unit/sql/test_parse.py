"""Text to syntax: every spelling of the language, with offsets into the text."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.errors import ParseError, SqlError
from watersmeet.model.windows import Range, RowsWindow, Unbounded, Window
from watersmeet.sql import parse_query, parse_script
from watersmeet.sql.syntax import Compound, CreateSink, CreateStream, CreateTable, QuerySyntax, SelectSyntax


def select(text: str) -> SelectSyntax:
    body = parse_query(text).body
    assert isinstance(body, SelectSyntax)
    return body


@pytest.mark.parametrize(
    ("written", "us"),
    [
        ("30 SECONDS", 30_000_000),
        ("INTERVAL '30' SECOND", 30_000_000),
        ("INTERVAL 30 SECONDS", 30_000_000),
        ("INTERVAL '30 seconds'", 30_000_000),
        ("'30 seconds'", 30_000_000),
        ("'1 hour 30 minutes'", 5_400_000_000),
        ("1 HOUR 30 MINUTES", 5_400_000_000),
        ("0.5 SECONDS", 500_000),
        ("500 MILLISECONDS", 500_000),
        ("2 s", 2_000_000),
        ("1 day", 86_400_000_000),
    ],
)
def test_every_spelling_of_an_interval_means_the_same_in_every_place(written: str, us: int) -> None:
    text = (
        f"SELECT RSTREAM k FROM a [RANGE {written}], b WINDOW (a, b) = {written} AND WINDOW = {written} EVERY {written}"
    )
    parsed = select(text)
    assert parsed.sources[0].window is not None
    assert parsed.sources[0].window.window == Range(us)
    assert [constraint.sizes_us for constraint in parsed.constraints] == [(us,), (us,)]
    assert parsed.every is not None
    assert parsed.every.us == us


@pytest.mark.parametrize(
    ("written", "window", "keys"),
    [
        ("RANGE 5 SECONDS", Range(5_000_000), []),
        ("ROWS 100", RowsWindow(100), []),
        ("PARTITION BY k ROWS 10", RowsWindow(10), ["k"]),
        ("partition by k, j rows 10", RowsWindow(10), ["k", "j"]),
        ("NOW", Range(0), []),
        ("UNBOUNDED", Unbounded(), []),
        ("RANGE UNBOUNDED", Unbounded(), []),
    ],
)
@pytest.mark.parametrize("shape", ["orders [{}] AS o", "orders [{}] o", "orders AS o [{}]", "orders o [{}]"])
def test_a_window_may_stand_before_or_after_the_alias(
    shape: str, written: str, window: Window, keys: list[str]
) -> None:
    source = select(f"SELECT * FROM {shape.format(written)}").sources[0]
    assert source.alias is not None
    assert source.alias.text == "o"
    assert source.window is not None
    assert source.window.window == window
    assert [name.text for name in source.window.partition_by] == keys


def test_window_constraints_may_stand_before_where_after_it_and_inside_it() -> None:
    for text in (
        "SELECT * FROM a, b WINDOW (a, b) = 5 SECONDS WHERE a.k = b.k",
        "SELECT * FROM a, b WHERE a.k = b.k WINDOW (a, b) = 5 SECONDS",
        "SELECT * FROM a, b WHERE a.k = b.k",
    ):
        assert len(select(text).constraints) == ("WINDOW" in text)
    inside = select("SELECT * FROM a, b WHERE a.k = b.k AND DWINDOW (a, b) = 5 SECONDS")
    assert "DWINDOW" not in str(inside.constraints)
    assert inside.where is not None


def test_intersect_binds_tighter_than_union() -> None:
    body = parse_query("SELECT 1 FROM a UNION SELECT 2 FROM b INTERSECT ALL SELECT 3 FROM c").body
    assert isinstance(body, Compound)
    assert (body.kind, body.all) == ("union", False)
    assert isinstance(body.right, Compound)
    assert (body.right.kind, body.right.all) == ("intersect", True)


def test_create_statements_hold_schema_and_options() -> None:
    text = """
    CREATE STREAM s (k BIGINT NOT NULL, price DECIMAL(10, 2), "At" TIMESTAMP)   -- a comment
      WITH (source='kafka', kafka.topic = 'x', 'a-b' = 3, lateness = 2 seconds, fast = true);
    CREATE TABLE t WITH (path = 'it''s.parquet');
    /* another */ CREATE SINK out WITH (sink='parquet') AS SELECT k FROM s OPTIONS (join = hash);
    SELECT * FROM s
    """
    stream, table, sink, query = parse_script(text)
    assert isinstance(stream, CreateStream)
    assert stream.schema == pa.schema(
        [pa.field("k", pa.int64(), False), ("price", pa.decimal128(10, 2)), ("At", pa.timestamp("us"))]
    )
    assert stream.options == {
        "source": "kafka", "kafka.topic": "x", "a-b": "3", "lateness": "2 seconds", "fast": "true",
    }  # fmt: skip
    assert isinstance(table, CreateTable)
    assert table.schema is None
    assert table.options == {"path": "it's.parquet"}
    assert isinstance(sink, CreateSink)
    assert text[slice(*sink.query.span)] == "SELECT k FROM s OPTIONS (join = hash)"
    assert isinstance(query, QuerySyntax)
    assert text[slice(*query.span)] == "SELECT * FROM s"


def test_options_may_be_strings_numbers_words_and_lists() -> None:
    settings = parse_query("SELECT * FROM a OPTIONS (join = hash, memory='10 rows', buckets=8, order=(a, b))").settings
    assert {s.name: s.value for s in settings} == {
        "join": "hash",
        "memory": "10 rows",
        "buckets": "8",
        "order": "(a, b)",
    }


def test_words_of_the_language_are_still_names_where_nothing_else_fits() -> None:
    parsed = select('SELECT istream, rows, path, "window", now FROM range AS stream')
    assert parsed.stream_word is None
    assert len(parsed.items) == 5
    assert select("SELECT ISTREAM k FROM a").stream_word == "istream"


def test_spans_are_offsets_into_the_original_text() -> None:
    text = "SELECT a.k + 1 AS n -- µ\nFROM a [RANGE 5 SECONDS] /* é */ AS x WINDOW PATH (x, y) = (5 s)"
    parsed = select(text)
    assert text[slice(*parsed.items[0].span)] == "a.k + 1 AS n"
    assert text[slice(*parsed.constraints[0].span)] == "WINDOW PATH (x, y) = (5 s)"
    window = parsed.sources[0].window
    assert window is not None
    assert text[slice(*window.span)] == "[RANGE 5 SECONDS]"


@pytest.mark.parametrize("text", ["", "  -- only a comment\n", ";;"])
def test_an_empty_text_is_no_query(text: str) -> None:
    assert parse_script(text) == []
    with pytest.raises(ParseError, match="empty"):
        parse_query(text)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE STREAM s (k BIGINT, K INT) WITH (time='ts')",
        "CREATE STREAM s (k) WITH (time='ts')",
        "CREATE STREAM s (k BIGINT)",
        "CREATE STREAM s WITH (time='ts') AS SELECT * FROM a",
        "CREATE SINK s WITH (sink='x') AS",
        "CREATE TABLE t WITH (a = 'x' b = 'y')",
        "CREATE TABLE t WITH (a = )",
        "SELECT k FROM a [RANGE 5 SECONDS",
        "SELECT k FROM (SELECT k FROM a OPTIONS (join = hash)) AS d",
    ],
)
def test_what_is_not_in_the_language_is_refused_with_a_place(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse_script(text)
    assert caught.value.span is not None
