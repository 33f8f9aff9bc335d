"""Where numbers come from: the version of the code that can have changed them, the commit, the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from watersmeet.lab.registry import PAPERS

PACKAGE = Path(__file__).parents[1]
# What no experiment runs through: it may change and the numbers stay good.
APART = ("cli", "demo", "checking", "spark")
# The same of lab/.
AROUND = {
    "cli.py", "command.py", "progress.py", "cards.py", "report", "registry.py", "runner.py", "store.py", "judge.py",
    "provenance.py", "sources.py",
}  # fmt: skip


@cache
def code_version(paper: str) -> str:
    """A fingerprint of the source that the experiments of a paper run through."""
    found = hashlib.sha256()
    for path in _sources(paper.lower()):
        found.update(f"{path.relative_to(PACKAGE).as_posix()}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _sources(paper: str) -> Iterator[Path]:
    others = {name for name in PAPERS if name != paper}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        of_another_paper = parts[:2] == ("lab", "papers") and Path(parts[2]).stem in others
        around = parts[0] == "lab" and parts[1] in AROUND
        # Of the hosts only Spark's is apart: experiments run in this process.
        room = parts[1] if parts[0] == "hosts" else parts[0]
        if room not in APART and not of_another_paper and not around:
            yield path


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
