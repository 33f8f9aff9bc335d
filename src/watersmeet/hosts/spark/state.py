"""What a query remembers, read from its checkpoint: the manifest of every bucket and the rows of its segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import SourceError
from watersmeet.hosts.spark.errors import first_useful_line
from watersmeet.hosts.spark.log import Manifest
from watersmeet.hosts.spark.pack import GUARD
from watersmeet.hosts.spark.packets import from_packet
from watersmeet.hosts.spark.paths import has_scheme
from watersmeet.io.rows import python_rows
from watersmeet.model.time import format_instant

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
SUMMARY = pa.schema(
    [
        ("bucket", pa.int32()),
        ("version", pa.int64()),
        ("complete_until_us", pa.int64()),
        ("input", pa.int32()),
        ("segments", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("oldest_us", pa.int64()),
        ("newest_us", pa.int64()),
    ]
)


@dataclass(frozen=True)
class BucketState:
    """One bucket: how often its state was written, the manifest, and the live rows of each input."""

    bucket: int
    version: int
    manifest: Manifest
    rows: dict[int, pa.Table]

    def summary(self) -> Iterator[dict[str, object]]:
        for number, log in sorted(self.manifest.segments.items()):
            newest = max((segment.newest_us for segment in log), default=None)
            yield {
                "bucket": self.bucket,
                "version": self.version,
                "complete_until_us": self.manifest.complete_until,
                "input": number,
                "segments": len(log),
                "rows": sum(segment.rows for segment in log),
                "bytes": sum(segment.size for segment in log),
                "oldest_us": _oldest_us(self.rows.get(number), newest),
                "newest_us": newest,
            }


@dataclass(frozen=True)
class State:
    """The state of a query after its last batch, or after the one that was asked for."""

    checkpoint: str
    fingerprint: str | None
    buckets: tuple[BucketState, ...]

    def summary(self) -> pa.Table:
        """One row per bucket and input. Inputs are numbered as in FROM; times are in microseconds."""
        return pa.Table.from_pylist([row for bucket in self.buckets for row in bucket.summary()], SUMMARY)

    def rows(self, number: int) -> pa.Table:
        """The remembered rows of one input, over all buckets, copies included."""
        found = [bucket.rows[number] for bucket in self.buckets if number in bucket.rows]
        return pa.concat_tables(found) if found else pa.table({})

    @property
    def inputs(self) -> list[int]:
        return sorted({number for bucket in self.buckets for number in bucket.rows})

    def describe(self, rows: int = 0) -> str:
        """The state as text, with a few rows of each input."""
        lines = [f"{self.checkpoint}: {len(self.buckets)} bucket{'s' if len(self.buckets) != 1 else ''}"]
        for bucket in self.buckets:
            until = format_instant(bucket.manifest.complete_until)
            lines.append(f"bucket {bucket.bucket}: version {bucket.version}, complete until {until}")
            lines += _aligned([_cells(row) for row in bucket.summary()])
        for number in self.inputs if rows else []:
            shown = self.rows(number).slice(0, rows)
            lines.append(f"input {number}: {', '.join(shown.column_names)}")
            lines += [f"  {row}" for batch in shown.to_batches() for row in map(_row, python_rows(batch))]
        return "\n".join(lines)


def read_state(spark: SparkSession, checkpoint: str, batch: int | None = None) -> State:
    """Read the state of a query from its checkpoint. The query may be running; nothing is changed."""
    folder = _folder_of(checkpoint)
    try:
        with _in_format_of(spark, folder):
            meta = _load(spark, folder, "meta", batch).selectExpr("key.bucket AS bucket", "value.*").toArrow()
            kept = _load(spark, folder, "segments", batch).selectExpr(
                "key.bucket AS bucket", "user_map_key.input", "user_map_key.number", "user_map_value.rows"
            )
            segments = kept.toArrow()
    except Exception as error:
        raise SourceError(f"the state in {checkpoint} cannot be read: {first_useful_line(error)}") from None
    packets = {(row["bucket"], row["input"], row["number"]): row["rows"] for row in segments.to_pylist()}
    rows = meta.to_pylist()
    guard = next((bytes(row["manifest"]).decode() for row in rows if row["bucket"] == GUARD), None)
    buckets = [_bucket(row, packets) for row in rows if row["bucket"] != GUARD]
    return State(checkpoint, guard, tuple(sorted(buckets, key=lambda bucket: bucket.bucket)))


def read_guard(spark: SparkSession, checkpoint: str) -> str | None:
    """The fingerprint of the query whose state this is; None before its first rows, or if none can be read."""
    try:
        folder = _folder_of(checkpoint)
        with _in_format_of(spark, folder):
            meta = _load(spark, folder, "meta", None).where(f"key.bucket = {GUARD}").select("value.manifest").collect()
    except Exception:  # no batch has ended yet, or Spark cannot read this state: then the guard speaks when it runs
        return None
    return bytes(meta[0][0]).decode() if meta else None


def _folder_of(checkpoint: str) -> str:
    if has_scheme(checkpoint):
        return checkpoint
    folder = Path(checkpoint).expanduser().absolute()
    if not (folder / "state").is_dir():
        raise SourceError(
            f"{checkpoint} is not the checkpoint of a query with state", hint="give the folder that --checkpoint named"
        )
    return str(folder)


@contextmanager
def _in_format_of(spark: SparkSession, folder: str) -> Iterator[None]:
    """Spark reads a checkpoint in the format that the session has, so that must be the one it was written in."""
    before = spark.conf.get(FORMAT, "1")
    if not has_scheme(folder):  # in format 2 the names of state files end in a unique id: 7_….zip
        spark.conf.set(FORMAT, "2" if any((Path(folder) / "state").glob("*/[0-9]*/[0-9]*_*")) else "1")
    try:
        yield
    finally:
        spark.conf.set(FORMAT, before or "1")


def _load(spark: SparkSession, folder: str, variable: str, batch: int | None) -> DataFrame:
    reader = spark.read.format("statestore").option("stateVarName", variable)
    return (reader if batch is None else reader.option("batchId", batch)).load(folder)


def _bucket(row: dict[str, Any], packets: dict[tuple[int, int, int], bytes]) -> BucketState:
    bucket, manifest = int(row["bucket"]), Manifest.from_bytes(bytes(row["manifest"]))
    rows = {}
    for number, log in manifest.segments.items():
        batches = [b for segment in log for b in from_packet(packets[bucket, number, segment.number])]
        if batches:
            rows[number] = pa.Table.from_batches(batches)
    return BucketState(bucket, int(row["version"]), manifest, rows)


def _oldest_us(rows: pa.Table | None, newest_us: int | None) -> int | None:
    """The oldest event time; the column that holds it is the one whose newest time the manifest has."""
    if rows is None:
        return None
    for column in rows.columns:
        if pa.types.is_timestamp(column.type):
            ends = pc.min_max(pc.cast(column, pa.timestamp("us"), safe=False))
            if ends["max"].value == newest_us:
                return int(ends["min"].value)
    return None


def _cells(row: dict[str, object]) -> list[str]:
    times = [format_instant(us) if isinstance(us, int) else "-" for us in (row["oldest_us"], row["newest_us"])]
    return [
        f"input {row['input']}",
        f"{row['rows']:,} rows",
        f"{row['bytes']:,} bytes",
        f"{row['segments']} segments",
        f"{times[0][:19]} to {times[1][:19]}" if row["rows"] else "",
    ]


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(map(str.rjust, row, widths)).rstrip() for row in rows]


def _row(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))
