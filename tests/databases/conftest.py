from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.databases.places import Place, file_place, ran
from tests.databases.server import MISSING, Server, programs

_numbers = count()
POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    if programs() is None:
        pytest.skip(MISSING)
    # Not below pytest's folder, which nobody else may enter: the server is somebody else.
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-postgres-"))
    made = Server(folder)
    yield made
    made.stop()
    shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", "duckdb", POSTGRES])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param != "postgres":
        return file_place(request.param, tmp_path)
    return new_database(request.getfixturevalue("server"))


@pytest.fixture
def on_server(server: Server) -> Place:
    return new_database(server)


def new_database(server: Server) -> Place:
    name = f"d{next(_numbers)}"
    ran(server.dsn(), f"CREATE DATABASE {name}")
    return Place("postgres", {"dsn": server.dsn(name)})
