"""Rows on their way out: as JSON, or as a stream of Arrow."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.io.writers import json_rows
from watersmeet.serve.decoding import ARROW


def rows_json(rows: pa.Table) -> str:
    """An array of objects."""
    return "[" + ",".join(line for batch in rows.to_batches() for line in json_rows(batch)) + "]"


def arrow_stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def wants_arrow(accept: str) -> bool:
    """
    >>> wants_arrow("application/vnd.apache.arrow.stream"), wants_arrow("application/json, */*"), wants_arrow("")
    (True, False, False)
    """
    return any(one.partition(";")[0].strip().lower() == ARROW for one in accept.split(","))
