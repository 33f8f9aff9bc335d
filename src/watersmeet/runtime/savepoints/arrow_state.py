"""The state of an operator as Arrow files: a file for the rows of each window, one for all other arrays.

In a file of rows `#key` is the code of the key, `#part` which of several merged parts a row comes from, and other
columns with `#` are the operator's own numbers (times, codes, deaths); the rest are columns of the query. What is no
array stands in the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.operators.keyed_state import NO_COLUMNS, KeyedRows, KeyedState
from watersmeet.operators.saving import FORMAT, Saved, check_format

Write = Callable[[str, pa.RecordBatch], dict[str, Any]]  # a file by its name; returns what the manifest says of it
Read = Callable[[Mapping[str, Any]], pa.RecordBatch]
ROLE, NUMBER, COLUMN = b"watersmeet", b"number", b"column"
_ARRAYS = pa.schema(
    [("name", pa.string()), ("kind", pa.string()), ("shape", pa.list_(pa.int64())), ("data", pa.large_binary())]
)


def write_state(state: KeyedState, write: Write) -> dict[str, Any]:
    """What the manifest says of a state whose arrays were written."""
    rows = {name: write(_file_name("rows", name), as_batch(one)) for name, one in state.rows.items()}
    copies = {name: write(_file_name("copies", name), as_batch(one)) for name, one in state.copies.items()}
    values = replace(state, rows={}, copies={}).saved().values
    arrays = {
        name: value for name, value in values.items() if isinstance(value, np.ndarray | pa.Array | pa.RecordBatch)
    }
    return {
        "format": FORMAT,
        "rows": rows,
        "copies": copies,
        "arrays": write("arrays.arrow", _of_arrays(arrays)) if arrays else None,
        "values": {name: value for name, value in values.items() if name not in arrays},
    }


def read_state(said: Mapping[str, Any], read: Read, version: str) -> KeyedState:
    check_format(said["format"], version)
    arrays = {} if said["arrays"] is None else dict(_to_arrays(read(said["arrays"])))
    state = KeyedState.read(Saved({**said["values"], **arrays}, said["format"], version))
    state.rows = {name: from_batch(read(one)) for name, one in said["rows"].items()}
    state.copies = {name: from_batch(read(one)) for name, one in said["copies"].items()}
    return state


def _file_name(kind: str, name: str) -> str:
    return f"{kind}-{''.join(c if c.isalnum() or c in '._-' else '_' for c in name)}.arrow"


# ---- rows -----------------------------------------------------------------------------------------------------------


def as_batch(rows: KeyedRows) -> pa.RecordBatch:
    numbers = {"#key": rows.keys, "#part": rows.origins, **{f"#{name}": one for name, one in rows.numbers.items()}}
    arrays = [pa.array(np.ascontiguousarray(one)) for one in numbers.values()]
    fields = [pa.field(name, one.type, metadata={ROLE: NUMBER}) for name, one in zip(numbers, arrays, strict=True)]
    fields += [one.with_metadata({ROLE: COLUMN}) for one in rows.data.schema]
    return pa.RecordBatch.from_arrays([*arrays, *rows.data.columns], schema=pa.schema(fields))


def from_batch(batch: pa.RecordBatch) -> KeyedRows:
    """Rows whose numbers may be written to."""
    told = [(one.metadata or {}).get(ROLE) == NUMBER for one in batch.schema]
    numbers = {
        field.name[1:]: np.array(column.to_numpy(zero_copy_only=False))
        for field, column, is_number in zip(batch.schema, batch.columns, told, strict=True)
        if is_number
    }
    columns = [i for i, is_number in enumerate(told) if not is_number]
    data = NO_COLUMNS
    if columns:
        fields = [batch.schema.field(i).remove_metadata() for i in columns]
        data = pa.RecordBatch.from_arrays([batch.column(i) for i in columns], schema=pa.schema(fields))
    return KeyedRows(numbers.pop("key"), numbers.pop("part"), numbers, data)


# ---- other arrays ---------------------------------------------------------------------------------------------------


def _of_arrays(arrays: Mapping[str, Any]) -> pa.RecordBatch:
    """As their bytes, a row each: they are of many types and lengths."""
    kinds, shapes, data = [], [], []
    for value in arrays.values():
        if isinstance(value, np.ndarray):
            kinds.append(value.dtype.str)
            shapes.append(list(value.shape))
            data.append(np.ascontiguousarray(value).tobytes())
        else:
            is_batch = isinstance(value, pa.RecordBatch)
            kinds.append("batch" if is_batch else "column")
            shapes.append([])
            data.append(_stream(value if is_batch else pa.RecordBatch.from_arrays([value], [""])))
    return pa.RecordBatch.from_arrays(
        [pa.array(one, kind) for one, kind in zip((list(arrays), kinds, shapes, data), _ARRAYS.types, strict=True)],
        schema=_ARRAYS,
    )


def _to_arrays(batch: pa.RecordBatch) -> Any:
    for name, kind, shape, data in zip(
        *(column.to_pylist() for column in batch.columns[:3]), batch.column(3), strict=True
    ):
        buffer = data.as_buffer()
        if kind not in ("batch", "column"):
            yield name, np.frombuffer(bytearray(buffer), np.dtype(kind)).reshape(shape)
            continue
        held = pa.ipc.open_stream(pa.py_buffer(buffer.to_pybytes())).read_next_batch()
        yield name, held if kind == "batch" else held.column(0)


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
