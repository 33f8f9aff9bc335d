"""What a connector reads, opened for Spark: a static table, or a stream whose partitions tasks read; what the driver
knows of it (see connector_source.py)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError
from watersmeet.hosts.spark.jobs.group import JobGroup
from watersmeet.hosts.spark.jobs.job import send_by_value
from watersmeet.hosts.spark.reading.connector_source import FORMAT, ROWS_FORMAT, ConnectorRows, PackedConnector
from watersmeet.hosts.spark.reading.inputs import as_dataframe
from watersmeet.hosts.spark.reading.source_packets import encoded
from watersmeet.hosts.spark.types import spark_schema
from watersmeet.io.connectors.connected_source import ConnectedSource
from watersmeet.io.connectors.contract import Connector, Offsets, PartitionedSource, SourceBatch, Split
from watersmeet.io.connectors.guarded import GuardedSource
from watersmeet.io.connectors.history import HistoryThenLive
from watersmeet.io.connectors.opening import open_source
from watersmeet.io.declared_source import open_declared, with_history
from watersmeet.model.catalog import Stream
from watersmeet.model.declaration import Declaration

_pickle: Any = cloudpickle


@dataclass(frozen=True)
class ConnectorStream:
    """What a connector reads, as an unbounded stream; about so many rows in a batch at most."""

    source: ConnectedSource
    max_rows_per_batch: int | None = None
    place: Mapping[str, Any] | None = None  # where a new run begins, if another was there (see ResumedSource)

    @property
    def has_history(self) -> bool:
        return isinstance(self.source.partitioned.inner, HistoryThenLive)

    def packed_reader(self, spark: SparkSession, group: JobGroup) -> DataStreamReader:
        """Of its packets, for the jobs that read it."""
        spark.dataSource.register(PackedConnector)
        return spark.readStream.format(FORMAT).options(**self.encoded_options()).option("jobs", encoded(group))

    def dataframe(self, spark: SparkSession, stream: Stream) -> DataFrame:
        """The same stream as ordinary Spark rows, for queries that keep no state."""
        spark.dataSource.register(ConnectorRows)
        reader = spark.readStream.schema(spark_schema(stream.given_schema)).format(ROWS_FORMAT)
        reader = reader.options(**self.encoded_options()).option("source", stream.name)
        return reader.option("jobs", encoded(replace(stream, source=None))).load()

    def encoded_options(self) -> dict[str, str]:
        """What the data source is told, in texts."""
        send_by_value()
        connector = base64.b64encode(_pickle.dumps(self.source)).decode()
        limit = self.max_rows_per_batch
        begins = {} if self.place is None else {"place": json.dumps(self.place)}
        return {"connector": connector, **begins} | ({} if limit is None else {"maxRows": str(limit)})


@dataclass(frozen=True)
class SaidRows(PartitionedSource):
    """Rows that a query says itself, where it runs as a stream: one partition, in which offsets count rows."""

    rows: pa.RecordBatch
    description: str = "rows that the query says itself"

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    def begin(self) -> Offsets:
        return {}

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        return {"rows": self.rows.num_rows}

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        begin, end = after.get("rows", 0), upto.get("rows", 0)
        return [Split("rows", begin, end)] if begin < end else []

    def read(self, split: Split) -> Iterator[SourceBatch]:
        yield SourceBatch(self.rows.slice(split.after, split.upto - split.after))


def open_said(name: str, rows: pa.Table) -> ConnectorStream:
    (batch,) = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
    return ConnectorStream(ConnectedSource(name, GuardedSource(name, SaidRows(batch)), rows.schema))


MAX_ROWS = "max_rows_per_batch"
ALL = 1 << 30


def open_connected(
    spark: SparkSession, declared: Declaration, connector: Connector
) -> tuple[pa.Schema, DataFrame | ConnectorStream, int | None]:
    """The columns of an input and what Spark reads it from."""
    if declared.is_static:
        return _table(spark, declared)
    options = declared.options
    source = open_source(connector, declared.name, options, declared.schema, declared.reading)
    if "history" in options:
        source = with_history(source, declared)
    _look_at(source)
    return source.schema, ConnectorStream(source, _max_rows(declared.name, options.get(MAX_ROWS))), None


def _table(spark: SparkSession, declared: Declaration) -> tuple[pa.Schema, DataFrame, int | None]:
    """Loaded here, whole, before a query starts; it travels to the tasks with the query."""
    source = open_declared(declared)
    rows = pa.Table.from_batches(source.batches(ALL), schema=source.schema)
    return source.schema, as_dataframe(spark, rows, declared.name), rows.num_rows


def _max_rows(name: str, written: str | None) -> int | None:
    if written is None:
        return None
    if not written.isdigit() or int(written) < 1:
        raise OptionError(
            f"{name!r} has {MAX_ROWS} = {written!r}; it is a number of rows, 1 or more",
            hint=f"write {MAX_ROWS} = '100000', or leave it out to read all that is there",
            option=MAX_ROWS,
        )
    return int(written)


def _look_at(source: ConnectedSource) -> None:
    """Ask for its partitions once, so that what is wrong at the other end is told before anything runs. It is opened
    again where it is read."""
    source.partitioned.begin()
    source.partitioned.close()
