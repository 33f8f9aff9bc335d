"""`watersmeet run --remote`: the command over Spark Connect, whose server is the JVM of the other tests."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.harness import ROOT, unfolded
from tests.spark.test_launch import COMMAND
from tests.spark.test_run import JOIN, STREAMS, arrive, in_process

COUNTS = "SELECT a.k, COUNT(*) AS n FROM a [RANGE 3 SECONDS] GROUP BY a.k"
SCRIPT = f"""{STREAMS}
CREATE SINK pairs WITH (sink='spark.csv', path='pairs', delimiter=';', header='true') AS {JOIN};
CREATE SINK counts WITH (sink='spark.json', path='counts') AS {COUNTS};
"""


@pytest.fixture(scope="module")
def remote(spark: SparkSession) -> str:
    """The address of a Connect server inside the JVM that is there; it ends with that."""
    pytest.importorskip("grpc")
    pytest.importorskip("zstandard")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = spark._jsc.sc()
    context.conf().set("spark.connect.grpc.binding.port", str(port))
    spark._jvm.org.apache.spark.sql.connect.service.SparkConnectService.start(context)
    return f"sc://127.0.0.1:{port}"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    arrive(tmp_path, 0)
    (tmp_path / "script.sql").write_text(SCRIPT)
    return tmp_path


def started(folder: Path, remote: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "run", "script.sql", "--remote", remote, "--checkpoint", "ck"], cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def test_a_script_tells_its_progress_over_connect_until_it_is_stopped(data: Path, remote: str) -> None:
    process = started(data, remote)
    try:
        wait_for_rows(data, process)
        arrive(data, 1)
        wait_for_rows(data, process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=120)
        told = unfolded(told)
    assert process.returncode == 130, told
    assert re.search(r"^(pairs|counts), batch \d+: [24]0 in, \d+ out, ", told, re.MULTILINE)
    assert re.search(
        r"^pairs stopped after batch \d+; the next start goes on from .*ck/pairs: 80 rows in, ", told, re.M
    )
    assert re.search(r"^counts stopped after batch \d+; .*: 40 rows in, ", told, re.MULTILINE)
    assert "Traceback" not in told
    assert pairs(data) == Counter(row[0] for row in in_process().elements())
    assert {change["_op"] for change in counts(data)} == {"+", "-"}
    assert (data / "ck" / "counts" / "watersmeet.json").exists()  # written by the server, where the checkpoint is


def wait_for_rows(folder: Path, process: subprocess.Popen[str]) -> None:
    """Until both queries have taken in what there is: each has written of its last key but one."""
    last = max(row[0] for row in in_process()) - 1
    until = time.monotonic() + 240
    while last not in pairs(folder) or last not in {change["k"] for change in counts(folder)}:
        assert process.poll() is None, "the command has ended"
        assert time.monotonic() < until, "the rows did not come in four minutes"
        time.sleep(0.1)


def pairs(folder: Path) -> Counter[int]:
    """How often each key was paired."""
    files = [path.read_text().splitlines() for path in committed(folder / "pairs")]
    assert {lines[0] for lines in files if lines} <= {"k;at;bt"}
    return Counter(int(line.split(";")[0]) for lines in files for line in lines[1:])


def counts(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for path in committed(folder / "counts") for line in path.read_text().splitlines()]


def committed(folder: Path) -> list[Path]:
    log = "\n".join(path.read_text() for path in (folder / "_spark_metadata").glob("[0-9]*"))
    return [path for path in folder.glob("part-*") if path.name in log]


def test_a_connect_server_is_told_what_it_lacks_and_not_asked_for_what_it_cannot_do(remote: str) -> None:
    """Asked from a process of its own, since classic and Connect sessions do not share one."""
    asked = """
import sys
from watersmeet import Session, WatersmeetError
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.hosts.spark.launching.launch import PARTITIONS, PROVIDER, ROCKSDB, cores, ensure_settings, start_spark
spark = start_spark(remote=sys.argv[1])
assert spark.conf.get(PARTITIONS) == "2"  # as the server was told when it started
assert spark.conf.get(PROVIDER) == ROCKSDB
assert cores(spark) == Session(spark).host.buckets == 2
spark.conf.unset(PARTITIONS)
assert spark.conf.get(PARTITIONS) == "200"
assert ensure_settings(spark) == [PARTITIONS]
assert spark.conf.get(PARTITIONS) == "2"
spark.conf.set(PARTITIONS, "7")
assert ensure_settings(spark) == []
printing = "CREATE STREAM t WITH (source='rate', time='timestamp'); SELECT t.value FROM t"
for checkpoint, told in ((None, "needs a checkpoint that its server can reach"), ("ck", "on the console of the Spark")):
    try:
        SparkRun(spark, printing, RunSettings(checkpoint=checkpoint)).run()
    except WatersmeetError as refused:
        assert told in str(refused), refused
    else:
        raise AssertionError(told)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run(
        [sys.executable, "-c", asked, remote], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
