"""A real server on a free port of this machine, in this process or in one of its own that can be killed."""

from __future__ import annotations

import json
import os
import resource
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from tests.forked import forked
from watersmeet.errors import WatersmeetError
from watersmeet.hosts.local.durable.jobs import DurableJobs
from watersmeet.runtime.declaring import open_to_go_on
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import read_script
from watersmeet.serve.limits import Limits
from watersmeet.serve.served import Served
from watersmeet.serve.server import HttpServer, bound, url_of

SCRIPT = """
CREATE STREAM a (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
CREATE STREAM b (k BIGINT, w VARCHAR, ts TIMESTAMP) WITH (time = 'ts');
CREATE SINK groups WITH (sink = 'parquet', path = '{folder}/groups') AS
  SELECT k, COUNT(*) AS n, SUM(v) AS total FROM a [RANGE 1 MINUTE] GROUP BY k;
SELECT a.k, a.v, b.w FROM a, b WHERE a.k = b.k WINDOW = 10 SECONDS;
SELECT k, v FROM a [RANGE 1 MINUTE] ORDER BY v DESC LIMIT 3;
"""
NDJSON, JSON, ARROW = "application/x-ndjson", "application/json", "application/vnd.apache.arrow.stream"
QUICK = RunSettings(save_every_s=0.1, sync=False, commit_every_s=0.02)


def row(k: int, v: float, second: float) -> dict[str, Any]:
    return {"k": k, "v": v, "ts": f"2026-01-01 12:{int(second) // 60:02d}:{second % 60:09.6f}"}


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in rows).encode()


class Client:
    """What the tests ask of a server."""

    def __init__(self, url: str, **headers: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=20, headers=headers, trust_env=False)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.http.get(path, headers=headers)

    def post(self, stream: str, rows: list[dict[str, Any]], **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post(f"/streams/{stream}", content=lines(rows), headers={"Content-Type": NDJSON, **named})

    def posted(self, stream: str, rows: list[dict[str, Any]], **headers: str) -> dict[str, Any]:
        found = self.post(stream, rows, **headers)
        assert found.status_code == 200, found.text
        told: dict[str, Any] = found.json()
        return told

    def answer(self, query: str, batch: int = 0) -> list[dict[str, Any]]:
        found = self.get(f"/queries/{query}/answer?batch={batch}")
        assert found.status_code == 200, found.text
        rows: list[dict[str, Any]] = found.json()["rows"]
        return rows


@contextmanager
def serving(
    folder: Path,
    script: str = SCRIPT,
    *,
    limits: Limits | None = None,
    token: str | None = None,
    skipped: Mapping[str, frozenset[int]] | None = None,
    settings: RunSettings = QUICK,
) -> Iterator[Client]:
    """In this process. At the end all is saved, and all who listen are let go."""
    limits = limits or Limits()
    jobs = read_script(script.format(folder=folder), opener=open_to_go_on, pushed=True)
    with bound("127.0.0.1", 0, token) as at:
        durable = DurableJobs(
            jobs,
            folder / "checkpoint",
            replace(settings, writes_on=True),
            tell=lambda what: None,
            pushed=True,
            skipped=skipped,
        )
        served = Served.posted(jobs, durable.runs, limits)
        durable.start()
        served.started()
        server = HttpServer(served, at, limits, token)
        server.start()
        client = Client(url_of(at), **({"Authorization": f"Bearer {token}"} if token else {}))
        try:
            yield client
        finally:
            client.http.close()
            with suppress(WatersmeetError):  # of a query that has failed
                durable.stop()
            server.stop()


class Events:
    """What a subscriber hears, event by event."""

    def __init__(self, response: httpx.Response) -> None:
        assert response.status_code == 200, response.read()
        self._parts = response.iter_text()
        self._text = ""

    def next(self) -> dict[str, Any]:
        """The next event, comments passed over: its fields, `data` read."""
        while True:
            while "\n\n" not in self._text:
                self._text += next(self._parts)
            text, _, self._text = self._text.partition("\n\n")
            fields = dict(line.split(": ", 1) for line in text.splitlines() if not line.startswith(":"))
            if fields:
                return {**fields, "data": json.loads(fields["data"])}


@contextmanager
def listening(client: Client, query: str, after: str | None = None) -> Iterator[Events]:
    headers = {"Last-Event-ID": after} if after else {}
    with client.http.stream("GET", f"/queries/{query}/changes", headers=headers) as response:
        events = Events(response)
        events._text += next(events._parts)  # it is heard from here on
        yield events


# ---- in a process of its own ----------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def live(folder: Path, script: str, port: int, ends_at: str | None, after: int, files: int | None = None) -> None:
    from tests.durable.lives import die_at
    from watersmeet.cli.serve import Address, serve_script

    if files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files // 2, files))
    if ends_at is not None:
        die_at(ends_at, after)
    kept = replace(QUICK, checkpoint=str(folder / "checkpoint"))
    serve_script(script.format(folder=folder), kept, Address("127.0.0.1", port, None), Limits())


class Life:
    """A server that can be killed. It is forked from a process that has imported all, so it costs little."""

    def __init__(
        self,
        folder: Path,
        script: str = SCRIPT,
        ends_at: str | None = None,
        after: int = 0,
        port: int | None = None,
        files: int | None = None,
    ) -> None:
        """ends_at: a point of `tests.durable.lives`, at which it kills itself after so many times. files: how many it
        may have open."""
        self.port = port or free_port()
        self.process = forked(live, folder, script, self.port, ends_at, after, files, daemon=True)
        self.client = self.client_of(self.port)
        until = time.monotonic() + 60
        while True:
            try:
                if self.client.get("/health").status_code == 200:
                    return
            except httpx.TransportError:
                assert self.process.is_alive(), f"the server ended with {self.process.exitcode}"
                assert time.monotonic() < until, "the server did not come up"
            time.sleep(0.02)

    @staticmethod
    def client_of(port: int) -> Client:
        return Client(f"http://127.0.0.1:{port}/")

    def kill(self) -> None:
        self.process.kill()
        self.process.join(20)

    def terminate(self) -> int | None:
        os.kill(self.process.pid or 0, 15)
        self.process.join(30)
        return self.process.exitcode
