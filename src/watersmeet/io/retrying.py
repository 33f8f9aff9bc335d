"""A step that fails for a reason that passes is tried again for a while."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

T = TypeVar("T")
LOGGER = logging.getLogger("watersmeet")


def retried(
    step: Callable[[], T],
    passes: Callable[[Exception], bool],
    *,
    for_s: float,
    pause_s: float,
    warning: Callable[[Exception], str] | None = None,
    silent_s: float = 0.0,
) -> T:
    """What a step gives that can be begun anew. passes: whether what went wrong is such a reason. warning: what the log
    is told once, if that lasts longer than `silent_s`."""
    began_s = monotonic()
    while True:
        try:
            return step()
        except Exception as error:
            waited_s = monotonic() - began_s
            if waited_s > for_s or not passes(error):
                raise
            if warning is not None and waited_s >= silent_s:
                LOGGER.warning("%s; for %g s it is tried again", warning(error), for_s)
                warning = None
        sleep(pause_s)
