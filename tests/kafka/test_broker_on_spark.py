"""On Spark, from topics of a real broker into others: random queries through kills of the driver between the steps of a
commit, while rows are put; the answers are DuckDB's, each once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.kafka.feeding import Feeding
from tests.kafka.random_queries import random_queries
from tests.kafka.steps import STEPS
from tests.kafka.test_random_queries import DATA, check, feeds_of, script_of
from tests.spark.harness import ROOT, worker_environment
from watersmeet.demo.broker import Broker

pytestmark = pytest.mark.kafka

KILLS = int(os.environ.get("KILLS_ON_SPARK", "20"))
KINDS = ("inner", "outer", "changes")
LONG_S = 300


def drive(folder: Path, *death: str) -> bool:
    """Whether the driver came to its end; False if it was killed as asked."""
    command = [sys.executable, "-m", "tests.kafka.drive_spark", str(folder), *death]
    worker_environment()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-2000:]
    return done.returncode == 0


def test_kills_change_no_answer(broker: Broker, tmp_path: Path) -> None:
    rng, name, died = Random(7), "spark", 0
    queries = random_queries(7, KINDS)
    feeds = feeds_of(broker, name, DATA, rng)
    (tmp_path / "script.sql").write_text(script_of(broker, name, queries, DATA))
    for feed in feeds:
        feed.put(0.01)
    for life in range(KILLS):
        with Feeding(feeds, life / (KILLS + 1), (life + 1) / (KILLS + 1)):
            died += not drive(tmp_path, STEPS[(life + 3) % len(STEPS)], str(rng.randrange(3)))
    for feed in feeds:
        feed.put(1)
    assert drive(tmp_path)
    assert died > KILLS // 2, "hardly a life was killed"
    check(broker, name, queries, DATA)
