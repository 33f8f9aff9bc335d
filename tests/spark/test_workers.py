"""Workers that cannot run our functions are refused before any does, with what to set."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

import watersmeet
from watersmeet import Session
from watersmeet.code_sum import code
from watersmeet.errors import SetupError
from watersmeet.hosts.spark.launching import workers
from watersmeet.hosts.spark.launching.workers import check_workers, compare

RIGHT = {
    "python": f"{sys.version_info[0]}.{sys.version_info[1]}", "program": "/opt/python", "without": [],
    "version": watersmeet.__version__, "code": code(), "kernels": "",
}  # fmt: skip


@pytest.fixture
def bare_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A Python that has nothing installed."""
    venv.create(tmp_path / "bare", symlinks=True)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return str(tmp_path / "bare" / "bin" / "python")


def test_what_a_worker_tells_is_compared() -> None:
    compare(RIGHT)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"python": "3.7"}, r"Spark's workers run Python 3\.7 \(/opt/python\), and this process runs "),
        ({"version": "9.9"}, r"Spark's workers have watersmeet 9\.9 \(/opt/python\), this process "),
        ({"code": "0"}, r"another watersmeet .* than this process \(/opt/python\): the code differs"),
        ({"without": ["pandas"]}, r"the Python of Spark's workers, /opt/python, has no pandas"),
    ],
)
def test_workers_that_are_something_else_are_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(SetupError, match=told) as refused:
        compare(RIGHT | change)
    assert "PYSPARK_PYTHON" in str(refused.value)
    assert "--package" in str(refused.value)


def test_a_python_without_the_package_is_refused_by_the_session(
    spark: SparkSession, bare_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", bare_python)
    with pytest.raises(SetupError) as refused:
        Session(spark.newSession())
    assert f"the Python of Spark's workers, {bare_python}, has no watersmeet (No module named" in str(refused.value)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/none/python")
    with pytest.raises(SetupError, match="/none/python, which Spark's workers are to run, cannot be used: "):
        Session(spark.newSession())


def test_a_job_asks_where_the_program_is_not_known(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "is_local", lambda master: False)
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(workers, "compare", asked.append)
    session = spark.newSession()
    Session(session)
    assert asked == []  # it takes a job, which the first query pays for
    check_workers(session)
    check_workers(session)
    assert [{**told, "program": ""} for told in asked] == [{**RIGHT, "program": ""}]


def test_a_job_finds_workers_that_lack_something_or_do_not_start(
    spark: SparkSession, bare_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JVM of the tests lets its workers find the package, but nothing that it needs. Where it knows that they run
    this Python it leaves out the zips in which Spark brings its own, so here they are given."""
    monkeypatch.setattr(workers, "is_local", lambda master: False)
    zips = Path(pyspark.__file__).parent.glob("python/lib/*.zip")
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", os.pathsep.join(map(str, zips)))
    monkeypatch.setattr(spark.sparkContext, "pythonExec", bare_python)
    with pytest.raises(SetupError, match=r"/bare/bin/python, has no numpy, pyarrow, .*\nhint: .*PYSPARK_PYTHON"):
        check_workers(spark.newSession())
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/none/python")
    with pytest.raises(SetupError, match=r"Spark's workers cannot run Python functions: .*/none/python.*\nhint: "):
        check_workers(spark.newSession())


def test_asking_does_not_need_the_package(bare_python: str) -> None:
    asked = [bare_python, "-c", workers.PROBE + "print(found)"]
    ran = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert '"missing": "No module named' in ran.stdout
