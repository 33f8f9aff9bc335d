"""`watersmeet run --view [PORT]`: the page of a run, while it lasts and after it."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event

from watersmeet.cli.arguments import ANY
from watersmeet.cli.voice import voice
from watersmeet.errors import SetupError
from watersmeet.runtime.host import Host
from watersmeet.runtime.script import Job
from watersmeet.runtime.watched import Watched

HOST, USUAL_PORT = "127.0.0.1", 8740


class Page:
    """Looks at queries from when it is made, and is open from `open` on. It belongs to this machine: nobody else is let
    in, and nothing can be posted."""

    def __init__(self, port: str, jobs: Sequence[Job], watched: Mapping[str, Watched], host: Host) -> None:
        from watersmeet.serve.limits import Limits
        from watersmeet.serve.served import Served

        self._socket = _bound(port)
        self._names = [job.name for job in jobs]
        self._limits = Limits()
        self._served = Served(jobs, watched, self._limits, host)

    def open(self) -> None:
        from watersmeet.serve.server import HttpServer, url_of

        self._served.started()
        self._server = HttpServer(self._served, self._socket, self._limits, None)
        self._server.start()
        self.url = url_of(self._socket)
        voice().viewing(self.url, self._names)

    def stay(self) -> None:
        """The run has ended by itself: what it was can be looked at until Ctrl-C."""
        voice().tell(f"the page stays at {self.url} until Ctrl-C")
        done = Event()
        before = {one: signal.signal(one, lambda *_: done.set()) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            while not done.wait(1.0):  # with an end, as on some systems nothing else lets a signal through
                pass
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def close(self) -> None:
        if hasattr(self, "url"):
            self._server.stop()
        else:
            self._socket.close()


def _bound(port: str) -> socket.socket:
    from watersmeet.serve.server import bound

    if port != ANY:
        return bound(HOST, int(port), None)
    try:
        return bound(HOST, USUAL_PORT, None)
    except SetupError:  # another run is looked at there
        return bound(HOST, 0, None)


@contextmanager
def viewing(port: str | None, jobs: Sequence[Job], watched: Mapping[str, Watched], host: Host) -> Iterator[Page | None]:
    """A page that is open at once, if one is asked for and there is something to show."""
    if port is None or not jobs:
        yield None
        return
    page = Page(port, jobs, watched, host)
    try:
        page.open()
        yield page
    finally:
        page.close()
