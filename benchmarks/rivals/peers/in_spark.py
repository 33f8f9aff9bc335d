"""Ours on Spark, and Spark's own operators with its store in memory or RocksDB: four files a stream, four batches."""

from __future__ import annotations

import json
import sys
import tempfile
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import watersmeet as wm
from benchmarks.rivals.on_spark import chained
from benchmarks.rivals.peers.protocol import PRIME, WEIGHTS, Asked, tell
from benchmarks.spark_joins import FOR_OURS, FOR_SPARK
from watersmeet.hosts.spark.launching.launch import start_spark
from watersmeet.hosts.spark.reading.file_stream import ParquetStream

SCHEMA = "id long, k long, v long, ts timestamp"
DELAY = "1 second"  # with none, a chain of Spark's joins loses rows that are exactly at the watermark


def ours(spark: SparkSession, asked: Asked) -> DataFrame:
    session = wm.Session(spark)
    for name in asked.streams:
        session.stream(name, ParquetStream(str(asked.pieces(name)), max_files_per_trigger=1), time="ts")
    found = session.sql(asked.more["sql"]).dataframe()
    if asked.joins:
        return found.select(*"xyzw"[: len(asked.streams)])
    end = F.unix_seconds(F.col("_ts" if asked.query == "top 10" else "window_end").cast("timestamp"))
    if asked.query == "top 10":
        return found.select(end, "id", "v", F.expr("IF(_op = '+', 1, 2)"))
    return found.select(end, "k", *(["n", "total"] if asked.query == "GROUP BY" else []))


def own(spark: SparkSession, asked: Asked) -> DataFrame:
    def read(name: str) -> DataFrame:
        rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(asked.pieces(name)))
        return rows.withWatermark("ts", DELAY)

    if asked.joins:
        return chained([read(name) for name in asked.streams], asked.window_ms * 1_000)
    window = F.window("ts", f"{asked.window_ms} milliseconds", f"{asked.slide_ms} milliseconds")
    end = F.unix_seconds("window.end")
    if asked.query == "GROUP BY":
        found = read("a").groupBy(window, "k").agg(F.count(F.lit(1)).alias("n"), F.sum("v").alias("total"))
        return found.select(end, "k", "n", "total")
    if asked.query == "DISTINCT":
        return read("a").groupBy(window, "k").agg(F.lit(1)).select(end, "k")
    # It ranks no rows of streams: all of a window are collected, sorted and cut.
    ten = F.expr("slice(sort_array(collect_list(struct(v, id)), false), 1, 10)").alias("ten")
    return (
        read("a")
        .groupBy(window)
        .agg(ten)
        .select(end.alias("e"), F.explode("ten").alias("one"))
        .select("e", "one.id", "one.v")
    )


def once(found: DataFrame, asked: Asked) -> tuple[int, int]:
    found = found.toDF(*(f"c{number}" for number in range(len(found.columns))))
    if not asked.joins:
        found = found.where(f"c0 <= {asked.last_s}")
    mixed = " + ".join(f"{name} * {weight}" for name, weight in zip(found.columns, WEIGHTS, strict=False))
    checked = found.observe("check", F.count(F.lit(1)).alias("n"), F.sum(F.expr(f"({mixed}) % {PRIME}")).alias("s"))
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        writer = checked.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seen = [one.observedMetrics["check"] for one in query.recentProgress if "check" in one.observedMetrics]
    return sum(one.n for one in seen), sum(one.s or 0 for one in seen)


def main() -> None:
    asked = Asked(**json.loads(sys.argv[1]))
    whose = asked.more["whose"]
    spark = start_spark("local[2]", {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "4g"})
    for setting, value in (FOR_SPARK if whose == "memory" else FOR_OURS).items():
        spark.conf.set(setting, value)
    build = ours if whose == "ours" else own
    for _ in range(asked.runs):
        started = time.perf_counter()
        rows, checksum = once(build(spark, asked), asked)
        tell(rows, checksum, time.perf_counter() - started, 0.0)
    spark.stop()


if __name__ == "__main__":
    main()
