"""From result packets back to typed rows, inside Spark's Python workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from watersmeet.hosts.spark.packets import from_packet
from watersmeet.hosts.spark.types import spark_layout
from watersmeet.io.conform import conform


def unpacker(schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for mapInArrow that gives rows of `schema`, in the types Spark has for them."""
    layout = spark_layout(schema)

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column("payload"):
                if payload.is_valid:
                    for part in from_packet(payload.as_buffer()):
                        yield conform(part, layout)

    return unpack
