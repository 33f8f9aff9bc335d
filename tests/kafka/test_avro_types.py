"""Every type of Avro means the same, whether records are read together or one by one, and wherever it stands."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from tests.kafka.test_avro_shape import _records
from watersmeet.io.connectors.kafka.decoding.avro import AvroDecoder
from watersmeet.io.connectors.kafka.decoding.avro_columns import is_flat, read_columns
from watersmeet.io.connectors.kafka.decoding.avro_fits import columns_of, kinds_of
from watersmeet.io.connectors.kafka.decoding.avro_types import settled

JAN = datetime(2026, 1, 1, tzinfo=UTC)
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
LEAVES: dict[str, tuple[Any, Any, Any]] = {
    "long": ("long", 5, 5),
    "text": ("string", "ä", "ä"),
    "bytes": ("bytes", b"a", b"a"),
    "truth": ("boolean", True, True),
    "double": ("double", 0.5, 0.5),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, b"ab", b"ab"),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1}, Decimal("-1.5"), Decimal("-1.5"),
    ),
    "fixed decimal": (
        {"type": "fixed", "name": "D", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 2},
        Decimal("99999999999999999999.25"), Decimal("99999999999999999999.25"),
    ),
    "date": ({"type": "int", "logicalType": "date"}, date(2026, 1, 2), date(2026, 1, 2)),
    "millis": (MILLIS, JAN, JAN),
    "local": ({"type": "long", "logicalType": "local-timestamp-micros"}, datetime(2026, 1, 1), datetime(2026, 1, 1)),
    "time": ({"type": "int", "logicalType": "time-millis"}, time(1, 2, 3), time(1, 2, 3)),
    "uuid": ({"type": "string", "logicalType": "uuid"}, UUID(int=7), str(UUID(int=7))),
    "too many digits": ({"type": "bytes", "logicalType": "decimal", "precision": 40}, Decimal(5), b"\x05"),
    "months": ({"type": "fixed", "name": "M", "size": 12, "logicalType": "duration"}, b"m" * 12, b"m" * 12),
    "null": ("null", None, None),
}  # fmt: skip


def shapes(kind: Any, value: Any, meant: Any) -> Iterator[tuple[str, Any, list[Any], list[Any]]]:
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": kind}, {"name": "b", "type": "int"}]}
    yield "alone", kind, [value], [meant]
    if kind != "null":
        yield "or null", ["null", kind], [value, None], [meant, None]
        yield "null last", [kind, "null"], [None, value], [None, meant]
        yield "items or null", {"type": "array", "items": ["null", kind]}, [[value, None], []], [[meant, None], []]
    yield "items", {"type": "array", "items": kind}, [[value], []], [[meant], []]
    yield "in a record", inner, [{"a": value, "b": 1}], [{"a": meant, "b": 1}]
    yield "in one or null", ["null", inner], [{"a": value, "b": 1}, None], [{"a": meant, "b": 1}, None]
    yield "in a map", {"type": "map", "values": kind}, [{"x": value}], [[("x", meant)]]


def written(schema: dict[str, Any], rows: list[dict[str, Any]]) -> list[bytes]:
    parsed, made = fastavro.parse_schema(dict(schema), named_schemas={}), []
    for row in rows:
        text = io.BytesIO()
        fastavro.schemaless_writer(text, parsed, row)
        made.append(text.getvalue())
    return made


@pytest.mark.parametrize("name", LEAVES)
def test_a_type_is_the_same_wherever_it_stands_and_however_it_is_read(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for shape, kind, values, meant in shapes(*LEAVES[name]):
        fields = [{"name": "ts", "type": MILLIS}, {"name": "x", "type": kind}]
        schema = {"type": "record", "name": "R", "fields": fields}
        records = written(schema, [{"ts": JAN, "x": one} for one in values])
        writer = settled(schema)
        found = kinds_of(writer)
        assert found["x"] is not None
        wanted = pa.schema([("ts", pa.timestamp("us")), ("x", found["x"])])
        rows = AvroDecoder(wanted, writer).decode(_records(records)).rows
        assert rows["x"].to_pylist() == meant, shape
        assert rows["ts"].to_pylist() == [JAN.replace(tzinfo=None)] * len(values), shape
        # One that is cut off lets all be looked at, of which the others stay as they are.
        mixed = AvroDecoder(wanted, writer).decode(_records([*records, records[0][:3]]))
        assert mixed.rows.equals(rows), shape
        assert [one.reason for one in mixed.bad] == ["not avro"]
        assert not is_flat(writer) or read_columns(writer, records, wanted.names) is not None, shape
    assert capfd.readouterr().err == ""


def test_a_type_by_its_name_is_the_one_that_was_written_before() -> None:
    place = {"type": "record", "name": "Place", "namespace": "geo", "fields": [{"name": "city", "type": "string"}]}
    fields = [{"name": "home", "type": place}, {"name": "work", "type": ["null", "geo.Place"]}]
    schema = {"type": "record", "name": "R", "fields": fields}
    columns = columns_of(settled(schema))
    assert columns is not None
    rows = [{"home": {"city": "Lyon"}, "work": None}, {"home": {"city": "Lyon"}, "work": {"city": "Porto"}}]
    assert AvroDecoder(columns, settled(schema)).decode(_records(written(schema, rows))).rows.to_pylist() == rows


def test_a_type_within_itself_is_read_and_tells_no_columns() -> None:
    fields = [{"name": "ts", "type": MILLIS}, {"name": "next", "type": ["null", "R"]}]
    schema = {"type": "record", "name": "R", "fields": fields}
    assert columns_of(settled(schema)) is None
    rows = [{"ts": JAN, "next": {"ts": JAN, "next": None}}]
    columns = pa.schema([("ts", pa.timestamp("us")), ("next", pa.struct([("ts", pa.timestamp("us"))]))])
    found = AvroDecoder(columns, settled(schema)).decode(_records(written(schema, rows))).rows.to_pylist()
    at = JAN.replace(tzinfo=None)
    assert found == [{"ts": at, "next": {"ts": at}}]


@pytest.mark.parametrize("of_several", [False, True])
def test_a_number_is_no_time_and_a_value_that_a_column_cannot_hold_is_told_alone(of_several: bool) -> None:
    kind = ["string", "long"] if of_several else "long"
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": kind}]}
    records = written(schema, [{"n": 1}, {"n": 2**40}, {"n": 3}])
    small = AvroDecoder(pa.schema([("n", pa.int32())]), settled(schema)).decode(_records(records))
    assert small.rows["n"].to_pylist() == [1, 3]
    assert [(one.place, one.reason) for one in small.bad] == [(1, "wrong type")]
    times = AvroDecoder(pa.schema([("n", pa.timestamp("us"))]), settled(schema)).decode(_records(records))
    assert times.rows.num_rows == 0
    assert [one.reason for one in times.bad] == ["wrong type"] * 3
