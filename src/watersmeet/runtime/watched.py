"""A running query as a page shows it, wherever it runs: what the page reads, and what a host writes down for it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic
from typing import Any, Literal, Protocol

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import WatersmeetError
from watersmeet.plan.query import Plan
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.present import PresentAnswer

OnAnswers = Callable[[int, Sequence[pa.RecordBatch]], None]
State = Literal["waiting", "running", "stopping", "ended", "failed"]


@dataclass(frozen=True)
class Failure:
    """Why a query gives no more answers. `batch`: at which batch, if it has to do with one."""

    error: str
    hint: str | None = None
    batch: int | None = None

    def of_query(self, name: str) -> Failure:
        """For whoever runs several queries, and can start them anew.

        >>> print(Failure("k + 1 overflows", None, 17).of_query("totals").hint)
        a start with --skip-batch 'totals:17' leaves that batch out, with all its rows, and goes on behind it
        """
        if self.batch is None:
            return Failure(f"{name!r} has failed: {self.error}", self.hint or "start again when that is mended")
        return Failure(
            f"{name!r} has failed at batch {self.batch:,}: {self.error}",
            f"a start with --skip-batch '{name}:{self.batch}' leaves that batch out, with all its rows, and goes on "
            "behind it",
            self.batch,
        )

    @staticmethod
    def of(error: BaseException, batch: int | None = None) -> Failure:
        if isinstance(error, WatersmeetError):
            return Failure(error.message, error.hint, batch)
        return Failure(f"{type(error).__name__}: {error}".splitlines()[0], None, batch)


class Watched(Protocol):
    """Asked by threads that are not the query's own."""

    on_answers: OnAnswers | None  # is called with the number of a batch and its answers, before `given_number` is that
    present_is_known: bool  # whether `present` has a changing answer
    rows_missing: str | None  # why no rows of the answer can be shown, if so

    @property
    def life(self) -> str:
        """A name for the run: the same where answers are repeated after a restart, another for any other run."""
        ...

    @property
    def state(self) -> State: ...

    @property
    def failure(self) -> Failure | None: ...

    @property
    def number(self) -> int:
        """Of the last batch; -1 before the first."""
        ...

    @property
    def given_number(self) -> int:
        """The last batch whose answers were handed on."""
        ...

    @property
    def answered_before(self) -> int:
        """The last batch of which nobody will hear any more."""
        ...

    @property
    def batch_seconds(self) -> float:
        """That all batches took."""
        ...

    def metrics(self) -> dict[str, Any]:
        """The numbers of the table of metrics, for programs."""
        ...

    def present(self) -> tuple[pa.Table, int] | None:
        """What a changing answer is, and after which batch; None where nobody adds its changes up."""
        ...

    def about(self) -> dict[str, Any]:
        """What else this host tells of a run."""
        ...


EVERY_S = 0.2  # numbers are written down so often at most: a batch may take less than a millisecond


class Board:
    """A `Watched` that a host fills, from the thread that runs the query. It looks at nothing of the query itself, so
    nobody waits for anybody."""

    def __init__(self, plan: Plan, *, adds_up: bool) -> None:
        """adds_up: all answers will be shown here, in their order, so a changing answer can be added up."""
        self.on_answers: OnAnswers | None = None
        self.rows_missing: str | None = None
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
