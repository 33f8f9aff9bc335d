"""Avro: many records are put into one block of a container file, which is read column by column.

All are walked before (avro_shape.py), as that reader panics over bytes that are not what their schema says. Behind each
record stands a token that nobody else knows: where it is not found, what follows was read askew. If either happens,
records are looked at one by one.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro
import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import SourceError
from watersmeet.io.connectors.bad_reasons import NO_VALUE, NOT_AVRO
from watersmeet.io.connectors.kafka.decoding.avro_shape import are_whole, steps_of
from watersmeet.io.connectors.kafka.decoding.contract import Bad, Decoded, Places
from watersmeet.io.connectors.kafka.decoding.registry import Wire
from watersmeet.io.connectors.kafka.records import Records

_TOKEN = "watersmeet_token"
_TOKEN_BYTES = 8
_SYNC = b"watersmeet-block"
_FLAT = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed"})


@dataclass(frozen=True)
class AvroDecoder:
    """`writer`: the schema of all records, unless a registry knows each one's. A column that a record's schema has not
    is NULL."""

    schema: pa.Schema
    writer: Mapping[str, Any] | None
    wire: Wire = field(default_factory=Wire)

    def decode(self, records: Records) -> Decoded:
        bad: list[Bad] = []
        batches: list[pa.RecordBatch] = []
        places: list[Places] = []
        for writer, kept, values in self._by_schema(records, bad):
            decoded = _Block(writer, self.schema).decode(values)
            batches.append(decoded.rows)
            places.append(kept[decoded.places])
            bad += [Bad(int(kept[one.place]), one.reason, one.detail) for one in decoded.bad]
        if not batches:
            return Decoded(pa.RecordBatch.from_pylist([], schema=self.schema), np.empty(0, np.int64), bad)
        rows, found = pa.concat_batches(batches), np.concatenate(places)
        if len(batches) > 1:  # in the order of the records
            order = np.argsort(found, kind="stable")
            rows, found = rows.take(pa.array(order)), found[order]
        return Decoded(rows, found, sorted(bad, key=lambda one: one.place))

    def _by_schema(self, records: Records, bad: list[Bad]) -> list[tuple[Mapping[str, Any], Places, list[bytes]]]:
        groups: dict[int, tuple[list[int], list[bytes]]] = {}
        for place, value in enumerate(records.values):
            split = None if value is None else self.wire.split(value)
            if split is None:
                detail = "the record has no value" if value is None else "it does not begin with the id of a schema"
                bad.append(Bad(place, NO_VALUE if value is None else NOT_AVRO, detail))
                continue
            known, payload = split
            some = groups.setdefault(known, ([], []))
            some[0].append(place)
            some[1].append(payload)
        return [
            (self.wire.schema(known, self.writer), np.array(kept, np.int64), values)
            for known, (kept, values) in groups.items()
        ]


class _Block:
    """Records of one schema."""

    def __init__(self, writer: Mapping[str, Any], wanted: pa.Schema) -> None:
        self._writer, self._wanted = writer, wanted
        self._steps = steps_of(writer) if is_flat(writer) else None
        self._token = os.urandom(_TOKEN_BYTES)

    def decode(self, values: Sequence[bytes]) -> Decoded:
        rows = self._together(values)
        if rows is not None:
            return Decoded(rows, np.arange(len(values)))
        found, bad = self._one_by_one(values)
        kept = np.array(list(found), np.int64)
        rows = self._together([values[place] for place in found]) if found else None
        if rows is not None:
            return Decoded(rows, kept, bad)
        names = self._wanted.names
        plain = [{name: row.get(name) for name in names} for row in found.values()]
        try:
            rows = pa.RecordBatch.from_pylist(plain, self._wanted)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise SourceError(f"records of Avro do not fit the declared columns: {error}") from None
        return Decoded(rows, kept, bad)

    def _together(self, values: Sequence[bytes]) -> pa.RecordBatch | None:
        """All of them at once; None if one of them is not what its schema says, or that cannot be seen beforehand."""
        if self._steps is None or not are_whole(values, self._steps).all():
            return None
        behind = _long(_TOKEN_BYTES) + self._token
        fields = [*self._writer["fields"], {"name": _TOKEN, "type": "bytes"}]
        text = container({**self._writer, "fields": fields}, len(values), behind.join(values) + behind)
        try:
            frame = polars.read_avro(io.BytesIO(text))
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException:  # such as text that is no UTF-8; a panic of Rust is no Exception
            return None
        tokens = frame[_TOKEN].to_arrow()
        if len(tokens) != len(values) or not pc.all(pc.equal(tokens, pa.scalar(self._token, tokens.type))).as_py():
            return None
        return as_declared(frame, self._wanted)

    def _one_by_one(self, values: Sequence[bytes]) -> tuple[dict[int, dict[str, Any]], list[Bad]]:
        """The rows that are good by their places, and the others."""
        if self._steps is None:
            whole, parsed = np.ones(len(values), np.bool_), fastavro.parse_schema(dict(self._writer))
        else:
            # Times and decimals as the numbers and bytes they are: some are more than Python's own types hold.
            whole, parsed = are_whole(values, self._steps), fastavro.parse_schema(_as_stored(self._writer))
        found: dict[int, dict[str, Any]] = {}
        bad: list[Bad] = []
        for place, value in enumerate(values):
            stream = io.BytesIO(value)
            try:
                row = fastavro.schemaless_reader(stream, parsed, None)
            except Exception as error:
                said = str(error).split("\n", 1)[0][:200] or "it ends too soon"
                bad.append(Bad(place, NOT_AVRO, f"it is not what its schema says: {said}"))
                continue
            left = len(value) - stream.tell()
            if left or not isinstance(row, dict):
                bad.append(Bad(place, NOT_AVRO, f"{left} bytes are left over behind what its schema says"))
            elif not whole[place]:
                bad.append(Bad(place, NOT_AVRO, "it is not what its schema says: a number is too large for its type"))
            else:
                found[place] = row
        return found, bad


def _as_stored(schema: Any) -> Any:
    """A schema without what its types stand for."""
    if isinstance(schema, list):
        return [_as_stored(one) for one in schema]
    if isinstance(schema, Mapping):
        return {name: _as_stored(one) for name, one in schema.items() if name != "logicalType"}
    return schema


def is_flat(schema: Any) -> bool:
    """Whether records are read column by column: no maps, and no unions of several types."""
    match schema:
        case str():
            return schema in _FLAT
        case [*kinds]:
            return len(kinds) <= 2 and "null" in kinds and all(is_flat(one) for one in kinds)
        case {"type": "record", "fields": fields}:
            return all(is_flat(one["type"]) for one in fields)
        case {"type": "array", "items": items}:
            return is_flat(items)
        case {"type": kind} if not isinstance(kind, str) or kind in _FLAT:
            return kind in _FLAT if isinstance(kind, str) else is_flat(kind)
    return False


def columns_of(schema: Mapping[str, Any]) -> pa.Schema | None:
    """The columns of a schema; None if only its records tell."""
    if not is_flat(schema):
        return None
    found = polars.read_avro(io.BytesIO(container(schema, 0, b""))).to_arrow().schema
    return pa.schema([pa.field(one.name, _plain(one.type)) for one in found])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _plain(one.type)) for one in kind])
    return kind


def as_declared(frame: Any, wanted: pa.Schema) -> pa.RecordBatch:
    table = frame.select([name for name in wanted.names if name in frame.columns]).to_arrow()
    columns = []
    for one in wanted:
        if one.name not in table.column_names:
            columns.append(pa.nulls(frame.height, one.type))
            continue
        column = table.column(one.name).combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if (
            pa.types.is_timestamp(column.type)
            and pa.types.is_timestamp(one.type)
            and column.type.tz
            and not one.type.tz
        ):
            column = column.cast(pa.timestamp(column.type.unit))
        try:
            columns.append(column.cast(one.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SourceError(f"column {one.name!r} of Avro records does not fit its declared type: {error}") from None
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def container(schema: Mapping[str, Any], count: int, data: bytes) -> bytes:
    """A container file of one block, or of none."""
    text = json.dumps(schema).encode()
    about = (("avro.schema", text), ("avro.codec", b"null"))
    head = b"Obj\x01" + _long(len(about))
    for name, value in about:
        head += _long(len(name)) + name.encode() + _long(len(value)) + value
    head += _long(0) + _SYNC
    return head + (_long(count) + _long(len(data)) + data + _SYNC if count else b"")


def _long(number: int) -> bytes:
    """A number as Avro writes it, seven bits at a time; never negative here."""
    left, made = number << 1, bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    made.append(left)
    return bytes(made)
