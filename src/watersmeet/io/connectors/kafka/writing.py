"""From the rows of an answer to records: all changes, or for every key what it is now."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError, SetupError, SinkError
from watersmeet.io.connectors.contract import SinkOpening
from watersmeet.io.connectors.kafka.encoding import CsvEncoder, Encoder, JsonEncoder, RawEncoder, json_records
from watersmeet.io.connectors.kafka.schemas import avro_schema
from watersmeet.io.consolidation import one_of_each
from watersmeet.io.formats import delimiter_of
from watersmeet.io.row_texts import check_flat
from watersmeet.model.names import column_named, columns_hint, nearest
from watersmeet.model.types import is_bytes, is_text
from watersmeet.model.versions import parse_key

KeyAndValue = tuple[bytes | None, bytes | None]
CHANGES, UPSERT, APPEND = "changes", "upsert", "append"
GOES = "-"
_PLACE = "watersmeet place"


@dataclass(frozen=True)
class RecordMaker:
    """`key`: the columns that a record's key is made of. `upserts`: of every key only what it is now is written, and
    nothing, a tombstone, if it is there no more; `changes` names the column that says so."""

    encoder: Encoder
    key: tuple[str, ...] = ()
    plain_key: bool = True
    upserts: bool = False
    changes: str | None = None

    def records(self, rows: pa.RecordBatch) -> Sequence[KeyAndValue]:
        if self.upserts:
            rows = self._with_one_form(rows)
            rows = rows.take(pa.array(self._last(rows)))
        keys = self._keys(rows)
        values = self._values(rows)
        if keys is None:
            return [(None, value) for value in values]
        return list(zip(keys, values, strict=True))

    def _values(self, rows: pa.RecordBatch) -> list[bytes | None]:
        if not self.upserts or self.changes is None:
            return self.encoder.encode(rows)
        goes = pc.equal(rows.column(self.changes), GOES).to_pylist()
        values = self.encoder.encode(rows.drop_columns([self.changes]))
        return [None if gone else value for gone, value in zip(goes, values, strict=True)]

    def _with_one_form(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A key that goes must be written as it was when it came."""
        for key in self.key:
            place = rows.schema.get_field_index(key)
            rows = rows.set_column(place, rows.schema.field(place), one_of_each(rows.column(place)))
        return rows

    def _last(self, rows: pa.RecordBatch) -> np.ndarray:
        """The places of the last row of every key: a '-' stands before the '+' of the same instant."""
        table = pa.table([*(rows.column(one) for one in self.key), pa.array(np.arange(rows.num_rows))],
                         names=[*self.key, _PLACE])  # fmt: skip
        last = table.group_by(list(self.key)).aggregate([(_PLACE, "max")])
        return np.sort(last.column(f"{_PLACE}_max").to_numpy())

    def _keys(self, rows: pa.RecordBatch) -> list[bytes | None] | None:
        if not self.key:
            return None
        if self.plain_key and len(self.key) == 1:
            column = rows.column(self.key[0])
            if self.upserts and column.null_count:
                raise SinkError(
                    f"a row of the answer has NULL as its key {self.key[0]!r}, and a record without one replaces none",
                    hint="start anew with key_format = 'json', in which a key may be null, or leave such rows out of "
                    "the query",
                )
            found: list[bytes | None] = column.cast(pa.string()).cast(pa.binary()).to_pylist()
            return found
        return json_records(rows.select(list(self.key)))


def record_maker(opening: SinkOpening) -> RecordMaker:
    options = opening.options
    mode = options.get("mode", APPEND if opening.changes is None else CHANGES).lower()
    known = (APPEND, UPSERT) if opening.changes is None else (CHANGES, UPSERT)
    if mode not in known:
        raise OptionError(
            f"mode of sink {opening.name!r} is {mode!r}", hint=f"it may be {' or '.join(map(repr, known))}",
            option="mode",
        )  # fmt: skip
    key = _key(opening, mode == UPSERT)
    value = opening.schema
    if mode == UPSERT and opening.changes is not None:
        value = value.remove(value.get_field_index(opening.changes))
    kind = options.get("format", "json").lower()
    make = FORMATS.get(kind)
    if make is None:
        raise _no_format(opening.name, kind)
    return RecordMaker(make(opening, value), key, _is_plain(opening, key), mode == UPSERT, opening.changes)


def _key(opening: SinkOpening, upserts: bool) -> tuple[str, ...]:
    written = opening.options.get("key")
    if written is None:
        if upserts and not opening.keys:
            raise SinkError(
                f"sink {opening.name!r} keeps one record for every key, but its query has no GROUP BY whose answer "
                "changes, to take it from",
                hint="name the columns: key = 'a, b'; the last row of each value counts",
            )
        return opening.keys if upserts else ()
    try:
        asked = parse_key(written)
    except ValueError as error:
        raise OptionError(str(error), option="key") from None
    found = tuple(column_named(one, opening.schema.names) or one for one in asked)
    unknown = [one for one in found if one not in opening.schema.names]
    if unknown:
        raise SinkError(
            f"key of sink {opening.name!r} names column {unknown[0]!r}, which its query does not give",
            hint=columns_hint(opening.schema.names),
        )
    if upserts and opening.keys and set(found) != set(opening.keys):
        raise SinkError(
            f"key of sink {opening.name!r} is {', '.join(found)}, but its query has a row for each "
            f"{', '.join(opening.keys)}",
            hint="leave key out, or say mode = 'changes'",
        )
    return found


def _is_plain(opening: SinkOpening, key: tuple[str, ...]) -> bool:
    """Whether the key of a record is the text of one column; several columns are a JSON object."""
    form = opening.options.get("key_format", "text" if len(key) <= 1 else "json").lower()
    if form not in ("text", "json"):
        raise OptionError(f"key_format is {form!r}", hint="it may be 'text' or 'json'", option="key_format")
    if form == "text" and len(key) > 1:
        raise OptionError("key_format = 'text' is for a key of one column", hint="say 'json'", option="key_format")
    nested = [one for one in key if pa.types.is_nested(opening.schema.field(one).type)]
    if nested:
        raise SinkError(f"column {nested[0]!r} of the key of sink {opening.name!r} is nested", hint="name another")
    return form == "text"


def _raw(opening: SinkOpening, value: pa.Schema) -> Encoder:
    fitting = [one.name for one in value if is_text(one.type) or is_bytes(one.type)]
    key = parse_key(opening.options["key"]) if "key" in opening.options else opening.keys
    rest = [one for one in value.names if one not in key]
    if len(rest) != 1 or rest[0] not in fitting:
        raise SinkError(
            f"sink {opening.name!r} writes one raw value for every row, but its query gives "
            f"{', '.join(rest) or 'none beside the key'}",
            hint="give one column of text or bytes, beside those of the key",
        )
    return RawEncoder(rest[0])


def _csv(opening: SinkOpening, value: pa.Schema) -> Encoder:
    check_flat(value, hint="use format = 'json'")
    delimiter = delimiter_of(opening.options)
    return CsvEncoder(delimiter, opening.threads)


def _avro(opening: SinkOpening, value: pa.Schema) -> Encoder:
    try:
        from watersmeet.io.connectors.kafka.avro_encoding import AvroEncoder, schema_of
    except ImportError as error:
        raise SetupError(
            f"records of Avro need {error.name}, which is not installed", hint="pip install 'watersmeet[kafka]'"
        ) from None
    return AvroEncoder(avro_schema(opening.name, opening.options) or schema_of(opening.name, value))


FORMATS: dict[str, Callable[[SinkOpening, pa.Schema], Encoder]] = {
    "json": lambda opening, value: JsonEncoder(opening.threads),
    "avro": _avro,
    "csv": _csv,
    "raw": _raw,
}


def _no_format(name: str, kind: str) -> OptionError:
    near = nearest(kind, FORMATS)
    way = f"did you mean {near!r}? " if near else ""
    hint = f"{way}format may be {', '.join(map(repr, FORMATS))}"
    return OptionError(f"there is no format {kind!r} for sink {name!r}", hint=hint, option="format")


def whole_number(opening: SinkOpening, name: str) -> int | None:
    written = opening.options.get(name)
    if written is None:
        return None
    if not written.isdigit() or int(written) < 1:
        raise OptionError(f"{name} of sink {opening.name!r} is {written!r}, not a number above 0", option=name)
    return int(written)
