"""A checkpoint on Spark that lies in a store: held by one start, gone on with exactly after a kill, and moved
from there by a savepoint."""

# ruff: noqa: F811 (fixtures are named as they are)

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.lakes.conftest import endpoint, store  # noqa: F401 (fixtures)
from tests.lakes.hadoop_aws import settings
from tests.lakes.store import Store

pytestmark = [pytest.mark.lakes, pytest.mark.spark]

SCRIPT = """
CREATE STREAM a (k BIGINT, x BIGINT, ts TIMESTAMP) WITH (source = 'csv', path = 'a', time = 'ts');
CREATE STREAM b (k BIGINT, x BIGINT, ts TIMESTAMP) WITH (source = 'csv', path = 'b', time = 'ts');
CREATE SINK out WITH (sink = 'files', format = 'csv', path = '{out}') AS
SELECT a.x, b.x AS y FROM a, b WHERE a.k = b.k WINDOW = 20 SECONDS;
"""
IN_TIME_S = 300.0


def arrive(folder: Path, part: int) -> None:
    for name in "ab":
        (folder / name).mkdir(exist_ok=True)
        rows = [f"{x % 7},{x},2026-01-01 00:{x // 60:02}:{x % 60:02}" for x in range(200 * part, 200 * (part + 1))]
        (folder / name / f"{part}.csv").write_text("\n".join(["k,x,ts", *rows, ""]))


def called(folder: Path, store: Store, *words: str) -> subprocess.Popen[str]:
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hush-hush", "AWS_REGION": "us-east-1"}
    return subprocess.Popen(
        [sys.executable, "-m", "watersmeet", *words],
        cwd=folder,
        env={**os.environ, **keys, "AWS_ENDPOINT_URL": store.endpoint},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def started(
    folder: Path, store: Store, engine: str, checkpoint: str, *more: str, out: str = ""
) -> subprocess.Popen[str]:
    (folder / f"{out or engine}.sql").write_text(SCRIPT.format(out=out or engine))
    conf = [f"--conf={name}={value}" for name, value in settings(store.endpoint).items()] if engine == "spark" else []
    buckets = ["--buckets", "2"] if engine == "spark" else []
    words = ["run", f"{out or engine}.sql", "--engine", engine, "--checkpoint", checkpoint, *buckets, *conf, *more]
    return called(folder, store, *words)


def ended(process: subprocess.Popen[str], code: int = 0) -> str:
    said = process.communicate(timeout=IN_TIME_S)[0]
    assert process.returncode == code, said
    return said


def answers(folder: Path) -> Counter[str]:
    return Counter(line for one in folder.glob("part-*.csv") for line in one.read_text().splitlines()[1:])


def in_store(store: Store, names: Sequence[str]) -> bool:
    return set(names) <= set(store.names("state"))


def test_one_start_holds_it_and_the_next_goes_on_exactly_after_a_kill(store: Store, tmp_path: Path) -> None:
    checkpoint = f"s3a://{store.bucket}/state"
    arrive(tmp_path, 0)
    ended(started(tmp_path, store, "spark", checkpoint, "--available-now"))
    assert in_store(store, ["holder.json", "commits/0"])
    arrive(tmp_path, 1)
    running = started(tmp_path, store, "spark", checkpoint, "--trigger", "1 second")
    until_s = monotonic() + IN_TIME_S
    while not in_store(store, ["offsets/1"]) and running.poll() is None and monotonic() < until_s:
        sleep(0.1)
    assert "another run is using the checkpoint" in ended(started(tmp_path, store, "spark", checkpoint), code=1)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    arrive(tmp_path, 2)
    ended(started(tmp_path, store, "spark", checkpoint, "--available-now"))
    ended(called(tmp_path, store, "savepoint", checkpoint, "moved", "--script", "spark.sql"))
    arrive(tmp_path, 3)
    ended(started(tmp_path, store, "local", "there", "--available-now", "--from", "moved", out="moved_on"))
    ended(started(tmp_path, store, "local", "here", "--available-now"))
    both = answers(tmp_path / "spark") + answers(tmp_path / "moved_on")
    assert both == answers(tmp_path / "local") != answers(tmp_path / "spark")
