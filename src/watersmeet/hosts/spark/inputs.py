"""What a Spark session may be given as data: DataFrames as they are, anything else made into one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StringType

from watersmeet.errors import CatalogError, DataError, SourceError
from watersmeet.hosts.spark.nanoseconds import nanosecond_files, nanosecond_frame
from watersmeet.hosts.spark.text_times import with_readings
from watersmeet.hosts.spark.types import spark_schema
from watersmeet.io.conform import conform
from watersmeet.io.files import named_kind, untold_types
from watersmeet.io.formats import ALIASES
from watersmeet.io.sources import source_of
from watersmeet.model.zones import entering_schema

MANY_ROWS = 1 << 20


def as_dataframe(spark: SparkSession, data: Any, name: str, rounding: str = "error") -> DataFrame:
    """A DataFrame of the data; in-memory data goes over as Arrow."""
    if isinstance(data, DataFrame):  # classic or Connect
        return data
    if isinstance(data, str | Path):
        return _read(spark, str(data), name, rounding)
    source = source_of(data, name)
    if not source.bounded:
        raise SourceError(
            f"stream {name!r} is an endless iterator, which Spark cannot read",
            hint="give a streaming DataFrame, or run the query in-process with Session()",
        )
    schema = entering_schema(source.schema)
    batches = [_entered(batch, schema, name, rounding) for batch in source.batches(MANY_ROWS)]
    # The schema is said because a time without a zone would be taken for one in the session's zone.
    return spark.createDataFrame(pa.Table.from_batches(batches, schema=schema), spark_schema(schema))


def _entered(batch: pa.RecordBatch, schema: pa.Schema, name: str, rounding: str) -> pa.RecordBatch:
    try:
        return conform(batch, schema, rounding)
    except DataError as error:
        raise DataError(f"{name!r}: {error.message}", hint=error.hint) from None


def check_types_told(frame: DataFrame, kind: str, name: str, path: str) -> None:
    """Refuse text files whose types Spark could only guess from no rows: it takes everything for text."""
    texts = all(field.dataType == StringType() for field in frame.schema)
    if kind == "csv" and texts and frame.isEmpty():
        raise untold_types(name, path, frame.schema.names)


def _read(spark: SparkSession, path: str, name: str, rounding: str) -> DataFrame:
    named = _kind(path)
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
    check_types_told(frame, kind, name, path)
    return frame


def _kind(path: str) -> str:
    """The format of a path: of a folder on this machine what its files are named after, else its own name. Where
    neither tells, it is Parquet, as a folder of folders mostly is."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        names = [one for one in folder.iterdir() if not one.name.startswith((".", "_"))]
        kinds = sorted({kind for one in names if one.is_file() and (kind := named_kind(one)) is not None})
        if len(kinds) > 1:
            raise SourceError(
                f"{path} holds files of several formats: {', '.join(kinds)}", hint="give the files of one: folder/*.csv"
            )
        if kinds:
            return kinds[0]
    return named_kind(Path(path)) or "parquet"


def _csv(reader: DataFrameReader, path: str) -> DataFrame:
    # Spark infers instants from any text of a time; which of them had no zone only a second look at the text tells.
    found = reader.option("inferSchema", True).load(path)
    schema = with_readings(found.schema, lambda schema: reader.schema(schema).load(path))
    return found if schema == found.schema else reader.schema(schema).load(path)
