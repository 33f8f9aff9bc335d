"""The rows of a connector read straight into packets, where its lanes are read (see lanes_source.py)."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from watersmeet.errors import DataError
from watersmeet.hosts.spark.job import SparkJob
from watersmeet.hosts.spark.lanes_source import FORMAT, ROWS_FORMAT, LanePartition, LaneRows, PackedLanes, lanes_from
from watersmeet.hosts.spark.packed import encoded, packed_rows, shipped
from watersmeet.hosts.spark.types import spark_layout, spark_schema
from watersmeet.io.conform import conform, enter
from watersmeet.io.connectors.connected_source import ConnectedSource
from watersmeet.io.connectors.contract import Slice
from watersmeet.model.catalog import Stream

_pickle: Any = cloudpickle


@dataclass(frozen=True)
class LanedStream:
    """What a connector reads, as an unbounded stream; about so many rows in a batch at most."""

    source: ConnectedSource
    max_rows_per_batch: int | None = None

    def packed_reader(self, spark: SparkSession, job: SparkJob) -> DataStreamReader:
        """Of its packets, for a job."""
        spark.dataSource.register(PackedLanes)
        return spark.readStream.format(FORMAT).options(**self.encoded_options()).option("job", encoded(job))

    def dataframe(self, spark: SparkSession, stream: Stream) -> DataFrame:
        """The same stream as ordinary Spark rows, for queries that keep no state."""
        spark.dataSource.register(LaneRows)
        reader = spark.readStream.schema(spark_schema(stream.given_schema)).format(ROWS_FORMAT)
        reader = reader.options(**self.encoded_options()).option("source", stream.name)
        return reader.option("job", encoded(replace(stream, source=None))).load()

    def encoded_options(self) -> dict[str, str]:
        """What the data source is told, in texts."""
        # Classes that a user registered may be known to this process alone, so they travel by value.
        lanes = base64.b64encode(_pickle.dumps(self.source)).decode()
        limit = self.max_rows_per_batch
        return {"lanes": lanes} | ({} if limit is None else {"maxRows": str(limit)})


def packets_of_lane(
    encoded_job: str, encoded_lanes: str, source: str, partition: LanePartition
) -> Iterator[pa.RecordBatch]:
    job, _ = shipped(encoded_job)

    def read(wanted: pa.Schema, stream: Stream) -> Iterator[pa.RecordBatch]:
        return batches_of_lane(lanes_from(encoded_lanes), partition, wanted)

    return packed_rows(job, source, read, partition.number, partition.moments)


def rows_of_lane(encoded_stream: str, encoded_lanes: str, partition: LanePartition) -> Iterator[pa.RecordBatch]:
    """The rows themselves, as Spark has them."""
    stream: Stream
    stream, _ = pickle.loads(base64.b64decode(encoded_stream))
    schema = stream.given_schema
    layout = spark_layout(schema)
    for batch in batches_of_lane(lanes_from(encoded_lanes), partition, schema):
        yield conform(enter(batch, schema, stream), layout)


def batches_of_lane(source: ConnectedSource, partition: LanePartition, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The wanted columns of a part of a lane, as queries see them."""
    taken = replace(source, held=pa.schema([source.held.field(name) for name in wanted.names]))
    with closing(source.laned):
        for lot in source.laned.read(Slice(partition.lane, partition.after, partition.upto)):
            if lot.bad is not None and lot.bad.num_rows:
                raise _unreadable(source.name, lot.bad)
            yield taken.made(lot.rows)


def _unreadable(stream: str, records: pa.RecordBatch) -> DataError:
    first = records.slice(0, 1).to_pylist()[0]
    return DataError(
        f"stream {stream!r} has a record that cannot be read ({first['reason']}): in {first['place']}, partition "
        f"{first['partition']}, offset {first['offset']}: {first['detail']}",
        hint="mend or remove it at its source; with the same checkpoint the run goes on where it was",
    )
