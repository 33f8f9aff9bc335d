"""No file can be opened because too many are: that passes, so it is tried again for a while."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeVar

from watersmeet.io.retrying import retried

T = TypeVar("T")
PATIENCE_S, PAUSE_S = 60.0, 0.2


def is_out_of_files(error: BaseException | None) -> bool:
    """Whether that is at the bottom of an error, however it is told."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        error = error.__cause__ or error.__context__
    return False


def tried_again(step: Callable[[], T]) -> T:
    """What a step gives that can be begun anew."""
    said = "too many files are open ({})".format
    return retried(step, is_out_of_files, for_s=PATIENCE_S, pause_s=PAUSE_S, warning=said)
