"""No file can be opened because too many are: that passes, so it is tried again for a while."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LOGGER = logging.getLogger("watersmeet")
PATIENCE_S = 60.0
PAUSE_S = 0.2


def is_out_of_files(error: BaseException | None) -> bool:
    """Whether that is at the bottom of an error, however it is told."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        error = error.__cause__ or error.__context__
    return False


def tried_again(step: Callable[[], T]) -> T:
    """What a step gives that can be begun anew."""
    until_s = time.monotonic() + PATIENCE_S
    told = False
    while True:
        try:
            return step()
        except Exception as error:
            if not is_out_of_files(error) or time.monotonic() > until_s:
                raise
            if not told:
                LOGGER.warning("too many files are open; for %g s it is tried again: %s", PATIENCE_S, error)
                told = True
        time.sleep(PAUSE_S)
