"""Cleaning of a checkpoint and its sink, by a process that may be killed amid it."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path
from typing import Any


def clean(folders: list[Path], ends_after: int | None) -> None:
    """Like the command. ends_after: so many removals, half way through the next one."""
    from watersmeet.cli.commands import app
    from watersmeet.leftovers import Left

    # What others have left on this machine is not the test's.
    tempfile.tempdir = os.environ["WATERSMEET_WARM_DIR"] = str(folders[0].parent)
    left = [ends_after]
    remove = Left.remove

    def dying(self: Any) -> bool:
        if left[0] is not None:
            left[0] -= 1
            if left[0] < 0:
                remove(self)
                os.kill(os.getpid(), signal.SIGKILL)
        return remove(self)

    Left.remove = dying  # type: ignore[method-assign]
    app(["clean", *map(str, folders), "--older-than", "0 s"], standalone_mode=False)
