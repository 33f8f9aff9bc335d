"""Whatever comes, the queries go on with the right answers."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pytest

from tests.serve.serving import ARROW, JSON, NDJSON, Client, listening, row, serving
from tests.serve.test_posts import arrow
from watersmeet.serve.limits import MIB, Limits


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """At the end of all attacks the answer is what the rows say that were acknowledged."""
    with serving(tmp_path_factory.mktemp("served"), limits=Limits(head_s=0.5, body_pause_s=0.5)) as client:
        client.posted("a", [row(1, 2, 0)])
        yield client
        told = client.posted("a", [row(1, 3, 1), row(2, 2, 2)])
        assert client.answer("groups", told["batches"]["groups"]) == [{"k": 1, "n": 2, "total": 5.0}]
        assert client.get("/streams/a").json()["taken"] == 3


def connected(client: Client) -> socket.socket:
    at = urlsplit(client.url)
    assert at.hostname is not None
    return socket.create_connection((at.hostname, at.port or 0), timeout=10)


def raw(client: Client, data: bytes) -> bytes:
    """What the server answers to bytes first; nothing if it closes."""
    with connected(client) as sock, suppress(ConnectionError):
        sock.sendall(data)
        return sock.recv(1 << 16)
    return b""


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GET\r\n\r\n",
        b"POST /streams/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /streams/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST /streams/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(20_000)) + b"\r\n",
        bytes(random.Random(1).randbytes(5_000)),
    ],
)
def test_malformed_http_is_refused(client: Client, data: bytes) -> None:
    found = raw(client, data)
    assert not found or found.startswith(b"HTTP/1.1 4"), found[:200]
    assert b"Traceback" not in found


def test_a_name_that_is_not_ours_is_refused(client: Client) -> None:
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "a@127.0.0.1", "[::1", "0.0.0.0"):
        found = client.get("/queries", Host=host)
        assert (found.status_code, "not called" in found.text) in ((403, True), (400, False)), host
    for host in ("localhost", "127.0.0.1:1234", "[::1]:80"):
        assert client.get("/queries", Host=host).status_code == 200


def test_pages_of_the_web_may_not_post(client: Client) -> None:
    body = json.dumps([row(1, 1, 1)])
    for origin in ("http://evil.example", "null", "", "http://[::1"):
        headers = {"Origin": origin, "Content-Type": JSON}
        assert client.http.post("/streams/a", content=body, headers=headers).status_code == 403, origin
    # What a page may send without asking is in none of our forms.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        assert client.http.post("/streams/a", content=body, headers={"Content-Type": kind}).status_code == 415
    assert "access-control-allow-origin" not in client.get("/queries", Origin=client.url.rstrip("/")).headers


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (NDJSON, b'{"k": 1'),
        (NDJSON, b"\xff\xfe\x00"),
        (NDJSON, b'{"k": NaN, "v": 1, "ts": "2026-01-01"}'),
        (JSON, b"[" * 100_000),
        (JSON, b'{"k": ' + b"9" * 10_000 + b"}"),
        (JSON, b""),
        (JSON, b'[{"k": [1, 2], "v": {"x": 1}, "ts": "2026-01-01"}]'),
        (JSON, b'[{"k": true, "v": "1", "ts": "2026-01-01"}]'),
        (JSON, b'[{"k": 1, "v": 1, "ts": "99999-01-01"}]'),
        (ARROW, b""),
        (ARROW, b"ARROW1\x00\x00"),
        (ARROW, b"\xff\xff\xff\xff\xff\xff\xff\x7f" + b"x" * 100),
        (ARROW, b'{"k": 1}'),
    ],
)
def test_bodies_that_hold_no_rows_are_refused(client: Client, kind: str, body: bytes) -> None:
    found = client.http.post("/streams/a", content=body, headers={"Content-Type": kind})
    assert found.status_code == 400, found.text
    assert set(found.json()) >= {"error", "hint"}


def test_arrow_that_is_cut_or_changed_never_hurts(client: Client) -> None:
    """Times before all others: if such a body passes for rows, they are late, and change no answer."""
    whole = arrow([row(5, 1, 0), row(6, 1, 0)])
    rng = random.Random(7)
    bodies = [whole[:size] for size in range(1, len(whole) - 8, 23)]
    for _ in range(60):
        changed = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(8, 300)] = rng.randrange(256)  # what describes the rows
        bodies.append(bytes(changed))
    for body in bodies:
        # To a stream that does not have these columns, so that none is ever taken.
        found = client.http.post("/streams/b", content=body, headers={"Content-Type": ARROW})
        assert found.status_code in (200, 400), found.text
        assert found.status_code == 400 or found.json()["rows"] == 0


def stream_of(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def many_rows() -> bytes:
    return stream_of(pa.RecordBatch.from_struct_array(pa.array([{}] * 100_000, pa.struct([]))))


def long_text(rows: int) -> bytes:
    words = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int8()), pa.array(["x" * 100_000]))
    times = pa.array([0] * rows, pa.timestamp("us"))
    return stream_of(pa.RecordBatch.from_arrays([pa.array([1] * rows), words, times], ["k", "w", "ts"]))


def zeros(compression: str | None) -> bytes:
    columns = [pa.array([0] * 100_000), pa.array([""] * 100_000), pa.array([0] * 100_000, pa.timestamp("us"))]
    return stream_of(pa.RecordBatch.from_arrays(columns, ["k", "w", "ts"]), compression=compression)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (many_rows(), "100,000 rows cannot be in"),
        (long_text(10_000), "more than 16 times as large as the body"),
        (zeros("zstd"), "it is compressed"),
        (zeros("lz4"), "it is compressed"),
    ],
    ids=["rows without columns", "one text for all", "zstd", "lz4"],
)
def test_a_little_arrow_that_stands_for_much_is_refused(client: Client, body: bytes, words: str) -> None:
    found = client.http.post("/streams/b", content=body, headers={"Content-Type": ARROW})
    assert (found.status_code, words in found.json()["error"]) == (400, True), found.text


@pytest.mark.parametrize("body", [zeros(None), long_text(3)], ids=["plain", "dictionary"])
def test_arrow_in_its_usual_forms_is_taken(client: Client, body: bytes) -> None:
    found = client.http.post("/streams/b", content=body, headers={"Content-Type": ARROW})
    assert found.status_code == 200, found.text


def test_a_large_body_is_taken_and_a_larger_one_refused(client: Client) -> None:
    one = json.dumps({"k": 1, "w": "x" * 1000, "ts": "2026-01-01 12:00:00"}) + "\n"
    found = client.http.post("/streams/b", content=one * (10 * MIB // len(one)), headers={"Content-Type": NDJSON})
    assert (found.status_code, found.json()["rows"]) == (200, 10 * MIB // len(one))
    told = raw(client, b"POST /streams/b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17000000\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 413")

    def chunks() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * MIB

    try:
        found = client.http.post("/streams/b", content=chunks(), headers={"Content-Type": NDJSON})
        assert found.status_code == 413
    except httpx.TransportError:
        pass  # it was cut off while it sent


def test_who_sends_half_a_body_is_let_go(client: Client) -> None:
    head = (
        b"POST /streams/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    )
    with connected(client) as sock:
        sock.sendall(head + b'[{"k": 1')
        assert sock.recv(1000).startswith(b"HTTP/1.1 408")
    with connected(client) as sock:
        sock.sendall(head + b'[{"k": 1')  # and is gone


def test_a_compressed_body_is_refused(client: Client) -> None:
    headers = {"Content-Type": JSON, "Content-Encoding": "gzip"}
    assert client.http.post("/streams/a", content=b"[]", headers=headers).status_code == 415


def test_a_thousand_listen_and_those_who_do_not_read_are_dropped(tmp_path: Path) -> None:
    script = """
        CREATE STREAM a (k BIGINT, w VARCHAR, ts TIMESTAMP) WITH (time = 'ts');
        SELECT k, w FROM a;
    """
    limits = Limits(kept_rows=2_000, send_pause_s=0.5)
    with serving(tmp_path, script, limits=limits) as client, ExitStack() as stack:
        request = b"GET /queries/query_1/changes HTTP/1.1\r\nHost: localhost\r\n\r\n"
        socks = [stack.enter_context(connected(client)) for _ in range(1_000)]
        for sock in socks:
            sock.sendall(request)
        for sock in socks:
            assert sock.recv(4096).startswith(b"HTTP/1.1 200")
        assert client.get("/queries/query_1/changes").status_code == 503
        told = client.posted("a", [{"k": 1, "w": "hello", "ts": "2026-01-01 12:00:00"}])
        for sock in socks:
            heard = b""
            while b"hello" not in heard:
                heard += sock.recv(4096)
        for sock in socks[10:]:
            sock.close()
        # Ten who read nothing more: what they are sent fills their buffers, and they are gone.
        for number in range(40):
            rows = [{"k": n, "w": "x" * 1_000, "ts": "2026-01-01 12:00:01"} for n in range(200)]
            started = time.monotonic()
            told = client.posted("a", rows)
            assert time.monotonic() - started < 5, f"post {number} waited for somebody who does not read"
        until = time.monotonic() + 20
        while "watersmeet_subscribers 0.0" not in client.get("/metrics").text:
            assert time.monotonic() < until, "who does not read is still there"
            time.sleep(0.05)
        assert client.get(f"/queries/query_1/rows?batch={told['batches']['query 1']}&limit=1").json()["rows"]
        assert client.get("/queries").json()["queries"][0]["metrics"]["results"] == 8_001


def test_a_slow_listener_is_told_that_it_was_dropped(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(kept_rows=3, subscribers=2)) as client, listening(client, "query_3") as events:
        # More changes in one batch than are kept: nobody could have read them.
        client.posted("a", [row(n, n, n) for n in range(20)])
        found = events.next()
        while found.get("event") != "dropped":
            found = events.next()
        assert "too slow" in found["data"]["error"]


def test_a_token_is_asked_for_everywhere_but_of_the_page_and_health(tmp_path: Path) -> None:
    with serving(tmp_path, token="sesame") as client:
        stranger = Client(client.url)
        for path in (
            "/queries",
            "/streams",
            "/metrics",
            "/queries/groups/answer",
            "/queries/groups/changes",
            "/nowhere",
        ):
            found = stranger.get(path)
            assert (found.status_code, found.headers["www-authenticate"]) == (401, "Bearer")
        for wrong in ("Bearer sesam", "Bearer", "sesame", "Basic sesame", "Bearer sesame2", "Bearer \xfc"):
            found = stranger.http.get("/queries", headers=[(b"authorization", wrong.encode("latin-1"))])
            assert found.status_code == 401
        assert stranger.post("a", [row(1, 1, 1)]).status_code == 401
        for path in ("/", "/health"):
            assert stranger.get(path).status_code == 200
        assert client.get("/queries", Host="any.example").status_code == 200
        assert client.posted("a", [row(1, 1, 1)])["rows"] == 1
