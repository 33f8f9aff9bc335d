"""What a Spark session may be given as data, or a script names, as DataFrames: by Spark's own readers where ours do not
read it."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StringType, StructField, StructType, TimestampNTZType, TimestampType

from watersmeet.errors import CatalogError, DataError, SourceError, WatersmeetError
from watersmeet.hosts.spark.paths import has_scheme
from watersmeet.hosts.spark.reading.event_times import timed_frame, with_readings
from watersmeet.hosts.spark.reading.files_frame import files_frame, nanosecond_files, nanosecond_frame
from watersmeet.hosts.spark.reading.generated_files import as_files
from watersmeet.hosts.spark.types import arrow_schema, spark_schema, spark_type
from watersmeet.io.conform import check_columns, conform
from watersmeet.io.files import missing, open_files, subfolder_hint, unknown_types
from watersmeet.io.formats import null_values
from watersmeet.io.path_formats import ALIASES, is_hidden, named_kind
from watersmeet.io.providers import is_provided
from watersmeet.io.source_options import TO_SPARK, name_for_spark
from watersmeet.io.sources import source_of
from watersmeet.model.arriving import named_time
from watersmeet.model.declaration import Declaration, as_text
from watersmeet.model.names import column_named
from watersmeet.model.stream_options import STREAM_OPTIONS
from watersmeet.model.time_reading import TimeReading
from watersmeet.model.types import is_instant
from watersmeet.model.zones import entering_schema

log = logging.getLogger("watersmeet")
FILES = frozenset({"parquet", "csv", "json", "orc"})
TEXT = frozenset({"csv", "json"})
WITH_FOOTER = frozenset({"parquet", "orc"})
FIXED = frozenset({"rate", "rate-micro-batch", "socket", "kafka"})  # their columns are what they are
# What the same script means in-process: a header, and an error rather than NULL for what does not parse.
# Text without a zone is UTC, whatever the zone of the session.
DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "csv": {"header": "true", "mode": "FAILFAST", "enforceSchema": "false", "timeZone": "UTC"},
    "json": {"mode": "FAILFAST", "timeZone": "UTC"},
}
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
    kind = path_kind(path) or "parquet"  # as a folder of folders mostly is
    declared = Declaration.in_python("table", name, {"source": kind, "path": path, "rounding": rounding})
    try:
        return SparkInput(spark, declared).dataframe()
    except SourceError as error:
        raise SourceError(f"{name!r}: {error.message}", hint=error.hint) from None
    except WatersmeetError:
        raise
    except Exception as error:
        raise CatalogError(f"the data of {name!r} at {path} cannot be read: {str(error).splitlines()[0]}") from None


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


class SparkInput:
    """One stream or table that Spark's own readers may read, taken apart."""

    def __init__(self, spark: SparkSession, declared: Declaration) -> None:
        options = _written(declared)
        given = {key.lower(): value for key, value in options.items()}
        self.spark = spark
        self.name = declared.name
        self.streaming = not declared.is_static
        self.declared: pa.Schema | None = declared.schema
        self.path = given.get("path")
        self.time = None if declared.by_arrival else named_time(declared.values.get("time", ""))
        self.rounding = declared.values.get("rounding", "error")
        self.keeps_going = declared.values.get("on_bad", "error") != "error"
        self.reading = _by_its_name(declared.reading, self.declared)
        sparks_own = given.get("source", "").lower().startswith(TO_SPARK)
        self.wants_packed = given.get("packed", "true").lower() != "false" and not sparks_own
        written = given.get("source", "").lower().removeprefix(TO_SPARK) or kind_of(self.name, self.path)
        self.written, self.given = written, given
        self.kind = ALIASES.get(written, written)
        passed = {name_for_spark(key): value for key, value in options.items() if key.lower() not in STREAM_OPTIONS}
        named = self.named = {key.lower() for key in passed}
        defaults = dict(DEFAULTS.get(self.kind, {})) | ({"sep": "\t"} if written == "tsv" else {})
        if "delimiter" in named:
            defaults.pop("sep", None)
        self.options = {key: value for key, value in defaults.items() if key.lower() not in named} | passed

    def dataframe(self) -> DataFrame:
        self.options = self._with_null_value()
        if self.kind in FILES:
            return self._files()
        reader = self._reader()
        if self.declared is not None and self.kind not in FIXED:
            reader = reader.schema(spark_schema(self.declared))
        return self._as_declared(reader.load(self.path) if self.path else reader.load())

    def _with_null_value(self) -> dict[str, str]:
        """The options as Spark's own reader takes them: it knows one word for NULL, beside the empty field."""
        options = {key: value for key, value in self.options.items() if key.lower() != "null_values"}
        words = null_values(self.given)
        if len(words) > 1:
            raise SourceError(
                f"{self.name!r} is read by Spark's own reader, which knows one word for NULL, not {', '.join(words)}",
                hint="name one of them; streams of CSV files of this machine may have several",
            )
        return options | ({"nullValue": words[0]} if words else {})

    def tell_of_order(self) -> None:
        """Spark's reader sorts by modification time alone."""
        if self.streaming and self.kind in FILES:
            log.warning(
                "stream %r is read by Spark's own reader: files of the same millisecond come in any order, "
                "and rows may be late for that",
                self.name,
            )

    def with_declared_times(self, found: pa.Schema) -> pa.Schema:
        return found if self.declared is None else with_declared_times(found, self.declared)

    def with_instants(self, df: DataFrame) -> DataFrame:
        """The event time as an instant, which is what Spark's watermarks take; without a zone it is in UTC."""
        time = None if self.time is None else column_named(self.time, df.columns)
        if not self.streaming or time is None or df.schema[time].dataType != TimestampNTZType():
            return df
        # Not a cast, which would go by the zone of the session.
        since = f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', `{time}`)"
        return df.withColumn(time, F.expr(f"timestamp_micros({since})"))

    def _files(self) -> DataFrame:
        if not self.path:
            raise SourceError(f"{self.name!r} has no path to read from", hint="add path = '…' to its WITH (…)")
        path = readable_path(self.path, need=self.declared is None)
        files = nanosecond_files(self.path) if self.kind == "parquet" and not self.streaming else []
        if files:
            return self._as_declared(nanosecond_frame(self.spark, self.name, files, self.rounding))
        schema = self._file_schema(path)
        return self._as_declared(self._reader().schema(schema).load(path))

    def _file_schema(self, path: str) -> StructType:
        """The columns as the files have them, in the order the files have them."""
        if self.declared is not None and self.kind == "json":
            return self._with_text(spark_schema(self.declared))
        reader = self.spark.read.format(self.kind).options(**self.options)
        if self.declared is None and self.kind == "csv":
            reader = reader.option("inferSchema", "true")
        try:
            frame = reader.load(path)
            found = frame.schema
        except Exception:
            if self.declared is None:
                raise
            return self._with_text(spark_schema(self.declared))  # nothing to look at yet
        if self.declared is None:
            check_types_known(frame, self.kind, self.name, self.path or path)
            plain = self.spark.read.format(self.kind).options(**self.options)
            if self.kind == "csv":
                found = with_readings(found, lambda schema: plain.schema(schema).load(path))
            return self._with_text(found)
        if not found.names:
            return self._with_text(spark_schema(self.declared))  # an empty file
        if self.kind in WITH_FOOTER:
            self._check(found)
            return found
        return self._with_text(self._typed(found))

    def _with_text(self, columns: StructType) -> StructType:
        """The event time of text files as text, if it is to be read by us."""
        time = None if self.reading is None else column_named(self.reading.column, columns.names)
        if time is None or self.kind not in TEXT:
            return columns
        return StructType([StructField(f.name, StringType()) if f.name == time else f for f in columns])

    def _check(self, found: StructType) -> None:
        """Spark casts without a look at the values, so types must fit by themselves."""
        assert self.declared is not None
        columns = arrow_schema(found, repr(self.name))
        declared = self.declared
        if self.reading is not None and self.reading.column in columns.names:
            declared = self.reading.held(declared, columns.field(self.reading.column).type)
        check_columns(columns, declared, self.name, self.path or self.kind, value_by_value=False)

    def _typed(self, found: StructType) -> StructType:
        """The columns of a text file in its own order, with the declared types; by position without a header."""
        assert self.declared is not None
        if self.option("header").lower() != "true":
            return spark_schema(self.declared)
        missing = [name for name in self.declared.names if name not in found.names]
        if missing:
            raise SourceError(
                f"{self.path} has no column {missing[0]!r}, which {self.name!r} declares",
                hint=f"its columns are {', '.join(found.names)}",
            )
        types = {field.name: spark_type(field.type) for field in self.declared}
        return StructType([StructField(name, types.get(name, StringType())) for name in found.names])

    def option(self, name: str) -> str:
        return next((value for key, value in self.options.items() if key.lower() == name), "")

    def _reader(self) -> Any:
        """The reader of a stream or of a table, which are alike."""
        reader: Any = self.spark.readStream if self.streaming else self.spark.read
        return reader.format(self.kind).options(**self.options)

    def _as_declared(self, df: DataFrame) -> DataFrame:
        if self.declared is None:
            return df
        declared = self.declared
        if self.reading is not None and self.kind in TEXT:
            declared = self.reading.held(declared, pa.string())
        return declared_frame(df, declared, self.name, self.path or self.kind, self.reading)


def _by_its_name(reading: TimeReading | None, declared: pa.Schema | None) -> TimeReading | None:
    """A reading of a declared column under the name that was declared."""
    if reading is None or declared is None:
        return reading
    return replace(reading, column=column_named(reading.column, declared.names) or reading.column)


def _written(declared: Declaration) -> Mapping[str, str]:
    """The options by the names that were written; where they ask for rows that are made, those of the files that these
    are written to."""
    kind = declared.options.get("source", "").lower()
    options = {one.name: as_text(one.value) for one in declared.settings}
    return as_files(kind, options) if is_provided(kind) else options


def kind_of(name: str, path: str | None) -> str:
    """The format a path tells by its name, or by the first file in it."""
    if not path:
        raise SourceError(
            f"{name!r} says neither what it reads nor where",
            hint="add source = '…' (parquet, csv, json, rate, socket or any format of Spark) and path = '…'",
        )
    kind = path_kind(path)
    if kind is not None:
        return kind
    raise SourceError(
        f"the format of {path} is not clear from its name",
        hint=subfolder_hint(path, None) or "add source = 'parquet', 'csv' or 'json'",
    )


def readable_path(path: str, *, need: bool) -> str:
    """The path as Spark reads it. Spark streams folders and patterns, so a single file becomes a pattern."""
    if has_scheme(path):
        return path
    target = Path(path).expanduser()
    if target.is_file():
        # A last character in brackets is a pattern that only this file matches; signs of other patterns are escaped.
        escaped = re.sub(r"([\\{}\[\]*?,])", r"\\\1", str(target.absolute())[:-1])
        return f"{escaped}[{target.name[-1]}]"
    if not target.exists() and not re.search(r"[*?\[{]", path):
        raise missing(path)
    if need and target.is_dir() and not any(p.name[0] not in "._" for p in target.iterdir()):
        raise SourceError(f"{path} is empty, so its columns are unknown", hint="declare its columns")
    return str(target.absolute())
