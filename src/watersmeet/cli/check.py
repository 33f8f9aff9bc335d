"""`watersmeet check`: every query of a script, run and recomputed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from watersmeet.checking.checker import Progress, check
from watersmeet.checking.report import show
from watersmeet.noticing import unheard
from watersmeet.runtime.host import Host
from watersmeet.runtime.script import read_script
from watersmeet.session import Query


def check_script(text: str, sample: int | None, host: Host | None, out: TextIO, *, quiet: bool = False) -> bool:
    """Check the queries of a script and tell the outcomes; whether all are equal. `host` is where they run, by default
    this process."""
    equal = True
    for job in read_script(text):
        with _nothing() if quiet else _bar(job.name) as on_progress:
            report = check(Query(job.plan, host), sample=sample, on_progress=on_progress)
        out.write(f"{job.name}: ")
        show(report, out, after=len(job.name) + 2)
        equal = equal and report.equal
    return equal


@contextmanager
def _nothing() -> Iterator[Progress | None]:
    yield None


@contextmanager
def _bar(name: str) -> Iterator[Progress | None]:
    """A bar on the terminal's error output while instants are compared; nothing elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    with unheard(), Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"checking {name}, instants", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
