"""Queries that move from this process to Spark, there into other buckets, and back, in the middle of their streams; the
driver of one leg is killed. What they answer on their way is what they answer where they stay. test_moves.py has
more of them, without Spark."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.killed_sinks import drive
from tests.unit.cli.test_commands import call
from watersmeet.hosts.local.durable.jobs import DurableJobs
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.runtime.declaring import open_to_go_on
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import read_script

pytestmark = pytest.mark.slow

QUERIES = {
    "pairs": "SELECT a.k, a.x, b.x AS y FROM a, b WHERE a.k = b.k WINDOW = 9 SECONDS",
    "unmatched": "SELECT a.k, a.x, b.x AS y FROM a LEFT JOIN b ON a.k = b.k AND a.x % 3 = b.x % 3 WINDOW = 6 SECONDS",
    "totals": "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM b [RANGE 20 SECONDS] GROUP BY k",
    "bounded": "SELECT a.k, a.x, b.x AS y FROM a, b WHERE a.k = b.k WINDOW = 9 SECONDS OPTIONS (memory = '1000 rows')",
    "latest": "SELECT a.k, a.x, b.x AS y FROM a [ROWS 3], b [RANGE 20 SECONDS] WHERE a.k = b.k",
    "sums": "SELECT k, x, SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS 3 PRECEDING) AS s FROM a",
}


def script(folder: Path, out: str) -> str:
    streams = "".join(
        f"CREATE STREAM {name} (k BIGINT, x BIGINT, ts TIMESTAMP) WITH (source = 'json', path = '{folder}/{name}', "
        "time = 'ts', lateness = '2 seconds', maxFilesPerTrigger = '1');\n"
        for name in "ab"
    )
    return streams + "".join(
        f"CREATE SINK {name} WITH (sink = 'json', path = '{folder}/{out}/{name}') AS {query};\n"
        for name, query in QUERIES.items()
    )


def arrive(folder: Path, *numbers: int) -> None:
    """Rows of fifteen seconds each time, a little out of order, none late."""
    for name, many in (("a", 3), ("b", 4)):
        (folder / name).mkdir(exist_ok=True)
        for number in numbers:
            rows = []
            for i in range(15 * number, 15 * number + 15):
                at = i - (1 if i % 5 == 3 else 0)
                rows.append({"k": i % many, "x": i, "ts": f"2026-01-01 00:{at // 60:02d}:{at % 60:02d}"})
            path = folder / name / f"{number}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.utime(path, (1e9 + number, 1e9 + number))


def in_process(text: str, checkpoint: Path, savepoint: Path | None = None, *, flush: bool = False) -> None:
    settings = RunSettings(available_now=True, flush=flush, savepoint=savepoint)
    jobs = DurableJobs(read_script(text, opener=open_to_go_on), checkpoint, settings)
    jobs.start()
    jobs.wait(every_s=0.02)


def given(folder: Path, out: str) -> dict[str, Counter[str]]:
    parts = {name: (folder / out / name).glob("part-*") for name in QUERIES}
    return {
        name: Counter(line for one in some for line in one.read_text().splitlines()) for name, some in parts.items()
    }


def test_queries_move_to_spark_into_other_buckets_and_back_and_answer_what_they_do_where_they_stay(
    spark: SparkSession, tmp_path: Path
) -> None:
    text, file = script(tmp_path, "out"), tmp_path / "script.sql"
    file.write_text(text)

    def savepoint(leg: str, number: int) -> Path:
        out = tmp_path / f"moved-{number}"
        assert call("savepoint", str(tmp_path / leg), str(out), "--script", str(file)) == 0
        return out

    arrive(tmp_path, 0, 1)
    in_process(text, tmp_path / "laptop")
    before = savepoint("laptop", 0)
    arrive(tmp_path, 2)
    four = RunSettings(checkpoint=str(tmp_path / "four"), available_now=True, buckets=4, savepoint=str(before))
    SparkRun(spark, text, four).run()
    before = savepoint("four", 1)
    arrive(tmp_path, 3, 4)
    sixteen = {"checkpoint": str(tmp_path / "sixteen"), "buckets": 16, "savepoint": str(before)}
    (tmp_path / "settings.json").write_text(json.dumps(sixteen))
    amid = "watersmeet.hosts.spark.checkpoints.checkpoint:CommittedBatches.add after"
    assert not drive(tmp_path, amid, "4")  # some queries have ended a batch, one has written what Spark does not know
    SparkRun(spark, text, RunSettings(available_now=True, **sixteen)).run()
    before = savepoint("sixteen", 2)
    arrive(tmp_path, 5)
    in_process(text, tmp_path / "home", before)
    in_process(text, tmp_path / "home", flush=True)
    in_process(script(tmp_path, "stayed"), tmp_path / "stays", flush=True)
    assert given(tmp_path, "out") == given(tmp_path, "stayed")
    assert all(given(tmp_path, "stayed").values())
