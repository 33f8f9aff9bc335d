"""Topics through joins into a topic on Spark: ours, and Spark's own join through its own connector.

    python -m benchmarks.topics.on_spark [JAR …]

It tells how long Spark took to start, then reads a run from each line of its input and answers with a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.spark_joins import FOR_OURS, FOR_SPARK
from watersmeet.hosts.spark.launching import class_archive
from watersmeet.hosts.spark.launching.launch import start_spark
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.runtime.run_settings import RunSettings

COLUMNS = "id BIGINT, k BIGINT, page STRING, ts TIMESTAMP"
DELAY = "1 hour"  # partitions are not in step


def ours(spark: SparkSession, asked: dict[str, Any]) -> None:
    choices = RunSettings(available_now=True, buckets=2, checkpoint=asked["checkpoint"])
    SparkRun(spark, asked["script"], choices).run()


def topic(spark: SparkSession, brokers: str, name: str) -> DataFrame:
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers).option("subscribe", name)
    values = read.option("startingOffsets", "earliest").load().select(F.col("value").cast("string").alias("value"))
    rows = values.select(F.from_json("value", COLUMNS).alias("row")).select("row.*")
    return rows.withWatermark("ts", DELAY)


def own(spark: SparkSession, asked: dict[str, Any]) -> None:
    """A chain of joins. Only one event time may go from one into the next, so others go on as numbers."""
    size, window_us = f"INTERVAL {asked['window_s']} SECONDS", asked["window_s"] * 1_000_000
    first, *others = asked["topics"]
    joined = topic(spark, asked["brokers"], first).withColumnRenamed("id", "x")
    times: list[str] = []
    for column, name in zip("yz", others, strict=False):
        named = [F.col("id").alias(column), F.col("k").alias("rk"), F.col("ts").alias("rts")]
        right = topic(spark, asked["brokers"], name).select(*named)
        near = [f"abs(unix_micros(rts) - {one}) <= {window_us}" for one in times]
        close = " AND ".join(["k = rk", f"rts BETWEEN ts - {size} AND ts + {size}", *near])
        times.append(f"{column}_us")
        joined = joined.join(right, F.expr(close)).withColumn(times[-1], F.unix_micros("rts")).drop("rk", "rts")
    columns = [*"xyz"[: len(others) + 1], "page"]
    written = joined.select(F.to_json(F.struct(*columns)).alias("value")).writeStream.format("kafka")
    running = (
        written.option("kafka.bootstrap.servers", asked["brokers"])
        .option("topic", asked["out"])
        .option("checkpointLocation", asked["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    running.awaitTermination()


def main() -> None:
    began_s = time.perf_counter()
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "3g",
        class_archive.SETTING: "false",  # what makes the archive would work beside the run
    }
    if sys.argv[1:]:
        settings["spark.jars"] = ",".join(sys.argv[1:])
    spark = start_spark("local[2]", settings)
    print(json.dumps({"seconds": time.perf_counter() - began_s}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        for setting, value in (FOR_OURS if asked["whose"] == "ours" else FOR_SPARK).items():
            spark.conf.set(setting, value)
        began_s = time.perf_counter()
        try:
            (ours if asked["whose"] == "ours" else own)(spark, asked)
        except Exception as error:
            print(json.dumps({"failed": str(error).splitlines()[0][:300]}), flush=True)
            continue
        print(json.dumps({"seconds": time.perf_counter() - began_s}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
