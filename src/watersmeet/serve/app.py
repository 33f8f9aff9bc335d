"""What can be asked of a server, path by path."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
from importlib.resources import files
from time import monotonic
from typing import Any

import anyio
import anyio.to_thread
import pyarrow as pa
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from watersmeet.errors import WatersmeetError
from watersmeet.hosts.local.durable.idempotency import IdempotencyKey
from watersmeet.hosts.local.instants import instant_us
from watersmeet.serve.bodies import Bodies
from watersmeet.serve.guard import Guard
from watersmeet.serve.http_error import HttpError
from watersmeet.serve.limits import Limits
from watersmeet.serve.listeners import EventStream, Listeners
from watersmeet.serve.posts import Posts
from watersmeet.serve.row_formats import ARROW, JSON, arrow_stream, decoded, rows_json, wants_arrow
from watersmeet.serve.scrape import Scrape
from watersmeet.serve.served import Served, ServedQuery
from watersmeet.version import VERSION

PATHS = {
    "GET /": "the page",
    "GET /health": "whether it runs",
    "GET /queries": "the queries, with their numbers",
    "GET /queries/NAME": "one of them, with its plan",
    "GET /queries/NAME/answer": "its present answer, where that changes; as Arrow by Accept; ?limit=N, ?batch=N",
    "GET /queries/NAME/rows": "the last rows it gave; as Arrow by Accept; ?limit=N, ?batch=N",
    "GET /queries/NAME/changes": "rows as they come, as server-sent events; goes on behind Last-Event-ID",
    "GET /queries/NAME/history": "its numbers of the last minutes; ?since=SECONDS",
    "GET /streams": "the streams, and how many rows of each were taken",
    "GET /streams/NAME": "one of them",
    "POST /streams/NAME": "rows in: lines of JSON, an array of JSON, or a stream of Arrow",
    "POST /streams/NAME/advance": 'no row before this time will come: {"until": "2026-01-31 12:00:00"}',
    "GET /metrics": "numbers for Prometheus",
}
SHOWN_ROWS = 10_000  # of an answer in JSON, unless more are asked for
ANSWERED_S = 10.0
DECODERS = 4  # so many bodies are made rows at a time
LONGEST_NAME = 200
HTML, CSS, SCRIPT = "text/html; charset=utf-8", "text/css; charset=utf-8", "text/javascript; charset=utf-8"
PAGE = {
    "/": ("index.html", HTML),
    "/page/page.css": ("page.css", CSS),
    **{f"/page/{name}.js": (f"{name}.js", SCRIPT) for name in ("api", "page", "plan", "plots", "rows")},
    "/page/uplot/uPlot.iife.min.js": ("uplot/uPlot.iife.min.js", SCRIPT),
    "/page/uplot/uPlot.min.css": ("uplot/uPlot.min.css", CSS),
}
NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
OF_PAGE = {
    **NO_STORE,
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


class Endpoints:
    """Those that wait for a run's lock are plain functions, which run in threads; the event loop never waits."""

    def __init__(self, served: Served, listeners: Listeners, limits: Limits) -> None:
        self._served = served
        self._listeners = listeners
        self._bodies = Bodies(limits)
        self._decoding: anyio.CapacityLimiter | None = None  # made on the event loop
        self._posts = Posts(served.runs, limits)
        self._scrape = Scrape(served, self._of_server)
        self._pages = {path: _page(name, kind) for path, (name, kind) in PAGE.items()}

    def routes(self) -> list[Route]:
        gets: dict[str, Callable[..., Any]] = {
            "/health": self.health,
            "/metrics": self.metrics,
            "/queries": self.queries,
            # A name may hold a slash: what follows it comes first.
            "/queries/{name:path}/answer": self.answer,
            "/queries/{name:path}/rows": self.rows,
            "/queries/{name:path}/changes": self.changes,
            "/queries/{name:path}/history": self.history,
            "/queries/{name:path}": self.query,
            "/streams": self.streams,
        }
        pages = [Route(path, self.page, methods=["GET"]) for path in self._pages]
        streams = [
            Route("/streams/{name:path}/advance", self.advance, methods=["POST"]),
            Route("/streams/{name:path}", self.post, methods=["POST"]),
            Route("/streams/{name:path}", self.stream, methods=["GET"]),
        ]
        return [*pages, *(Route(path, to, methods=["GET"]) for path, to in gets.items()), *streams]

    def page(self, request: Request) -> Response:
        body, kind = self._pages[request.url.path]
        return Response(body, media_type=kind, headers=OF_PAGE)

    async def health(self, request: Request) -> Response:
        queries = self._served.queries.values()
        failed = {one.name: failure for one in queries if (failure := one.failure_json()) is not None}
        stopping = any(one.watched.state == "stopping" for one in queries)
        status = "failed" if failed else "stopping" if stopping else "ok"
        health = {"status": status, "version": VERSION, **({"failed": failed} if failed else {})}
        return _json(health, 200 if status == "ok" else 503)

    def queries(self, request: Request) -> Response:
        return _json({"queries": [one.brief() for one in self._served.queries.values()]})

    def query(self, request: Request) -> Response:
        return _json(self._served.query(request.path_params["name"]).whole())

    async def answer(self, request: Request) -> Response:
        query = self._served.query(request.path_params["name"])
        query.check_answers()
        await _answered(query, request)
        return await anyio.to_thread.run_sync(_answer, query, request)

    async def rows(self, request: Request) -> Response:
        query = self._served.query(request.path_params["name"])
        await _answered(query, request)
        return await anyio.to_thread.run_sync(_last_rows, query, request)

    async def changes(self, request: Request) -> EventStream:
        query = self._served.query(request.path_params["name"])
        query.check_answers()
        query.check_rows()
        after = request.headers.get("last-event-id") or request.query_params.get("after")
        return self._listeners.response(query.name, query.log, after)

    def history(self, request: Request) -> Response:
        query = self._served.query(request.path_params["name"])
        return _json({"samples": query.history.since(_number(request, "since") or 0)})

    def streams(self, request: Request) -> Response:
        return _json({"streams": [one.as_json() for one in self._served.streams.values()]})

    def stream(self, request: Request) -> Response:
        return _json(self._served.stream(request.path_params["name"]).as_json())

    async def post(self, request: Request) -> Response:
        stream = self._served.stream(request.path_params["name"])
        stream.check_posted()
        if request.headers.get("content-encoding", "identity") != "identity":
            raise HttpError(415, "the body is compressed", "send it as it is")
        async with self._bodies.read(request) as body:
            kind = request.headers.get("content-type", "")
            key = _idempotency_key(request, body)
            rows = await anyio.to_thread.run_sync(
                decoded, body, kind, stream.schema, stream.checked, limiter=self._decoders()
            )
        return _json(await self._posts.take(stream.name, rows, key))

    async def advance(self, request: Request) -> Response:
        stream = self._served.stream(request.path_params["name"])
        stream.check_posted()
        async with self._bodies.read(request) as body:
            until = _until(request.headers.get("content-type", ""), body)
        return _json(await anyio.to_thread.run_sync(stream.advance, until))

    def metrics(self, request: Request) -> Response:
        return Response(self._scrape.text(), media_type="text/plain; version=0.0.4; charset=utf-8", headers=NO_STORE)

    def _decoders(self) -> anyio.CapacityLimiter:
        """Threads of their own: those of readers may all wait for a long batch."""
        if self._decoding is None:
            self._decoding = anyio.CapacityLimiter(DECODERS)
        return self._decoding

    def _of_server(self) -> dict[str, tuple[str, float, bool]]:
        return {
            "subscribers": ("who listens to changes now", self._listeners.count, False),
            "subscribers_dropped": ("who listened and was too slow", self._listeners.dropped, True),
            "posts": ("posts that were acknowledged", self._posts.posts, True),
            "posts_repeated": ("posts among them whose rows had been taken before", self._posts.repeated, True),
        }


def make_app(served: Served, listeners: Listeners, limits: Limits, token: str | None) -> ASGIApp:
    endpoints = Endpoints(served, listeners, limits)
    handlers: dict[Any, Any] = {HTTPException: _unknown, HttpError: lambda _, problem: problem.response()}
    app = Starlette(routes=endpoints.routes(), exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Guard(app, token, PAGE)


def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, headers = request.url.path, error.headers
    if error.status_code == 405:
        message = f"{request.method} is not for {path}"
    elif error.status_code == 404:
        message = f"there is no {path}"
    else:
        message = str(error.detail)
    return HttpError(error.status_code, message, "paths tells what there is", headers=headers, paths=PATHS).response()


def _json(content: Any, status: int = 200) -> Response:
    return JSONResponse(content, status, NO_STORE)


async def _answered(query: ServedQuery, request: Request) -> None:
    """Wait until a batch is answered, if that is asked for: a post is acknowledged before."""
    number, run = _number(request, "batch"), query.watched
    until_s = monotonic() + ANSWERED_S
    while number is not None and run.given_number < number:
        query.check_answers()
        if monotonic() >= until_s:
            raise HttpError(
                504,
                f"batch {number} was not answered within {ANSWERED_S:g} s; the last one is {run.given_number}",
                "ask again",
                batch=run.given_number,
            )
        await asyncio.sleep(0.002)


def _answer(query: ServedQuery, request: Request) -> Response:
    table, number = query.present()
    head = {"batch": number, "id": query.log.id_after(number), "total": table.num_rows}
    headers = {**NO_STORE, "X-Event-ID": head["id"]}
    limit, as_arrow = _number(request, "limit"), wants_arrow(request.headers.get("accept", ""))
    shown = table if as_arrow and limit is None else table.slice(0, SHOWN_ROWS if limit is None else limit)
    return _rows(shown, head, headers, as_arrow)


def _last_rows(query: ServedQuery, request: Request) -> Response:
    query.check_rows()
    limit = _number(request, "limit")
    number = query.watched.given_number
    table = query.log.last_rows(SHOWN_ROWS if limit is None else limit)
    return _rows(table, {"batch": number}, NO_STORE, wants_arrow(request.headers.get("accept", "")))


def _rows(rows: pa.Table, head: Mapping[str, Any], headers: Mapping[str, str], as_arrow: bool) -> Response:
    if as_arrow:
        return Response(arrow_stream(rows), media_type=ARROW, headers=headers)
    opening = json.dumps(head)[:-1]
    return Response(f'{opening}, "rows": {rows_json(rows)}}}', media_type="application/json", headers=headers)


def _number(request: Request, name: str) -> int | None:
    written = request.query_params.get(name)
    if written is None:
        return None
    if not (written.isascii() and written.isdigit() and len(written) < 16):
        raise HttpError(400, f"{name}={written[:40]} is not a whole number")
    return int(written)


def _until(content_type: str, body: bytes) -> int:
    """The instant that a promise is about."""
    if content_type.partition(";")[0].strip().lower() != JSON:
        raise HttpError(415, "a promise is a JSON object", f"send it as {JSON}")
    try:
        promise = json.loads(body)
    except (ValueError, RecursionError):
        promise = None
    if not isinstance(promise, dict) or set(promise) != {"until"}:
        raise HttpError(400, "a promise says until when", 'such as {"until": "2026-01-31 12:00:00"}')
    try:
        return instant_us(promise["until"])
    except WatersmeetError as error:
        raise HttpError.of(400, error) from None


def _idempotency_key(request: Request, body: bytes) -> IdempotencyKey | None:
    """By what the rows are known again, if the client says so."""
    key, sequence = request.headers.get("idempotency-key"), request.headers.get("x-sequence")
    if key is not None and sequence is not None:
        raise HttpError(400, "Idempotency-Key and X-Sequence do not go together", "leave one out")
    name = key if key is not None else request.headers.get("x-client", "")
    if key == "" or len(name) > LONGEST_NAME:
        raise HttpError(400, f"a key or the name of a client has 1 to {LONGEST_NAME} characters")
    digest = blake2b(body, digest_size=8).hexdigest()
    if key is not None:
        return IdempotencyKey(key, None, digest)
    if sequence is None:
        if name:
            raise HttpError(400, "X-Client goes with X-Sequence", "count the posts of a client from 1")
        return None
    if not (sequence.isascii() and sequence.isdigit() and len(sequence) < 18 and int(sequence) >= 1):
        raise HttpError(400, f"X-Sequence: {sequence[:40]} is not a whole number from 1 on")
    return IdempotencyKey(name, int(sequence), digest)


def _page(name: str, kind: str) -> tuple[bytes, str]:
    return (files("watersmeet.serve") / "page" / name).read_bytes(), kind
