"""The first rows of a query's inputs, brought to this process: what EXPLAIN ANALYZE runs over on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame

from watersmeet.engine.conform import conform
from watersmeet.engine.formats import Parquet
from watersmeet.engine.sources import source_of
from watersmeet.errors import UnsupportedError
from watersmeet.model.catalog import Stream, Table
from watersmeet.plan.nodes import Plan
from watersmeet.plan.rewrite import with_relations
from watersmeet.spark.packed import FileStream, read_file
from watersmeet.spark.packed_source import listing


def sampled(plan: Plan, rows: int) -> Plan:
    """The same plan over tables in memory: of each stream the first rows by event time, static tables whole."""

    def local(relation: Stream | Table) -> Stream | Table:
        return replace(relation, source=source_of(_data(relation, rows), relation.name))

    return replace(plan, root=with_relations(plan.root, local))


def _read(stream: FileStream, path: str, relation: Stream | Table) -> Iterator[pa.RecordBatch]:
    return read_file(path, relation.schema, relation.name, stream.format)


def _data(relation: Stream | Table, rows: int) -> object:
    match relation.source:
        case FileStream(format=Parquet(), path=path):
            return path
        case FileStream() as stream:
            batches = [b for p in listing(stream.path, relation.name) for b in _read(stream, p, relation)]
            return pa.Table.from_batches(batches, relation.schema)
        case DataFrame() as df if not df.isStreaming:
            if isinstance(relation, Stream):
                df = df.orderBy(relation.time).limit(rows)
            batches = [conform(batch, relation.schema) for batch in df.toArrow().to_batches()]
            return pa.Table.from_batches(batches, relation.schema)
    raise UnsupportedError(
        f"stream {relation.name!r} is an endless DataFrame, of which no sample can be taken",
        hint="leave analyze out; the running query measures its streams itself, see query.metrics()",
    )
