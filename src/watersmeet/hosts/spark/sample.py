"""The first rows of a query's inputs, brought to this process: what EXPLAIN ANALYZE runs over on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame

from watersmeet.errors import UnsupportedError
from watersmeet.hosts.spark.packed import FileStream, read_file
from watersmeet.hosts.spark.packed_source import listing
from watersmeet.io.conform import entered
from watersmeet.io.formats import Parquet
from watersmeet.io.sources import source_of
from watersmeet.model.catalog import Stream, Table
from watersmeet.plan.nodes import Plan
from watersmeet.plan.rewrite import with_relations


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
            return pa.Table.from_batches(entered(batches, relation), relation.schema)
        case DataFrame() as df if not df.isStreaming:
            if isinstance(relation, Stream):
                df = df.orderBy(relation.time).limit(rows)
            return pa.Table.from_batches(entered(df.toArrow().to_batches(), relation), relation.schema)
    raise UnsupportedError(
        f"stream {relation.name!r} is an endless DataFrame, of which no sample can be taken",
        hint="leave analyze out; the running query measures its streams itself, see query.metrics()",
    )
