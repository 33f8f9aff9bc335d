"""Drivers on Spark that die between the steps of a commit into a sink, and what its rows must be in the end."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tests.durable.lives import rows_of
from tests.lakes.lives import STEP_ROWS, fed
from tests.spark import processes
from tests.spark.harness import ROOT, worker_environment

LONG_S = 300
SEED = int(os.environ.get("SEED", "1"))
COLUMNS = "(id BIGINT, k BIGINT, v DOUBLE, s VARCHAR, ts TIMESTAMP)"
TIMES = "time = 'ts', lateness = '2 minutes'"
NAMES = pa.table({"k": list(range(16)), "name": [f"shop {k}" for k in range(16)]})
JOIN = "SELECT a.id AS x, b.id AS y, n.name FROM a, b, names n WHERE a.k = b.k AND a.k = n.k WINDOW = 2 SECONDS"
# Between the steps of a batch on Spark; '{sink}' is the class of the sink.
POINTS = (
    "watersmeet.hosts.spark.writing.sink_writer:SinkWriter.__call__ before",
    "{sink}.commit before",
    "{sink}.commit amid",
    "{sink}.commit after",
    "watersmeet.hosts.spark.checkpoints.checkpoint:CommittedBatches.add after",
    "watersmeet.hosts.spark.writing.sink_writer:SinkWriter.__call__ after",
)
Grow = Callable[[str, int, pa.Table], None]


def killed_again_and_again(folder: Path, script: str, sink: str, kills: int, grow: Grow) -> int:
    """Drivers that die at one point after the other, each with rows that came since, then one to the end; how many
    died. sink: 'module:Class' of the sink."""
    chosen = random.Random(SEED)
    (folder / "script.sql").write_text(script)
    feeds = {name: fed(name, kills + 1) for name in ("a", "b")}
    died = 0
    for step in range(kills + 1):
        for name, steps in feeds.items():
            grow(name, step, steps[step])
        if step < kills:
            point = POINTS[step % len(POINTS)].format(sink=sink)
            died += not drive(folder, point, "0", str(chosen.randrange(60)))
    assert drive(folder)
    return died


def drive(folder: Path, *death: str) -> bool:
    """Whether the driver came to its end; False if it was killed as asked."""
    worker_environment()
    with (folder / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.drive_sink", str(folder), *death],
            cwd=ROOT,
            env=os.environ | {"WATERSMEET_WARM_DIR": str(folder / "warm")},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        code = driver.wait(timeout=LONG_S)
    finally:
        for child in processes.descendants(driver.pid):
            processes.kill(child)
        processes.kill_driver(driver)
    assert code in (0, -signal.SIGKILL), (folder / "driver.log").read_text()[-3000:]
    return code == 0


def expected(kills: int) -> list[tuple[Any, ...]]:
    rows = (kills + 1) * STEP_ROWS
    with duckdb.connect() as connection:
        for name in ("a", "b"):
            connection.register(name, rows_of(name, rows))
        connection.register("names", NAMES)
        return connection.execute(
            "SELECT a.id, b.id, n.name FROM a, b, names n WHERE a.k = b.k AND a.k = n.k "
            "AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= 2000000 ORDER BY ALL"
        ).fetchall()


def rows_in(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.select(["x", "y", "name"]).to_pylist())


def with_(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
