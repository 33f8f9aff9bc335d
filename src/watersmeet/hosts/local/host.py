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
            from watersmeet.hosts.local.pulled_execution import PulledExecution

        run = PulledExecution(plan, batch_rows=batch_rows)
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

    def run_jobs(self, jobs: Sequence[Job]) -> list[Outcome]:
        """One after the other, each whole or not at all."""
        from watersmeet.hosts.local.run_job import check_sinks
        from watersmeet.hosts.local.side_files import beside_all

        check_sinks(jobs)
        with beside_all(job.plan for job in jobs) as beside:
            return [self._run_job(job, beside) for job in jobs]

    def _run_job(self, job: Job, beside: SideSinks) -> Outcome:
        from watersmeet.hosts.local.pulled_execution import PulledExecution
        from watersmeet.io.sinks import sink_from_options
        from watersmeet.plan.answer_keys import answer_keys, change_column
        from watersmeet.runtime.final import given_whole
        from watersmeet.runtime.outcome import Outcome
        from watersmeet.runtime.script import CONSOLE

        run = PulledExecution(job.plan)
        run.writes_beside, run.beside = True, beside
        if job.sink == CONSOLE:
            answer = pa.Table.from_batches(run.archived_batches(), schema=job.plan.output_schema)
            return Outcome(job.name, given_whole(answer, job.plan), run.metrics.as_dict())
        sink = sink_from_options(
            job.name,
            job.sink,
            job.plan.output_schema,
            keys=answer_keys(job.plan),
            changes=change_column(job.plan),
            threads=job.plan.options.threads,
        )
        try:
            for batch in run.archived_batches():
                sink.write(batch)
            sink.close()
        except BaseException:
            sink.abort()
            raise
        return Outcome(job.name, None, run.metrics.as_dict())

    def final(self, plan: Plan, metrics: Metrics) -> pa.Table:
        from watersmeet.hosts.local.pulled_execution import PulledExecution
        from watersmeet.runtime.final import check_final, given_whole

        check_final(plan)
        run = PulledExecution(plan)
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


def _no_dataframes() -> UnsupportedError:
    return UnsupportedError(
        "this session runs in-process and has no DataFrames",
        hint="make it with Session(spark), or use to_arrow() or batches()",
    )
