"""Ours on Spark and Spark's own operators, in batches back to back: each has the rows that are due when it begins.

    python -m benchmarks.rivals.on_spark ours|own CLASSES

It reads a run from each line of its input and answers with a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import watersmeet as wm
from benchmarks.rivals.dialects import ours as in_our_words
from benchmarks.rivals.load import QUERIES, Query
from benchmarks.spark_joins import FOR_SPARK
from watersmeet.hosts.spark.launching import class_archive
from watersmeet.hosts.spark.launching.launch import SMALL_BATCHES, start_spark

START_S = 180.0  # until warm-up batches are through
LAST_BATCHES_S = 1.0  # in which batches without rows may give what waited for time to pass
DELAY = "1 second"  # of Spark's watermark: with none, a chain of its joins loses rows that are exactly at it


def due_rows(spark: SparkSession, stream: int) -> DataFrame:
    return spark.readStream.format("DueRows").option("stream", stream).load()


def ours(spark: SparkSession, query: Query) -> tuple[DataFrame, str]:
    session = wm.Session(spark)
    for number, name in enumerate(query.streams):
        session.stream(name, due_rows(spark, number), time="ts")
    answer = session.sql(in_our_words(query)).dataframe()
    if query.groups:
        return answer.where("_op = '+'").select(
            "k", "n", "total", F.expr("unix_micros(CAST(_ts AS TIMESTAMP))")
        ), "changes"
    return answer.select(*"xyz"[: len(query.streams)]), "ids"


def own(spark: SparkSession, query: Query) -> tuple[DataFrame, str]:
    """It has no window that slides with every row: groups are those of windows that follow each other."""
    if query.groups:
        rows = due_rows(spark, 0).withWatermark("ts", DELAY)
        groups = rows.groupBy(F.window("ts", f"{query.window_us} microseconds"), "k")
        counted = groups.agg(F.count(F.lit(1)).alias("n"), F.sum("id").alias("total"), F.max("id").alias("newest"))
        return counted.select("k", "n", "total", "newest"), "latest"
    streams = [due_rows(spark, number).withWatermark("ts", DELAY) for number in range(len(query.streams))]
    return chained(streams, query.window_us), "ids"


def chained(streams: Sequence[DataFrame], window_us: int) -> DataFrame:
    """A chain of joins of streams with watermarks. Only one event time may go from one into the next, so others go on
    as numbers."""
    size = f"INTERVAL {window_us} MICROSECONDS"
    joined = streams[0].select(F.col("id").alias("x"), "k", "ts")
    times: list[str] = []
    for column, stream in zip("yzw", streams[1:], strict=False):
        right = stream.select(F.col("id").alias(column), F.col("k").alias("rk"), F.col("ts").alias("rts"))
        near = [f"abs(unix_micros(rts) - {one}) <= {window_us}" for one in times]
        close = " AND ".join(["k = rk", f"rts BETWEEN ts - {size} AND ts + {size}", *near])
        times.append(f"{column}_us")
        joined = joined.join(right, F.expr(close)).withColumn(times[-1], F.unix_micros("rts")).drop("rk", "rts")
    return joined.select(*"xyzw"[: len(streams)])


def measured(spark: SparkSession, whose: str, asked: dict[str, Any]) -> str:
    query = next(one for one in QUERIES if one.name == asked["query"])
    jvm: Any = spark._jvm
    numbers = (asked["rate"], asked["warm_s"], asked["seconds"], asked["grace_s"])
    jvm.DueRows.open(asked["keys"], len(query.streams), *numbers)
    answer, kind = ours(spark, query) if whose == "ours" else own(spark, query)
    jvm.NotedAnswers.open(kind)
    writer = answer.writeStream.format("NotedAnswers").outputMode("update" if kind == "latest" else "append")
    running = writer.option("checkpointLocation", str(Path(asked["folder"]) / "checkpoint")).start()
    rows = int(asked["rate"] * (asked["warm_s"] + asked["seconds"]))
    _wait(running, jvm, 0, time.monotonic() + START_S)
    if jvm.NotedAnswers.taken() < 0:
        running.stop()
        return json.dumps({"failed": f"the batches that warm Spark up had not ended after {START_S:.0f} s"})
    _wait(running, jvm, rows, time.monotonic() + asked["warm_s"] + asked["seconds"] + asked["grace_s"])
    time.sleep(LAST_BATCHES_S)
    running.stop()
    if running.exception() is not None:
        raise SystemExit(str(running.exception()))
    return str(jvm.NotedAnswers.told())


def _wait(running: Any, jvm: Any, rows: int, until: float) -> None:
    """Until so many rows are answered, or time is up."""
    while running.isActive and jvm.NotedAnswers.taken() < rows and time.monotonic() < until:
        time.sleep(0.05)


def main() -> None:
    whose, classes = sys.argv[1:]
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraClassPath": classes,
        "spark.driver.memory": "3g",
        class_archive.SETTING: "false",  # what makes the archive would work beside the run
    }
    if whose == "ours":
        settings[SMALL_BATCHES] = "true"  # it would halve the rate at which Spark's own joins take rows
    spark = start_spark("local[2]", settings)
    if whose == "own":
        for setting, value in FOR_SPARK.items():
            spark.conf.set(setting, value)
    for line in sys.stdin:
        print(measured(spark, whose, json.loads(line)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
