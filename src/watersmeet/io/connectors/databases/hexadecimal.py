r"""Bytes as text, '\x0aff', all values of a column at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


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
