"""A script on a real cluster: its executors get all they need, and whatever is killed, answers are exact.

Nodes have a Python without anything, and folders of their own. What is killed, is killed with -9.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cluster.standalone import Cluster
from tests.spark import processes
from tests.spark.harness import SHORT_LIVED, cut, write_arrivals
from watersmeet.version import VERSION

LONG_S = 900
NOON = dt.datetime(2026, 1, 1, 12)
BATCHES, ROWS = 6, 60  # of each stream
SCRIPT = """
CREATE STREAM a (id BIGINT, k BIGINT, ts TIMESTAMP)
  WITH (source = 'parquet', path = '{folder}/a', time = 'ts', lateness = '5 seconds', maxFilesPerTrigger = '1');
CREATE STREAM b (id BIGINT, k BIGINT, ts TIMESTAMP)
  WITH (source = 'parquet', path = '{folder}/b', time = 'ts', lateness = '5 seconds', maxFilesPerTrigger = '1');
CREATE SINK pairs WITH (sink = 'parquet', path = '{folder}/pairs') AS
SELECT a.id AS a, b.id AS b FROM a, b WHERE a.k = b.k DWINDOW (a, b) = 20 SECONDS;
"""
BY_DUCKDB = """
SELECT a.id AS a, b.id AS b FROM read_parquet('{folder}/a/*.parquet') a, read_parquet('{folder}/b/*.parquet') b
WHERE a.k = b.k AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 20 SECONDS
"""


class Case:
    """A script with its streams, and its runs on a cluster."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder, self.cluster = folder, cluster
        chance = random.Random(7)
        for name in ("a", "b"):
            rows = [
                {"id": n, "k": chance.randrange(8), "ts": NOON + dt.timedelta(seconds=n / 4)}
                for n in range(BATCHES * ROWS)
            ]
            write_arrivals(folder / name, cut(pa.Table.from_pylist(rows), [ROWS]))
        (folder / "script.sql").write_text(SCRIPT.format(folder=folder))

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @contextmanager
    def run(self, *options: str, checkpoint: Path | None = None) -> Iterator[processes.Driver]:
        """A process of `watersmeet run`, that does not outlive the block."""
        small = [f"--conf=spark.{one}" for one in ("executor.memory=512m", "driver.memory=1g", "task.maxFailures=4")]
        command = [sys.executable, "-m", "watersmeet", "run", str(self.folder / "script.sql"), "--available-now"]
        command += ["--checkpoint", str(checkpoint or self.checkpoint), "--master", self.cluster.master]
        without = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
        with (self.folder / "log").open("ab") as log:
            driver = subprocess.Popen(
                [*command, "--buckets", "2", *small, *options],
                cwd=self.folder, env=without | {"SPARK_SUBMIT_OPTS": SHORT_LIVED, "SPARK_LOCAL_IP": "127.0.0.1"},
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            yield driver
        finally:
            processes.kill_driver(driver)

    def told(self) -> str:
        return (self.folder / "log").read_text()

    def ends(self, driver: processes.Driver) -> None:
        assert driver.wait(timeout=LONG_S) == 0, self.told()[-3000:]

    def answer(self) -> list[tuple[int, int]]:
        """Of the files that Spark's log of the sink names: what a killed task has left behind does not count."""
        found: list[tuple[int, int]] = []
        for path in _committed(self.folder / "pairs"):
            found += [(row["a"], row["b"]) for row in pq.read_table(path).to_pylist()]
        return sorted(found)

    def expected(self) -> list[tuple[int, int]]:
        return sorted(duckdb.sql(BY_DUCKDB.format(folder=self.folder)).fetchall())


def _committed(sink: Path) -> Iterator[Path]:
    log = sink / "_spark_metadata"
    compact = max((int(one.stem) for one in log.glob("[0-9]*.compact")), default=-1)
    newer = [one for one in log.glob("[0-9]*") if one.suffix == "" and int(one.name) > compact]
    for one in [*log.glob(f"{compact}.compact"), *newer]:
        for line in one.read_text().splitlines()[1:]:
            yield Path(json.loads(line)["path"].removeprefix("file://"))


@pytest.fixture
def case(tmp_path: Path, cluster: Cluster) -> Case:
    return Case(tmp_path, cluster)


def kill_worker(case: Case, _: processes.Driver) -> str:
    case.cluster.nodes[0].kill()
    return "a worker with its executor"


def kill_executor(case: Case, _: processes.Driver) -> str:
    assert any(node.kill_executor() for node in case.cluster.nodes[:1])
    return "an executor, when the state of the batch was written and the batch not committed"


def kill_driver(_: Case, driver: processes.Driver) -> str:
    assert processes.kill_driver(driver)
    return "the driver"


KILLS: list[tuple[Callable[[Case, processes.Driver], str], Callable[[Path, int], Callable[[], bool]]]] = [
    (kill_worker, processes.in_batch),
    (kill_executor, processes.state_written),
    (kill_driver, processes.in_batch),
]


@pytest.mark.parametrize(("kill", "moment"), KILLS, ids=["worker", "executor-in-a-commit", "driver"])
def test_answers_are_exact_after_a_kill(
    case: Case,
    package: Path,
    kill: Callable[[Case, processes.Driver], str],
    moment: Callable[[Path, int], Callable[[], bool]],
) -> None:
    with case.run("--package", str(package)) as driver:
        try:
            assert processes.wait_for(moment(case.checkpoint, 2), driver, LONG_S), case.told()[-3000:]
            batch = processes.newest(case.checkpoint / "offsets")
            killed = kill(case, driver)
            if kill is not kill_driver:
                case.ends(driver)
        finally:
            if kill is kill_worker:
                case.cluster.nodes[0].start()
                case.cluster.wait_for_nodes()
    if kill is kill_driver:
        assert processes.newest(case.checkpoint / "commits") < BATCHES - 1
        with case.run("--package", str(package)) as driver:
            case.ends(driver)
    answer, expected = case.answer(), case.expected()
    assert answer == expected != []
    print(f"killed in batch {batch}: {killed}; {len(answer)} answers, equal to DuckDB's {len(expected)}")


def test_executors_without_what_is_needed_are_refused_with_what_to_do(case: Case) -> None:
    """Without --package they get this package alone."""
    with case.run("--conf", f"spark.pyspark.python={case.cluster.python}") as driver:
        assert driver.wait(timeout=LONG_S) == 2
    told = " ".join(case.told().split())
    assert f"the Python of Spark's workers, {case.cluster.python}, has no" in told
    assert "--package wm.tar.gz" in told
    assert "Traceback" not in told


# As somebody has it who starts Spark in their own way, where another watersmeet is installed.
PROGRAM = """
import sys

from pyspark.sql import SparkSession

import watersmeet as wm

master, installed, folder = sys.argv[1:]
builder = SparkSession.builder.master(master).config("spark.executor.memory", "512m")
spark = builder.config("spark.executorEnv.PYTHONPATH", installed).getOrCreate()
session = wm.Session(spark, buckets=2)
session.stream("s", spark.readStream.schema("k BIGINT, ts TIMESTAMP").csv(folder), time="ts")
try:
    session.sql("SELECT a.k FROM s a, s b WHERE a.k = b.k WINDOW = 1 SECOND").dataframe()
except wm.WatersmeetError as error:
    print("told:", error.message)
"""


def test_another_version_on_executors_is_refused_in_one_sentence(case: Case) -> None:
    another = case.folder / "installed" / "watersmeet"
    (another / "compiling").mkdir(parents=True)
    (another / "__init__.py").write_text("__version__ = '9.9'\n")
    (another / "code_sum.py").write_text("def code():\n    return 'another'\n")
    (another / "compiling" / "__init__.py").write_text("def no_kernels():\n    return None\n")
    environment = os.environ | {"SPARK_SUBMIT_OPTS": SHORT_LIVED, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment["PYSPARK_PYTHON"] = case.cluster.python.name
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, case.cluster.master, str(another.parent), str(case.folder)],
        cwd=case.folder, env=environment, capture_output=True, text=True, timeout=LONG_S,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    (told,) = [line for line in ran.stdout.splitlines() if line.startswith("told:")]
    assert re.fullmatch(r"told: Spark's workers have watersmeet 9\.9 \(\S+\), this process " + re.escape(VERSION), told)


def test_a_folder_that_executors_do_not_share_is_refused(case: Case, package: Path) -> None:
    """Each process has a folder of its own by this name."""
    with case.run("--package", str(package), checkpoint=Path("/proc/self/cwd/checkpoint")) as driver:
        assert driver.wait(timeout=LONG_S) == 2
    assert "does not have the folder /proc/self/cwd/checkpoint of this machine" in " ".join(case.told().split())
