"""Who may ask: stands before everything else, and lets no mistake of ours out as anything but a sentence.

Without a token only this machine is let in, and a page of the web that a browser on this machine shows is not this
machine: its requests bear a name that is not ours (Host, after DNS rebinding) or say where they come from (Origin).
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from watersmeet.errors import WatersmeetError
from watersmeet.serve.http_error import HttpError

LOGGER = logging.getLogger("watersmeet.serve")
OPEN = ("/health",)  # to whoever asks; and the page, which holds nothing but itself


def is_loopback(host: str) -> bool:
    """
    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "example.org", "127.0.0.1.org")]
    [True, True, True, False, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    def __init__(self, app: ASGIApp, token: str | None, is_open: Mapping[str, object]) -> None:
        """is_open: the paths that anybody may read."""
        self._app = app
        self._token = token.encode() if token else None
        self._open = frozenset(is_open) | frozenset(OPEN)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close"})
            return
        began = False

        async def sending(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            self._check(scope)
            # What nobody wraps can be told to wait for whoever reads slowly.
            await self._app(scope, receive, sending)
        except Exception as error:
            if began:
                LOGGER.warning("a response ended early: %s", _sentence(error))
                raise _EndedEarlyError from None
            await _as_http_error(error).response()(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get("origin")
        if origin is not None and _address_in(origin) != headers.get("host"):
            raise HttpError(403, f"pages of {origin} may not ask here", "open the page of this server itself")
        if self._token is not None:
            self._check_token(scope["path"], headers.get("authorization", ""))
        elif not is_loopback(_name_of(headers.get("host", ""))):
            raise HttpError(
                403,
                f"this server is not called {headers.get('host', '')!r}",
                "ask 127.0.0.1 or localhost; for other names start it with --token",
            )

    def _check_token(self, path: str, given: str) -> None:
        assert self._token is not None
        if path in self._open:
            return
        kind, _, token = given.partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(token.strip().encode("latin-1"), self._token):
            raise HttpError(
                401,
                "this server needs its token",
                "send it in the header Authorization: Bearer …",
                headers={"WWW-Authenticate": "Bearer"},
            )


class _EndedEarlyError(Exception):
    """A response that has begun cannot become another; whoever reads it sees that it is cut off."""


def _address_in(origin: str) -> str | None:
    """
    >>> _address_in("http://localhost:80"), _address_in("http://[::1")
    ('localhost:80', None)
    """
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _name_of(host: str) -> str:
    """The name without its port.

    >>> _name_of("localhost:80"), _name_of("[::1]:8740"), _name_of("127.0.0.1"), _name_of("a@b:x")
    ('localhost', '::1', '127.0.0.1', '')
    """
    if "@" in host:
        return ""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _as_http_error(error: Exception) -> HttpError:
    if isinstance(error, HttpError):
        return error
    LOGGER.warning("a request failed: %s", _sentence(error))
    if isinstance(error, WatersmeetError):
        return HttpError.of(500, error)
    return HttpError(500, "something went wrong in the server", "its log says what; the queries go on")


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
