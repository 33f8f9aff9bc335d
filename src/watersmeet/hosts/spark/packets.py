"""Many rows as one binary value: a version byte and an Arrow IPC stream.

Spark moves a few large packets instead of many rows. Packets are also what the state store holds, so the
version byte says how to read one that an earlier release wrote.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from watersmeet.errors import DataError

VERSION = b"\x01"


def to_packet(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    sink.write(VERSION)
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def from_packet(packet: bytes) -> list[pa.RecordBatch]:
    """The batches of a packet, sharing its memory."""
    if packet[:1] != VERSION:
        raise DataError(
            f"a packet has format {packet[:1]!r}, this release reads {VERSION!r}",
            hint="run the query with the release that wrote the checkpoint, or start a new checkpoint",
        )
    return list(pa.ipc.open_stream(pa.py_buffer(packet).slice(1)))
