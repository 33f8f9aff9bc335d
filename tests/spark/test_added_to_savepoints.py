"""A script on Spark that goes on from a savepoint, and has a query that is not in it."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.durable.test_savepoint_command import command
from tests.spark.test_run import JOIN, SCRIPT, STREAMS, arrive, data, in_process, written
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.runtime.run_settings import RunSettings

__all__ = ["data"]
WIDER = JOIN.replace("1 SECOND", "2 SECONDS")
MORE = f"CREATE SINK more WITH (sink='files', format='parquet', path='out_more') AS {WIDER};"
HERE = SCRIPT.replace("sink='parquet'", "sink='files', format='parquet'")


def test_what_is_new_reads_its_streams_from_their_beginning(spark: SparkSession, data: Path) -> None:
    (data / "old.sql").write_text(HERE)
    command("run", data / "old.sql", "--engine", "local", "--available-now", "--checkpoint", data / "here", "-q")
    command("savepoint", data / "here", data / "moved", "--script", data / "old.sql")
    arrive(data, 1)
    script = f"{STREAMS} {MORE} {HERE.removeprefix(STREAMS)}"
    said: list[str] = []
    for number in (2, 3):  # the second time the savepoint is gone, and named all the same
        settings = RunSettings(
            checkpoint="there", savepoint=str(data / "moved"), available_now=True, buckets=2, flush=True
        )
        run = SparkRun(spark, script, settings)
        run.remark = said.append
        run.run()
        arrive(data, number)
        if number == 2:
            (data / "moved").rename(data / "gone")
    assert [one for one in said if one.startswith("more is not in the savepoint: it reads its streams")] == said[:1]
    arrive(data, 4)
    last = RunSettings(checkpoint="there", available_now=True, buckets=2, flush=True)
    SparkRun(spark, script, last).run()
    assert written("out") == in_process(SCRIPT)
    assert written("out_more") == in_process(f"{STREAMS} {MORE}")
