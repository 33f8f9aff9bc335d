"""A stream of Arrow from outside: read only if what it holds cannot be much larger than it is.

Arrow believes what a stream says of itself. A few bytes may stand for any number of rows: compressed, or as a short
index into one long text, or in columns that take no room.
"""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.types import is_text
from watersmeet.serve.http_error import HttpError

ROWS_PER_BYTE = 8  # as of booleans
GROWTH = 16  # how much larger values may be than the body, where they are written once and used often

# Of the messages of Arrow's format: where their fields stand.
_HEADER_TYPE, _HEADER, _DATA, _COMPRESSION = 1, 2, 1, 3
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3


def read_arrow(body: bytes) -> pa.Table:
    try:
        _refuse_compressed(body)
        batches: list[pa.RecordBatch] = []
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            schema = reader.schema
            for batch in reader:
                _check(batch, len(body))
                batches.append(batch)
        return pa.Table.from_batches(batches, schema)
    except (pa.ArrowException, OSError, ValueError, MemoryError, struct.error) as error:
        detail = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise HttpError(400, f"the body is no stream of Arrow: {detail}; no row of it was taken") from None


def _check(batch: pa.RecordBatch, size: int) -> None:
    if batch.num_rows > ROWS_PER_BYTE * size:
        raise ValueError(f"{batch.num_rows:,} rows cannot be in {size:,} bytes")
    batch.validate(full=True)  # it may point anywhere
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and _spelt_out(column) > GROWTH * size:
            raise ValueError(f"its values are more than {GROWTH} times as large as the body")


def _spelt_out(column: pa.DictionaryArray) -> int:
    """How many bytes the values of a column take, each written where it is used."""
    values = column.dictionary
    if not (is_text(values.type) or pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
        return 0  # all of a small size
    lengths = pc.take(pc.cast(pc.binary_length(values), pa.int64()), column.indices)
    return int(pc.sum(lengths).as_py() or 0)


def _refuse_compressed(body: bytes) -> None:
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(body)):
        if _is_compressed(bytes(message.metadata)):
            raise ValueError("it is compressed; send it as it is")


def _is_compressed(metadata: bytes) -> bool:
    """Whether a message says so: its table has a header, which is a record batch or holds one."""
    root = struct.unpack_from("<I", metadata)[0]
    kind_at, header_at = _field(metadata, root, _HEADER_TYPE), _field(metadata, root, _HEADER)
    kind = metadata[kind_at] if kind_at else 0
    if not header_at or kind not in (_DICTIONARY_BATCH, _RECORD_BATCH):
        return False
    batch = _table(metadata, header_at)
    if kind == _DICTIONARY_BATCH:
        data_at = _field(metadata, batch, _DATA)
        if not data_at:
            return False
        batch = _table(metadata, data_at)
    return bool(_field(metadata, batch, _COMPRESSION))


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table stands; 0 if it has none."""
    names = table - struct.unpack_from("<i", data, table)[0]
    at = 4 + 2 * number
    if at >= struct.unpack_from("<H", data, names)[0]:
        return 0
    offset = struct.unpack_from("<H", data, names + at)[0]
    return table + offset if offset else 0


def _table(data: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", data, at)[0])
