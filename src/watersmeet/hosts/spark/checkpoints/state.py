"""What a query remembers, read from its checkpoint: the manifest of every bucket and the rows of its segments.

Files of this machine are read as they are (state_files.py), in a second or two; Spark reads all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from watersmeet.dataclass import dataclass
from watersmeet.errors import SetupError, SourceError
from watersmeet.hosts.spark.bucket.log import WHOLE, Manifest, Segment
from watersmeet.hosts.spark.checkpoints.place import SparkPlace
from watersmeet.hosts.spark.checkpoints.state_files import (
    STATE,
    Kept,
    NotReadableError,
    RocksReader,
    Stage,
    StateFiles,
    by_query,
    stages_of,
    unpacked_stages,
)
from watersmeet.hosts.spark.errors import first_useful_line
from watersmeet.hosts.spark.jobs.ids import GUARD, in_its_slot, slot_of
from watersmeet.hosts.spark.packets import from_packet
from watersmeet.hosts.spark.paths import NOTES, has_scheme
from watersmeet.io.rows import python_rows
from watersmeet.model.time import format_instant
from watersmeet.model.wording import aligned, in_bytes, listed
from watersmeet.runtime.checkpoints import CheckpointNotes

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
SUMMARY = pa.schema(
    [
        ("stage", pa.int32()),
        ("bucket", pa.int32()),
        ("version", pa.int64()),
        ("complete_until_us", pa.int64()),
        ("input", pa.int32()),
        ("stream", pa.string()),
        ("segments", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("oldest_us", pa.int64()),
        ("newest_us", pa.int64()),
    ]
)


@dataclass(frozen=True)
class BucketState:
    """One bucket of a stage: how often its state was written, the manifest, and the live rows of each input. `names`
    are those of the inputs, if they are known."""

    bucket: int
    version: int
    manifest: Manifest
    rows: dict[int, pa.Table]
    stage: int = 0
    names: tuple[str, ...] = ()
    query: str = ""  # its name, where several share a state

    def name(self, number: int) -> str:
        if number == WHOLE:
            return "kept whole"
        return self.names[number] if number < len(self.names) else f"input {number}"

    def summary(self) -> Iterator[dict[str, object]]:
        """What it holds of each input. A state that is kept whole is one line, input -1."""
        for number, log in sorted(self.manifest.segments.items()):
            yield self._line(number, log)
        if self.manifest.saved is not None:
            yield self._line(WHOLE, [self.manifest.saved])

    def _line(self, number: int, log: Sequence[Segment]) -> dict[str, object]:
        newest = max((segment.newest_us for segment in log), default=None)
        return {
            "stage": self.stage,
            "bucket": self.bucket,
            "version": self.version,
            "complete_until_us": self.manifest.complete_until,
            "input": number,
            "stream": self.name(number),
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
        """One row per stage, bucket and input. Inputs are numbered as in FROM; times are in microseconds."""
        return pa.Table.from_pylist([row for bucket in self.buckets for row in bucket.summary()], SUMMARY)

    def rows(self, number: int, stage: int = 0) -> pa.Table:
        """The remembered rows of one input, over all buckets, copies included."""
        found = [one.rows[number] for one in self.buckets if one.stage == stage and number in one.rows]
        return pa.concat_tables(found) if found else pa.table({})

    @property
    def inputs(self) -> list[int]:
        return sorted({number for bucket in self.buckets for number in bucket.rows})

    def describe(self, rows: int = 0) -> str:
        """The state as text, with a few rows of each input."""
        lines = [f"{self.checkpoint}: {len(self.buckets)} bucket{'s' if len(self.buckets) != 1 else ''}"]
        several = len({bucket.stage for bucket in self.buckets}) > 1
        is_shared = any(bucket.query for bucket in self.buckets)
        for bucket in self.buckets:
            until = format_instant(bucket.manifest.complete_until)
            of = f"{bucket.query}, " if is_shared else f"stage {bucket.stage}, " if several else ""
            lines.append(f"{of}bucket {in_its_slot(bucket.bucket)}: version {bucket.version}, complete until {until}")
            lines += aligned([_cells(row) for row in bucket.summary()], left=1)
        for stage, number, name in self._shown() if rows else []:
            shown = self.rows(number, stage).slice(0, rows)
            lines.append(f"{name}: {', '.join(shown.column_names)}")
            lines += [f"  {row}" for batch in shown.to_batches() for row in map(_row, python_rows(batch))]
        if rows and any(bucket.manifest.saved is not None for bucket in self.buckets):
            lines.append("rows of a state that is kept whole cannot be shown one by one")
        return "\n".join(lines)

    def _shown(self) -> list[tuple[int, int, str]]:
        """Every input that has rows: its stage, number and name."""
        found = {(one.stage, number): one.name(number) for one in self.buckets for number in one.rows}
        return [(stage, number, name) for (stage, number), name in sorted(found.items())]


def read_state(spark: SparkSession, checkpoint: str, batch: int | None = None) -> State:
    """Read the state of a query from its checkpoint. The query may be running; nothing is changed."""
    folder = _folder_of(checkpoint)
    try:
        with _in_format_of(spark, folder):
            stages = [one for number in _stages(spark, folder) for one in _kept_by(spark, folder, number, batch)]
    except Exception as error:
        raise SourceError(f"the state in {checkpoint} cannot be read: {first_useful_line(error)}") from None
    return _state_of(checkpoint, stages, None if has_scheme(folder) else Path(folder))


def read_state_files(checkpoint: str, batch: int | None = None) -> State:
    """The same without Spark, in a second or two; NotReadableError says why that cannot be done."""
    if has_scheme(checkpoint):
        raise NotReadableError("it does not lie on this machine")
    folder = Path(_folder_of(checkpoint))
    files = StateFiles.of(folder, batch)
    try:
        with RocksReader() as reader:
            numbers = stages_of(folder)
            stages = [one for number in numbers for one in unpacked_stages(files.variables(number, reader))]
    except NotReadableError:
        raise
    except Exception as error:  # whatever is wrong with the files, Spark has better words for it
        raise NotReadableError(f"{type(error).__name__}: {first_useful_line(error)}") from error
    return _state_of(checkpoint, stages, folder)


def _state_of(checkpoint: str, stages: Sequence[Stage], folder: Path | None) -> State:
    noted, queries = _noted_names(folder)
    buckets = [
        _bucket(one, stage, number, *_called(one, stage, noted, queries))
        for number, stage in enumerate(stages)
        for one in sorted(stage.buckets, key=lambda one: one.bucket)
    ]
    return State(checkpoint, next((stage.guard for stage in stages), None), tuple(buckets))


def _called(
    one: Kept, stage: Stage, noted: Mapping[str, Sequence[str]], queries: Mapping[int, tuple[str, tuple[str, ...]]]
) -> tuple[tuple[str, ...], str]:
    """The names of the inputs of a bucket, and of the queries that it is of."""
    query, streams = queries.get(slot_of(one.bucket), ("", ()))
    return streams or tuple(noted.get(stage.guard or "", ())), query


def _noted_names(folder: Path | None) -> tuple[dict[str, list[str]], dict[int, tuple[str, tuple[str, ...]]]]:
    """The names of the streams of each stage, as `checkpoint.Owner` noted them; and by slots, those of the queries that
    share the state, and of the streams of joins that keep their rows once. None where nobody did."""
    with suppress(OSError, SetupError):
        if folder is not None:
            notes = CheckpointNotes(SparkPlace(None, str(folder), is_here=True), NOTES)
            queries = notes.get("together", {}).get("queries", {})
            owners = [notes.get("owner", {}), *(one["owner"] for one in queries.values())]
            streams = {state: names for owner in owners for state, names in owner.get("streams", {}).items()}
            slots: dict[int, tuple[list[str], tuple[str, ...]]] = {}
            for name, one in queries.items():
                slot = one["slot"] if one.get("team") is None else one["team"]
                slots.setdefault(slot, ([], tuple(one.get("streams", ()))))[0].append(name)
            return streams, {slot: (listed(names), known) for slot, (names, known) in slots.items()}
    return {}, {}


def _stages(spark: SparkSession, folder: str) -> list[int]:
    """The numbers of our stages; of files elsewhere Spark tells them, by their kind of operator."""
    if not has_scheme(folder):
        with suppress(NotReadableError):
            return stages_of(Path(folder))
        return [0]
    known = spark.read.format("state-metadata").load(folder).where("operatorName LIKE 'transformWithState%'")
    return sorted(int(row[0]) for row in known.select("operatorId").distinct().collect())


def _kept_by(spark: SparkSession, folder: str, number: int, batch: int | None) -> list[Stage]:
    meta = _load(spark, folder, "meta", batch, number).selectExpr("key.bucket AS bucket", "value.*").toArrow()
    kept = _load(spark, folder, "segments", batch, number).selectExpr(
        "key.bucket AS bucket", "user_map_key.input", "user_map_key.number", "user_map_value.rows"
    )
    packets = {(row["bucket"], row["input"], row["number"]): row["rows"] for row in kept.toArrow().to_pylist()}
    rows = [Kept(row["bucket"], row["version"], bytes(row["manifest"])) for row in meta.to_pylist()]
    return by_query(rows, packets)


def read_guard(spark: SparkSession, checkpoint: str) -> str | None:
    """The fingerprint of the query whose state this is; None before its first rows, or if none can be read."""
    try:
        folder = _folder_of(checkpoint)
        with _in_format_of(spark, folder):
            meta = _load(spark, folder, "meta", None).where(f"key.bucket = {GUARD}").select("value.manifest").collect()
    except Exception:  # no batch has ended yet, or Spark cannot read this state: then the guard speaks when it runs
        return None
    return bytes(meta[0][0]).decode() if meta else None


def checkpoints_in(folder: str) -> list[str]:
    """The checkpoints of queries with state in the folder that a run was given: itself, or one for each of several."""
    if has_scheme(folder) or (Path(folder).expanduser() / STATE).is_dir():
        return [folder]
    return sorted(str(one.parent) for one in Path(folder).expanduser().glob(f"*/{STATE}")) or [folder]


def _folder_of(checkpoint: str) -> str:
    if has_scheme(checkpoint):
        return checkpoint
    folder = Path(checkpoint).expanduser().absolute()
    if not (folder / STATE).is_dir():
        raise SourceError(
            f"{checkpoint} is not the checkpoint of a query with state", hint="give the folder that --checkpoint named"
        )
    return str(folder)


@contextmanager
def _in_format_of(spark: SparkSession, folder: str) -> Iterator[None]:
    """Spark reads a checkpoint in the format that the session has, so that must be the one it was written in."""
    before = spark.conf.get(FORMAT, "1")
    if not has_scheme(folder):  # in format 2 the names of state files end in a unique id: 7_….zip
        spark.conf.set(FORMAT, "2" if any((Path(folder) / STATE).glob("*/[0-9]*/[0-9]*_*")) else "1")
    try:
        yield
    finally:
        spark.conf.set(FORMAT, before or "1")


def _load(spark: SparkSession, folder: str, variable: str, batch: int | None, operator: int = 0) -> DataFrame:
    reader = spark.read.format("statestore").option("stateVarName", variable).option("operatorId", operator)
    return (reader if batch is None else reader.option("batchId", batch)).load(folder)


def _bucket(kept: Kept, stage: Stage, number_of_stage: int, names: tuple[str, ...], query: str) -> BucketState:
    manifest = Manifest.from_bytes(kept.manifest)
    rows = {}
    for number, log in manifest.segments.items():
        batches = [b for segment in log for b in from_packet(stage.packets[kept.bucket, number, segment.number])]
        if batches:
            rows[number] = pa.Table.from_batches(batches)
    return BucketState(kept.bucket, kept.version, manifest, rows, number_of_stage, names, query)


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
    rows, size = row["rows"], row["bytes"]
    assert isinstance(rows, int)
    assert isinstance(size, int)
    between = _between(row["oldest_us"], row["newest_us"]) if rows else ""
    return [f"  {row['stream']}", f"{rows:,} row{'s' if rows != 1 else ''}", in_bytes(size), between]


def _between(oldest_us: object, newest_us: object) -> str:
    """Two times to the second; the day of the second only if it is another.

    >>> _between(0, 5_000_000), _between(None, 86_400_000_000)
    ('1970-01-01 00:00:00 to 00:00:05', 'up to 1970-01-02 00:00:00')
    """
    assert isinstance(newest_us, int)
    newest = format_instant(newest_us)[:19]
    if not isinstance(oldest_us, int):
        return f"up to {newest}"
    oldest = format_instant(oldest_us)[:19]
    return f"{oldest} to {newest.removeprefix(oldest[:11])}"


def _row(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))
