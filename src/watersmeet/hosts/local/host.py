"""Where the queries of Session() run: this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from watersmeet.errors import UnsupportedError
from watersmeet.importing import undisturbed
from watersmeet.plan.query import Plan
from watersmeet.runtime.metrics import Metrics

if TYPE_CHECKING:
    from watersmeet.hosts.local.run import Run
    from watersmeet.hosts.local.runs import Reads, Runs
    from watersmeet.hosts.local.side_files import SideSinks
    from watersmeet.model.time_reading import TimeReading
    from watersmeet.runtime.clock import OnLateRows
    from watersmeet.runtime.declaring import Opener
    from watersmeet.runtime.outcome import Outcome
    from watersmeet.runtime.run_settings import Answers, RunSettings
    from watersmeet.runtime.script import Job


class LocalHost:
    """Runs queries in this process."""

    name = "local"
    in_arrival_order = True
    takes_pushes = True

    @property
    def opener(self) -> Opener:
        from watersmeet.runtime.declaring import open_to_go_on

        return open_to_go_on  # without a checkpoint a run says it if there is no file yet

    def opened(
        self,
        data: Any,
        name: str,
        rounding: str = "error",
        declared: pa.Schema | None = None,
        reading: TimeReading | None = None,
        on_bad: str = "error",
    ) -> tuple[pa.Schema, Any, int | None]:
        from watersmeet.io.sources import source_of

        source = source_of(data, name, declared, reading, rounding, on_bad)
        return source.schema if declared is None else declared, source, source.known_rows

    def layout(self, plan: Plan) -> str:
        return ""

    def sampled(self, plan: Plan, rows: int) -> Plan:
        return plan

    def batches(
        self, plan: Plan, batch_rows: int, metrics: Metrics, on_late_rows: OnLateRows | None = None
    ) -> Iterator[pa.RecordBatch]:
        # Loaded when a query runs, so that making a session does not wait for Numba.
        with undisturbed():
            from watersmeet.hosts.local.run_job import execution_of

        run = execution_of(plan, batch_rows)
        run.writes_beside = True
        run.metrics, run.on_late_rows = metrics, on_late_rows
        return run.archived_batches()

    def start(self, plan: Plan, settings: RunSettings, answers: Answers) -> Run:
        from watersmeet.hosts.local.run import Run

        if settings.checkpoint is not None:
            from watersmeet.hosts.local.durable.starting import started

            return Run(started(plan, settings, answers))
        from watersmeet.hosts.local.push_driver import PushDriver
        from watersmeet.hosts.local.pushed_execution import PushedExecution

        return Run(PushDriver(PushedExecution(plan), answers, writes_beside=True))

    def start_all(self, jobs: Sequence[Job], reads: Reads, settings: RunSettings, answers: Answers) -> Runs:
        """Queries that run side by side, and may come and go. reads: makes jobs of a text."""
        from watersmeet.hosts.local.runs import Runs

        if settings.checkpoint is not None:
            from watersmeet.hosts.local.durable.durable_members import DurableMembers

            return Runs(DurableMembers(jobs, settings, answers), jobs, reads)
        from watersmeet.hosts.local.pushed_members import PushedMembers

        return Runs(PushedMembers(jobs, answers), jobs, reads)

    def run_jobs(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Those that look at the same streams together, the others one after the other; each whole or not at all."""
        from watersmeet.hosts.local.run_job import check_sinks
        from watersmeet.hosts.local.side_files import beside_all
        from watersmeet.runtime.sharing import fed_together

        check_sinks(jobs)
        with beside_all(job.plan for job in jobs) as beside:
            found = {one.name: one for group in fed_together(jobs) for one in _outcomes(group, beside)}
        return [found[job.name] for job in jobs]

    def final(self, plan: Plan, metrics: Metrics) -> pa.Table:
        from watersmeet.hosts.local.run_job import execution_of
        from watersmeet.runtime.final import check_final, given_whole

        check_final(plan)
        run = execution_of(plan)
        run.writes_beside = True
        run.metrics = metrics
        answer = pa.Table.from_batches(run.archived_batches(), schema=plan.output_schema)
        if plan.kind != "rows":
            answer = run.final_answer(answer)
            metrics.final_rows = answer.num_rows
        return given_whole(answer, plan)

    def dataframe(self, plan: Plan, metrics: Metrics, skipped: frozenset[int] = frozenset()) -> Any:
        raise _no_dataframes()

    def framed(self, rows: pa.Table) -> Any:
        raise _no_dataframes()

    def finish(self, plan: Plan, metrics: Metrics, write: Callable[[Any], Any], checkpoint: str) -> None:
        raise UnsupportedError(
            "this session runs in-process, where nothing waits in checkpoints",
            hint="make it with Session(spark), or use to_arrow(), which gives the whole answer",
        )


def _outcomes(group: Sequence[Job], beside: SideSinks) -> list[Outcome]:
    """Of queries that are fed together."""
    from watersmeet.hosts.local.run_job import Delivery, Kept, executions, run_together, screen_for
    from watersmeet.runtime.left_out import named
    from watersmeet.runtime.outcome import Outcome
    from watersmeet.runtime.script import CONSOLE
    from watersmeet.runtime.sharing import queries_in_words
    from watersmeet.warning import warn

    kept = {job.name: Kept(job) for job in group if job.sink == CONSOLE}
    screen = screen_for([job for job in group if job.name not in kept])
    runs = executions(group)
    for run in runs.values():
        run.beside = beside
        if len(group) > 1:
            run.tell = named(warn, queries_in_words([name for name, one in runs.items() if one is run]))
    deliveries = [Delivery(job, runs[job.name], screen=screen, instead=kept.get(job.name)) for job in group]
    run_together(deliveries)
    metrics = {one.job.name: one.run.metrics.as_dict() for one in deliveries}
    return [Outcome(name, kept[name].table() if name in kept else None, found) for name, found in metrics.items()]


def _no_dataframes() -> UnsupportedError:
    return UnsupportedError(
        "this session runs in-process and has no DataFrames",
        hint="make it with Session(spark), or use to_arrow() or batches()",
    )
