"""Queries that are handed the same rows, in memory alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

from watersmeet.errors import CatalogError, RunError
from watersmeet.hosts.local.push_driver import PushDriver
from watersmeet.hosts.local.pushed_execution import PushedExecution
from watersmeet.hosts.local.pushed_together import PushedTogether, may_be_together
from watersmeet.hosts.local.run import Run
from watersmeet.io.sinks import Sink, sink_from_options
from watersmeet.plan.answer_keys import answer_keys, change_column
from watersmeet.runtime.beginning import Left, beginning_beside, whole_words
from watersmeet.runtime.run_settings import Answers
from watersmeet.runtime.script import CONSOLE, Job
from watersmeet.runtime.sharing import is_same_stream

LOGGER = logging.getLogger("watersmeet")


class PushedMembers:
    def __init__(self, jobs: Sequence[Job], answers: Answers) -> None:
        self.runs: dict[str, Run] = {}
        self.building: dict[str, Run] = {}
        self._answers = answers
        self._sinks: dict[str, Sink] = {}
        self._left = Left({})
        together = [job for job in jobs if may_be_together(job)]
        self.together = PushedTogether(together, partial(LOGGER.info, "%s")) if len(together) > 1 else None
        try:
            for job in jobs:
                if self.together is None or job not in together:
                    self.start(job)
                else:
                    self._start_together(job, self.together)
        except BaseException as error:
            for run in self.runs.values():
                run.stop()
            if self.together is not None:
                self.together.abort(error)
            self.ended()
            raise

    def _start_together(self, job: Job, together: PushedTogether) -> None:
        driver = PushDriver(together.executions[job.name], self._answers_of(job), writes_beside=True, together=together)
        together.add(driver)
        self.runs[job.name] = Run(driver)

    def start(self, job: Job) -> Run:
        others = [run.driver.execution for run in self.runs.values() if run.is_open]
        execution = PushedExecution(job.plan)
        _check_streams(execution, others)
        driver = PushDriver(execution, self._answers_of(job), writes_beside=True)
        self.runs[job.name] = run = Run(driver)
        beginning = beginning_beside(execution, others, self._left)
        if beginning.begun:
            driver.begin_late(beginning)
            LOGGER.info("%s", whole_words(job.name, beginning))
        return run

    def replace(
        self, job: Job, without_pushes: Callable[[], AbstractContextManager[Any]], compare_s: float, *, if_same: bool
    ) -> Run:
        raise RunError(
            "a query takes the place of another where both have a checkpoint, and these have none",
            hint="session.start(script, checkpoint='…'); or drop() the one and add() the other",
        )

    def drop(self, name: str) -> None:
        run = self.runs.pop(name)
        self._left.clocks.update(run.driver.execution.clock.clocks)
        try:
            run.stop()
        finally:
            self._close_sink(name, run)

    def ended(self) -> None:
        for name, run in self.runs.items():
            self._close_sink(name, run)

    def _answers_of(self, job: Job) -> Answers:
        """Into its sink, or to be taken."""
        own = self._answers
        if job.sink is CONSOLE:
            return own
        plan = job.plan
        keys, changes, threads = answer_keys(plan), change_column(plan), plan.options.threads
        sink = sink_from_options(job.name, job.sink, plan.output_schema, keys=keys, changes=changes, threads=threads)
        self._sinks[job.name] = sink
        return Answers.read(None, sink.write, own.on_late, own.max_waiting, own.timeout_s)

    def _close_sink(self, name: str, run: Run) -> None:
        """With all that was answered; what failed leaves nothing."""
        sink = self._sinks.pop(name, None)
        if sink is not None and run.driver.failure is None:
            sink.close()
        elif sink is not None:
            with suppress(Exception):  # the failure is told
                sink.abort()


def _check_streams(execution: PushedExecution, others: Sequence[PushedExecution]) -> None:
    """A name means one stream for all."""
    for name, clock in execution.clock.clocks.items():
        for other in others:
            known = other.clock.clocks.get(name)
            if known is not None and not is_same_stream(known.stream, clock.stream):
                raise CatalogError(
                    f"stream {name!r} was declared anew since the queries that run were started",
                    hint="start the others anew as well, or give the stream another name",
                )
