"""What a host writes down of a running query for whoever looks at it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from threading import Lock
from time import monotonic
from typing import Any

import pyarrow as pa

from watersmeet.plan.nodes import Plan
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.present import PresentAnswer
from watersmeet.runtime.watched import Failure, OnAnswers, State

EVERY_S = 0.2  # numbers are written down so often at most: a batch may take less than a millisecond


class Board:
    """A `Watched` that a host fills, from the thread that runs the query. It looks at nothing of the query itself, so
    nobody waits for anybody."""

    def __init__(self, plan: Plan, *, adds_up: bool, rows_missing: str | None = None) -> None:
        """adds_up: all answers will be shown here, in their order, so a changing answer can be added up."""
        self.on_answers: OnAnswers | None = None
        self.rows_missing = rows_missing
        self.present_is_known = adds_up
        self.life = uuid.uuid4().hex[:12]
        self.state: State = "waiting"
        self.failure: Failure | None = None
        self.number = self.given_number = self.answered_before = -1
        self.batch_seconds = 0.0
        self._metrics = Metrics().as_json()
        self._written_s = 0.0
        self._present = PresentAnswer(plan) if adds_up and plan.kind == "changes" else None
        self._lock = Lock()

    # ---- by the host ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.state = "running"

    def answers(self, number: int, batches: Sequence[pa.RecordBatch]) -> None:
        """The answers of a batch, or some of them."""
        if self._present is not None:
            with self._lock:
                for batch in batches:
                    self._present.add(batch)
        if self.on_answers is not None:
            self.on_answers(number, batches)

    def batch(self, number: int, seconds: float, metrics: Metrics, *, is_last: bool = False) -> None:
        """A batch has ended. seconds: that all batches took so far."""
        self.number = self.given_number = number
        self.batch_seconds = seconds
        now_s = monotonic()
        if is_last or now_s >= self._written_s + EVERY_S:
            self._metrics = metrics.as_json()
            self._written_s = now_s

    def end(self, error: BaseException | None = None) -> None:
        self.failure = None if error is None else Failure.of(error)
        self.state = "ended" if error is None else "failed"

    # ---- by whoever looks -------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, Any]:
        return self._metrics

    def present(self) -> tuple[pa.Table, int] | None:
        if self._present is None:
            return None
        with self._lock:
            return self._present.table(), self.given_number

    def about(self) -> dict[str, Any]:
        return {}
