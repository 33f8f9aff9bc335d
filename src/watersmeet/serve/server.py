"""The HTTP server, in a thread of its own beside the runs."""

from __future__ import annotations

import asyncio
import logging
import socket
from threading import Event, Thread

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from watersmeet.errors import SetupError
from watersmeet.serve.app import make_app
from watersmeet.serve.guard import is_loopback
from watersmeet.serve.http_error import busy
from watersmeet.serve.limits import MOST_ACCEPTED, Limits, allowed_files, fitted
from watersmeet.serve.listeners import Listeners
from watersmeet.serve.served import EVERY_S, Served

BACKLOG = 1024
LAST_S = 3.0  # for so long requests in hand may go on when the server ends


def bound(host: str, port: int, token: str | None) -> socket.socket:
    """A socket at an address, which does not listen yet; what is wrong with the address is one sentence."""
    if not is_loopback(host) and token is None:
        raise SetupError(
            f"{host} can be reached from other machines, so a token is needed",
            hint="give --token, or WATERSMEET_TOKEN in the environment, or serve at 127.0.0.1",
        )
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With its protocol: asyncio turns Nagle's waiting off only of sockets that say they are TCP.
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise SetupError(f"{host} is no address of this machine: {error.strerror or error}") from None
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(BACKLOG)  # of two that bind the same port, the second learns it here
    except OSError as error:
        made.close()
        raise SetupError(
            f"port {port} of {host} cannot be used: {error.strerror or error}",
            hint="give another --port; 0 takes any that is free",
        ) from None
    return made


def url_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class HttpServer:
    def __init__(self, served: Served, at: socket.socket, limits: Limits, token: str | None) -> None:
        self.limits = limits = fitted(limits, allowed_files())
        self._served = served
        self._socket = at
        self._listeners = Listeners(limits)
        config = uvicorn.Config(
            make_app(served, self._listeners, limits, token),
            interface="asgi3",
            http=_protocol(limits),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=MOST_ACCEPTED,
            timeout_graceful_shutdown=int(LAST_S),
        )
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL + 1)  # what is worth telling we tell ourselves
        self._server = uvicorn.Server(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._up = Event()
        self._thread = Thread(target=self._run, name="watersmeet serves", daemon=True)

    def start(self) -> None:
        """Returns when requests are answered."""
        self._thread.start()
        self._up.wait(30)

    def stop(self) -> None:
        """Let those who listen go, then the others when they are done."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._listeners.close)
        self._server.should_exit = True
        self._thread.join(LAST_S + 5)
        self._socket.close()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        for name, query in self._served.queries.items():
            self._listeners.attach(name, query.log, self._loop)
        serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.005)
        self._socket.listen(BACKLOG)  # so many wait outside, whatever is taken at once
        self._up.set()
        sampling = asyncio.create_task(self._sample())
        await serving
        sampling.cancel()

    async def _sample(self) -> None:
        while True:
            for name, query in self._served.queries.items():
                query.history.add(await asyncio.to_thread(query.sample))
                if query.failure is not None:
                    self._listeners.fail(name, query.failure)
            await asyncio.sleep(EVERY_S)


def _protocol(limits: Limits) -> type[H11Protocol]:
    """HTTP over connections, so many at most, of which none is waited for: neither for what it asks, nor until it
    reads."""
    most = limits.subscribers + limits.connections

    class Impatient(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._asking, self._reading = _Timer(limits.head_s), _Timer(limits.send_pause_s)
            if len(self.connections) > most:
                transport.write(_full(most))
                transport.close()
                return
            self._asking.start(self.loop, transport)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():  # it was told to come back
                return
            super().data_received(data)
            if self.conn.their_state is h11.IDLE:  # a part of a request, the first or a next one
                self._asking.start(self.loop, self.transport)
            else:
                self._asking.stop()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._reading.start(self.loop, self.transport)

        def resume_writing(self) -> None:
            self._reading.stop()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._asking.stop()
            self._reading.stop()
            super().connection_lost(exc)

    return Impatient


def _full(most: int) -> bytes:
    """What a connection is told for which there is no room, whatever it asks for."""
    response = busy(f"{most:,} connections are open, and no more are taken", "try again later").response()
    head = [(b"connection", b"close"), *response.raw_headers]
    lines = b"".join(b"%s: %s\r\n" % (name, value) for name, value in head)
    return b"HTTP/1.1 503 Service Unavailable\r\n" + lines + b"\r\n" + bytes(response.body)


class _Timer:
    """Cuts a connection, unless it is stopped before."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._handle: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        """If it does not run already."""
        if self._handle is None:
            self._handle = loop.call_later(self._seconds, transport.abort)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
