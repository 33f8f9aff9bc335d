"""The rows of a sample, admitted and encoded once, and pushed through one join after another as a run would."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.advise.sample import Sample
from watersmeet.dataclass import dataclass
from watersmeet.hosts.local.together import waits_for_nobody
from watersmeet.io.event_times import timed_rows
from watersmeet.io.time_ordered import reads_in_time_order
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, FOREVER_US, Times
from watersmeet.model.windows import RowsWindow
from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.join.admission import with_codes
from watersmeet.operators.join.door import Door
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.time_order import InTimeOrder
from watersmeet.plan.nodes import Join
from watersmeet.runtime.build import built_join

LARGEST_PIECE = 1 << 13


@dataclass(frozen=True)
class _Feed:
    """One stream: the aliases it has in the query, its rows in time, and its newest event time after each."""

    aliases: tuple[str, ...]
    lateness_us: int
    in_time_order: bool
    waits_for_nobody: bool
    newest: Times
    rows: Mapping[str, Rows]


Step = tuple[Mapping[str, Rows], Mapping[str, int]]


class Replay:
    """The sample as pieces in the order in which a run reads them."""

    def __init__(self, join: Join, sample: Sample, door: Door) -> None:
        """door: of joins of the same strategy as those that are to run."""
        self.join = join
        self.counts_rows = any(isinstance(one.window, RowsWindow) for one in join.streams)
        self._tables = sample.tables
        by_name: dict[str, list[str]] = {}
        for one in join.streams:
            by_name.setdefault(one.relation.name, []).append(one.alias)
        self.feeds = [self._feed(tuple(aliases), sample, door) for aliases in by_name.values()]

    def _feed(self, aliases: tuple[str, ...], sample: Sample, door: Door) -> _Feed:
        stream = self.join.input(aliases[0]).relation
        assert isinstance(stream, Stream)
        rows = _rows(stream, sample.tables[stream.name])
        # Rows come in the order of arrival, so time goes on with the newest so far.
        newest = np.maximum.accumulate(rows.times)
        return _Feed(
            aliases,
            stream.lateness_us,
            reads_in_time_order(stream),
            waits_for_nobody(stream),
            newest,
            {alias: self._encoded(alias, rows, door) for alias in aliases},
        )

    def _encoded(self, alias: str, rows: Rows, door: Door) -> Rows:
        """Rows that the filters leave out stay, as time goes by them; they are left out when they are pushed."""
        if self.counts_rows:
            return rows
        admitted, codes, where = door.admissions[alias].admit(rows)
        # Codes lie beside all rows or none: with some left out, positions would not be those of `newest` any more.
        return with_codes(admitted, codes) if where is None else rows

    @property
    def rows(self) -> int:
        return sum(int(feed.newest.size) for feed in self.feeds)

    @property
    def event_us(self) -> int:
        """The event time that all streams have reached, from the first row on."""
        ends = [int(feed.newest[-1]) for feed in self.feeds if feed.newest.size]
        starts = [int(rows.times.min()) for feed in self.feeds for rows in feed.rows.values() if len(rows)]
        return max(min(ends) - min(starts), 0) if ends and starts else 0

    def rows_of(self, alias: str) -> Rows:
        return next(feed.rows[alias] for feed in self.feeds if alias in feed.aliases)

    def run(
        self,
        joining: WindowJoin,
        piece: Callable[[], int],
        look: Callable[[], None] | None = None,
        take: Callable[[pa.RecordBatch], None] | None = None,
    ) -> None:
        """Push everything through a join; what it found its counters tell. `piece` tells how many rows are best
        pushed next. `look` is called after each piece, `take` with each block of results."""
        aliases = [one.alias for one in self.join.streams]
        operator: Operator = InTimeOrder(joining, aliases) if self.counts_rows else joining
        for table, load in built_join(self.join, operator).tables:
            for batch in self._tables[table.name].to_batches():
                load(batch)
        in_hand = self._rows_in_hand(operator)
        steps = self._cut(lambda: max(1, min(piece(), LARGEST_PIECE))) if in_hand is None else self._together(in_hand)
        for rows, watermarks in steps:
            if rows and in_hand is not None:
                _exhaust(operator.take(rows, watermarks), take)
            else:
                for alias, part in rows.items():
                    _exhaust(operator.push(alias, part), take)
                _exhaust(operator.advance(watermarks), take)
            if look is not None:
                look()

    def _rows_in_hand(self, operator: Operator) -> int | None:
        """How many rows of each stream a run gives it at once, if it gives those of several together."""
        plain = len(self.feeds) > 1 and all(one.in_time_order and one.waits_for_nobody for one in self.feeds)
        return operator.together_rows if plain else None

    def _together(self, most_rows: int) -> Iterator[Step]:
        """Of all streams up to the instant that all of what was read of them has reached, as `Together` gives them."""
        sizes = [int(feed.newest.size) for feed in self.feeds]
        at, read = [0] * len(sizes), [0] * len(sizes)
        reached, marks = [BEGINNING_US] * len(sizes), [BEGINNING_US] * len(sizes)
        running = set(range(len(sizes)))
        while running:
            for number in running:
                if at[number] == read[number]:
                    read[number] = min(at[number] + most_rows, sizes[number])
            if ended := {number for number in running if at[number] == read[number]}:
                running -= ended
                for number in ended:
                    marks[number] = FOREVER_US
                yield {}, self._complete_until(marks, reached)
                continue
            until_us = min(int(self.feeds[number].newest[read[number] - 1]) for number in running)
            rows: dict[str, Rows] = {}
            for number in sorted(running):
                feed, start = self.feeds[number], at[number]
                stop = start + int(feed.newest[start : read[number]].searchsorted(until_us, side="right"))
                if stop > start:
                    rows |= {alias: feed.rows[alias].slice(start, stop) for alias in feed.aliases}
                    at[number], reached[number] = stop, int(feed.newest[stop - 1])
                    marks[number] = reached[number] - feed.lateness_us
            yield rows, self._complete_until(marks, reached)

    def _cut(self, piece: Callable[[], int]) -> Iterator[Step]:
        """Always of the stream that is furthest behind."""
        at = [0] * len(self.feeds)
        reached = [BEGINNING_US] * len(self.feeds)
        marks = [BEGINNING_US] * len(self.feeds)
        running = set(range(len(self.feeds)))
        while running:
            number = min(running, key=lambda i: reached[i])
            feed, start = self.feeds[number], at[number]
            stop = min(start + piece(), int(feed.newest.size))
            at[number] = stop
            if stop > start:
                reached[number] = int(feed.newest[stop - 1])
            else:
                running.remove(number)
            marks[number] = reached[number] - feed.lateness_us if stop > start else FOREVER_US
            complete_until = self._complete_until(marks, reached)
            yield {a: feed.rows[a].slice(start, stop) for a in feed.aliases if stop > start}, complete_until

    def _complete_until(self, marks: Sequence[int], reached: Sequence[int]) -> dict[str, int]:
        """As a run tells its operators (PulledExecution): the query's watermark, or more where more is certain."""
        complete_until: dict[str, int] = {}
        for feed, mark, newest in zip(self.feeds, marks, reached, strict=True):
            until = (
                FOREVER_US if mark == FOREVER_US else max(min(marks), newest if feed.in_time_order else BEGINNING_US)
            )
            complete_until |= dict.fromkeys(feed.aliases, until)
        return complete_until


def _rows(stream: Stream, table: pa.Table) -> Rows:
    batches = table.combine_chunks().to_batches()
    if not batches:
        return Rows(pa.RecordBatch.from_pylist([], table.schema), np.empty(0, np.int64))
    return timed_rows(stream, batches[0], 0)


def _exhaust(batches: Iterator[pa.RecordBatch], take: Callable[[pa.RecordBatch], None] | None) -> None:
    for one in batches:
        if take is not None:
            take(one)
