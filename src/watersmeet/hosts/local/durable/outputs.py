"""Where the answers of a durable run go: into its sink, to those who listen, and what is no part of them to side
outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyarrow as pa

from watersmeet.hosts.local.durable.checkpoint import Checkpoint
from watersmeet.hosts.local.durable.progress import Progress
from watersmeet.hosts.local.durable.queue_sink import QueueSink
from watersmeet.hosts.local.durable.side_outputs import SideOutputs
from watersmeet.hosts.local.durable.sink_writer import SinkWriter
from watersmeet.io.connectors.contract import NumberedSink, Start
from watersmeet.io.connectors.numbered_sinks import adding, numbered_sink
from watersmeet.io.modes import appending, replaced_path
from watersmeet.operators.answers import Answer, as_batches
from watersmeet.plan.answer_keys import answer_keys, change_column
from watersmeet.plan.query import Plan
from watersmeet.runtime.left_out import Tell
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.savepoints.fitting import check_not_ahead
from watersmeet.warning import warn

OnAnswers = Callable[[int, Sequence[pa.RecordBatch]], None]
NEVER = 1 << 62  # a batch that never comes


class Outputs:
    def __init__(self, sink: NumberedSink, sides: SideOutputs, progress: Progress, silent_until: int = -1) -> None:
        """silent_until: the last batch that another query answers, whose place this one takes."""
        self.on_answers: OnAnswers | None = None
        # Is shown the answers of each batch, also of those that another query gives.
        self.on_found: Callable[[list[Answer]], None] | None = None
        self.sides, self.silent_until = sides, silent_until
        self._sink, self._progress = sink, progress
        # Asked once: what it has of later batches, if this life has not given it, is another start's.
        self._there = sink.committed()
        self._writer: SinkWriter | None = None
        self._last = -1  # that this life has given

    def committed(self) -> int:
        """The last batch of which a sink had something when this life began."""
        return max(self._there, self.sides.committed())

    @property
    def in_sink(self) -> int:
        """The same of the sink for answers alone."""
        return self._there

    @property
    def taken_number(self) -> int:
        """Up to this batch all answers were taken from a sink in memory."""
        return self._sink.taken_number

    def start(
        self, settings: RunSettings, on_error: Callable[[BaseException], None], before: Callable[[int], None]
    ) -> None:
        """before: is called with the number of a batch before the answers up to it are committed."""
        self._make_writer = partial(SinkWriter, settings=settings, on_error=on_error, before=before)
        self._writer = self._make_writer(self._sink)
        self.sides.start(settings, on_error, before)

    def take_over(self, sink: NumberedSink, at: int) -> None:
        """From the batch after this one on answers go into a sink; those before were another's."""
        assert self._writer is not None
        self._writer.close(commit=True)
        self._sink, self._there, self.silent_until = sink, sink.committed(), at
        self._writer = self._make_writer(sink)
        self._writer.put(at, [])

    def give(self, answers: list[Answer]) -> None:
        """The answers of the batch that was answered last."""
        assert self._writer is not None
        progress = self._progress
        if self.on_found is not None:
            self.on_found(answers)
        if progress.number <= self.silent_until:
            self._pass_over()
            return
        is_there = progress.number <= max(self._there, progress.given_before)  # committed before a crash
        self._writer.put(progress.number, [] if is_there else answers)
        self.sides.put(progress.number)
        self._last = progress.number
        if any(one.num_rows for one in answers):
            progress.answered = progress.number
        if self.on_answers is not None and answers:
            self.on_answers(progress.number, as_batches(answers))
        progress.given = progress.number

    def _pass_over(self) -> None:
        """Another query gives what is asked for in this batch."""
        assert self._writer is not None
        number = self._progress.number
        self._writer.put(number, [])
        self.sides.pass_over(number)
        self._last = self._progress.given = number

    def flush(self, number: int) -> None:
        """Return when all answers up to a batch are in their sinks."""
        assert self._writer is not None
        self._writer.flush(number)
        self.sides.flush(number)

    def settle(self, number: int) -> None:
        """Return when all answers up to a batch are where they are for good. Those that wait in memory are not waited
        for: whoever holds this run may still take them."""
        if not isinstance(self._sink, QueueSink):
            self.flush(min(number, self._last))

    def hurry(self) -> None:
        """From now on nothing waits for the time of its commit."""
        assert self._writer is not None
        self._writer.hurry()
        self.sides.hurry()

    def close(self, *, commit: bool) -> None:
        try:
            if self._writer is not None:
                self._writer.close(commit=commit)
        finally:
            self.sides.close(commit=commit)


def sink_of(
    plan: Plan, name: str, options: Mapping[str, str], checkpoint: Checkpoint, start: Start, tell: Tell = warn
) -> NumberedSink:
    """The sink for the answers of a run. It replaces what is at a path once, when the run begins, and adds to it in
    later lives, when what is there may be another query's."""
    replaced, path = set(checkpoint.notes.get("replaced", [])), replaced_path(options)

    def opened(run: str, options: Mapping[str, str], committed: int, start: Start | None) -> NumberedSink:
        return numbered_sink(
            name,
            options,
            plan.output_schema,
            run,
            keys=answer_keys(plan),
            changes=change_column(plan),
            committed=committed,
            tell=tell,
            start=start,
            threads=plan.options.threads,
        )

    if checkpoint.adds:
        options = adding(options)
    if checkpoint.follows is not None:
        check_not_ahead(name, checkpoint.follows, opened(checkpoint.follows.run, options, -1, None))
    made = opened(checkpoint.run, appending(options, replaced), checkpoint.committed().answers, start)
    if path is not None:
        checkpoint.notes.note(replaced=sorted({*replaced, path}))
    return made
