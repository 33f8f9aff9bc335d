"""The inputs of a script on Spark: WITH (source = …, path = …, …) as a streaming or static DataFrame."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampNTZType

from watersmeet.engine.conform import check_columns
from watersmeet.engine.formats import ALIASES, SUFFIXES
from watersmeet.engine.providers import is_provided
from watersmeet.errors import SourceError, WatersmeetError
from watersmeet.spark.errors import first_useful_line
from watersmeet.spark.inputs import check_types_told
from watersmeet.spark.packed import ParquetStream
from watersmeet.spark.provided import as_files
from watersmeet.spark.types import arrow_schema, spark_schema, spark_type
from watersmeet.sql.syntax import CreateStream, CreateTable

OURS = frozenset({"source", "path", "time", "lateness", "packed", "rate", "distinct"})
FILES = frozenset({"parquet", "csv", "json", "orc"})
WITH_FOOTER = frozenset({"parquet", "orc"})
FIXED = frozenset({"rate", "rate-micro-batch", "socket", "kafka"})  # their columns are what they are
# What the same script means in-process: a header, and an error rather than NULL for what does not parse.
DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "csv": {"header": "true", "mode": "FAILFAST", "enforceSchema": "false"},
    "json": {"mode": "FAILFAST"},
}


def open_on_spark(
    spark: SparkSession, statement: CreateStream | CreateTable
) -> tuple[pa.Schema, DataFrame | ParquetStream, None]:
    """The columns of an input and its DataFrame: streaming for a stream, batch for a table.

    A folder of Parquet files is read straight into packets, unless WITH (packed = 'false').
    """
    where = f"{'stream' if isinstance(statement, CreateStream) else 'table'} {statement.name!r}"
    try:
        given = _Input(spark, statement)
        df = given.dataframe()
        packed = given.packed()
        if packed is not None:
            return arrow_schema(df.schema, where), packed, None
        return arrow_schema(df.schema, where), given.with_instants(df), None
    except WatersmeetError:
        raise
    except Exception as error:
        raise SourceError(f"the input of {where} cannot be opened: {first_useful_line(error)}") from None


class _Input:
    """One CREATE STREAM or CREATE TABLE, taken apart."""

    def __init__(self, spark: SparkSession, statement: CreateStream | CreateTable) -> None:
        options = options_of(statement)
        given = {key.lower(): value for key, value in options.items()}
        self.spark = spark
        self.name = statement.name
        self.streaming = isinstance(statement, CreateStream)
        self.declared: pa.Schema | None = statement.schema
        self.path = given.get("path")
        self.time = given.get("time")
        self.wants_packed = given.get("packed", "true").lower() != "false"
        written = given.get("source", "").lower() or kind_of(self.name, self.path)
        self.kind = ALIASES.get(written, written)
        passed = {key: value for key, value in options.items() if key.lower() not in OURS}
        named = {key.lower() for key in passed}
        defaults = dict(DEFAULTS.get(self.kind, {})) | ({"sep": "\t"} if written == "tsv" else {})
        if "delimiter" in named:
            defaults.pop("sep", None)
        self.options = {key: value for key, value in defaults.items() if key.lower() not in named} | passed

    def dataframe(self) -> DataFrame:
        if self.kind in FILES:
            return self._files()
        reader = self._reader()
        if self.declared is not None and self.kind not in FIXED:
            reader = reader.schema(spark_schema(self.declared))
        return self._as_declared(reader.load(self.path) if self.path else reader.load())

    def packed(self) -> ParquetStream | None:
        """The same input read without Spark's rows, where only options are set that this way has too."""
        others = {key.lower() for key in self.options} - {"maxfilespertrigger"}
        folder = Path(self.path or "").expanduser()
        if not self.streaming or self.kind != "parquet" or others or not self.wants_packed or not folder.is_dir():
            return None
        limit = self._option("maxfilespertrigger")
        return ParquetStream(str(folder.absolute()), int(limit) if limit else None)

    def with_instants(self, df: DataFrame) -> DataFrame:
        """The event time as an instant, which is what Spark's watermarks take; without a zone it is in UTC."""
        if not self.streaming or self.time not in df.columns or df.schema[self.time].dataType != TimestampNTZType():
            return df
        since = f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', `{self.time}`)"
        return df.withColumn(self.time, F.expr(f"timestamp_micros({since})"))

    def _files(self) -> DataFrame:
        if not self.path:
            raise SourceError(f"{self.name!r} has no path to read from", hint="add path = '…' to its WITH (…)")
        path = readable_path(self.path, need=self.declared is None)
        schema = self._file_schema(path)
        return self._as_declared(self._reader().schema(schema).load(path))

    def _file_schema(self, path: str) -> StructType:
        """The columns as the files have them, in the order the files have them."""
        if self.declared is not None and self.kind == "json":
            return spark_schema(self.declared)
        reader = self.spark.read.format(self.kind).options(**self.options)
        if self.declared is None and self.kind == "csv":
            reader = reader.option("inferSchema", "true")
        try:
            frame = reader.load(path)
            found = frame.schema
        except Exception:
            if self.declared is None:
                raise
            return spark_schema(self.declared)  # nothing to look at yet
        if self.declared is None:
            check_types_told(frame, self.kind, self.name, self.path or path)
            return found
        if not found.names:
            return spark_schema(self.declared)  # an empty file
        if self.kind in WITH_FOOTER:
            check_columns(arrow_schema(found, repr(self.name)), self.declared, self.name, self.path or "")
            return found
        return self._typed(found)

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
        check_columns(arrow_schema(df.schema, repr(self.name)), self.declared, self.name, self.path or self.kind)
        wanted = spark_schema(self.declared)
        if df.schema == wanted:
            return df
        return df.select(*(F.col(f"`{field.name}`").cast(field.dataType).alias(field.name) for field in wanted))


def options_of(statement: CreateStream | CreateTable) -> Mapping[str, str]:
    """The options of WITH; where they ask for rows that are made, those of the files that these are written to."""
    kind = next((value.lower() for key, value in statement.options.items() if key.lower() == "source"), "")
    return as_files(kind, statement.options) if is_provided(kind) else statement.options


def kind_of(name: str, path: str | None) -> str:
    """The format a path tells by its name, or by the first file in it."""
    if not path:
        raise SourceError(
            f"{name!r} says neither what it reads nor where",
            hint="add source = '…' (parquet, csv, json, rate, socket or any format of Spark) and path = '…'",
        )
    folder = Path(path).expanduser()
    files = sorted(p for p in folder.iterdir() if p.name[0] not in "._") if folder.is_dir() else []
    for candidate in (folder, *files[:1]):
        suffixes = [s.lower() for s in candidate.suffixes if s.lower() not in (".gz", ".bz2", ".zst", ".snappy")]
        if suffixes and suffixes[-1] in SUFFIXES:
            return "tsv" if suffixes[-1] == ".tsv" else SUFFIXES[suffixes[-1]]
    raise SourceError(
        f"the format of {path} is not clear from its name", hint="add source = 'parquet', 'csv' or 'json'"
    )


def readable_path(path: str, *, need: bool) -> str:
    """The path as Spark reads it. Spark streams folders and patterns, so a single file becomes a pattern."""
    if re.match(r"\w+:/", path):
        return path
    target = Path(path).expanduser()
    if target.is_file():
        escaped = re.sub(r"([\\{}\[\]*?,])", r"\\\1", str(target.absolute())[:-1])
        return f"{escaped}[{target.name[-1]}]"
    if not target.exists() and not re.search(r"[*?\[{]", path):
        raise SourceError(f"there is no file or folder {path}", hint="relative paths start at the current folder")
    if need and target.is_dir() and not any(p.name[0] not in "._" for p in target.iterdir()):
        raise SourceError(f"{path} is empty, so its columns are unknown", hint="declare its columns")
    return str(target.absolute())
