"""`watersmeet advise`: the queries of a script, one after the other."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from watersmeet.advise.report import Advice, advice_text, check_plot, draw_advice
from watersmeet.advise.trials import OnStep, advise
from watersmeet.noticing import unheard
from watersmeet.runtime.script import Job, read_script


def advise_script(
    text: str,
    sample: int,
    policies: Sequence[str] | None,
    seconds: float,
    plot: Path | None,
    buckets: int | None = None,
    *,
    as_json: bool = False,
    quiet: bool = False,
) -> str:
    """What there is to say of all queries. Each has a plot of its own, numbered if there are several."""
    jobs = read_script(text)
    plots = _plots(plot, len(jobs))
    # Asked first, so that a wrong name does not cost the runs.
    for path in plots:
        check_plot(path)
    found = {job.name: _advised(job, sample, policies, seconds, buckets, quiet=quiet) for job in jobs}
    for advice, path in zip(found.values(), plots, strict=False):
        draw_advice(advice, path)
    if as_json:
        return json.dumps({name: advice.as_dict() for name, advice in found.items()}, indent=2)
    if len(found) == 1:
        return advice_text(*found.values()).rstrip("\n")
    return "\n".join(f"-- {name}\n{advice_text(advice)}" for name, advice in found.items()).rstrip("\n")


def _advised(
    job: Job, sample: int, policies: Sequence[str] | None, seconds: float, buckets: int | None, *, quiet: bool
) -> Advice:
    with _bar(job.name, quiet=quiet) as on_step:
        return advise(job.plan, sample, policies, on_step, seconds, buckets)


def _plots(plot: Path | None, jobs: int) -> list[Path]:
    """
    >>> _plots(Path("memory.svg"), 2)
    [PosixPath('memory-1.svg'), PosixPath('memory-2.svg')]
    """
    if plot is None:
        return []
    return [plot] if jobs == 1 else [plot.with_stem(f"{plot.stem}-{number + 1}") for number in range(jobs)]


@contextmanager
def _bar(name: str, *, quiet: bool) -> Iterator[OnStep]:
    """A bar on the terminal's error output while runs are made; nothing elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    hidden = quiet or not console.is_terminal
    with unheard(), Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(f"trying {name}, runs", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
