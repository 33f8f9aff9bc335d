"""A life in a process of its own, which may be killed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from tests.forked import forked


def lived_through(live: Callable[..., None], *arguments: Any, timeout_s: float = 120) -> bool:
    """Whether it came to its end; False if it was killed as asked."""
    process = forked(live, *arguments)
    process.join(timeout_s)
    if process.exitcode is None:
        process.kill()
        raise AssertionError(f"a life did not end within {timeout_s:g} s")
    assert process.exitcode in (0, -signal.SIGKILL), f"a life ended with {process.exitcode}"
    return process.exitcode == 0
