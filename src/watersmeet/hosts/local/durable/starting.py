"""Makes a run of what `query.start(checkpoint=…)` asks for, and starts it."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from weakref import WeakKeyDictionary

import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.hosts.local.durable.committed import committed_by
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.durable_run import DurableRun
from watersmeet.hosts.local.durable.jobs import check_lasting, streams_of
from watersmeet.hosts.local.durable.kept_answers import KeptAnswers
from watersmeet.hosts.local.durable.mirror import local_folder
from watersmeet.hosts.local.durable.outputs import OnAnswers
from watersmeet.hosts.local.durable.replacing import note_replaced, replacing_once
from watersmeet.hosts.local.durable.settings import Settings
from watersmeet.hosts.local.durable.sink_writer import Commits
from watersmeet.io.connectors.contract import NumberedSink, Start
from watersmeet.io.connectors.guarded import check_derived
from watersmeet.io.connectors.numbered_sinks import NoSink, numbered_sink
from watersmeet.io.connectors.readers import reader_of
from watersmeet.io.sink_options import check_sink_options
from watersmeet.model.declaration import Declaration
from watersmeet.plan.answer_keys import answer_keys, change_column
from watersmeet.plan.nodes import Plan
from watersmeet.runtime.lasting import Lasting, OnAnswer

MOST_S_AT_EXIT = 30.0  # a sink that hangs does not keep a program from ending


def started(plan: Plan, asked: Lasting) -> DurableRun:
    check_lasting(plan)
    streams = streams_of(plan)
    pushed = [name for name, one in streams.items() if one.source is None]
    if asked.available_now and pushed:
        raise OptionError(
            f"available_now ends a run when all files are read, and stream {pushed[0]!r} is pushed",
            hint="leave it out: stop() ends the run, and flush() answers what waits",
            option="available_now",
        )
    kept = KeptAnswers(asked.max_waiting) if asked.sink is None and asked.on_answer is None else None
    readers = {name: reader_of(one) for name, one in streams.items() if one.source is not None}
    folder = local_folder(asked.checkpoint)

    def sink(name: str, start: Start) -> NumberedSink:
        return _sink(plan, asked, kept, name, start, folder)

    run = DurableExecution(plan, folder, sink, readers, settings_of(asked))
    run.execution.on_late = asked.on_late
    on_answer = asked.on_answer
    if kept is not None:
        run.outputs.on_answers = _behind(run, kept.add)
        run.on_abandoned = kept.end
    elif on_answer is not None:
        run.outputs.on_answers = _behind(run, _each(on_answer))
    run.start()
    if kept is not None:
        kept.bound()
    _running[run] = kept
    return DurableRun(run, kept, asked.timeout_s)


# What runs when the program ends without a word is stopped, so that the next start need not repeat it.
_running: WeakKeyDictionary[DurableExecution, KeptAnswers | None] = WeakKeyDictionary()


@atexit.register
def _stop_all() -> None:
    for run, kept in list(_running.items()):
        run.request_stop()
        if kept is not None:
            kept.end()
    for run in list(_running):
        with suppress(Exception):
            run.wait(MOST_S_AT_EXIT)


def _behind(run: DurableExecution, give: OnAnswers) -> OnAnswers:
    """What was given for good in a life before is not given again, also if its batch has to be repeated."""

    def given(number: int, batches: Sequence[pa.RecordBatch]) -> None:
        if number > run.progress.given_before:
            give(number, batches)

    return given


def _each(on_answer: OnAnswer) -> OnAnswers:
    def give(number: int, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            if batch.num_rows:
                on_answer(batch)

    return give


def settings_of(asked: Lasting) -> Settings:
    return Settings(
        batch_rows=asked.batch_rows,
        gather_s=asked.gather_s,
        snapshot_s=asked.save_every_s,
        commits=Commits(every_s=asked.commit_every_s),
        available_now=asked.available_now,
        flush=asked.flush,
        skipped=asked.skipped,
    )


def _sink(plan: Plan, asked: Lasting, kept: KeptAnswers | None, run: str, start: Start, folder: Path) -> NumberedSink:
    if kept is not None:
        return kept
    if asked.sink is None:
        return NoSink()
    if callable(asked.sink):
        return _own(asked.sink(run))
    check_sink_options(Declaration.in_python("sink", "out", asked.sink), "local")
    keys, changes = answer_keys(plan), change_column(plan)
    committed, said = committed_by(folder).answers, replacing_once(folder, asked.sink)
    made = numbered_sink(
        "out", said, plan.output_schema, run, keys=keys, changes=changes, committed=committed, start=start
    )
    note_replaced(folder, asked.sink)
    return made


def _own(sink: NumberedSink) -> NumberedSink:
    check_derived("the sink that was made", type(sink), NumberedSink, OptionError)
    return sink
