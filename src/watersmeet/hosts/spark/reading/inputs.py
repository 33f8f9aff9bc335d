"""What a Spark session may be given as data: DataFrames as they are, anything else made into one."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StringType, StructField, TimestampNTZType, TimestampType

from watersmeet.errors import CatalogError, DataError, SourceError
from watersmeet.hosts.spark.reading.event_times import timed_frame, with_readings
from watersmeet.hosts.spark.reading.files_frame import files_frame, nanosecond_files, nanosecond_frame
from watersmeet.hosts.spark.types import arrow_schema, spark_schema
from watersmeet.io.conform import check_columns, conform
from watersmeet.io.files import open_files, unknown_types
from watersmeet.io.path_formats import ALIASES, is_hidden, named_kind
from watersmeet.io.sources import source_of
from watersmeet.model.names import column_named
from watersmeet.model.time_reading import TimeReading
from watersmeet.model.types import is_instant
from watersmeet.model.zones import entering_schema

MANY_ROWS = 1 << 20
_TIMES = (TimestampNTZType, TimestampType, DateType)


def as_dataframe(
    spark: SparkSession,
    data: Any,
    name: str,
    rounding: str = "error",
    declared: pa.Schema | None = None,
    reading: TimeReading | None = None,
) -> DataFrame:
    """A DataFrame of the data; in-memory data goes over as Arrow. Its columns are those that were declared, if any, and
    its event times are timestamps, however they are written."""
    if isinstance(data, str | Path) and not _is_remote(str(data)) and (declared is not None or reading is not None):
        return files_frame(spark, open_files(name, str(data), None, {}, declared, rounding, reading))
    if isinstance(data, DataFrame | str | Path):  # classic or Connect
        df = data if isinstance(data, DataFrame) else _read(spark, str(data), name, rounding)
        df = df if declared is None else declared_frame(df, declared, name, f"the DataFrame of {name!r}", reading)
        return df if reading is None else timed_frame(df, reading, name)
    source = source_of(data, name, declared, reading, rounding)
    if not source.bounded:
        raise SourceError(
            f"stream {name!r} is an endless iterator, which Spark cannot read",
            hint="give a streaming DataFrame, or run the query in-process with Session()",
        )
    schema = entering_schema(source.schema)
    batches = [_entered(batch, schema, name, rounding) for batch in source.batches(MANY_ROWS)]
    # The schema is said because a time without a zone would be taken for one in the session's zone.
    return spark.createDataFrame(pa.Table.from_batches(batches, schema=schema), spark_schema(schema))


def _is_remote(path: str) -> bool:
    return re.match(r"\w+:/", path) is not None


def _entered(batch: pa.RecordBatch, schema: pa.Schema, name: str, rounding: str) -> pa.RecordBatch:
    try:
        return conform(batch, schema, rounding)
    except DataError as error:
        raise DataError(f"{name!r}: {error.message}", hint=error.hint) from None


def declared_frame(
    df: DataFrame, declared: pa.Schema, name: str, where: str, reading: TimeReading | None = None
) -> DataFrame:
    """The declared columns of a DataFrame, in their types. Spark casts without a look at the values, so types must fit
    by themselves. Event times that are still to be read stay as they are."""
    time = None if reading is None else column_named(reading.column, declared.names)
    found = arrow_schema(df.schema, repr(name))
    if time is not None and time in found.names and pa.types.is_timestamp(declared.field(time).type):
        index = declared.get_field_index(time)
        declared = declared.set(index, declared.field(index).with_type(found.field(time).type))
    check_columns(found, declared, name, where, value_by_value=False)
    wanted = spark_schema(declared)
    if df.schema == wanted:
        return df
    return df.select(*(_as_type(df, field).alias(field.name) for field in wanted))


def with_declared_times(found: pa.Schema, declared: pa.Schema) -> pa.Schema:
    """Spark would move times between its types by the zone of the session, so they stay as they are found until the
    rows enter."""
    times = {field.name: field for field in declared if is_instant(field.type)}
    return pa.schema([times.get(field.name, field) for field in found])


def _as_type(df: DataFrame, wanted: StructField) -> Column:
    column = F.col(f"`{wanted.name}`")
    are_times = isinstance(wanted.dataType, _TIMES) and isinstance(df.schema[wanted.name].dataType, _TIMES)
    return column if are_times else column.cast(wanted.dataType)


def check_types_known(frame: DataFrame, kind: str, name: str, path: str) -> None:
    """Refuse text files whose types Spark could only guess from no rows: it takes everything for text."""
    texts = all(field.dataType == StringType() for field in frame.schema)
    if kind == "csv" and texts and frame.isEmpty():
        raise unknown_types(name, path, frame.schema.names)


def _read(spark: SparkSession, path: str, name: str, rounding: str) -> DataFrame:
    named = path_kind(path) or "parquet"  # as a folder of folders mostly is
    kind = ALIASES.get(named, named)
    files = nanosecond_files(path) if kind == "parquet" else []
    if files:
        return nanosecond_frame(spark, name, files, rounding)
    try:
        reader = spark.read.format(kind)
        # Parquet says its types; the options below are for text.
        if kind == "parquet":
            return reader.load(path)
        reader = reader.option("timeZone", "UTC")  # whatever the zone of the session
        if named == "tsv":
            reader = reader.option("sep", "\t")
        frame = _csv(reader.option("header", True), path) if kind == "csv" else reader.load(path)
    except Exception as error:
        raise CatalogError(f"the data of {name!r} at {path} cannot be read: {str(error).splitlines()[0]}") from None
    check_types_known(frame, kind, name, path)
    return frame


def path_kind(path: str) -> str | None:
    """The format of a path: of a folder on this machine what its files are named after, else its own name; None where
    neither tells."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        names = [one.name for one in os.scandir(folder) if not is_hidden(one.name) and one.is_file()]
        kinds = sorted({kind for name in names if (kind := _named(name)) is not None})
        if len(kinds) > 1:
            raise SourceError(
                f"{path} holds files of several formats: {', '.join(kinds)}", hint="give the files of one: folder/*.csv"
            )
        if kinds:
            return kinds[0]
    return _named(path)


def _named(name: str) -> str | None:
    """Spark unpacks what Arrow does not."""
    return named_kind(name.removesuffix(".snappy"))


def _csv(reader: DataFrameReader, path: str) -> DataFrame:
    # Spark infers instants from any text of a time; which of them had no zone only a second look at the text tells.
    found = reader.option("inferSchema", True).load(path)
    schema = with_readings(found.schema, lambda schema: reader.schema(schema).load(path))
    return found if schema == found.schema else reader.schema(schema).load(path)
