"""Parquet files with nanoseconds, as pandas writes them: Spark's own reader refuses them, Arrow reads them for it."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import DataError, SourceError
from watersmeet.hosts.spark.types import spark_layout, spark_schema
from watersmeet.io.conform import conform, plain_schema
from watersmeet.model.zones import entering_schema

READ_ROWS = 1 << 18


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


def nanosecond_schema(path: str) -> pa.Schema:
    """The columns of a file as they enter."""
    return entering_schema(plain_schema(pq.read_schema(path), path))


def nanosecond_frame(spark: SparkSession, name: str, files: Sequence[str], rounding: str) -> DataFrame:
    """A batch DataFrame of the rows of such files, which tasks read one by one."""
    schema = nanosecond_schema(files[0])
    layout = spark_layout(schema)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column(0).to_pylist():
                yield from _read(path, name, layout, rounding)

    # The tasks are sent names, not rows: each opens its file itself.
    listed = spark.createDataFrame([(path,) for path in files], "path string").repartition(len(files))
    return listed.mapInArrow(read, spark_schema(schema))


def _read(path: str, name: str, layout: pa.Schema, rounding: str) -> Iterator[pa.RecordBatch]:
    try:
        for batch in pq.ParquetFile(path).iter_batches(READ_ROWS, columns=layout.names):
            yield conform(batch, layout, rounding)
    except DataError as error:
        raise DataError(f"{name!r}: {error.message}", hint=error.hint) from None
    except (OSError, pa.ArrowException, KeyError) as error:
        raise SourceError(f"{name!r}: {path} cannot be read: {error}") from None


def refuse(name: str, path: str) -> SourceError:
    return SourceError(
        f"the Parquet files of {name!r} at {path} have times in nanoseconds, which Spark's own reader refuses",
        hint="give a folder without packed = 'false' or options of Spark's reader, so that they are read without it; "
        "or write them with microseconds: pyarrow.parquet.write_table(…, coerce_timestamps='us')",
    )
