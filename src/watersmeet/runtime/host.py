"""What a session asks of the place where its queries run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from watersmeet.model.time_reading import TimeReading
from watersmeet.plan.query import Plan
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.run_settings import Answers, RunSettings

if TYPE_CHECKING:
    from watersmeet.runtime.clock import OnLateRows
    from watersmeet.runtime.declaring import Opener
    from watersmeet.runtime.outcome import Outcome
    from watersmeet.runtime.script import Job


class Host(Protocol):
    """Opens data, tells where plans run, runs them. `in_arrival_order` says whether bounded inputs may be read in an
    order of arrival, so that some rows may come too late."""

    name: str
    in_arrival_order: bool
    takes_pushes: bool

    @property
    def opener(self) -> Opener:
        """How the input of a stream or a table is opened."""
        ...

    def opened(
        self,
        data: Any,
        name: str,
        rounding: str = "error",
        declared: pa.Schema | None = None,
        reading: TimeReading | None = None,
        on_bad: str = "error",
    ) -> tuple[pa.Schema, Any, int | None]:
        """The columns of some data, what this host reads it from, and its number of rows if that is known. `rounding`
        is for times that are finer than this host can hold even before they enter, `declared` the columns if they were
        said, `reading` how event times are written that are no timestamps, `on_bad` what becomes of records that cannot
        be read."""
        ...

    def layout(self, plan: Plan) -> str:
        """How this host spreads a plan, as lines of text; nothing where it does not."""
        ...

    def sampled(self, plan: Plan, rows: int) -> Plan:
        """The same plan over inputs that can be read in this process, of each about so many rows at least; the plan
        itself if its own are."""
        ...

    def batches(
        self, plan: Plan, batch_rows: int, metrics: Metrics, on_late_rows: OnLateRows | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Run over bounded or, in-process, endless input; `metrics` is kept up to date. Late rows are told by their
        numbers where they come one after the other."""
        ...

    def start(self, plan: Plan, settings: RunSettings, answers: Answers) -> Any:
        """What an application pushes rows into (`Run` in hosts/local), begun; with a checkpoint it goes on."""
        ...

    def run_jobs(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run the queries of a script, those that explain among them."""
        ...

    def final(self, plan: Plan, metrics: Metrics) -> pa.Table:
        """The answer at the end of bounded input."""
        ...

    def dataframe(self, plan: Plan, metrics: Metrics, skipped: frozenset[int] = frozenset()) -> Any:
        """The answer as a DataFrame; `metrics` follows the queries that are started from it."""
        ...

    def framed(self, rows: pa.Table) -> Any:
        """Rows that are known already, as a DataFrame."""
        ...

    def finish(self, plan: Plan, metrics: Metrics, write: Callable[[Any], Any], checkpoint: str) -> None:
        """Answer what waits in the checkpoint of a query that was started from such a DataFrame."""
        ...
