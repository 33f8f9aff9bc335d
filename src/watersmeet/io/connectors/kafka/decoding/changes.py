"""Change streams: Debezium's records, and topics whose last record of a key counts. They feed tables with versions.

A row is what the record makes of its key; a column says whether it is put there or taken away. What is taken away is so
from the moment of the change on, whatever times its last row had.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.errors import SourceError
from watersmeet.io.connectors.bad_reasons import NO_CHANGE, NO_KEY
from watersmeet.io.connectors.kafka.decoding.contract import Bad, Decoded, UndecodableError, sorted_out
from watersmeet.io.connectors.kafka.decoding.json import EMPTY, parsed
from watersmeet.io.connectors.kafka.decoding.moments import TimeColumn
from watersmeet.io.connectors.kafka.records import Records
from watersmeet.model.types import is_text

_PUT, _DELETE = "u", "d"


@dataclass(frozen=True)
class DebeziumDecoder:
    """`schema`: the columns, `op` among them if they say it. Without `is_versioned` only inserts are taken."""

    schema: pa.Schema
    stream: str
    op: str | None
    time: TimeColumn
    is_versioned: bool

    def decode(self, records: Records) -> Decoded:
        # A tombstone behind a deletion is for the brokers, which then forget the key.
        there = [place for place, value in enumerate(records.values) if value is not None]
        kept = np.array(there, np.int64)
        values = [records.values[place] for place in there]
        found = sorted_out(values, self.schema, self.rows, EMPTY)
        bad = [Bad(int(kept[one.place]), one.reason, one.detail) for one in found.bad]
        return Decoded(found.rows, kept[found.places], bad)

    def rows(self, values: Sequence[bytes]) -> pa.RecordBatch:
        own = pa.struct([one for one in self.schema if one.name != self.op])
        inner = [("before", own), ("after", own), ("op", pa.string()), ("ts_ms", pa.int64()),
                 ("source", pa.struct([("ts_ms", pa.int64())]))]  # fmt: skip
        # With schemas switched on the change is in `payload`, else it is all of the record.
        found = parsed(values, pa.schema([*inner, ("payload", pa.struct(inner))]))
        payload = found.column("payload")
        picked = {
            name: pc.if_else(payload.is_valid(), pc.struct_field(payload, [name]), found.column(name))
            for name, _ in inner
        }
        op = picked["op"]
        if op.null_count:
            raise UndecodableError(NO_CHANGE, "it has no 'op', by which a change says what it is")
        deletes = pc.equal(op, _DELETE)
        if not self.is_versioned:
            self._refuse_changes(op)
        row = pc.if_else(deletes, picked["before"], picked["after"])
        if row.null_count:
            raise UndecodableError(NO_CHANGE, "it has no row: 'before' of a deletion, or 'after' of another change")
        moment = pc.coalesce(pc.struct_field(picked["source"], ["ts_ms"]), picked["ts_ms"])
        return self._batch(row, op, deletes, moment)

    def _batch(self, row: pa.Array, op: pa.Array, deletes: pa.Array, moment: pa.Array) -> pa.RecordBatch:
        columns = []
        for one in self.schema:
            if one.name == self.op:
                columns.append(op)
                continue
            column = pc.struct_field(row, [one.name])
            if one.name == self.time.name:
                column = pc.if_else(deletes, self.time.written(moment, one.type), column)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _refuse_changes(self, op: pa.Array) -> None:
        changed = pc.index_in(pa.array([_PUT, _DELETE]), op).drop_null()
        if len(changed):
            word = "an update" if op[changed[0].as_py()].as_py() == _PUT else "a deletion"
            raise refused(self.stream, word)


def refused(stream: str, word: str) -> SourceError:
    return SourceError(
        f"{word} came in stream {stream!r}, whose rows only come: what was answered cannot be taken back",
        hint="read it as a table with versions: CREATE TABLE … (…, op VARCHAR) WITH (…, key = '…', op = 'op'), and "
        "join with it FOR SYSTEM_TIME AS OF …",
    )


@dataclass(frozen=True)
class UpsertDecoder:
    """`key`: the columns that a record's key holds: one as text or JSON, several as a JSON object. A record without a
    value takes its key away."""

    schema: pa.Schema
    key: tuple[str, ...]
    op: str
    time: TimeColumn

    def decode(self, records: Records) -> Decoded:
        there = [place for place, value in enumerate(records.values) if value is not None]
        gone = [place for place, value in enumerate(records.values) if value is None]
        own = pa.schema([one for one in self.schema if one.name != self.op])
        found = sorted_out([records.values[place] for place in there], own, lambda some: parsed(some, own), EMPTY)
        kept = np.array(there, np.int64)
        bad = [Bad(int(kept[one.place]), one.reason, one.detail) for one in found.bad]
        put = self._with_op(found.rows, _PUT)
        keys = sorted_out(
            [records.keys[place] for place in gone], self._keys, self._key_rows, (NO_KEY, "it has no key")
        )
        lost = np.array(gone, np.int64)
        bad += [Bad(int(lost[one.place]), NO_KEY, one.detail) for one in keys.bad]
        taken = self._taken_away(keys.rows, records, lost[keys.places])
        places = np.concatenate([kept[found.places], lost[keys.places]])
        order = np.argsort(places, kind="stable")
        rows = pa.concat_batches([put, taken]).take(pa.array(order))
        return Decoded(rows, places[order], sorted(bad, key=lambda one: one.place))

    @property
    def _keys(self) -> pa.Schema:
        return pa.schema([self.schema.field(one) for one in self.key])

    def _key_rows(self, keys: Sequence[bytes]) -> pa.RecordBatch:
        if all(one.lstrip()[:1] == b"{" for one in keys):
            return parsed(keys, self._keys)
        if len(self.key) > 1:
            raise UndecodableError(NO_KEY, "its key is no JSON object")
        kind = self._keys.field(0).type
        try:
            texts = [one.decode() for one in keys]
            column = pa.array([_unquoted(one) for one in texts] if is_text(kind) else texts, pa.string()).cast(kind)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise UndecodableError(NO_KEY, str(error)) from None
        return pa.RecordBatch.from_arrays([column], schema=self._keys)

    def _with_op(self, rows: pa.RecordBatch, op: str) -> pa.RecordBatch:
        columns = [
            pa.repeat(pa.scalar(op), rows.num_rows) if one.name == self.op else rows.column(one.name)
            for one in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _taken_away(self, keys: pa.RecordBatch, records: Records, places: np.ndarray) -> pa.RecordBatch:
        columns = []
        for one in self.schema:
            if one.name in self.key:
                columns.append(keys.column(one.name))
            elif one.name == self.op:
                columns.append(pa.repeat(pa.scalar(_DELETE), keys.num_rows))
            elif one.name == self.time.name:
                columns.append(self.time.written(records.known_times.take(pa.array(places)), one.type))
            else:
                columns.append(pa.nulls(keys.num_rows, one.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _unquoted(text: str) -> str:
    """A text as JSON has it, or as it is."""
    if text[:1] == '"' and text[-1:] == '"' and len(text) > 1:
        try:
            return str(json.loads(text))
        except ValueError:
            return text
    return text
