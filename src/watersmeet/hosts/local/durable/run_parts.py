"""What a durable run is made of; recovery, the loop over batches and the saver work on the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from watersmeet.dataclass import dataclass
from watersmeet.hosts.local.durable.answering import Answering, Give
from watersmeet.hosts.local.durable.batch_clock import BatchClock
from watersmeet.hosts.local.durable.batches import Admission, BatchRecord, Step
from watersmeet.hosts.local.durable.beginning import Beginning
from watersmeet.hosts.local.durable.checkpoint import Checkpoint
from watersmeet.hosts.local.durable.entering import enter
from watersmeet.hosts.local.durable.idempotency import TakenPushes
from watersmeet.hosts.local.durable.outputs import NEVER, Outputs
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.progress import Progress, Readers, Unanswered
from watersmeet.hosts.local.durable.side_outputs import SideOutputs
from watersmeet.hosts.local.durable.succession import Succession
from watersmeet.hosts.local.durable.table_loads import TableLoads, kept_tables
from watersmeet.hosts.local.pushed_execution import PushedExecution
from watersmeet.io.connectors.contract import NumberedSink, Reader, Start
from watersmeet.io.connectors.numbered_sinks import NoSink
from watersmeet.plan.query import Plan
from watersmeet.plan.shared_memory import shares_memory
from watersmeet.runtime.left_out import Tell
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.savepoints.contents import QueryContents
from watersmeet.runtime.savepoints.fitting import check_fits

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
    memory: int | None = None
    """How much of a memory that several queries share is this one's from now on."""
    beginning: Beginning | None = None
    changed: QueryContents | None = None
    open_sink: Callable[[], NumberedSink] = NoSink
    """That of its answers, where it takes the place of another."""

    def note_begins(self, steps: Sequence[Step]) -> None:
        """Go on where others were, if a query begins so."""
        for step in steps:
            if step.begins is not None:
                self.readers.resume(step.begins.positions)
                self.taken_pushes.load(step.begins.pushed)

    def answering_apart(self, record: BatchRecord, progress: Progress, give: Give) -> Answering:
        """Answers a batch apart from the run, at the moment at which it was answered there."""
        execution, wall = self.answering.execution, BatchClock()
        wall.put(record.now_s, record.today_us)
        sourced, kept = frozenset(self.readers.of), execution.tables_now
        apart = PushedExecution(execution.plan, wall=wall, tell=lambda what: None, sourced=sourced, kept=kept)
        return Answering(apart, wall, self.loads, self.checkpoint.journal, progress, give)


def open_parts(
    plan: Plan,
    settings: RunSettings,
    place: Place,
    make_sink: MakeSink,
    readers: Mapping[str, Reader],
    tell: Tell,
    *,
    added: bool = False,
    others_beside: Collection[str] = (),
    beginning: Beginning | None = None,
    succession: Succession | None = None,
    changed: QueryContents | None = None,
) -> RunParts:
    """added: a checkpoint that is made now belongs to a query that others were before. beginning: with what a new run
    goes on. succession: whose place it is to take. changed: what the query before knew, with which this one goes on."""
    for contents in [*([] if beginning is None else [beginning.contents]), *([] if changed is None else [changed])]:
        check_fits(contents, plan)
    checkpoint = Checkpoint(
        place,
        plan,
        sync=settings.sync,
        added=added,
        beginning=beginning,
        succession=succession,
        changed=changed,
    )
    try:
        # What is known of the inputs changes from start to start, and another way might be chosen by it.
        plan = replace(plan, options=replace(plan.options, pipeline=checkpoint.pipeline))
        memory = plan.options.memory.amount if shares_memory(plan) and plan.options.memory is not None else None
        plan = checkpoint.with_first_memory(plan)
        if beginning is not None and checkpoint.begins:
            enter(beginning, checkpoint, plan)
        kept, wall, progress = kept_tables(checkpoint, plan), BatchClock(), Progress()
        execution = PushedExecution(plan, wall=wall, tell=tell, sourced=frozenset(readers), kept=kept)
        loads = TableLoads(checkpoint, execution, tell, kept)
        start = checkpoint.notes.new_start()
        waits = checkpoint.succession is not None and checkpoint.succession.at is None
        sink = NoSink() if waits else make_sink(checkpoint, start)
        sides = SideOutputs(execution.clock.side, checkpoint, start, tell, others_beside)
        checkpoint.notes.sinks_opened(start, [sink, *sides.sinks])
        outputs = Outputs(sink, sides, progress, NEVER if waits else checkpoint.took_over_at)
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
        memory,
        beginning if checkpoint.begins else None,
        changed,
        partial(_open_sink, make_sink, checkpoint, start, sides),
    )


def _open_sink(make_sink: MakeSink, checkpoint: Checkpoint, start: Start, sides: SideOutputs) -> NumberedSink:
    sink = make_sink(checkpoint, start)
    checkpoint.notes.sinks_opened(start, [sink, *sides.sinks])
    return sink
