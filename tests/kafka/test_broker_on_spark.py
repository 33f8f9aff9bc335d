"""On Spark, from a real broker into it: exactly once through kills of the driver between the steps of a commit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.durable.lives import rows_of
from tests.kafka.steps import STEPS
from tests.kafka.test_broker import COUNT, check, script, streams_in
from tests.kafka.topics import make_topic, put_rows
from tests.spark.harness import ROOT, worker_environment
from watersmeet.demo.broker import Broker

pytestmark = pytest.mark.kafka

KILLS = int(os.environ.get("KILLS_ON_SPARK", "6"))
LONG_S = 300


def drive(folder: Path, *death: str) -> bool:
    """Whether the driver came to its end; False if it was killed as asked."""
    command = [sys.executable, "-m", "tests.kafka.drive_spark", str(folder), *death]
    worker_environment()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-2000:]
    return done.returncode == 0


def test_kills_between_the_steps_of_a_commit_change_nothing(broker: Broker, tmp_path: Path) -> None:
    name, query, died = "spark", "join", 0
    for one in streams_in(query):
        make_topic(broker.brokers, f"{name}-{one}")
    (tmp_path / "script.sql").write_text(script(broker, name, query, tmp_path).text)
    for life in range(KILLS + 1):
        begin, end = (COUNT * number // (KILLS + 1) for number in (life, life + 1))
        for one in streams_in(query):
            put_rows(broker.brokers, f"{name}-{one}", rows_of(one, COUNT).slice(begin, end - begin))
        if life < KILLS:
            died += not drive(tmp_path, STEPS[(life + 3) % len(STEPS)], "0")
    assert drive(tmp_path)
    assert died > KILLS // 2, "hardly a life was killed"
    check(broker, name, query)
