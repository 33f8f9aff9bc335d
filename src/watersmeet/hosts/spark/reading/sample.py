"""The first rows of a query's inputs, brought to this process: what EXPLAIN ANALYZE runs over on Spark."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame

from watersmeet.errors import UnsupportedError
from watersmeet.hosts.spark.reading.file_stream import FileStream
from watersmeet.io.conform import entered
from watersmeet.io.formats import Parquet
from watersmeet.io.sources import source_of
from watersmeet.model.catalog import Stream, Table
from watersmeet.plan.query import Plan
from watersmeet.plan.rewrite import with_relations


def sampled(plan: Plan, rows: int) -> Plan:
    """The same plan over tables in memory: of each stream the first rows by event time, static tables whole."""

    def local(relation: Stream | Table) -> Stream | Table:
        data = _data(relation, rows)
        reading = relation.reading if isinstance(relation, Stream) and isinstance(data, str) else None
        return replace(relation, source=source_of(data, relation.name, None, reading, relation.rounding))

    return replace(plan, root=with_relations(plan.root, local))


def _data(relation: Stream | Table, rows: int) -> object:
    match relation.source:
        case FileStream(format=Parquet(), path=path):
            return path
        case FileStream() as stream:
            assert isinstance(relation, Stream)
            files = replace(stream.read_as(relation), paths=tuple(stream.files(relation.name)))
            batches = list(files.batches(rows))
            return pa.Table.from_batches(entered(batches, relation), relation.given_schema)
        case DataFrame() as df if not df.isStreaming:
            if isinstance(relation, Stream) and relation.by_arrival:
                df = df.limit(rows)
            elif isinstance(relation, Stream):
                timed = df.where(f"`{relation.time}` IS NOT NULL") if relation.arrival.skips_nulls else df
                df = timed.orderBy(relation.time).limit(rows)
            return pa.Table.from_batches(entered(df.toArrow().to_batches(), relation), relation.given_schema)
    raise UnsupportedError(
        f"stream {relation.name!r} is an endless DataFrame, of which no sample can be taken",
        hint="leave analyze out; the running query measures its streams itself, see query.metrics()",
    )
