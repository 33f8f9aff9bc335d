"""What a durable run is made of; recovery, the loop over batches and the saver work on the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from watersmeet.dataclass import dataclass
from watersmeet.hosts.local.durable.answering import Answering, Give
from watersmeet.hosts.local.durable.batch_clock import BatchClock
from watersmeet.hosts.local.durable.batches import Admission, BatchRecord
from watersmeet.hosts.local.durable.checkpoint import Checkpoint
from watersmeet.hosts.local.durable.idempotency import TakenPushes
from watersmeet.hosts.local.durable.outputs import Outputs
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.progress import Progress, Readers, Unanswered
from watersmeet.hosts.local.durable.side_outputs import SideOutputs
from watersmeet.hosts.local.durable.table_loads import TableLoads, kept_tables
from watersmeet.hosts.local.pushed_execution import PushedExecution
from watersmeet.io.connectors.contract import NumberedSink, Reader, Start
from watersmeet.plan.query import Plan
from watersmeet.runtime.left_out import Tell
from watersmeet.runtime.run_settings import RunSettings

MakeSink = Callable[[Checkpoint, Start], NumberedSink]


@dataclass(frozen=True)
class RunParts:
    settings: RunSettings
    tell: Tell
    checkpoint: Checkpoint
    readers: Readers
    loads: TableLoads
    taken_pushes: TakenPushes
    admission: Admission
    answering: Answering
    outputs: Outputs
    progress: Progress
    unanswered: Unanswered

    def answering_apart(self, record: BatchRecord, progress: Progress, give: Give) -> Answering:
        """Answers a batch apart from the run, at the moment at which it was answered there."""
        execution, wall = self.answering.execution, BatchClock()
        wall.put(record.now_s, record.today_us)
        sourced, kept = frozenset(self.readers.of), execution.tables_now
        apart = PushedExecution(execution.plan, wall=wall, tell=lambda what: None, sourced=sourced, kept=kept)
        return Answering(apart, wall, self.loads, self.checkpoint.journal, progress, give)


def open_parts(
    plan: Plan, settings: RunSettings, place: Place, make_sink: MakeSink, readers: Mapping[str, Reader], tell: Tell
) -> RunParts:
    checkpoint = Checkpoint(place, plan, sync=settings.sync)
    try:
        # What is known of the inputs changes from start to start, and another way might be chosen by it.
        plan = replace(plan, options=replace(plan.options, pipeline=checkpoint.pipeline))
        kept, wall, progress = kept_tables(checkpoint, plan), BatchClock(), Progress()
        execution = PushedExecution(plan, wall=wall, tell=tell, sourced=frozenset(readers), kept=kept)
        loads = TableLoads(checkpoint, execution, tell, kept)
        start = checkpoint.notes.new_start()
        sink = make_sink(checkpoint, start)
        sides = SideOutputs(execution.clock.side, checkpoint, start, tell)
        checkpoint.notes.sinks_opened(start, [sink, *sides.sinks])
        outputs = Outputs(sink, sides, progress)
    except BaseException:
        checkpoint.release()
        raise
    return RunParts(
        settings,
        tell,
        checkpoint,
        Readers(readers, tell),
        loads,
        TakenPushes(),
        Admission(execution.clock),
        Answering(execution, wall, loads, checkpoint.journal, progress, outputs.give),
        outputs,
        progress,
        Unanswered(execution.clock),
    )
