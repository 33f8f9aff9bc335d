"""Makes a run of what `query.start(checkpoint=…)` asks for, and starts it."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from weakref import WeakKeyDictionary

import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.hosts.local.durable.beginning import beginning_of
from watersmeet.hosts.local.durable.checkpoint import Checkpoint
from watersmeet.hosts.local.durable.checkpoint_in_store import place_of
from watersmeet.hosts.local.durable.durable_driver import DurableDriver
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.jobs import check_durable, streams_of
from watersmeet.hosts.local.durable.outputs import OnAnswers, sink_of
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.query_before import Untaken, query_before, what_it_knows
from watersmeet.hosts.local.durable.queue_sink import QueueSink
from watersmeet.io.connectors.contract import NumberedSink, Reader, Start
from watersmeet.io.connectors.guarded import check_derived
from watersmeet.io.connectors.numbered_sinks import NoSink
from watersmeet.io.connectors.readers import reader_of
from watersmeet.io.sink_options import check_sink_options
from watersmeet.model.declaration import Declaration
from watersmeet.plan.query import Plan
from watersmeet.runtime.run_settings import Answers, OnAnswer, RunSettings
from watersmeet.runtime.savepoints.contents import QueryContents
from watersmeet.runtime.savepoints.fitting import check_not_ahead
from watersmeet.runtime.savepoints.folder import QUERY
from watersmeet.warning import warn

LOGGER = logging.getLogger("watersmeet")
MOST_S_AT_EXIT = 30.0  # a sink that hangs does not keep a program from ending


def started(plan: Plan, settings: RunSettings, answers: Answers) -> DurableDriver:
    assert settings.checkpoint is not None
    check_durable(plan)
    streams = streams_of(plan)
    pushed = [name for name, one in streams.items() if one.source is None]
    if settings.available_now and pushed:
        raise OptionError(
            f"available_now ends a run when all files are read, and stream {pushed[0]!r} is pushed",
            hint="leave it out: stop() ends the run, and flush() answers what waits",
            option="available_now",
        )
    kept = QueueSink(answers.max_waiting) if answers.sink is None and answers.on_answer is None else None

    def sink(checkpoint: Checkpoint, start: Start) -> NumberedSink:
        return _sink(plan, answers, kept, checkpoint, start)

    with place_of(settings.checkpoint) as place:
        before = query_before(place, plan)
        run = DurableExecution(
            plan,
            place,
            sink,
            _readers(plan),
            settings,
            beginning=beginning_of(settings, QUERY, place),
            changed=None if before is None else _known_before(before, answers, place, settings),
        )
    run.execution.on_late = answers.on_late
    wired(run, kept)
    _heard(run, answers)
    run.start()
    for words in run.goes_on_words("the query"):
        LOGGER.info("%s", words)
    if kept is not None:
        kept.bound()
    stopped_at_exit(run, kept)
    return DurableDriver(run, kept, answers.timeout_s, "on_answer" if answers.sink is None else "its sink")


def _readers(plan: Plan) -> dict[str, Reader]:
    return {name: reader_of(one) for name, one in streams_of(plan).items() if one.source is not None}


def _known_before(before: Plan, answers: Answers, place: Place, settings: RunSettings) -> QueryContents:
    """What the query before knows, whose answers go where those of the changed one will."""

    def sink(checkpoint: Checkpoint, start: Start) -> NumberedSink:
        if answers.sink is None and answers.on_answer is None:
            return Untaken(place)
        return _sink(before, answers, None, checkpoint, start)

    heard = partial(_heard, answers=answers)
    return what_it_knows(before, place, sink, _readers(before), settings, warn, heard)


def _heard(run: DurableExecution, answers: Answers) -> None:
    if answers.sink is None and answers.on_answer is not None:
        run.outputs.on_answers = _behind(run, _each(answers.on_answer))


def wired(run: DurableExecution, kept: QueueSink | None) -> None:
    """Before it starts: have its answers wait to be taken, if they do."""
    if kept is not None:
        run.outputs.on_answers = _behind(run, kept.add)
        run.on_abandoned, run.on_end = kept.let_go, kept.ended


def stopped_at_exit(run: DurableExecution, kept: QueueSink | None) -> None:
    _running[run] = kept


# What runs when the program ends without a word is stopped, so that the next start need not repeat it.
_running: WeakKeyDictionary[DurableExecution, QueueSink | None] = WeakKeyDictionary()


@atexit.register
def _stop_all() -> None:
    for run, kept in list(_running.items()):
        run.request_stop()
        if kept is not None:
            kept.let_go()
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


def _sink(plan: Plan, answers: Answers, kept: QueueSink | None, checkpoint: Checkpoint, start: Start) -> NumberedSink:
    if kept is not None:
        return kept
    if answers.sink is None:
        return NoSink()
    if callable(answers.sink):
        if checkpoint.follows is not None:
            check_not_ahead("out", checkpoint.follows, _own(answers.sink(checkpoint.follows.run)))
        return _own(answers.sink(checkpoint.run))
    check_sink_options(Declaration.in_python("sink", "out", answers.sink), "local")
    return sink_of(plan, "out", answers.sink, checkpoint, start)


def _own(sink: NumberedSink) -> NumberedSink:
    check_derived("the sink that was made", type(sink), NumberedSink, OptionError)
    return sink
