"""Which columns a stream has of a topic, and what decodes them, by the options of WITH (…)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError, SetupError, SourceError
from watersmeet.io.conform import check_columns
from watersmeet.io.connectors.contract import SourceOpening
from watersmeet.io.connectors.kafka.client import Cluster
from watersmeet.io.connectors.kafka.decoding.changes import DebeziumDecoder, UpsertDecoder
from watersmeet.io.connectors.kafka.decoding.contract import Decoder
from watersmeet.io.connectors.kafka.decoding.csv import CsvDecoder
from watersmeet.io.connectors.kafka.decoding.json import JsonDecoder
from watersmeet.io.connectors.kafka.decoding.moments import TimeColumn, time_column
from watersmeet.io.connectors.kafka.decoding.raw import RawDecoder
from watersmeet.io.connectors.kafka.offsets import Start
from watersmeet.io.connectors.kafka.records import METADATA, RECORD_TIME, check_metadata
from watersmeet.io.connectors.kafka.rows import RowMaker
from watersmeet.io.connectors.kafka.schemas import avro_schema, file_of, wire_of
from watersmeet.io.formats import delimiter_of, null_values
from watersmeet.model.names import column_named, nearest
from watersmeet.model.types import is_bytes, is_text, sql_type
from watersmeet.model.versions import parse_key

VALUE = "value"


@dataclass(frozen=True)
class Reading:
    """What is read, and how: all that a reader elsewhere must know."""

    stream: str
    cluster: Cluster
    topic: str
    start: Start
    rows: RowMaker
    group: str | None = None
    label: str = ""


def row_maker(opening: SourceOpening) -> tuple[RowMaker, str]:
    """What makes rows of records, and a word for people on how."""
    kind = opening.options.get("format", "").lower()
    make = FORMATS.get(kind)
    if make is None:
        raise _no_format(opening.name, kind)
    decoder = make(opening, value_columns(opening))
    schema = _schema(opening, decoder.schema)
    time = None if opening.time is None else column_named(opening.time, schema.names)
    refuses = opening.options.get("on_null", "error") == "error"
    return RowMaker(opening.name, schema, decoder, time, refuses), kind


def value_columns(opening: SourceOpening) -> pa.Schema | None:
    """The declared columns that a record's value holds, as they are there: an event time that is a number or text of a
    format is read by the engine."""
    if opening.columns is None:
        return None
    for field in opening.columns:
        check_metadata(opening.name, field)
    return pa.schema([_as_written(opening, field) for field in opening.columns if not _is_of_record(opening, field)])


def _is_of_record(opening: SourceOpening, field: pa.Field) -> bool:
    return field.name in METADATA or (field.name == RECORD_TIME == opening.time)


def _as_written(opening: SourceOpening, field: pa.Field) -> pa.Field:
    said = opening.options
    if field.name.lower() != (opening.time or "").lower() or not pa.types.is_timestamp(field.type):
        return pa.field(field.name, field.type)
    if "time_format" in said or ("time_zone" in said and "time_unit" not in said):
        return pa.field(field.name, pa.string())
    return pa.field(field.name, pa.int64() if "time_unit" in said else field.type)


def _schema(opening: SourceOpening, decoded: pa.Schema) -> pa.Schema:
    """All columns: in the order in which they were declared, else those of the value."""
    columns = decoded if opening.columns is None else opening.columns
    order = columns.names
    fields = [(decoded if one in decoded.names else columns).field(one) for one in order]
    if opening.time == RECORD_TIME and RECORD_TIME not in order:
        fields.append(pa.field(RECORD_TIME, pa.timestamp("us")))
    return pa.schema(fields)


def declared(opening: SourceOpening, columns: pa.Schema | None) -> pa.Schema:
    if columns is None:
        raise SourceError(
            f"stream {opening.name!r} does not say its columns, and a topic of {opening.options['format']} does not "
            "tell them",
            hint=f"write CREATE STREAM {opening.name} (id BIGINT, ts TIMESTAMP, …) WITH (…)",
        )
    return columns


def _no_maps(opening: SourceOpening, columns: pa.Schema) -> pa.Schema:
    wrong = next((one for one in columns if _has_map(one.type)), None)
    if wrong is None:
        return columns
    raise SourceError(
        f"column {wrong.name!r} of stream {opening.name!r} is {sql_type(wrong.type)}, and no map is made of JSON",
        hint="declare the keys that are wanted: STRUCT(a INT, …); or take records as text, with format = 'raw' and a "
        "STRING, and ask for what they hold: value ->> '$.m.a'",
    )


def _has_map(kind: pa.DataType) -> bool:
    inner = [kind.field(place).type for place in range(kind.num_fields)]
    return bool(pa.types.is_map(kind)) or any(_has_map(one) for one in inner)


def _json(opening: SourceOpening, columns: pa.Schema | None) -> Decoder:
    return JsonDecoder(_no_maps(opening, declared(opening, columns)))


def _csv(opening: SourceOpening, columns: pa.Schema | None) -> Decoder:
    delimiter = delimiter_of(opening.options)
    columns = declared(opening, columns)
    wrong = next((one for one in columns if pa.types.is_nested(one.type)), None)
    if wrong is not None:
        raise SourceError(
            f"column {wrong.name!r} of stream {opening.name!r} is {sql_type(wrong.type)}, which no value of CSV is",
            hint="declare it STRING",
        )
    return CsvDecoder(columns, delimiter, null_values(opening.options))


def _raw(opening: SourceOpening, columns: pa.Schema | None) -> Decoder:
    columns = pa.schema([(VALUE, pa.binary())]) if columns is None else columns
    if len(columns) != 1 or not (is_text(columns.field(0).type) or is_bytes(columns.field(0).type)):
        raise SourceError(
            f"a record of stream {opening.name!r} is one raw value, but {len(columns)} columns are declared for it",
            hint="declare one column of BINARY or STRING, beside those of the record: " + ", ".join(METADATA),
        )
    return RawDecoder(columns)


def _avro(opening: SourceOpening, columns: pa.Schema | None) -> Decoder:
    with _extra("avro"):
        from watersmeet.io.connectors.kafka.decoding.avro import AvroDecoder
        from watersmeet.io.connectors.kafka.decoding.avro_fits import columns_of, kinds_of, misfit
        from watersmeet.io.connectors.kafka.decoding.avro_types import settled
    wire, given = wire_of(opening.name, opening.options), avro_schema(opening.name, opening.options)
    writer = None if given is None else settled(given)
    if writer is None and wire.registry is None:
        raise SourceError(
            f"stream {opening.name!r} does not say the schema of its Avro records",
            hint="add schema = '{\"type\": \"record\", …}', schema_file = '…' or registry = 'http://…'",
        )
    found = None if writer is None else columns_of(writer)
    if columns is None and found is None:
        raise SourceError(
            f"stream {opening.name!r} does not say its columns, and "
            + (
                "each of its records has a schema of its own"
                if writer is None
                else "its schema of Avro has a map, a "
                "union of several types or a type within itself, of which none are made"
            ),
            hint=f"write CREATE STREAM {opening.name} (id BIGINT, ts TIMESTAMP, m MAP(STRING, INT), …) WITH (…)",
        )
    if columns is None or found is None:
        wrong = None if columns is None or writer is None else misfit(kinds_of(writer), columns)
        if wrong is not None:
            raise SourceError(f"stream {opening.name!r}: {wrong}", hint="declare it so, and CAST it in the query")
        return AvroDecoder(found if columns is None else columns, writer, wire)
    check_columns(found, _as_instants(columns, found), opening.name, "its schema of Avro")
    return AvroDecoder(columns, writer, wire)


def _as_instants(columns: pa.Schema, found: pa.Schema) -> pa.Schema:
    """Times of Avro are instants in UTC, which a TIMESTAMP without a zone takes as they are."""
    both = [
        one.with_type(found.field(one.name).type)
        if one.name in found.names
        and pa.types.is_timestamp(one.type)
        and pa.types.is_timestamp(found.field(one.name).type)
        else one
        for one in columns
    ]
    return pa.schema(both)


def _protobuf(opening: SourceOpening, columns: pa.Schema | None) -> Decoder:
    with _extra("protobuf"):
        from watersmeet.io.connectors.kafka.decoding.protobuf import ProtobufDecoder, kinds_of
    wire, message = wire_of(opening.name, opening.options), opening.options.get("message")
    if message is None or ("schema_file" in opening.options) == (wire.registry is not None):
        raise SourceError(
            f"stream {opening.name!r} does not say the type of its messages, once",
            hint="add message = 'package.Name', and either schema_file = '…', which protoc --include_imports "
            "--descriptor_set_out=… writes, or registry = 'http://…'",
        )
    if wire.registry is not None:
        return ProtobufDecoder(declared(opening, columns), None, message, wire)
    described = file_of(opening.name, opening.options)
    kinds = kinds_of(described, message)
    endless = next((name for name, kind in kinds.items() if kind is None), None)
    if endless is not None and (columns is None or endless in columns.names):
        raise SourceError(
            f"{endless!r} of message {message!r} holds messages of its own type, of which no column is made",
            hint=f"write CREATE STREAM {opening.name} (id BIGINT, …) WITH (…) without it",
        )
    found = pa.schema([(name, kind) for name, kind in kinds.items() if kind is not None])
    columns = found if columns is None else columns
    check_columns(found, columns, opening.name, f"message {message!r}")
    return ProtobufDecoder(columns, described, message, wire)


def _debezium(opening: SourceOpening, columns: pa.Schema | None) -> Decoder:
    columns = _no_maps(opening, declared(opening, columns))
    key, op = opening.options.get("key"), _op(opening, columns)
    if key is not None and op is None:
        raise _no_op(opening)
    return DebeziumDecoder(columns, opening.name, op, _time(opening, columns), key is not None)


def _upsert(opening: SourceOpening, columns: pa.Schema | None) -> Decoder:
    columns = _no_maps(opening, declared(opening, columns))
    if "key" not in opening.options:
        raise OptionError(
            f"a record of {opening.name!r} replaces the one before of its key, so its rows do not only come",
            hint="read it as a table with versions: CREATE TABLE … (…, op VARCHAR) WITH (…, key = '…', op = 'op')",
            option="format",
        )
    op = _op(opening, columns)
    if op is None:
        raise _no_op(opening)
    key = tuple(column_named(one, columns.names) or one for one in parse_key(opening.options["key"]))
    return UpsertDecoder(columns, key, op, _time(opening, columns))


def _time(opening: SourceOpening, columns: pa.Schema) -> TimeColumn:
    name = None if opening.time is None else column_named(opening.time, columns.names)
    return time_column(name, opening.options)


def _op(opening: SourceOpening, columns: pa.Schema) -> str | None:
    written = opening.options.get("op")
    return None if written is None else column_named(written, columns.names)


def _no_op(opening: SourceOpening) -> OptionError:
    return OptionError(
        f"{opening.name!r} has no column that says what is put there and what is taken away",
        hint="declare one, such as op VARCHAR, and say op = 'op'",
        option="op",
    )


@contextmanager
def _extra(kind: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise SetupError(
            f"topics of {kind} need {error.name}, which is not installed", hint="pip install 'watersmeet[kafka]'"
        ) from None


FORMATS: dict[str, Callable[[SourceOpening, pa.Schema | None], Decoder]] = {
    "json": _json,
    "avro": _avro,
    "csv": _csv,
    "protobuf": _protobuf,
    "raw": _raw,
    "debezium": _debezium,
    "upsert": _upsert,
}


def _no_format(name: str, kind: str) -> OptionError:
    known = ", ".join(map(repr, FORMATS))
    near = nearest(kind, FORMATS)
    message = f"there is no format {kind!r} for stream {name!r}" if kind else f"stream {name!r} does not say its format"
    way = f"did you mean {near!r}? " if near else ""
    return OptionError(message, hint=f"{way}format may be {known}", option="format")
