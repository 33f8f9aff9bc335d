"""The library of kernels that came with the package, compiled ahead of time: they are called without Numba.

It serves where the sources are those that it was made of and the processor has what it was made for; otherwise kernels
are compiled here, and why is told with that.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from watersmeet.dataclass import dataclass
from watersmeet.warning import StateWarning, warn

PACKAGE = Path(__file__).parents[1]
NAME = "watersmeet._kernels"
# 'numba' compiles kernels here, whatever came along. Who makes a library says BUILD: what is compiled is not kept then.
CHOICE, BUILD = "WATERSMEET_KERNELS", "build"
CAME = "the compiled kernels that came with watersmeet"


@dataclass(frozen=True)
class Intrinsic:
    """Instructions that compiled kernels have in them: only who compiles makes more of it."""

    function: Callable[..., Any]


@cache
def library() -> Any | None:
    """The module that has compiled kernels; None if it does not serve here."""
    why = why_not()
    if why is not None and CHOICE not in os.environ:
        warn(StateWarning("kernel_library", f"kernels are compiled by Numba, as {why}"))
    return None if why else _imported()


@cache
def why_not() -> str | None:
    """Why the kernels that came with the package do not serve here; None if they do, or if none came."""
    module = _imported()
    if module is None:
        return None
    if chosen := os.environ.get(CHOICE):
        return f"{CHOICE} is {chosen}"
    if not module.runs_here():
        return f"{CAME} are for processors of the kind {module.TARGET}"
    if stamp_of(module.SOURCES.split()) != module.STAMP:
        return f"{CAME} are of other sources"
    return None


@cache
def _imported() -> Any | None:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):  # kernels are to stay Python
        return None
    try:
        return import_module(NAME)
    except ModuleNotFoundError:
        return None


def stamp_of(sources: Iterable[str]) -> str:
    """Over files of the package."""
    total = hashlib.sha256()
    for name in sources:
        with open(PACKAGE / name, "rb") as file:
            total.update(name.encode() + b"\0" + file.read())
    return total.hexdigest()
