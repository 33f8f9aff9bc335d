"""A query as it would be where another one stands that has stopped: made from the history of its streams, read up to
exactly there. Its answers go nowhere, or are compared with those of the other one, which is made in the same way.

Where the other one stands a savepoint says. So the new one goes on from there on any host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.replacing import MOST_COMPARED, Compared, compared
from watersmeet.hosts.local.durable.savepoints import key_of, keyed_state, words_of
from watersmeet.hosts.local.execution import BATCH_ROWS
from watersmeet.hosts.local.pushed_execution import PushedExecution
from watersmeet.io.connectors.contract import Reader, SourceBatch
from watersmeet.io.connectors.readers import reader_up_to
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.model.wording import listed
from watersmeet.operators.answers import Answer, as_batches
from watersmeet.optimizer.choose_pipeline import choose_pipeline
from watersmeet.plan.identity import identity_of, sum_of
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.changes import options_of
from watersmeet.runtime.clock import QueryClock
from watersmeet.runtime.kept_of_joins import kept_of_join
from watersmeet.runtime.savepoints.contents import QueryContents
from watersmeet.runtime.savepoints.moments import moment_of
from watersmeet.runtime.savepoints.offsets import as_offsets

NOT_COMPARED = Compared((), 0, pa.table({}), pa.table({}))


def replayed(
    name: str, now: Plan, before: Plan, stands: QueryContents, *, is_answered: bool, compare_us: int
) -> tuple[QueryContents, Compared]:
    """What a savepoint says of the query `now` where `before` stands, and what both gave of the last part of the
    history. is_answered: whether all that waited was answered there, as where a run has ended. compare_us: how long
    that part is, in event time, 0 if nothing is to be compared."""
    _check(name, now, stands)
    until_us = stands.moment.watermark_us if stands.moment.watermark_us > BEGINNING_US else None
    since_us = BEGINNING_US if until_us is None else until_us - compare_us
    queries = [Replay(now, until_us, since_us)]
    if compare_us > 0 and _are_comparable(before, now):
        queries.append(Replay(before, until_us, since_us))
    readers = {name: _reader(one, stands) for query in queries for name, one in query.streams.items()}
    try:
        for stream, batch in _in_turn(readers, queries):
            for query in queries:
                query.take(stream, batch)
        for query in queries:
            query.come_to_the_end(is_answered=is_answered)
        found = queries[0].contents(stands)
    finally:
        for reader in readers.values():
            reader.close()
        for query in queries:
            query.execution.close()
    return found, compared(queries[1].heard, queries[0].heard) if len(queries) > 1 else NOT_COMPARED


class Replay:
    """A query that is given rows once more. until_us: where the watermark stops, if it does not go by the rows alone:
    what follows from a later one has not been answered. since_us: from which watermark on its answers are heard."""

    def __init__(self, plan: Plan, until_us: int | None, since_us: int) -> None:
        self._until_us, self._since_us = until_us, since_us
        self.streams = {one.name: one for one in streams_below(plan.root)}
        self.execution = PushedExecution(plan, tell=lambda what: None, sourced=self.streams)
        self.execution.tells_at_once = False
        self.execution.clock.side.collects = False  # what was left out went where it was to go
        most_us = FOREVER_US if until_us is None else until_us
        self.execution.clock = _StoppingClock(self.execution.clock, most_us)
        self._heard: list[Answer] = []
        self._heard_rows = 0

    def take(self, stream: str, batch: SourceBatch) -> None:
        if stream not in self.streams:
            return
        clock = self.execution.clock.clocks[stream]
        if batch.waiting or clock.partitions.newest_us:
            clock.know_partitions(batch.waiting, self.execution.wall.now_us())
        timed = clock.timed_batch(batch.rows, batch.bad)
        if timed.skipped or timed.bad is not None:
            self.execution.leave_out_of(stream, timed)
        most = self.execution.operator.piece_rows or BATCH_ROWS
        for at in range(0, len(timed.rows), most):
            piece = timed.rows.slice(at, min(at + most, len(timed.rows)))
            for answers in self.execution.push(stream, piece, batch.partition):
                self._hear(answers)

    def _hear(self, answers: Answer) -> None:
        if self.execution.clock.watermark_us >= self._since_us and self._heard_rows <= MOST_COMPARED:
            self._heard.append(answers)
            self._heard_rows += answers.num_rows

    @property
    def heard(self) -> pa.Table:
        return pa.Table.from_batches(as_batches(self._heard), schema=self.execution.plan.output_schema)

    def come_to_the_end(self, *, is_answered: bool) -> None:
        """What the rows do not tell of time: streams that were silent, and the end of a run."""
        if is_answered:
            _nowhere(self.execution.flush())
        if self._until_us is not None and self._until_us > self.execution.clock.watermark_us:
            for stream in self.streams:
                _nowhere(self.execution.promise(stream, self._until_us))

    def contents(self, stands: QueryContents) -> QueryContents:
        execution, plan = self.execution, self.execution.plan
        key, state, clocks = key_of(execution), keyed_state(execution), execution.clock.clocks
        own = {
            name: replace(stands.streams[name], newest_us=clock.last_us, oldest_us=clock.oldest_us)
            for name, clock in clocks.items()
        }
        goes_by_rows = self._until_us is None
        return replace(
            stands,
            sql=plan.sql.strip(),
            identity=sum_of(identity_of(plan)),
            options=options_of(plan),
            pipeline=choose_pipeline(plan).pipeline,
            sides={},
            streams=own,
            moment=moment_of(execution.clock, execution.wall.now_us()) if goes_by_rows else stands.moment,
            key=words_of(key),
            state=state,
            present=execution.present_parts(),
            tables=execution.held_tables(),
            asked=identity_of(plan),
            gives=plan.kind,
            kept=kept_of_join(plan, state),
            whole_us=BEGINNING_US,
        )


class _StoppingClock(QueryClock):
    """Of the same streams as another, whose watermark stops somewhere."""

    def __init__(self, other: QueryClock, most_us: int) -> None:
        super().__init__([one.stream for one in other.clocks.values()], other.wall, other.side)
        self._most_us = most_us

    def move(self, now_us: int) -> None:
        super().move(now_us)
        self.watermark_us = min(self.watermark_us, self._most_us)

    def rise_to(self, watermark_us: int, now_us: int) -> None:
        super().rise_to(min(watermark_us, self._most_us), now_us)


def _check(name: str, now: Plan, stands: QueryContents) -> None:
    for stream in streams_below(now.root):
        if stream.name not in stands.streams:
            raise RunError(
                f"the new {name} reads stream {stream.name!r}, and the one before does not: how far it would have been "
                f"read nobody knows; that one reads {listed(list(stands.streams))}",
                hint="begin it beside the other one, with a checkpoint and a sink of its own",
            )
        if stream.by_arrival:
            raise RunError(
                f"the rows of stream {stream.name!r} have the moments at which they came (time = 'arrival'), which "
                "those of its history have lost",
                hint="begin the new query beside the other one, with a checkpoint and a sink of its own",
            )


def _reader(stream: Stream, stands: QueryContents) -> Reader:
    place = stands.streams[stream.name]
    offsets = None if place.position is None else as_offsets(place.position)
    if not place.moves or offsets is None:
        raise RunError(
            f"stream {stream.name!r} was read from {place.kind or 'rows that were pushed'}, and how far only Spark "
            "knows, so that its history cannot be read up to there",
            hint="what can are sources that watersmeet reads itself, such as files and topics",
        )
    return reader_up_to(stream, offsets, has_rows=place.newest_us > BEGINNING_US)


def _are_comparable(before: Plan, now: Plan) -> bool:
    """Whether both give rows, and are given the same: a stream that was declared otherwise since brings others."""
    declared = {one.name: _declared(one) for one in streams_below(now.root)}
    same = all(declared.get(one.name, _declared(one)) == _declared(one) for one in streams_below(before.root))
    return same and before.kind == now.kind == "rows"


def _declared(stream: Stream) -> Stream:
    return replace(stream, source=None)


def _in_turn(readers: Mapping[str, Reader], queries: Sequence[Replay]) -> Iterator[tuple[str, SourceBatch]]:
    """What readers have up to their ends, of the stream that is furthest behind first."""
    clocks = {name: clock for query in reversed(queries) for name, clock in query.execution.clock.clocks.items()}
    left = dict(readers)
    while left:
        name = min(left, key=lambda one: clocks[one].newest_us)
        batch = left[name].poll(BATCH_ROWS)
        if batch is None:
            del left[name]
        else:
            yield name, batch


def _nowhere(answers: Iterable[Answer]) -> None:
    for _ in answers:
        pass
