"""One query of a script from its sources into its sink, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable

from watersmeet.engine.interrupt import Interrupts
from watersmeet.engine.local import LocalRun
from watersmeet.engine.metrics import Metrics
from watersmeet.engine.script import Job
from watersmeet.engine.sinks import sink_from_options


def run_job(
    job: Job, run: LocalRun, interrupts: Interrupts, on_progress: Callable[[Metrics], None] | None = None
) -> Metrics:
    """Run to the end, or to where a stop was asked for; what was written until then is kept.

    On any error the sink is aborted and shows nothing of this run.
    """
    run.on_progress = on_progress
    sink = sink_from_options(job.name, job.sink, job.plan.output_schema)
    try:
        with interrupts.stopping(run.request_stop):
            for batch in run.batches():
                sink.write(batch)
            sink.close()
    except BaseException:
        sink.abort()
        raise
    return run.metrics
