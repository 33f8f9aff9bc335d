"""Where numbers come from: the version of the code that can have changed them, the commit, the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from watersmeet.lab.experiment import Experiment
from watersmeet.lab.reach import NAME, PACKAGE, modules, reachable, seen

# What no experiment runs through: it may change and the numbers stay good.
APART = ("cli", "demo", "checking", "testing", "spark", "hosts.spark", "warm_up")
AROUND = (
    "cli", "command", "progress", "cards", "circumstances", "report", "registry", "runner", "store", "judge", "jobs",
    "estimate", "provenance", "reach", "sources", "coverage", "static_arguments",
)  # fmt: skip
LEFT_OUT = tuple(f"{NAME}.{one}" for one in (*APART, *(f"lab.{one}" for one in AROUND)))


def modules_behind(experiment: Experiment) -> tuple[str, ...]:
    """The modules that a run which has just ended, with imports watched, can have gone through.

    What was never imported has run nothing. Should another version import more, one of these modules has changed.
    """
    home = _home(experiment)
    # A package of one paper: all of its modules.
    starts = [name for name in modules() if name == home or name.startswith(f"{home}.")] or modules()
    possible = reachable(starts, later=seen(), by_name=sys.modules)
    return tuple(name for name in modules() if name in possible and not _left_out(name))


def fingerprint(names: Iterable[str]) -> str | None:
    """A sum over the sources of these modules; None if one is gone."""
    found = hashlib.sha256()
    for name in sorted(names):
        path = modules().get(name)
        if path is None:
            return None
        found.update(f"{name}\0{_sum(path)}\0".encode())
    return found.hexdigest()[:16]


@cache
def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _home(experiment: Experiment) -> str:
    """The module of its run; of one that is made of parts, which may be from several modules, all of its paper."""
    paper = f"{NAME}.lab.papers.{experiment.paper.lower()}"
    run: Any = experiment.run
    plain = isinstance(run, FunctionType) and run.__closure__ is None
    return run.__module__ if plain and f"{run.__module__}.".startswith(f"{paper}.") else paper


def _left_out(name: str) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in LEFT_OUT)


@cache
def commit() -> str | None:
    """The commit of the checkout this code lies in, if it is one; with `+` if files have changed since."""
    top = _git("rev-parse", "--show-toplevel")
    # An installed package may lie inside the checkout of something else, as a virtual environment does.
    if top is None or Path(top) / "src" / PACKAGE.name != PACKAGE:
        return None
    changed = _git("status", "--porcelain", "--", str(PACKAGE))
    return f"{_git('rev-parse', 'HEAD')}{'+' if changed else ''}"


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(PACKAGE), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "arch": platform.machine(),
        "system": platform.system(),
    }
