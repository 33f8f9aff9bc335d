"""Files of this machine that the library's own readers read for Spark, file by file in tasks.

Parquet files with nanoseconds, as pandas writes them, are among them: Spark's own reader refuses those."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from watersmeet.hosts.spark.types import spark_layout, spark_schema
from watersmeet.io.conform import conform
from watersmeet.io.files import FileSource, first_schema, readable
from watersmeet.io.formats import Parquet
from watersmeet.model.zones import entering_schema

READ_ROWS = 1 << 16


def nanosecond_files(path: str) -> list[str]:
    """The Parquet files of this machine that a path stands for, if the first of them has nanoseconds; else none."""
    target = Path(path.removeprefix("file:")).expanduser()
    found = (
        [target] if target.is_file() else target.rglob("*") if target.is_dir() else map(Path, glob.glob(str(target)))
    )
    # Spark's readers pass over names that begin so too.
    files = sorted(str(p) for p in found if p.is_file() and not p.name.startswith((".", "_")))
    return files if files and _has_nanoseconds(files[0]) else []


def _has_nanoseconds(path: str) -> bool:
    """By the types that are stored; INT96, which Spark writes and reads, is none of them."""
    try:
        stored = pq.ParquetFile(path).schema
    except (OSError, pa.ArrowException):
        return False  # whoever reads it says what is wrong
    return any("nanoseconds" in str(stored.column(i).logical_type) for i in range(len(stored)))


def nanosecond_frame(spark: SparkSession, name: str, files: Sequence[str], rounding: str) -> DataFrame:
    """A batch DataFrame of the rows of such files."""
    paths, format_ = tuple(map(Path, files)), Parquet()
    schema = first_schema(name, paths, format_)
    return files_frame(spark, FileSource(name, paths, format_, schema, "", declared=False, rounding=rounding))


def files_frame(spark: SparkSession, source: FileSource) -> DataFrame:
    """A batch DataFrame of files that the library's own readers read, file by file in tasks."""
    schema = entering_schema(source.schema)
    layout = spark_layout(schema)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in map(Path, batch.column(0).to_pylist()):
                with readable(path, source.hint):
                    for rows in source.read(path, READ_ROWS):
                        yield conform(rows, layout, source.rounding)

    paths = [(str(Path(path).absolute()),) for path in source.paths]
    listed = spark.createDataFrame(paths, "path string").repartition(len(paths))
    return listed.mapInArrow(read, spark_schema(schema))
