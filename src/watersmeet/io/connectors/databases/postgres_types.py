"""The types of PostgreSQL, by name where tables are made, by number where they are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.io.connectors.databases.families import ANY, family_of

_NAMES = {
    "truth": "boolean",
    "float": "double precision",
    "date": "date",
    "time": "time without time zone",
    "timestamp": "timestamp without time zone",
    "instant": "timestamp with time zone",
    "duration": "interval",
    "text": "text",
    "bytes": "bytea",
    ANY: "text",
}
_FAMILIES = {
    **{name: family for family, name in _NAMES.items() if family != ANY},
    **dict.fromkeys(("smallint", "integer", "bigint"), "integer"),
    **dict.fromkeys(("character varying", "character"), "text"),
    "real": "float",
    "numeric": "decimal",
}
NUMERIC, BYTES = 1700, 17
_ARROW = {
    16: pa.bool_(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    26: pa.int64(),
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1083: pa.time64("us"),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", "UTC"),
}


def type_of(kind: pa.DataType) -> str | None:
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if pa.types.is_uint64(kind):
        return "numeric(20)"
    if pa.types.is_float32(kind):
        return "real"
    if pa.types.is_integer(kind):
        bits = kind.bit_width + pa.types.is_unsigned_integer(kind)
        return "smallint" if bits <= 16 else "integer" if bits <= 32 else "bigint"
    return _NAMES.get(family_of(kind) or "")


def family_of_name(name: str) -> str:
    return _FAMILIES.get(name, ANY)


def arrow_type(number: int, precision: int | None, scale: int | None) -> pa.DataType | None:
    """The type of a column of a query; None of a number without a stated size. What rows have no type for is taken as
    the text that PostgreSQL writes."""
    if number == NUMERIC:
        return None if precision is None or precision > 38 else pa.decimal128(precision, scale or 0)
    return _ARROW.get(number, pa.string())


def as_hexadecimal(column: pa.ChunkedArray) -> pa.ChunkedArray:
    r"""
    >>> as_hexadecimal(pa.chunked_array([[b"\x0a\xff", None, b""]])).to_pylist()
    ['\\x0aff', None, '\\x']
    """
    values = _whole(pc.cast(column, pa.large_binary()), pa.large_binary())
    offsets, data, valid = _parts(values)
    text = _made(pa.large_string(), offsets * 2, data.hex().encode(), valid)
    begin, between = pa.scalar("\\x", pa.large_string()), pa.scalar("", pa.large_string())
    return pa.chunked_array([pc.binary_join_element_wise(begin, text, between)])


def from_hexadecimal(column: pa.ChunkedArray) -> pa.ChunkedArray:
    r"""
    >>> from_hexadecimal(pa.chunked_array([["\\x0aff", None, "\\x"]])).to_pylist()
    [b'\n\xff', None, b'']
    """
    digits = _whole(pc.cast(pc.utf8_slice_codeunits(column, 2), pa.large_string()), pa.large_string())
    offsets, data, valid = _parts(digits)
    made = _made(pa.large_binary(), offsets // 2, bytes.fromhex(data.decode()), valid)
    return pa.chunked_array([pc.cast(made, pa.binary())])


def _whole(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    # One array of its own, so that its buffers begin where it does.
    return pa.concat_arrays([*column.chunks, pa.array([], kind)])


def _parts(values: pa.Array) -> tuple[np.ndarray, bytes, pa.Array]:
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int64, len(values) + 1, values.offset * 8)
    held = b"" if data is None else data.to_pybytes()[ends[0] : ends[-1]]
    return ends - ends[0], held, values.is_valid()


def _made(kind: pa.DataType, offsets: np.ndarray, data: bytes, valid: pa.Array) -> pa.Array:
    made = pa.Array.from_buffers(kind, len(valid), [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)])
    return pc.if_else(valid, made, pa.scalar(None, kind))
