"""Everything at once: readers, posts, listeners who read and who do not, large bodies, what is no HTTP and no Arrow.

The queries go on, and their answers are what the acknowledged rows say. `make test-flood` runs the large one.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.serve.serving import ARROW, NDJSON, Client, Life, row
from watersmeet.serve.limits import MIB

SCRIPT = """
CREATE STREAM a (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
CREATE STREAM b (k BIGINT, w VARCHAR, ts TIMESTAMP) WITH (time = 'ts');
CREATE SINK groups WITH (sink = 'parquet', path = '{folder}/groups') AS
  SELECT k, COUNT(*) AS n, SUM(v) AS total FROM a [RANGE 1 DAY] GROUP BY k;
SELECT k, v FROM a;
CREATE SINK large WITH (sink = 'parquet', path = '{folder}/large') AS
  SELECT COUNT(*) AS n FROM b [RANGE 1 DAY];
"""
PATHS = (
    "/", "/queries", "/queries/groups", "/queries/groups/answer", "/queries/query_2/rows?limit=50", "/streams",
    "/queries/groups/history", "/metrics", "/health", "/nowhere", "/queries/none/answer", "/queries/large/answer",
)  # fmt: skip
UNKNOWN = ("/nowhere", "/queries/none/answer")
PER_POST = 5


@dataclass(frozen=True)
class Size:
    gets: int
    posts: int
    at_once: int
    listeners: int
    bodies: int
    body_bytes: int
    noise: int


SMALL = Size(gets=150, posts=80, at_once=40, listeners=20, bodies=1, body_bytes=MIB, noise=40)
LARGE = Size(gets=2_000, posts=300, at_once=300, listeners=1_000, bodies=4, body_bytes=10 * MIB, noise=300)


@dataclass
class Flood:
    """Attacks a server, and counts what it has acknowledged."""

    url: str
    size: Size
    statuses: Counter[int] = field(default_factory=Counter)
    retries: int = 0
    large_rows: int = 0
    heard: list[int] = field(default_factory=list)

    async def run(self) -> None:
        limits = httpx.Limits(max_connections=self.size.at_once, max_keepalive_connections=self.size.at_once // 2)
        async with httpx.AsyncClient(base_url=self.url, limits=limits, timeout=120, trust_env=False) as http:
            listening = [await self._listener(n) for n in range(self.size.listeners)]
            hearing = [asyncio.create_task(_rows_heard(reader, self.rows)) for reader, _ in listening if reader]
            work: list[Coroutine[Any, Any, None]] = [self._get(http, n) for n in range(self.size.gets)]
            work += [self._post(http, n) for n in range(self.size.posts)]
            work += [self._large(http, n) for n in range(self.size.bodies)]
            work += [self._noise(n) for n in range(self.size.noise)]
            random.Random(7).shuffle(work)
            # So many at once, by ourselves: the client's own line of thousands costs more than the server.
            room = asyncio.Semaphore(self.size.at_once)

            async def in_turn(one: Coroutine[Any, Any, None]) -> None:
                async with room:
                    await one

            await asyncio.gather(*map(in_turn, work))
            self.heard = await asyncio.gather(*hearing)
            for _, writer in listening:
                writer.close()

    @property
    def rows(self) -> int:
        return self.size.posts * PER_POST

    async def _get(self, http: httpx.AsyncClient, n: int) -> None:
        path = PATHS[n % len(PATHS)]
        found = await self._patiently(lambda: http.get(path))
        assert found.status_code == (404 if path in UNKNOWN else 200), found.text

    async def _patiently(self, ask: Any) -> httpx.Response:
        """Whoever is told to come back does."""
        for attempt in range(200):
            try:
                found: httpx.Response = await ask()
            except httpx.TransportError:
                self.statuses[0] += 1
            else:
                self.statuses[found.status_code] += 1
                if found.status_code != 503:
                    return found
            self.retries += 1
            await asyncio.sleep(0.05 * min(attempt + 1, 20))
        raise AssertionError("the server never had room")

    async def _post(self, http: httpx.AsyncClient, n: int) -> None:
        body = "".join(json.dumps(row(n % 10, n + part, 0)) + "\n" for part in range(PER_POST))
        headers = {"Content-Type": NDJSON, "Idempotency-Key": f"post {n}"}
        found = await self._patiently(lambda: http.post("/streams/a", content=body, headers=headers))
        assert found.status_code == 200, found.text

    async def _large(self, http: httpx.AsyncClient, n: int) -> None:
        one = json.dumps({"k": n, "w": "x" * 1_000, "ts": row(0, 0, 0)["ts"]}) + "\n"
        rows = self.size.body_bytes // len(one)
        headers = {"Content-Type": NDJSON, "Idempotency-Key": f"large {n}"}
        found = await self._patiently(lambda: http.post("/streams/b", content=one * rows, headers=headers))
        assert (found.status_code, found.json()["rows"]) == (200, rows)
        self.large_rows += rows

    async def _noise(self, n: int) -> None:
        """What is no HTTP, and posts that are no Arrow or end too early."""
        noise = random.Random(n).randbytes(300)
        head = b"POST /streams/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + ARROW.encode()
        sent = (
            noise,
            head + b"\r\nContent-Length: 300\r\n\r\n" + noise,
            head + b"\r\nContent-Length: 900\r\n\r\n" + noise,
        )
        try:
            reader, writer = await self._connect()
            writer.write(sent[n % 3])
            await writer.drain()
            if n % 3 == 1:
                told = await asyncio.wait_for(reader.read(1 << 12), 60)
                assert told[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 503", b""), told[:200]
            writer.close()
        except (ConnectionError, TimeoutError):
            pass  # it was not waited for

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        at = urlsplit(self.url)
        return await asyncio.open_connection(at.hostname, at.port)

    async def _listener(self, n: int) -> tuple[asyncio.StreamReader | None, asyncio.StreamWriter]:
        """Every tenth never reads."""
        reader, writer = await self._connect()
        writer.write(b"GET /queries/query_2/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await writer.drain()
        if n % 10 == 9:
            return None, writer
        assert (await reader.readuntil(b": listening")).startswith(b"HTTP/1.1 200")
        return reader, writer


async def _rows_heard(reader: asyncio.StreamReader, expected: int) -> int:
    """How many rows a listener hears, until it has heard all or is let go."""
    heard, rest = 0, b""
    while heard < expected:
        part = await asyncio.wait_for(reader.read(1 << 18), 120)
        if not part:
            break
        text = rest + part
        heard += text.count(b'"v"')
        rest = text[-2:]  # a mark may be cut in two
    return heard


@contextmanager
def served(folder: Path) -> Iterator[Client]:
    """In a process of its own: a thousand connections have two ends, and each is an open file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = LARGE.listeners + LARGE.at_once + 512
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted if hard < 0 else min(wanted, hard)), hard))
    life = Life(folder, SCRIPT)
    try:
        yield life.client
        assert life.terminate() == 0
    finally:
        life.kill()


@pytest.mark.parametrize(
    "size", [pytest.param(SMALL, id="small"), pytest.param(LARGE, id="large", marks=pytest.mark.flood)]
)
def test_a_flood_leaves_the_answers_right(tmp_path: Path, size: Size) -> None:
    with served(tmp_path) as client:
        flood = Flood(client.url, size)
        asyncio.run(flood.run())
        assert client.get("/health").status_code == 200
        later = {"k": -1, "v": 0, "ts": row(0, 0, 100)["ts"]}
        told = client.posted("a", [later])["batches"]
        found = {one["k"]: (one["n"], one["total"]) for one in client.answer("groups", told["groups"])}
        expected: dict[int, tuple[int, float]] = {}
        for k in range(10):
            values = [n + part for n in range(k, size.posts, 10) for part in range(PER_POST)]
            expected[k] = (len(values), float(sum(values)))
        assert found == expected
        told = client.posted("b", [{"k": 0, "w": "", "ts": later["ts"]}])["batches"]
        assert client.answer("large", told["large"]) == [{"n": flood.large_rows}]
        # All who read have heard every row.
        assert set(flood.heard) == {flood.rows}
        assert len(flood.heard) == size.listeners - size.listeners // 10
