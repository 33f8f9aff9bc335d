"""Queries that go on from life to life, side by side, and come and go."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.durable_driver import DurableDriver
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.jobs import DurableJobs
from watersmeet.hosts.local.durable.queue_sink import QueueSink
from watersmeet.hosts.local.durable.starting import stopped_at_exit, wired
from watersmeet.hosts.local.run import Run
from watersmeet.runtime.run_settings import Answers, RunSettings
from watersmeet.runtime.script import CONSOLE, Job

LOGGER = logging.getLogger("watersmeet")


class DurableMembers:
    def __init__(self, jobs: Sequence[Job], settings: RunSettings, answers: Answers) -> None:
        assert settings.checkpoint is not None
        self.runs: dict[str, Run] = {}
        self.building: dict[str, Run] = {}
        self.together = None  # each has a journal and a state of its own
        self._answers = answers
        self._queues: dict[str, QueueSink] = {}
        for job in jobs:
            self._queue_for(job)
        self._jobs = DurableJobs(jobs, settings.checkpoint, settings, pushed=True, queues=self._queues)
        for job in jobs:
            self._wire(job.name)
        self._jobs.start()
        for job in jobs:
            self._started(job.name)
        self._tell()

    def start(self, job: Job) -> Run:
        if any(run.is_own_thread for run in self._jobs.runs.values()):
            raise RunError("add() would wait for ever inside on_late", hint="call it from another thread")
        self._queue_for(job)
        self._jobs.make(job)
        self._wire(job.name)
        self._jobs.begin(job.name)
        self._tell()
        return self._started(job.name)

    def replace(
        self, job: Job, without_pushes: Callable[[], AbstractContextManager[Any]], compare_s: float, *, if_same: bool
    ) -> Run:
        before, queue = self._queues.get(job.name), QueueSink(self._answers.max_waiting)

        def building(run: DurableExecution) -> None:
            wired(run, queue if job.sink is CONSOLE else None)
            self.building[job.name] = Run(DurableDriver(run, None, self._answers.timeout_s, "its sink"))

        def let_go() -> None:
            if before is not None:
                before.let_go()
            self._queues.pop(job.name, None)
            if job.sink is CONSOLE:
                self._queues[job.name] = queue

        replaced = self._jobs.replace(
            job,
            compare_s=compare_s,
            if_same=if_same,
            without_pushes=without_pushes,
            building=building,
            let_go=let_go,
        )
        self._tell()
        self._jobs.runs[job.name].execution.on_late = self._answers.on_late
        for words in replaced.words():
            LOGGER.info("%s", words)
        return self._started(job.name)

    def drop(self, name: str) -> None:
        queue = self._queues.pop(name, None)
        if queue is not None:
            queue.let_go()
        del self.runs[name]
        self._jobs.drop(name)
        self._tell()

    def ended(self) -> None:
        """Their sinks are their own."""

    def _queue_for(self, job: Job) -> None:
        if job.sink is CONSOLE:
            self._queues[job.name] = QueueSink(self._answers.max_waiting)

    def _wire(self, name: str) -> None:
        run: DurableExecution = self._jobs.runs[name]
        run.execution.on_late = self._answers.on_late
        wired(run, self._queues.get(name))

    def _started(self, name: str) -> Run:
        run, queue = self._jobs.runs[name], self._queues.get(name)
        if queue is not None:
            queue.bound()
        stopped_at_exit(run, queue)
        self.runs[name] = Run(DurableDriver(run, queue, self._answers.timeout_s, "its sink"))
        return self.runs[name]

    def _tell(self) -> None:
        for words in self._jobs.words:
            LOGGER.info("%s", words)
        self._jobs.words.clear()
