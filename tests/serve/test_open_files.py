"""More connections than this process may have files open: they are told to come back, and queries go on."""

from __future__ import annotations

import errno
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.serve.serving import Client, Life, row
from watersmeet.io import too_many_files
from watersmeet.io.too_many_files import tried_again
from watersmeet.serve.limits import Limits, fitted

SCRIPT = """
CREATE STREAM a (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
CREATE SINK groups WITH (sink = 'parquet', path = '{folder}/groups') AS
  SELECT k, COUNT(*) AS n FROM a [RANGE 1 DAY] GROUP BY k;
"""
FILES = 600


@contextmanager
def served(folder: Path) -> Iterator[Client]:
    """In a process of its own that may have few files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    life = Life(folder, SCRIPT, files=FILES)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * FILES, hard), hard))
        yield life.client
        assert life.terminate() == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        life.kill()


def test_more_connections_than_files_are_refused_and_queries_go_on(tmp_path: Path) -> None:
    with served(tmp_path) as client, ExitStack() as held:
        at = urlsplit(client.url)
        assert at.hostname is not None
        refused = 0
        for n in range(2 * FILES):
            connection = held.enter_context(socket.create_connection((at.hostname, at.port), timeout=20))
            if n > FILES // 2:
                connection.settimeout(0.005)
                try:
                    told = connection.recv(4096)
                except TimeoutError:
                    continue
                assert told.startswith(b"HTTP/1.1 503 ")
                assert b"retry-after: 1\r\n" in told.lower()
                assert b"connections are open, and no more are taken" in told
                refused += 1
        assert refused > FILES // 2
        held.close()
        for second in range(3):
            batch = client.posted("a", [row(1, 1.0, second), row(2, 1.0, second + 0.5)])["batches"]["groups"]
        assert {one["k"]: one["n"] for one in client.answer("groups", batch)} == {1: 3, 2: 2}
        assert client.get("/health").status_code == 200


@pytest.mark.parametrize("files", [64, 256, 1_024, 2_000, 65_536])
def test_connections_leave_room_for_the_files_of_queries(files: int) -> None:
    limits = fitted(Limits(), files)
    assert limits.subscribers + limits.connections <= files - min(640, files // 2)


def test_what_cannot_be_opened_for_want_of_files_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(too_many_files, "PAUSE_S", 0.0)
    failures = [OSError(errno.EMFILE, "Too many open files")] * 2

    def step() -> str:
        if failures:
            raise RuntimeError("the sink cannot be written") from failures.pop()
        return "opened"

    assert tried_again(step) == "opened"
    with pytest.raises(OSError, match="no room"):
        tried_again(lambda: (_ for _ in ()).throw(OSError(errno.ENOSPC, "no room")))
