"""What a connector reads as an unbounded stream on Spark: what the driver knows of it (see connector_source.py)."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.hosts.spark.reading.connector_source import FORMAT, ROWS_FORMAT, ConnectorRows, PackedConnector
from watersmeet.hosts.spark.reading.source_packets import encoded
from watersmeet.hosts.spark.types import spark_schema
from watersmeet.io.connectors.connected_source import ConnectedSource
from watersmeet.io.connectors.history import HistoryThenLive
from watersmeet.io.connectors.own_files import LOADED
from watersmeet.model.catalog import Stream

_pickle: Any = cloudpickle


@dataclass(frozen=True)
class ConnectorStream:
    """What a connector reads, as an unbounded stream; about so many rows in a batch at most."""

    source: ConnectedSource
    max_rows_per_batch: int | None = None

    @property
    def has_history(self) -> bool:
        return isinstance(self.source.partitioned.inner, HistoryThenLive)

    def packed_reader(self, spark: SparkSession, job: SparkJob) -> DataStreamReader:
        """Of its packets, for a job."""
        spark.dataSource.register(PackedConnector)
        return spark.readStream.format(FORMAT).options(**self.encoded_options()).option("job", encoded(job))

    def dataframe(self, spark: SparkSession, stream: Stream) -> DataFrame:
        """The same stream as ordinary Spark rows, for queries that keep no state."""
        spark.dataSource.register(ConnectorRows)
        reader = spark.readStream.schema(spark_schema(stream.given_schema)).format(ROWS_FORMAT)
        reader = reader.options(**self.encoded_options()).option("source", stream.name)
        return reader.option("job", encoded(replace(stream, source=None))).load()

    def encoded_options(self) -> dict[str, str]:
        """What the data source is told, in texts."""
        # Classes that a user registered may be known to this process alone, so they travel by value.
        for module in LOADED:
            _pickle.register_pickle_by_value(module)
        connector = base64.b64encode(_pickle.dumps(self.source)).decode()
        limit = self.max_rows_per_batch
        return {"connector": connector} | ({} if limit is None else {"maxRows": str(limit)})
