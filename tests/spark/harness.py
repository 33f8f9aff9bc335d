"""How the tests run queries on Spark: sessions, streams of files with chosen micro-batches, and what to expect."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.runners import Bag, Source, bag_of, by_reference
from watersmeet import Session
from watersmeet.hosts.spark.launching import class_archive
from watersmeet.hosts.spark.launching.launch import start_spark
from watersmeet.hosts.spark.launching.query_start import EMPTY_BATCHES
from watersmeet.hosts.spark.types import spark_schema
from watersmeet.model.time import parse_interval, times_of

ROOT = Path(__file__).parents[2]
NEVER_LATE = "100000 days"
NEVER_US = -(2**62)
# A test ends before a JVM's second compiler pays; without it the runs need about a quarter less of the processor. It
# would leave little room for compiled code, though, which Java would then throw away and compile again; and it would
# look for garbage whenever it has loaded so and so many classes.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=1g -XX:+UseSerialGC -XX:MetaspaceSize=512m -Xmn400m"
# Beside what the library sets by itself. Over a few rows Spark spends a quarter of its time on writing and compiling
# Java for its plans, to the same result; commands that tests start as processes do so, as users' do. Batches without
# rows are for operators of Spark's own: the tests that have such after ours ask for them.
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.sql.streaming.pollingDelay": "20ms",
    EMPTY_BATCHES: "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def worker_environment() -> None:
    """Let this process's Spark find the interpreter, the library and the tests, on a JVM that starts quickly."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    found = [str(ROOT / "src"), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, found)))
    os.environ["SPARK_SUBMIT_OPTS"] = SHORT_LIVED
    # A test leaves nothing behind that goes on working. `make test-spark` makes one first.
    os.environ[class_archive.VARIABLE] = class_archive.READY
    # Every query starts a Python process, which would compile the library's sources again each time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def quiet_session(master: str, scratch: Path, **settings: str) -> SparkSession:
    worker_environment()
    places = {"spark.local.dir": str(scratch / "local"), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
    session = start_spark(master, SETTINGS | places | settings)
    session.sparkContext.setLogLevel("OFF")  # failures that a test brings about are not to be read by anybody
    return session


# ---- bounded input --------------------------------------------------------------------------------------------------


def batch_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The rows as a batch DataFrame of one partition, so that they keep their order."""
    return spark.createDataFrame(table, spark_schema(table.schema)).coalesce(1)


def batch_session(spark: SparkSession, sources: Sequence[Source], buckets: int | None = None) -> Session:
    session = Session(spark, buckets=buckets)
    for source in sources:
        if source.time is None:
            session.table(source.name, batch_frame(spark, source.table))
        else:
            frame = batch_frame(spark, source.table)
            session.stream(source.name, frame, time=source.time, lateness=source.lateness, **source.keyed())
    return session


def by_spark_batch(spark: SparkSession, sql: str, sources: Sequence[Source], buckets: int | None = None) -> Bag:
    return bag_of(batch_session(spark, sources, buckets).sql(sql).to_arrow())


def never_late(sources: Iterable[Source]) -> list[Source]:
    """The same sources when no row counts as late: bounded input on Spark has no order of arrival."""
    return [replace(source, lateness=NEVER_LATE) if source.time else source for source in sources]


# ---- streams of files -----------------------------------------------------------------------------------------------


def write_arrivals(folder: Path, pieces: Iterable[pa.Table], start: int = 0) -> None:
    """One Parquet file per piece; Spark takes files in the order of their modification times, one per micro-batch."""
    folder.mkdir(parents=True, exist_ok=True)
    since = time.time() - 86_400
    for i, piece in enumerate(pieces, start):
        path = folder / f"{i:05}.parquet"
        pq.write_table(piece, folder / f".{path.name}")
        os.utime(folder / f".{path.name}", (since + i, since + i))
        (folder / f".{path.name}").rename(path)


def cut(table: pa.Table, sizes: Sequence[int]) -> list[pa.Table]:
    """Pieces of these sizes, the last size over and over until the table is used up."""
    pieces, at, i = [], 0, 0
    while at < table.num_rows:
        size = sizes[min(i, len(sizes) - 1)]
        pieces.append(table.slice(at, size))
        at, i = at + size, i + 1
    return pieces


def streaming_frame(spark: SparkSession, folder: Path, schema: pa.Schema) -> DataFrame:
    folder.mkdir(parents=True, exist_ok=True)
    return spark.readStream.schema(spark_schema(schema)).option("maxFilesPerTrigger", 1).parquet(str(folder))


def streaming_session(
    spark: SparkSession, sources: Sequence[Source], folder: Path, buckets: int | None = None
) -> Session:
    """A session over the streams whose files lie under `folder`, and the static tables as they are."""
    session = Session(spark, buckets=buckets)
    for source in sources:
        if source.time is None:
            session.table(source.name, batch_frame(spark, source.table))
        else:
            frame = streaming_frame(spark, folder / source.name, source.table.schema)
            session.stream(source.name, frame, time=source.time, lateness=source.lateness)
    return session


def start_streaming(query: DataFrame, checkpoint: Path, sink: Path) -> StreamingQuery:
    writer = query.writeStream.format("parquet").option("path", str(sink))
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def run_streaming(spark: SparkSession, query: DataFrame, checkpoint: Path, sink: Path) -> pa.Table:
    """Take in everything there is, then give all the sink holds by its own log."""
    started = start_streaming(query, checkpoint, sink)
    try:
        started.awaitTermination()
    finally:
        started.stop()
    return read_sink(spark, sink, query)


def read_sink(spark: SparkSession, sink: Path, query: DataFrame) -> pa.Table:
    return spark.read.schema(query.schema).parquet(str(sink)).toArrow()


def by_spark_streaming(
    spark: SparkSession,
    sql: str,
    sources: Sequence[Source],
    pieces: Mapping[str, Sequence[pa.Table]],
    folder: Path,
    buckets: int | None = None,
) -> Bag:
    """A query over streams that arrive in these pieces, one of each stream per micro-batch."""
    for name, parts in pieces.items():
        write_arrivals(folder / name, parts)
    query = streaming_session(spark, sources, folder, buckets).sql(sql)
    answer = run_streaming(spark, query.dataframe(), folder / "checkpoint", folder / "sink")
    return bag_of(answer.cast(query.schema))


# ---- what to expect -------------------------------------------------------------------------------------------------


def pieces_in_time(sources: Sequence[Source], pieces: Mapping[str, Sequence[pa.Table]]) -> dict[str, pa.Table]:
    """The rows that Spark lets in: those not below the query's watermark as the earlier micro-batches left it."""
    streams = {source.name: source for source in sources if source.time is not None}
    marks: dict[str, int] = dict.fromkeys(streams, NEVER_US)
    kept: dict[str, list[pa.Table]] = {name: [] for name in streams}
    watermark_us = NEVER_US
    for i in range(max((len(parts) for parts in pieces.values()), default=0)):
        for name, source in streams.items():
            if i < len(pieces[name]):
                piece = pieces[name][i]
                times = event_times(piece, source)
                kept[name].append(piece.filter(pa.array(times >= watermark_us)))
                marks[name] = max([marks[name], *(times - parse_interval(source.lateness)).tolist()])
        watermark_us = max(watermark_us, min(marks.values()))
    return {name: pa.concat_tables(parts) if parts else streams[name].table.slice(0, 0) for name, parts in kept.items()}


def event_times(table: pa.Table, source: Source) -> np.ndarray[Any, np.dtype[np.int64]]:
    column = table[source.time].cast(pa.timestamp("us"), safe=False).drop_null().combine_chunks()
    return times_of(column) if len(column) else np.array([], np.int64)


def expected_of(sql: str, sources: Sequence[Source], pieces: Mapping[str, Sequence[pa.Table]]) -> Bag:
    """The reference over the rows that Spark lets in."""
    kept = pieces_in_time(sources, pieces)
    let_in = [replace(source, table=kept.get(source.name, source.table)) for source in sources]
    return by_reference(sql, never_late(let_in))


def with_sentinels(sources: Sequence[Source], pieces: Mapping[str, Sequence[pa.Table]]) -> dict[str, list[pa.Table]]:
    """One row of the far future after each stream: it brings the watermark beyond all others.

    For queries with ROWS windows, whose rows wait for the watermark: a sentinel itself waits for ever.
    """
    ended: dict[str, list[pa.Table]] = {}
    last = max((len(parts) for parts in pieces.values()), default=0)
    for source in sources:
        if source.time is not None:
            schema = source.table.schema
            values = {f.name: [4_000_000_000_000_000 if f.name == source.time else None] for f in schema}
            columns = [
                pa.array(values[f.name], pa.int64()).cast(pa.timestamp("us")).cast(f.type)
                if f.name == source.time
                else pa.array(values[f.name], f.type)
                for f in schema
            ]
            # All of them in one last batch: the sentinel of a short stream must not make rows of a long one late.
            silence = [source.table.slice(0, 0)] * (last - len(pieces[source.name]))
            ended[source.name] = [*pieces[source.name], *silence, pa.table(columns, schema=schema)]
    return ended


def unfolded(told: str) -> str:
    """What a command told, every sentence on one line, as it was before it was made to fit the terminal."""
    return re.sub(r"\n +", " ", told)
