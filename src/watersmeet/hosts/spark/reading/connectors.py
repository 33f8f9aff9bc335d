"""What a connector reads, opened for Spark: a stream whose partitions are read by Spark's tasks, or a static table."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import OptionError
from watersmeet.hosts.spark.reading.connector_stream import ConnectorStream
from watersmeet.hosts.spark.reading.inputs import as_dataframe
from watersmeet.io.connectors.connected_source import ConnectedSource
from watersmeet.io.connectors.contract import Connector
from watersmeet.io.connectors.opening import open_source
from watersmeet.io.declared_source import open_declared, with_history
from watersmeet.model.declaration import Declaration

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
