"""How far the experiments have come: one bar for all of them and one for the one that runs, on a terminal only.

The bar of all goes by the seconds that each is expected to take, so that what it says of the time left is of use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from watersmeet.lab.estimate import long
from watersmeet.lab.jobs import Job


class Bars:
    def __init__(self, out: TextIO, expected: Mapping[Job, float], *, quiet: bool = False) -> None:
        """expected: the seconds of every job; 0 if it is not known, or was measured before."""
        self._progress = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(),
            TextColumn("{task.fields[so_far]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=Console(file=out),
            transient=True,
            disable=quiet or not out.isatty(),
            # Verdicts are printed while the bars stand. Where stdout is a file they must go there, not to the console
            # of the bars.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._expected = expected
        self._whole = sum(expected.values())
        self._passed = 0.0
        self._done = 0
        self._job: Job | None = None
        self._all = self._progress.add_task("experiments", total=self._whole or None, so_far="", left="")
        self._one = self._progress.add_task("", total=None, so_far="", left="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, job: Job) -> Callable[[int, int], None]:
        """Start the bar of a job; what is given back moves it."""
        self._job = job
        self._progress.reset(
            self._one, description=job.experiment.id, total=None, so_far=f"{job.scale}, seed {job.seed}"
        )
        self._move(0.0)
        return self._tell

    def end(self) -> None:
        assert self._job is not None
        self._passed += self._expected[self._job]
        self._done += 1
        self._move(0.0)

    def _tell(self, done: int, of: int) -> None:
        assert self._job is not None
        self._progress.update(self._one, completed=done, total=of)
        self._move(self._expected[self._job] * done / of if of else 0.0)

    def _move(self, of_this: float) -> None:
        passed = self._passed + of_this
        left = f"about {long(self._whole - passed)} left" if self._whole > passed else ""
        self._progress.update(self._all, completed=passed, so_far=f"{self._done}/{len(self._expected)}", left=left)
