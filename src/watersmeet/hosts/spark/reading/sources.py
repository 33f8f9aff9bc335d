"""The inputs of a script on Spark: WITH (source = …, path = …, …) as a streaming or static DataFrame."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from watersmeet.dataclass import dataclass
from watersmeet.errors import SourceError, WatersmeetError
from watersmeet.hosts.spark.errors import first_useful_line
from watersmeet.hosts.spark.exchange.bad_records import refuse_bad_files
from watersmeet.hosts.spark.formats import way_out
from watersmeet.hosts.spark.paths import has_scheme
from watersmeet.hosts.spark.reading.connector_stream import ConnectorStream, open_connected, open_said
from watersmeet.hosts.spark.reading.event_times import timed_frame
from watersmeet.hosts.spark.reading.file_stream import FileStream
from watersmeet.hosts.spark.reading.files_frame import nanosecond_files
from watersmeet.hosts.spark.reading.inputs import FILES, SparkInput, as_dataframe, readable_path, with_declared_times
from watersmeet.hosts.spark.types import arrow_schema
from watersmeet.io.connectors.registry import connector_named
from watersmeet.io.files import subfolder_hint
from watersmeet.io.formats import format_named
from watersmeet.io.source_options import OF_FORMATS, SPARK
from watersmeet.model.declaration import Declaration
from watersmeet.model.time_reading import TimeReading

OURS = frozenset({"parquet", "csv", "json"})  # what the readers of this library read


@dataclass(frozen=True)
class OnSpark:
    """Opens inputs for a session of Spark's. `streams`: rows that a query says itself are to go on as a stream does."""

    spark: SparkSession
    streams: bool = False
    host: ClassVar[str] = SPARK

    def __call__(self, declared: Declaration) -> tuple[pa.Schema, Any, int | None]:
        if not declared.is_given:
            return open_on_spark(self.spark, declared)
        if self.streams and isinstance(declared.data, pa.Table):
            return declared.data.schema, open_said(declared.name, declared.data), declared.data.num_rows
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
        given = SparkInput(spark, declared)
        packed = _packed(given)
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


def _packed(given: SparkInput) -> FileStream | None:
    """The same input read without Spark's rows, where only options are set that this way has too."""
    others = given.named - {"maxfilespertrigger", *OF_FORMATS.get(given.kind, ())}
    ours = given.streaming and given.kind in OURS and not others and given.wants_packed
    # Other file systems, and {a,b} in patterns, only Spark's reader knows.
    if not ours or not given.path or has_scheme(given.path) or "{" in given.path:
        if given.streaming and given.kind == "parquet" and given.path and nanosecond_files(given.path):
            raise SourceError(
                f"the Parquet files of {given.name!r} at {given.path} have times in nanoseconds, which Spark's own "
                "reader refuses",
                hint="give a folder without packed = 'false' or options of Spark's reader, so that they are read "
                "without it; or write them with microseconds: "
                "pyarrow.parquet.write_table(…, coerce_timestamps='us')",
            )
        return None
    readable_path(given.path, need=given.declared is None)
    _refuse_subfolders(given.path, given.kind)
    limit = given.option("maxfilespertrigger")
    path = str(Path(given.path).expanduser().absolute())
    format_ = format_named(given.written, given.given)
    return FileStream(path, int(limit) if limit else None, format=format_)


def _refuse_subfolders(path: str, kind: str) -> None:
    """Files are looked for in the folder itself, so a stream of one that has only subfolders would stay empty."""
    hint = subfolder_hint(path, kind)
    target = Path(path).expanduser()
    if hint is not None and not any(p.is_file() and p.name[0] not in "._" for p in target.iterdir()):
        raise SourceError(f"{path} holds no {kind} file", hint=hint)
