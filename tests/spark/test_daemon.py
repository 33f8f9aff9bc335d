"""Workers are forked from a process that has loaded what they need; where that fails they load it by themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from watersmeet.hosts.spark.launching import daemon, launch, rehearsal
from watersmeet.hosts.spark.launching.java import hiding_spark_home

TELL = """
import os, sys
from watersmeet.hosts.spark.launching import daemon
daemon.preload()
child = os.fork()
if child == 0:
    import pyarrow.compute as pc, pyarrow as pa
    from watersmeet.hosts.spark.launching.rehearsal import rehearse
    rehearse()  # compiled code and Arrow work on the other side of a fork
    os._exit(0 if pc.sum(pa.array([1, 2])).as_py() == 3 else 1)
assert os.waitpid(child, 0)[1] == 0
print(all(name in sys.modules for name in ("pyarrow", "watersmeet.hosts.spark.bucket.processor")))
"""


def test_a_worker_forked_after_the_rehearsal_works() -> None:
    ran = subprocess.run([sys.executable, "-c", TELL], capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, "True"), ran.stderr


def test_a_rehearsal_that_fails_is_told_and_costs_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise RuntimeError("no kernels")

    monkeypatch.setattr(rehearsal, "rehearse", fail)
    monkeypatch.setattr(daemon.gc, "freeze", lambda: None)  # this process goes on
    daemon.preload()
    assert "no kernels" in capsys.readouterr().err


def test_the_driver_asks_for_the_state_without_loading_the_engine() -> None:
    heavy = "{'numba', 'pandas', 'pyarrow'}"
    code = f"import sys, watersmeet.hosts.spark.bucket.stage; print(sorted({heavy} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "[]"


def test_another_python_for_workers_gets_sparks_own_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    module = "spark.python.daemon.module"
    assert launch._start_conf("local[2]", {}, "x").get(module) == daemon.MODULE
    assert launch._start_conf("local[2]", {"spark.pyspark.python": "/usr/bin/python4"}, "x").get(module) is None
    assert launch._start_conf("spark://there:7077", {}, "x").get(module) is None
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python4")
    assert launch._start_conf("local[2]", {}, "x").get(module) is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="a script of the shell")
def test_java_runs_without_spark_home_and_its_launcher_with_it(tmp_path: Path) -> None:
    java = tmp_path / "a java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\necho "${SPARK_HOME-none}|$#|$3"\n')
    java.chmod(0o700)
    home = hiding_spark_home(java.parents[1], {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert home is not None
    for main, told in (("org.apache.spark.launcher.Main", "here|3|two words"), ("x.SparkSubmit", "none|3|two words")):
        ran = subprocess.run(
            [home / "bin" / "java", "-cp", main, "two words"],
            env={"SPARK_HOME": "here"}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert ran.stdout.strip() == told


def test_a_session_that_is_there_is_ready_at_once(spark: SparkSession) -> None:
    told: list[str] = []
    launch.start_spark(conf={"spark.sql.shuffle.partitions": "2"}, on_phase=told.append)
    assert told == ["ready"]


def test_all_stages_fork_from_the_daemon_that_has_loaded(spark: SparkSession) -> None:
    def of_worker(batches):  # type: ignore[no-untyped-def]
        import os
        import sys

        import pyarrow as pa

        for _ in batches:
            loaded = "watersmeet.hosts.spark.launching.rehearsal" in sys.modules
            yield pa.RecordBatch.from_pydict({"p": [os.getppid()], "l": [loaded]})

    rows = spark.range(0, 2, 1, 2).mapInArrow(of_worker, "p long, l boolean").collect()
    assert {row.l for row in rows} == {True}
    # The job that has the daemon started (launch.py) is of plain rows.
    plain = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("os").getppid()).collect()
    assert {row.p for row in rows} == set(plain)
    where = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()
    assert ".zip" not in where[0]  # where each process would compile it anew
