"""The first rows of a query's inputs, brought to this process: what EXPLAIN ANALYZE runs over on Spark."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame

from watersmeet.engine.conform import entered
from watersmeet.engine.sources import source_of
from watersmeet.errors import UnsupportedError
from watersmeet.model.catalog import Stream, Table
from watersmeet.plan.nodes import Plan
from watersmeet.plan.rewrite import with_relations
from watersmeet.spark.packed import ParquetStream


def sampled(plan: Plan, rows: int) -> Plan:
    """The same plan over tables in memory: of each stream the first rows by event time, static tables whole."""

    def local(relation: Stream | Table) -> Stream | Table:
        return replace(relation, source=source_of(_data(relation, rows), relation.name))

    return replace(plan, root=with_relations(plan.root, local))


def _data(relation: Stream | Table, rows: int) -> object:
    match relation.source:
        case ParquetStream(path=path):
            return path
        case DataFrame() as df if not df.isStreaming:
            if isinstance(relation, Stream):
                df = df.orderBy(relation.time).limit(rows)
            return pa.Table.from_batches(entered(df.toArrow().to_batches(), relation), relation.schema)
    raise UnsupportedError(
        f"stream {relation.name!r} is an endless DataFrame, of which no sample can be taken",
        hint="leave analyze out; the running query measures its streams itself, see query.metrics()",
    )
