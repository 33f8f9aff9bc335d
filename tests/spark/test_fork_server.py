"""The Pythons that Spark starts on the driver are forked from one that has loaded all, and end as they would."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.serializers import UTF8Deserializer, read_int, write_with_length

from tests.spark.harness import ROOT
from watersmeet.hosts.spark.launching.fork_client import VARIABLE
from watersmeet.hosts.spark.launching.fork_server import MODULES, python_for_spark

SERVER = "from watersmeet.hosts.spark.launching.fork_server import fork_server; fork_server(); input()"
SECRET = "of Java"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), VARIABLE: str(tmp_path / "socket")}


@contextmanager
def serving(environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon that has its server, until Java hangs up."""
    daemon = subprocess.Popen([sys.executable, "-c", SERVER], env=environment, stdin=subprocess.PIPE)
    until(lambda: Path(environment[VARIABLE]).exists())
    try:
        yield daemon
    finally:
        daemon.communicate()
    until(lambda: not Path(environment[VARIABLE]).exists())


@contextmanager
def started(environment: dict[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """What Java starts, and who called it back."""
    with socket.create_server(("127.0.0.1", 0)) as java:
        port = {"PYTHON_WORKER_FACTORY_PORT": str(java.getsockname()[1]), "PYTHON_WORKER_FACTORY_SECRET": SECRET}
        command = [str(python_for_spark()), "-m", MODULES[0]]
        process = subprocess.Popen(command, env=environment | port)
        java.settimeout(60)
        connection, _ = java.accept()
        with connection, connection.makefile("rwb") as called:
            assert UTF8Deserializer().loads(called) == SECRET
            write_with_length(b"ok", called)
            called.flush()
            try:
                yield process, read_int(called)
            finally:
                process.kill()
                process.wait()


def until(happens, seconds: float = 60) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_is_forked_and_ends_when_spark_ends_what_it_started(environment: dict[str, str]) -> None:
    with serving(environment), started(environment) as (process, caller):
        assert caller != process.pid
        assert os.getpgid(caller) == caller  # what ends the workers does not end it
        process.send_signal(signal.SIGTERM)
        until(lambda: not is_there(caller))


def test_what_spark_started_ends_when_it_ends(environment: dict[str, str]) -> None:
    with serving(environment), started(environment) as (process, caller):
        os.kill(caller, signal.SIGKILL)
        process.wait(60)


def test_it_goes_on_when_the_workers_end_and_the_next_one_starts_by_itself(environment: dict[str, str]) -> None:
    with serving(environment) as daemon, started(environment) as (_, caller):
        daemon.communicate()
        with started(environment) as (process, other):
            assert other == process.pid
        assert is_there(caller)


def test_it_ends_with_the_workers_and_leaves_nothing(environment: dict[str, str]) -> None:
    with serving(environment) as daemon:
        os.killpg(daemon.pid, signal.SIGHUP)  # as Spark's daemon does in the end


def test_one_that_looks_for_modules_elsewhere_starts_by_itself(environment: dict[str, str], tmp_path: Path) -> None:
    with serving(environment):
        elsewhere = environment | {"PYTHONPATH": os.pathsep.join([environment["PYTHONPATH"], str(tmp_path)])}
        with started(elsewhere) as (process, caller):
            assert caller == process.pid


def test_all_else_is_run_as_it_is() -> None:
    program = python_for_spark()
    assert program is not None
    command = [program, "-c", "import sys; print(sys.argv, sys.prefix)", "two words"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == f"['-c', 'two words'] {sys.prefix}"
