"""What a client is told when something cannot be done: a status, what is wrong, what would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from watersmeet.errors import WatersmeetError


class HttpError(Exception):
    def __init__(
        self,
        status: int,
        error: str,
        hint: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(error)
        self.status, self.error, self.hint, self.headers, self.more = status, error, hint, headers, more

    @classmethod
    def of(cls, status: int, error: WatersmeetError, **more: Any) -> HttpError:
        return cls(status, error.message, error.hint, **more)

    def response(self) -> JSONResponse:
        content = {"error": self.error, "hint": self.hint, **self.more}
        return JSONResponse(content, self.status, {**(self.headers or {}), "Cache-Control": "no-store"})


def busy(error: str, hint: str, **more: Any) -> HttpError:
    return HttpError(503, error, hint, headers={"Retry-After": "1"}, **more)
