"""Warnings that point at the user's own code."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parents[1])


def warn(told: Warning) -> None:
    """A Python warning at the line of the user's own code that declares a stream or runs a query."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(told, stacklevel=level)
