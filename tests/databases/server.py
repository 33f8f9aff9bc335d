"""A real PostgreSQL server in a folder of its own, as Debian's package brings it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

USER, PASSWORD = "watersmeet", "not a secret 'here'"
MISSING = (
    "there is no PostgreSQL server on this machine: apt install postgresql, or say where its programs are in PG_BIN"
)


def programs() -> Path | None:
    """The folder of initdb and pg_ctl, if they are there."""
    found = shutil.which("pg_ctl")
    folders = [
        *([Path(os.environ["PG_BIN"])] if "PG_BIN" in os.environ else []),
        *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),
        *([Path(found).resolve().parent] if found else []),
    ]
    return next((one for one in folders if (one / "initdb").exists() and (one / "pg_ctl").exists()), None)


class Server:
    def __init__(self, folder: Path) -> None:
        bin = programs()
        assert bin is not None
        self._bin, self._data = bin, folder / "data"
        self.port = _free_port()
        secret = folder / "secret"
        secret.write_text(PASSWORD)
        if os.getuid() == 0:  # the server refuses to run as root
            for one in (folder, secret):
                shutil.chown(one, "postgres")
        self._run("initdb", "-D", str(self._data), "-U", USER, "-A", "scram-sha-256", "--pwfile", str(secret), "-N")
        self.start()

    def start(self) -> None:
        settings = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        self._run("pg_ctl", "-D", str(self._data), "-w", "-l", str(self._data / "log"), "-o", settings, "start")

    def stop(self, how: str = "immediate") -> None:
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", how, "stop")

    def dsn(self, database: str = "postgres", **parts: str) -> str:
        given = {"host": "127.0.0.1", "port": str(self.port), "dbname": database, "user": USER, "password": PASSWORD}
        return " ".join("{}='{}'".format(name, value.replace("'", "\\'")) for name, value in (given | parts).items())

    def _run(self, program: str, *words: str) -> None:
        command: Sequence[str] = (str(self._bin / program), *words)
        if os.getuid() == 0:
            command = ("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command)
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
