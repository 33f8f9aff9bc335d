"""Many rows as one binary value: a version byte and an Arrow IPC stream.

Spark moves packets instead of many rows. They are not large either: Spark puts so many of them into one Arrow batch as
`launch.SESSION` says, whatever their size, and a column of one holds 2 GB. Packets are also what the state store holds,
so the version byte says how to read one that an earlier release wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from watersmeet.errors import DataError

VERSION = b"\x01"
PACKET_BYTES = 192 << 10


def to_packet(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    sink.write(VERSION)
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def cut(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows in pieces that make packets of a good size.

    >>> rows = pa.RecordBatch.from_pydict({"x": list(range(40_000))})
    >>> [piece.num_rows for piece in cut(rows)]
    [24576, 15424]
    """
    step = max(1, rows.num_rows * PACKET_BYTES // max(1, rows.nbytes))
    return (rows.slice(start, step) for start in range(0, rows.num_rows, step))


def from_packet(packet: bytes) -> list[pa.RecordBatch]:
    """The batches of a packet, sharing its memory."""
    if packet[:1] != VERSION:
        raise DataError(
            f"a packet has format {packet[:1]!r}, this release reads {VERSION!r}",
            hint="run the query with the release that wrote the checkpoint, or start a new checkpoint",
        )
    return list(pa.ipc.open_stream(pa.py_buffer(packet).slice(1)))
