"""Who listens to a query: woken when there is something new, bounded in number, and never waited for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.types import Receive, Scope, Send

from watersmeet.dataclass import dataclass
from watersmeet.runtime.watched import Failure
from watersmeet.serve.change_log import ALL_PARTS, ChangeLog, Missed, Place
from watersmeet.serve.http_error import busy
from watersmeet.serve.limits import Limits

# To wake many takes a while, in which nothing else is done: so they are woken the less often, the more they are.
WAKING_S = 1e-4


class Listeners:
    """All of a server. Used on its event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.count = 0
        self.dropped = 0
        self.closing = False
        self._bells: dict[str, _Bell] = {}

    def attach(self, name: str, log: ChangeLog, loop: asyncio.AbstractEventLoop) -> None:
        self._bells[name] = bell = _Bell(self, loop)
        log.on_more = bell.ring

    def fail(self, name: str, failure: Failure) -> None:
        """Let those go who wait for a query that gives no more answers."""
        bell = self._bells[name]
        if bell.failure is None:
            bell.failure = failure
            bell.wake()

    def close(self) -> None:
        """Let all go."""
        self.closing = True
        for bell in self._bells.values():
            bell.wake()

    def response(self, name: str, log: ChangeLog, after: str | None) -> EventStream:
        if self.closing:
            raise busy("the server is stopping", "connect again when it is back: the last id says where to go on")
        if self.count >= self._limits.subscribers:
            raise busy(
                f"{self.count:,} subscribers are connected, and no more are taken",
                "try again later, or start the server with a larger --max-subscribers",
            )
        return EventStream(self, self._bells[name], log, after, self._limits)


class _Bell:
    """Wakes those who wait for the events of one query."""

    def __init__(self, listeners: Listeners, loop: asyncio.AbstractEventLoop) -> None:
        self._listeners = listeners
        self._loop = loop
        self._more = asyncio.Event()
        self._rung = False
        self._quiet_until_s = 0.0
        self.waiting = 0
        self.failure: Failure | None = None

    def ring(self) -> None:
        """By any thread."""
        if self.waiting and not self._rung:
            self._rung = True
            try:
                self._loop.call_soon_threadsafe(self._wake_soon)
            except RuntimeError:  # the loop has ended
                return

    def _wake_soon(self) -> None:
        wait_s = self._quiet_until_s - self._loop.time()
        if wait_s > 0:
            self._loop.call_later(wait_s, self.wake)
        else:
            self.wake()

    def wake(self) -> None:
        # Rung again from here on, whoever has looked before.
        self._rung = False
        self._quiet_until_s = self._loop.time() + WAKING_S * self.waiting
        self._more.set()
        self._more = asyncio.Event()

    @property
    def next(self) -> asyncio.Event:
        """What will be set by the next call; to be taken before one looks."""
        return self._more


@dataclass
class EventStream:
    """The response: events as they come, until the client goes, the server ends, or the client is too slow."""

    listeners: Listeners
    bell: _Bell
    log: ChangeLog
    after: str | None
    limits: Limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.listeners.count += 1
        self.bell.waiting += 1
        sending = asyncio.create_task(self._tell(send))
        gone = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.listeners.count -= 1
            self.bell.waiting -= 1
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)

    async def _tell(self, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for text in self._texts():
            await send({"type": "http.response.body", "body": text, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _texts(self) -> AsyncIterator[bytes]:
        number, passed, missed = self._start()
        # Something at once, so that a client knows that it is heard.
        yield b": listening\n\n" if missed is None else _missed(missed)
        while True:
            bell = self.bell.next
            found = self.log.since(number)
            if found is None:
                self.listeners.dropped += 1
                yield _event("dropped", error="too slow: events were forgotten before they were read", hint=_HINT)
                return
            events, number = found
            events = [one for one in events if one.place > passed]
            if events:
                yield b"".join([one.text() for one in events])
            elif number < self.log.now():
                continue  # all of these were passed over
            elif self.bell.failure is not None:
                yield _event("failed", error=self.bell.failure.error, hint=self.bell.failure.hint)
                return
            elif self.listeners.closing:
                break
            else:
                try:
                    await asyncio.wait_for(bell.wait(), self.limits.heartbeat_s)
                except TimeoutError:
                    yield b": still here\n\n"
        yield _event("end", error="the server is stopping", hint="connect again with the last id when it is back")

    def _start(self) -> tuple[int, Place, Missed | None]:
        if self.after is None:
            return self.log.now(), (-2, ALL_PARTS), None
        return self.log.behind(self.after)


_HINT = "connect again with the last id, or read the present answer, which says from which id on to listen"


def _missed(missed: Missed) -> bytes:
    what = "events are forgotten" if missed.after else "this id is not of this run"
    return _event("missed", error=what, hint=_HINT, after=missed.after, until=missed.until)


def _event(name: str, **data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
