"""Forks the Pythons that Spark starts on the driver, from a process that has loaded what they need.

For every stream and every state of a query Spark starts a Python of its own, which imports for 0.4 s of a processor,
and which it gives 10 s to come up. The daemon of the workers has loaded all that already. So it forks a server before
it forks workers, and Spark runs a script for Python, which asks that server (fork_client.py) where it is one of those;
else, and where the server is not there, Python itself.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import shlex
import signal
import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from watersmeet.errors import UnsafeFolderError
from watersmeet.hosts.spark.launching import fork_client
from watersmeet.hosts.spark.launching.fork_client import VARIABLE, YES
from watersmeet.hosts.spark.launching.java import kept_script
from watersmeet.private_folders import scratch_folder

MODULES = (
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
)
LONGEST_PATH = 100  # of a socket, in bytes
_SCRIPT = """#!/bin/sh
case $2 in
    {modules}) exec {python} -IS {client} "$@" ;;
esac
exec {python} "$@"
"""


def python_for_spark() -> Path | None:
    """What Spark is to run for this Python; None where that must be this Python itself."""
    if not hasattr(os, "fork"):
        return None
    paths = {"python": shlex.quote(sys.executable), "client": shlex.quote(str(Path(fork_client.__file__)))}
    return kept_script("python", _SCRIPT.format(modules="|".join(MODULES), **paths))


def environment_for_spark() -> dict[str, str]:
    """What Spark's Java is to find in its environment, so that the Pythons it starts are forked."""
    python = python_for_spark()
    if python is None:
        return {}
    with suppress(OSError, UnsafeFolderError):
        path = scratch_folder() / f"python-{os.getpid()}.socket"
        if len(os.fsencode(path)) <= LONGEST_PATH:
            return {"PYSPARK_PYTHON": str(python), VARIABLE: str(path)}
    return {}


def fork_server() -> None:
    """Begin to serve, in a process of its own that ends with this one; nothing if nobody asked for that."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return
    for module in MODULES:
        import_module(module)
    os.setpgid(0, 0)  # as Spark's daemon does: what hangs up on its workers ends the server too
    if os.fork() == 0:
        try:
            _serve(path)
        finally:
            os._exit(0)


def _serve(path: str) -> None:
    # Before there is anything to leave behind: it may be ended as soon as it can be found.
    signal.signal(signal.SIGHUP, lambda number, frame: sys.exit())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as other:
        if other.connect_ex(path) == 0:  # Spark has a daemon for each environment, and one of them serves
            return
    listening = socket.socket(socket.AF_UNIX)
    draft = f"{path}.{os.getpid()}"
    ours = None
    try:
        listening.bind(draft)
        ours = os.stat(draft).st_ino
        listening.listen()
        os.replace(draft, path)  # in place of that of one that has ended
        _fork_for_all(listening)
    finally:
        for left in (draft, path):
            with suppress(FileNotFoundError):
                if os.stat(left).st_ino == ours:
                    os.unlink(left)


def _fork_for_all(listening: socket.socket) -> None:
    waiting = select.poll()
    waiting.register(listening, select.POLLIN)
    waiting.register(0, 0)  # Java hangs up: nothing is read from it here
    while all(ready != 0 for ready, _ in waiting.poll()):
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _run(connection)
        connection.close()


def _run(connection: socket.socket) -> None:
    """Become what the client was asked to be."""
    code = 1
    try:
        request, outputs = _received(connection)
        # Whoever looks for modules elsewhere would not find those that are loaded.
        if request["environment"].get("PYTHONPATH") == os.environ.get("PYTHONPATH"):
            connection.sendall(YES)
            _take_place(request["environment"], outputs)
            threading.Thread(target=_end_with, args=[connection], daemon=True).start()
            code = _main(request["module"])
    finally:
        os._exit(code)


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    size, outputs, _, _ = socket.recv_fds(connection, 8, 2)
    with connection.makefile("rb") as file:
        return json.loads(file.read(int.from_bytes(size, "big"))), outputs


def _take_place(environment: dict[str, str], outputs: list[int]) -> None:
    os.setpgid(0, 0)  # workers come and go without it
    for changed in (signal.SIGCHLD, signal.SIGHUP):
        signal.signal(changed, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    for standard, output in enumerate(outputs, 1):
        os.dup2(output, standard)
        os.close(output)


def _end_with(connection: socket.socket) -> None:
    """Spark ends the client; what that would have ended is this process."""
    connection.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)


def _main(module: str) -> int:
    """As `python -m` would run it, to its code of exit."""
    sys.argv = [module]
    del sys.modules[module]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code & 255 if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0
