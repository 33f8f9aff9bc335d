"""Finding and killing the processes that a test has started: a driver, its Python workers, its executors."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.spark.harness import ROOT, worker_environment
from watersmeet.hosts.spark.launching.daemon import MODULE, WORKERS

Driver = subprocess.Popen[bytes]


def start_driver(folder: Path, master: str) -> Driver:
    worker_environment()
    environment = os.environ | {"WATERSMEET_WARM_DIR": str(folder / "warm")}
    with (folder / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.spark.drive", str(folder), master],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def descendants(pid: int) -> dict[int, tuple[int, str]]:
    """Parent and command of every process below one, by pid."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                parents[int(entry.name)] = (parent, command)
    found: dict[int, tuple[int, str]] = {}
    level = {pid}
    while level:
        level = {child for child, (parent, _) in parents.items() if parent in level and child not in found}
        found |= {child: parents[child] for child in level}
    return found


def kill(*pids: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_driver(driver: Driver) -> bool:
    """The driver and all below it; whether it was still there."""
    alive = driver.poll() is None
    if alive:
        kill(driver.pid, *descendants(driver.pid))
        driver.wait()
    return alive


def kill_worker(driver: Driver) -> bool:
    """One Python worker, not the daemon that forks them."""
    found = workers_below(driver.pid)
    kill(*found[:1])
    return bool(found)


def workers_below(pid: int) -> list[int]:
    """The Python workers that run tasks or wait for some. Their parent, the daemon, is none, nor is the server that it
    forks before it forks workers."""
    below = descendants(pid)
    forked = [one for one, (_, command) in below.items() if f"{MODULE} {WORKERS}" in command]
    daemons = [one for one in forked if below[one][0] not in forked]
    return [child for daemon in daemons for child in sorted(one for one in forked if below[one][0] == daemon)[1:]]


def kill_executor(driver: Driver) -> bool:
    executors = [
        pid for pid, (_, command) in descendants(driver.pid).items() if "CoarseGrainedExecutorBackend" in command
    ]
    kill(*executors[:1])
    return bool(executors)


def wait_for(condition: Callable[[], bool], driver: Driver, seconds: float = 240) -> bool:
    """Whether the condition came true while the driver lived."""
    until = time.monotonic() + seconds
    while driver.poll() is None and time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.005)
    return False


def newest(folder: Path) -> int:
    """The largest number that names a file, or -1."""
    return max((int(p.name) for p in folder.glob("[0-9]*") if p.name.isdigit()), default=-1) if folder.is_dir() else -1


def in_batch(checkpoint: Path, at_least: int) -> Callable[[], bool]:
    """A micro-batch is planned but not committed."""

    def running() -> bool:
        planned = newest(checkpoint / "offsets")
        return planned >= at_least and newest(checkpoint / "commits") < planned

    return running


def state_written(checkpoint: Path, at_least: int) -> Callable[[], bool]:
    """The state of a micro-batch is written, but the batch is not committed."""

    def written() -> bool:
        batch = newest(checkpoint / "commits") + 1
        if batch < at_least:
            return False
        return bool(changelogs(checkpoint, batch + 1)) and newest(checkpoint / "commits") < batch

    return written


def changelogs(checkpoint: Path, version: int) -> list[Path]:
    """The state files of one version, with or without an id of the attempt in their names."""
    found = (checkpoint / "state" / "0").glob(f"*/{version}*.changelog")
    return [path for path in found if re.fullmatch(rf"{version}(_.*)?\.changelog", path.name)]
