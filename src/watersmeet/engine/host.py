"""What a session asks of the place where its queries run; and the in-process one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from watersmeet.engine.metrics import Metrics
from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.optimizer.choose_pipeline import choose_pipeline
from watersmeet.optimizer.estimate_join import estimate_join
from watersmeet.optimizer.stages import optimize
from watersmeet.plan.estimate import JoinEstimate, MemoryEstimate
from watersmeet.plan.explain import WIDTH, explain
from watersmeet.plan.explain_json import explain_data
from watersmeet.plan.nodes import Join, Plan, Project
from watersmeet.plan.strategy import JoinStrategy

if TYPE_CHECKING:
    from watersmeet.engine.advice import Advice
    from watersmeet.engine.clock import OnLateRows


class Host(Protocol):
    """Opens data, explains plans, runs them. `in_arrival_order` says whether bounded inputs may be read in an order of
    arrival, so that some rows may come too late."""

    in_arrival_order: bool

    def opened(self, data: Any, name: str, rounding: str = "error") -> tuple[pa.Schema, Any, int | None]:
        """The columns of some data, what this host reads it from, and its number of rows if that is known. `rounding`
        is for times that are finer than this host can hold even before they enter."""
        ...

    def explained(self, plan: Plan, how: Explaining) -> str:
        """How a plan would run, or did on a sample."""
        ...

    def advised(self, plan: Plan, sample_rows: int, policies: Sequence[str] | None, seconds: float) -> Advice:
        """What recall a join would reach in which memory, by runs over a sample."""
        ...

    def batches(self, plan: Plan, batch_rows: int, metrics: Metrics) -> Iterator[pa.RecordBatch]:
        """Run over bounded or, in-process, endless input; `metrics` is kept up to date."""
        ...

    def final(self, plan: Plan, metrics: Metrics) -> pa.Table:
        """The answer at the end of bounded input."""
        ...

    def dataframe(self, plan: Plan, metrics: Metrics) -> Any:
        """The answer as a DataFrame; `metrics` follows the queries that are started from it."""
        ...

    def framed(self, rows: pa.Table) -> Any:
        """Rows that are known already, as a DataFrame."""
        ...

    def finish(self, plan: Plan, metrics: Metrics, write: Callable[[Any], Any], checkpoint: str) -> None:
        """Answer what waits in the checkpoint of a query that was started from such a DataFrame."""
        ...


class LocalHost:
    """Runs queries in this process."""

    in_arrival_order = True

    def opened(self, data: Any, name: str, rounding: str = "error") -> tuple[pa.Schema, Any, int | None]:
        from watersmeet.engine.sources import source_of

        source = source_of(data, name)
        return source.schema, source, source.known_rows

    def explained(self, plan: Plan, how: Explaining) -> str:
        return explained(plan, how)

    def advised(self, plan: Plan, sample_rows: int, policies: Sequence[str] | None, seconds: float) -> Advice:
        from watersmeet.engine.advice import advise

        return advise(plan, sample_rows, policies, seconds=seconds)

    def batches(
        self, plan: Plan, batch_rows: int, metrics: Metrics, on_late_rows: OnLateRows | None = None
    ) -> Iterator[pa.RecordBatch]:
        from watersmeet.engine.archive.recorded_run import archived_batches
        from watersmeet.engine.local import LocalRun

        run = LocalRun(plan, batch_rows=batch_rows)
        run.metrics, run.on_late_rows = metrics, on_late_rows
        return archived_batches(run)

    def final(self, plan: Plan, metrics: Metrics) -> pa.Table:
        from watersmeet.engine.archive.recorded_run import archived_batches
        from watersmeet.engine.final import check_final, final_answer
        from watersmeet.engine.local import LocalRun

        check_final(plan)
        run = LocalRun(plan)
        run.metrics = metrics
        answer = pa.Table.from_batches(archived_batches(run), schema=plan.output_schema)
        if plan.kind != "rows":
            answer = final_answer(answer, plan, run.last_event_us)
            metrics.final_rows = answer.num_rows
        return answer

    def dataframe(self, plan: Plan, metrics: Metrics) -> Any:
        raise _no_dataframes()

    def framed(self, rows: pa.Table) -> Any:
        raise _no_dataframes()

    def finish(self, plan: Plan, metrics: Metrics, write: Callable[[Any], Any], checkpoint: str) -> None:
        raise UnsupportedError(
            "this session runs in-process, where nothing waits in checkpoints",
            hint="make it with Session(spark), or use to_arrow(), which gives the whole answer",
        )


def _no_dataframes() -> UnsupportedError:
    return UnsupportedError(
        "this session runs in-process and has no DataFrames",
        hint="make it with Session(spark), or use to_arrow() or batches()",
    )


def reservation(plan: Plan) -> str:
    """A line for plans that can be explained but not run yet."""
    try:
        plan.options.require_runnable()
    except UnsupportedError as error:
        return fill(f"not yet: {error.message}", WIDTH, subsequent_indent="    ") + "\n"
    return ""


@dataclass(frozen=True)
class Explaining:
    """How a plan is to be told: as text or JSON, and whether a sample of so many rows is run for it."""

    format: str = "text"
    analyze: bool = False
    sample_rows: int = 100_000

    def __post_init__(self) -> None:
        if self.format not in ("text", "json"):
            raise OptionError(f"a plan cannot be told as {self.format!r}", hint="use format='text' or format='json'")


def explained(plan: Plan, how: Explaining, **more: Any) -> str:
    """A plan with what it should cost and, analyzed, what a sample showed. `more` goes into the JSON."""
    strategy, choice = strategy_of(plan), choose_pipeline(plan)
    analysis = None
    if how.analyze:
        from watersmeet.engine.analyze import analysis_text, analyze

        analysis = analyze(plan, how.sample_rows)
        strategy = analysis.strategy or strategy
    estimate = estimate_of(plan, strategy)
    memory = memory_estimate(plan, strategy)
    if how.format == "json":
        told = explain_data(plan, strategy, estimate, choice.pipeline, choice.costs, memory)
        measured = {} if analysis is None else {"measured": analysis.as_dict()}
        return json.dumps({**told, **measured, **more}, indent=2, default=str)
    beside = None if memory is None else (memory, None if analysis is None else analysis.recall)
    text = explain(plan, strategy, estimate, choice.pipeline, choice.costs, beside)
    return text + ("" if analysis is None else analysis_text(analysis, estimate)) + reservation(plan)


def strategy_of(plan: Plan) -> JoinStrategy | None:
    """How the join of a plan would run, if it is one."""
    match plan.root:
        case Project(child=Join() as join) if not join.views:
            return optimize(join, plan.method)
    return None


def memory_estimate(plan: Plan, strategy: JoinStrategy | None) -> MemoryEstimate | None:
    """What a bound on the memory of that join should cost, if there is one."""
    if strategy is None or plan.shedding is None or not isinstance(plan.root, Project):
        return None
    from watersmeet.engine.expect_recall import expect_recall

    return expect_recall(strategy, plan.root.columns, plan.shedding)


def estimate_of(plan: Plan, strategy: JoinStrategy | None) -> JoinEstimate | None:
    """What that join should cost."""
    if strategy is None or not isinstance(plan.root, Project):
        return None
    return estimate_join(strategy, plan.root.columns)
