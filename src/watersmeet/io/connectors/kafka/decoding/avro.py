"""Avro: many records are read together, column by column (avro_columns.py).

All are walked before (avro_shape.py), as that reader panics over bytes that are not what their schema says. If one is
not, or that reader does not know their schema, records are looked at one by one.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.io.connectors.bad_reasons import NO_VALUE, NOT_AVRO, WRONG_TYPE
from watersmeet.io.connectors.kafka.decoding.avro_columns import is_flat, read_columns
from watersmeet.io.connectors.kafka.decoding.avro_fits import as_one_of, kinds_of, misfit
from watersmeet.io.connectors.kafka.decoding.avro_shape import are_whole, steps_of
from watersmeet.io.connectors.kafka.decoding.avro_types import as_stored, meant
from watersmeet.io.connectors.kafka.decoding.contract import Bad, Decoded, Places, UndecodableError, sorted_out
from watersmeet.io.connectors.kafka.decoding.registry import Wire
from watersmeet.io.connectors.kafka.records import Records
from watersmeet.model.types import sql_type

_WRONG_VALUE = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, OverflowError)


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
        found = []
        for known, (kept, values) in groups.items():
            writer = self.wire.schema(known, self.writer)
            if writer is None:
                bad += [Bad(place, NOT_AVRO, f"the registry knows no schema {known}") for place in kept]
            else:
                found.append((writer, np.array(kept, np.int64), values))
        return found


class _Block:
    """Records of one schema."""

    def __init__(self, writer: Mapping[str, Any], wanted: pa.Schema) -> None:
        self._writer, self._wanted = writer, wanted
        self._kinds = kinds_of(writer)
        self._steps = steps_of(writer) if is_flat(writer) else None

    def decode(self, values: Sequence[bytes]) -> Decoded:
        wrong = misfit(self._kinds, self._wanted)
        if wrong is not None:
            bad = [Bad(place, WRONG_TYPE, wrong) for place in range(len(values))]
            return Decoded(pa.RecordBatch.from_pylist([], schema=self._wanted), np.empty(0, np.int64), bad)
        frame = self._together(values)
        if frame is None:
            return self._sorted_out(values)
        try:
            return Decoded(self._as_declared(frame), np.arange(len(values)))
        except UndecodableError:
            return self._sorted_out(values)

    def _sorted_out(self, values: Sequence[bytes]) -> Decoded:
        found, bad = self._one_by_one(values)
        kept = np.array(list(found), np.int64)
        decoded = sorted_out([values[place] for place in found], self._wanted, self._rows, (NO_VALUE, ""))
        bad += [Bad(int(kept[one.place]), one.reason, one.detail) for one in decoded.bad]
        return Decoded(decoded.rows, kept[decoded.places], sorted(bad, key=lambda one: one.place))

    def _rows(self, values: Sequence[bytes]) -> pa.RecordBatch:
        """Of values that are what their schema says. Raises UndecodableError if a column cannot hold what is there."""
        frame = self._together(values)
        return self._as_declared(
            self._from_rows(list(self._one_by_one(values)[0].values())) if frame is None else frame
        )

    def _together(self, values: Sequence[bytes]) -> pa.Table | None:
        """All of them at once; None if one of them is not what its schema says, or that cannot be seen beforehand."""
        if self._steps is None or not are_whole(values, self._steps).all():
            return None
        return read_columns(self._writer, values, self._wanted.names)

    def _one_by_one(self, values: Sequence[bytes]) -> tuple[dict[int, dict[str, Any]], list[Bad]]:
        """The rows that are good by their places, and the others."""
        parsed = fastavro.parse_schema(self._stored())
        whole = np.ones(len(values), np.bool_) if self._steps is None else are_whole(values, self._steps)
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

    def _stored(self) -> dict[str, Any]:
        """Times and decimals as the numbers and bytes they are, as some are more than Python's own types hold; but
        where only a record tells which type it has of several, as what they stand for."""
        fields = [
            one if self._kinds[one["name"]] is None else {**one, "type": as_stored(one["type"])}
            for one in self._writer["fields"]
        ]
        return {**self._writer, "fields": fields}

    def _from_rows(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        columns = {}
        for one in self._writer["fields"]:
            name, kind = one["name"], self._kinds[one["name"]]
            if name not in self._wanted.names:
                continue
            try:
                if kind is None:
                    wanted = self._wanted.field(name).type
                    columns[name] = pa.array([as_one_of(row[name], wanted) for row in rows], wanted)
                else:
                    columns[name] = pa.array([meant(row[name], one["type"]) for row in rows], kind)
            except _WRONG_VALUE as error:
                raise _wrong(self._wanted.field(name), error) from None
        return pa.table(columns) if columns else pa.table({"": pa.nulls(len(rows))})

    def _as_declared(self, table: pa.Table) -> pa.RecordBatch:
        columns = []
        for one in self._wanted:
            if one.name not in table.column_names:
                columns.append(pa.nulls(table.num_rows, one.type))
                continue
            column = table.column(one.name).combine_chunks()
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            try:
                columns.append(column.cast(one.type))
            except _WRONG_VALUE as error:
                raise _wrong(one, error) from None
        return pa.RecordBatch.from_arrays(columns, schema=self._wanted)


def _wrong(column: pa.Field, error: Exception) -> UndecodableError:
    return UndecodableError(WRONG_TYPE, f"{column.name!r} is {sql_type(column.type)}: {error}")
