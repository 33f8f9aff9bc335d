"""The same calls on Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.spark import processes
from tests.spark.harness import ROOT, worker_environment

pytestmark = [pytest.mark.spark, pytest.mark.soak]


def test_batch_and_streaming_queries_run_on_spark_connect(tmp_path):
    pytest.importorskip("grpc")
    pytest.importorskip("zstandard")
    worker_environment()
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.connect_script", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"WATERSMEET_WARM_DIR": str(tmp_path / "warm")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said = started.communicate(timeout=240)[0].decode()
    finally:
        processes.kill_driver(started)
    assert started.returncode == 0, said[-4000:]
    assert [line for line in said.splitlines() if line.endswith(" ok")] == ["batch ok", "arrow ok", "streaming ok"]
