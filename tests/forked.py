"""Commands and programs in processes of their own, forked from one that has imported all: each costs a tenth of what a
new interpreter does. What an end of the interpreter or its start is about is tested with new ones."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from subprocess import TimeoutExpired
from typing import IO, Any, NamedTuple

ROOT = Path(__file__).parents[1]
FORKING = multiprocessing.get_context("forkserver")


def forked(live: Callable[..., None], *arguments: Any, daemon: bool = False) -> ForkServerProcess:
    """A process that is started."""
    with chdir(ROOT):  # from where the first that is forked finds what is to be imported before
        FORKING.set_forkserver_preload(["tests.preloaded"])
        forkserver.ensure_running()
    process = FORKING.Process(target=live, args=arguments, daemon=daemon)
    process.start()
    return process


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


class Running:
    """A process with its output in pipes, as `subprocess.Popen` has it."""

    def __init__(self, live: Callable[..., None], *arguments: Any, **environment: str) -> None:
        (out, child_out), (err, child_err) = FORKING.Pipe(duplex=False), FORKING.Pipe(duplex=False)
        given = {**os.environ, **environment}
        self._process = forked(_live, live, arguments, os.getcwd(), given, child_out, child_err, daemon=True)
        child_out.close()
        child_err.close()
        self.stdout, self.stderr = _text(out), _text(err)

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float = 120) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutExpired(self._process.name, timeout)
        return self._process.exitcode

    def communicate(self, timeout: float = 120) -> Ended:
        with ThreadPoolExecutor(2) as reading:
            said = [reading.submit(one.read) for one in (self.stdout, self.stderr)]
            try:
                code = self.wait(timeout)
            finally:
                self.kill()
        return Ended(code, *(one.result() for one in said))

    def send_signal(self, number: int) -> None:
        assert self._process.pid is not None
        if self._process.is_alive():
            os.kill(self._process.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def watersmeet(*words: str, **environment: str) -> Running:
    """The command."""
    return Running(_command, *words, **environment)


def program(code: str, *words: str, **environment: str) -> Running:
    """As `python -c CODE WORDS`."""
    return Running(_program, code, *words, **environment)


def _command(*words: str) -> None:
    from watersmeet.cli import main

    sys.argv = ["watersmeet", *words]
    main()


def _program(code: str, *words: str) -> None:
    sys.argv = ["-c", *words]
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})


def _text(pipe: Connection) -> IO[str]:
    with pipe:
        return open(os.dup(pipe.fileno()), encoding="utf-8")


def _live(
    live: Callable[..., None],
    arguments: tuple[Any, ...],
    folder: str,
    environment: Mapping[str, str],
    out: Connection,
    err: Connection,
) -> None:
    """From here on all is as in an interpreter of its own, up to the end."""
    assert "tests.preloaded" in sys.modules, "tests/preloaded.py imports what is not there"
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for pipe, number in ((out, 1), (err, 2)):
        os.dup2(pipe.fileno(), number)
        pipe.close()
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", buffering=1, closefd=False)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    sys.path[:0] = [one for one in environment.get("PYTHONPATH", "").split(os.pathsep) if one and one not in sys.path]
    code = _ended(live, arguments)
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


def _ended(live: Callable[..., None], arguments: tuple[Any, ...]) -> int:
    try:
        live(*arguments)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0
