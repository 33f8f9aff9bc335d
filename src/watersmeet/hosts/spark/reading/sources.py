"""The inputs of a script on Spark: WITH (source = …, path = …, …) as a streaming or static DataFrame."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampNTZType

from watersmeet.errors import SourceError, WatersmeetError
from watersmeet.hosts.spark.errors import first_useful_line
from watersmeet.hosts.spark.exchange.bad_records import refuse_bad_files
from watersmeet.hosts.spark.formats import way_out
from watersmeet.hosts.spark.paths import has_scheme
from watersmeet.hosts.spark.reading.connector_stream import ConnectorStream, open_connected
from watersmeet.hosts.spark.reading.event_times import timed_frame, with_readings
from watersmeet.hosts.spark.reading.file_stream import FileStream
from watersmeet.hosts.spark.reading.files_frame import nanosecond_files, nanosecond_frame
from watersmeet.hosts.spark.reading.generated_files import as_files
from watersmeet.hosts.spark.reading.inputs import (
    as_dataframe,
    check_types_known,
    declared_frame,
    path_kind,
    with_declared_times,
)
from watersmeet.hosts.spark.types import arrow_schema, spark_schema, spark_type
from watersmeet.io.conform import check_columns
from watersmeet.io.connectors.registry import connector_named
from watersmeet.io.files import subfolder_hint
from watersmeet.io.formats import format_named, null_values
from watersmeet.io.path_formats import ALIASES
from watersmeet.io.providers import is_provided
from watersmeet.io.source_options import OF_FORMATS, SPARK, TO_SPARK
from watersmeet.model.arriving import named_time
from watersmeet.model.declaration import Declaration, as_text
from watersmeet.model.names import column_named
from watersmeet.model.stream_options import STREAM_OPTIONS
from watersmeet.model.time_reading import TimeReading

log = logging.getLogger("watersmeet")
OURS = frozenset({"parquet", "csv", "json"})  # what the readers of this library read
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


@dataclass(frozen=True)
class OnSpark:
    """Opens inputs for a session of Spark's."""

    spark: SparkSession
    host: ClassVar[str] = SPARK

    def __call__(self, declared: Declaration) -> tuple[pa.Schema, Any, int | None]:
        if not declared.is_given:
            return open_on_spark(self.spark, declared)
        values = declared.values
        rounding, on_bad = values.get("rounding", "error"), values.get("on_bad", "error")
        return open_given(self.spark, declared.data, declared.name, rounding, declared.schema, declared.reading, on_bad)


def open_given(
    spark: SparkSession,
    data: Any,
    name: str,
    rounding: str = "error",
    columns: pa.Schema | None = None,
    reading: TimeReading | None = None,
    on_bad: str = "error",
) -> tuple[pa.Schema, Any, int | None]:
    """The same of rows that Python gives."""
    if isinstance(data, FileStream):
        return data.columns(name, columns, reading, tolerant=on_bad != "error"), data, None
    df = as_dataframe(spark, data, name, rounding, columns, reading)
    found = arrow_schema(df.schema, f"stream {name!r}")
    return found if columns is None else with_declared_times(found, columns), df, None


def open_on_spark(
    spark: SparkSession, declared: Declaration
) -> tuple[pa.Schema, DataFrame | FileStream | ConnectorStream, int | None]:
    """The columns of an input and its DataFrame: streaming for a stream, batch for a table.

    Files of this machine are read straight into packets, unless WITH (packed = 'false') or options that only Spark's
    own reader has. So is what a connector reads. `source = 'spark.NAME'` is Spark's own format of that name, also where
    a connector has it.
    """
    where = f"{'table' if declared.is_static else 'stream'} {declared.name!r}"
    try:
        connector = connector_named(declared.options.get("source", "").lower())
        if connector is not None:
            return open_connected(spark, declared, connector)
        given = _Input(spark, declared)
        packed = given.packed()
        if packed is not None:
            return packed.columns(given.name, given.declared, given.reading, tolerant=given.keeps_going), packed, None
        if given.kind in FILES and given.keeps_going:
            raise refuse_bad_files(given.name, given.path or "")
        df = given.dataframe()
        if given.reading is not None:
            df = timed_frame(df, given.reading, given.name)
        schema = given.with_declared_times(arrow_schema(df.schema, where))
        given.tell_of_order()
        return schema, given.with_instants(df), None
    except WatersmeetError:
        raise
    except Exception as error:
        hint = way_out(str(error), "source")
        raise SourceError(f"the input of {where} cannot be opened: {first_useful_line(error)}", hint=hint) from None


class _Input:
    """One stream or table, taken apart."""

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
        passed = {_for_spark(key): value for key, value in options.items() if key.lower() not in STREAM_OPTIONS}
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

    def packed(self) -> FileStream | None:
        """The same input read without Spark's rows, where only options are set that this way has too."""
        others = self.named - {"maxfilespertrigger", *OF_FORMATS.get(self.kind, ())}
        ours = self.streaming and self.kind in OURS and not others and self.wants_packed
        # Other file systems, and {a,b} in patterns, only Spark's reader knows.
        if not ours or not self.path or has_scheme(self.path) or "{" in self.path:
            if self.streaming and self.kind == "parquet" and self.path and nanosecond_files(self.path):
                raise SourceError(
                    f"the Parquet files of {self.name!r} at {self.path} have times in nanoseconds, which Spark's own "
                    "reader refuses",
                    hint="give a folder without packed = 'false' or options of Spark's reader, so that they are read "
                    "without it; or write them with microseconds: "
                    "pyarrow.parquet.write_table(…, coerce_timestamps='us')",
                )
            return None
        readable_path(self.path, need=self.declared is None)
        self._refuse_subfolders(self.path)
        limit = self._option("maxfilespertrigger")
        path = str(Path(self.path).expanduser().absolute())
        format_ = format_named(self.written, self.given)
        return FileStream(path, int(limit) if limit else None, format=format_)

    def _refuse_subfolders(self, path: str) -> None:
        """Files are looked for in the folder itself, so a stream of one that has only subfolders would stay empty."""
        hint = subfolder_hint(path, self.kind)
        target = Path(path).expanduser()
        if hint is not None and not any(p.is_file() and p.name[0] not in "._" for p in target.iterdir()):
            raise SourceError(f"{path} holds no {self.kind} file", hint=hint)

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
        if self._option("header").lower() != "true":
            return spark_schema(self.declared)
        missing = [name for name in self.declared.names if name not in found.names]
        if missing:
            raise SourceError(
                f"{self.path} has no column {missing[0]!r}, which {self.name!r} declares",
                hint=f"its columns are {', '.join(found.names)}",
            )
        types = {field.name: spark_type(field.type) for field in self.declared}
        return StructType([StructField(name, types.get(name, StringType())) for name in found.names])

    def _option(self, name: str) -> str:
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


def _for_spark(name: str) -> str:
    """The name by which Spark's reader knows an option: `spark.NAME` goes on as NAME."""
    return name[len(TO_SPARK) :] if name.lower().startswith(TO_SPARK) else name


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
        raise SourceError(f"there is no file or folder {path}", hint="relative paths start at the current folder")
    if need and target.is_dir() and not any(p.name[0] not in "._" for p in target.iterdir()):
        raise SourceError(f"{path} is empty, so its columns are unknown", hint="declare its columns")
    return str(target.absolute())
