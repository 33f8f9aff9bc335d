"""The bodies of requests, read into memory within bounds: of each, and of all at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from watersmeet.serve.http_error import HttpError, busy
from watersmeet.serve.limits import MIB, Limits


class Bodies:
    """Used on the event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held = 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """The body of a request, which counts as held until the block ends."""
        self._check_length(request.headers.get("content-length"))
        parts: list[bytes] = []
        size = 0
        try:
            async for part in self._parts(request):
                size += len(part)
                self._held += len(part)
                parts.append(part)
                self._check(size)
            yield b"".join(parts)
        finally:
            self._held -= size

    async def _parts(self, request: Request) -> AsyncIterator[bytes]:
        stream = request.stream()
        while True:
            try:
                yield await asyncio.wait_for(anext(stream), self._limits.body_pause_s)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise HttpError(
                    408, f"nothing of the body came for {self._limits.body_pause_s:g} s; no row of it was taken"
                ) from None
            except ClientDisconnect:
                raise HttpError(400, "the body ended too early; no row of it was taken") from None

    def _check_length(self, length: str | None) -> None:
        # What is not a number was refused by the server library.
        if length is not None and length.isdigit():
            self._check(int(length), held=False)

    def _check(self, size: int, *, held: bool = True) -> None:
        most = self._limits.body_bytes
        if size > most:
            raise HttpError(
                413,
                f"the body has more than {most:,} bytes; no row of it was taken",
                "send fewer rows at a time, or start the server with a larger --max-body",
                headers={"Connection": "close"},
            )
        if self._held + (0 if held else size) > self._limits.bodies * max(most, MIB):
            raise busy("too many bodies are being read; no row of this one was taken", "send it again in a moment")
