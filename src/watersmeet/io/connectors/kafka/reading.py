"""Which columns a stream has of a topic, and what decodes them, by the options of WITH (…)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from watersmeet.errors import OptionError, SourceError
from watersmeet.io.connectors.contract import SourceOpening
from watersmeet.io.connectors.kafka.decoding.contract import Decoder
from watersmeet.io.connectors.kafka.decoding.csv import CsvDecoder
from watersmeet.io.connectors.kafka.decoding.json import JsonDecoder
from watersmeet.io.connectors.kafka.decoding.raw import RawDecoder
from watersmeet.io.connectors.kafka.records import METADATA, RECORD_TIME, check_metadata
from watersmeet.io.connectors.kafka.rows import RowMaker, of_record
from watersmeet.io.formats import null_values
from watersmeet.model.names import column_named, nearest
from watersmeet.model.types import is_bytes, is_text

VALUE = "value"


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


def _json(opening: SourceOpening, columns: pa.Schema | None) -> Decoder:
    return JsonDecoder(declared(opening, columns))


def _csv(opening: SourceOpening, columns: pa.Schema | None) -> Decoder:
    delimiter = opening.options.get("delimiter", ",").replace("\\t", "\t")
    if len(delimiter) != 1:
        raise OptionError(f"delimiter = {delimiter!r} must be one character, for example ';' or '\\t'")
    return CsvDecoder(declared(opening, columns), delimiter, null_values(opening.options))


def _raw(opening: SourceOpening, columns: pa.Schema | None) -> Decoder:
    columns = pa.schema([(VALUE, pa.binary())]) if columns is None else columns
    if len(columns) != 1 or not (is_text(columns.field(0).type) or is_bytes(columns.field(0).type)):
        raise SourceError(
            f"a record of stream {opening.name!r} is one raw value, but {len(columns)} columns are declared for it",
            hint="declare one column of BINARY or STRING, beside those of the record: " + ", ".join(METADATA),
        )
    return RawDecoder(columns)


FORMATS: dict[str, Callable[[SourceOpening, pa.Schema | None], Decoder]] = {
    "json": _json,
    "csv": _csv,
    "raw": _raw,
}


def _no_format(name: str, kind: str) -> OptionError:
    known = ", ".join(map(repr, FORMATS))
    near = nearest(kind, FORMATS)
    told = f"there is no format {kind!r} for stream {name!r}" if kind else f"stream {name!r} does not say its format"
    way = f"did you mean {near!r}? " if near else ""
    return OptionError(told, hint=f"{way}format may be {known}", option="format")


__all__ = ["FORMATS", "of_record", "row_maker", "value_columns"]
