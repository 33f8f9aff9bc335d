"""How far the experiments have come: one bar for all of them and one for the one that runs, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from watersmeet.lab.experiment import Experiment


class Bars:
    def __init__(self, out: TextIO, experiments: int, *, quiet: bool = False) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(file=out),
            transient=True,
            disable=quiet or not out.isatty(),
            # Verdicts are printed while the bars stand. Where stdout is a file they must go there, not to the console
            # of the bars.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._all = self._progress.add_task("experiments", total=experiments)
        self._one = self._progress.add_task("", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, experiment: Experiment) -> Callable[[int, int], None]:
        """Start the bar of an experiment; what is given back moves it."""
        self._progress.reset(self._one, description=experiment.id, total=None)
        return lambda done, of: self._progress.update(self._one, completed=done, total=of)

    def end(self) -> None:
        self._progress.advance(self._all)
