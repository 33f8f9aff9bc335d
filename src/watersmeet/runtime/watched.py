"""A running query as a page shows it, wherever it runs: what the page reads, and every host fills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import pyarrow as pa

from watersmeet.errors import WatersmeetError

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
