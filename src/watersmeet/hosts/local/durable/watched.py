"""A run that outlives its process, as a page shows it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.runtime.watched import Failure, OnAnswers, State


class WatchedDurable:
    def __init__(self, run: DurableExecution) -> None:
        self._run = run
        self.present_is_known = True
        self.rows_missing: str | None = None

    @property
    def on_answers(self) -> OnAnswers | None:
        return self._run.outputs.on_answers

    @on_answers.setter
    def on_answers(self, called: OnAnswers | None) -> None:
        self._run.outputs.on_answers = called

    @property
    def life(self) -> str:
        return self._run.name

    @property
    def state(self) -> State:
        if self._run.failed:
            return "failed"
        return "running" if self._run.is_open else "ended" if self._run.has_ended else "stopping"

    @property
    def failure(self) -> Failure | None:
        error = self._run.error
        return None if error is None else Failure.of(error, self._run.progress.failed)

    @property
    def number(self) -> int:
        return self._run.progress.number

    @property
    def given_number(self) -> int:
        return self._run.progress.given

    @property
    def answered_before(self) -> int:
        return self._run.progress.answered_before

    @property
    def batch_seconds(self) -> float:
        return self._run.progress.seconds

    def metrics(self) -> dict[str, Any]:
        return self._run.latest_json()

    def present(self) -> tuple[pa.Table, int] | None:
        table, number = self._run.present()
        return None if table is None else (table, number)

    def about(self) -> dict[str, Any]:
        run = self._run
        return {
            "checkpoint": {
                "first_batch": run.progress.first,
                "repeated_batches": run.progress.repeated,
                "saved_batch": run.progress.saved,
                "longest_pause_s": round(run.snapshot_pause_s, 6),
            }
        }
