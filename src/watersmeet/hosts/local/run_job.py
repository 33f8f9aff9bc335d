"""One query of a script from its sources into its sink, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from watersmeet.hosts.local.archiving import archiving
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.io.sinks import check_sink, sink_from_options
from watersmeet.plan.answer_keys import answer_keys, change_column
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.final import check_final, given_whole
from watersmeet.runtime.interrupt import Interrupts
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.script import Job
from watersmeet.runtime.watched import Board

OnProgress = Callable[[Metrics], None]


def check_sinks(jobs: Iterable[Job], *, final: bool = False) -> None:
    """Before the first of them runs: what is wrong with the sink of a later one is no surprise then."""
    for job in jobs:
        if job.explaining is None:
            check_sink(job.name, job.sink, job.plan.schema if final else job.plan.output_schema)


def run_job(
    job: Job,
    run: PulledExecution,
    interrupts: Interrupts,
    on_progress: Callable[[Metrics], None] | None = None,
    *,
    final: bool = False,
    board: Board | None = None,
) -> Metrics:
    """Run to the end, or to where a stop was asked for; what was written until then is kept.

    With `final` the answer at the last event is written instead of its changes. On any error the sink is aborted and
    shows nothing of this run. board: for whoever looks at it.
    """
    run.writes_beside = True
    run.on_progress = on_progress if board is None else telling(run, board, on_progress)
    plan = job.plan
    if final:
        check_final(plan)
    schema, changes = (plan.schema, None) if final else (plan.output_schema, change_column(plan))
    threads = plan.options.threads
    sink = sink_from_options(job.name, job.sink, schema, keys=answer_keys(plan), changes=changes, threads=threads)
    try:
        with archiving(run), interrupts.stopping(run.request_stop):
            batches = run.batches() if board is None else showing(run, board, run.batches())
            if final and plan.kind == "changes":
                log = pa.Table.from_batches(batches, schema=plan.output_schema)
                answer = run.final_answer(log)
                run.metrics.final_rows = answer.num_rows
                batches = iter(answer.to_batches())
            elif plan.order and (final or _is_shown_whole(job)):
                batches = iter(given_whole(pa.Table.from_batches(batches, schema=schema), plan).to_batches())
            for batch in batches:
                sink.write(batch)
            # Inside, as an archive counts only beside an answer that was kept.
            sink.close()
    except BaseException:
        sink.abort()
        raise
    if board is not None:
        board.end()
    return run.metrics


def _is_shown_whole(job: Job) -> bool:
    """Whether rows are printed, and their input ends by itself."""
    return job.is_printed and all(getattr(one.source, "bounded", False) for one in streams_below(job.plan.root))


def telling(run: PulledExecution, board: Board, on_progress: OnProgress | None) -> OnProgress:
    """Called with the numbers of a run: tells the board, then whoever is told otherwise."""

    def on_metrics(metrics: Metrics) -> None:
        board.batch(run.steps, run.busy_s, metrics)
        if on_progress is not None:
            on_progress(metrics)

    return on_metrics


def showing(run: PulledExecution, board: Board, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Answers on their way, and the board's beginning and end."""
    board.begin()
    for batch in batches:
        board.answers(run.steps + 1, [batch])
        yield batch
    board.batch(run.steps, run.busy_s, run.metrics, is_last=True)
