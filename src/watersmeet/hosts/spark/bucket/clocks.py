"""The clock of a query on Spark, and what tasks saw of its streams.

Spark has one watermark per query, which every stream holds back, silent or not. Ours is kept by every bucket with its
state. Whoever packs rows tells all buckets what it saw, in whole batches only, so all of them decide the same; and the
time of a batch is the one that Spark logs before it runs, so a batch that is repeated decides the same again. The rules
are those of a query in-process (runtime/event_time.py), batch by batch instead of row by row: a row is late if it is
below the watermark that the batches before left, so more rows may be in time here, never fewer.

A stream that has ended still counts, until all have and everything is answered: an end is of a run, and the next may
bring more of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from watersmeet.hosts.spark.exchange.messages import Seen, Waiting
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US
from watersmeet.runtime.event_time import QueryTime, StreamTime


class BucketClock(QueryTime[StreamTime]):
    """Of the streams of a job, by alias, in the order that messages refer to."""

    def __init__(self, streams: Mapping[str, Stream], now_us: int) -> None:
        super().__init__({alias: StreamTime(stream, now_us) for alias, stream in streams.items()}, now_us)

    def after(self, seen: Sequence[Seen], waiting: Iterable[Waiting], now_us: int) -> None:
        """A batch of that time, which every bucket is told of. What tasks saw adds up in any order."""
        streams = list(self.clocks.values())
        for one in waiting:
            streams[one.stream].know_partitions(one.partitions, now_us)
            if one.partitions:
                streams[one.stream].mark_active(now_us)
        for number, clock in enumerate(streams):
            brought = [(one.partition, one.newest_us) for one in seen if one.stream == number and one.rows]
            if brought:
                self.wake()
                clock.see(brought, now_us)
        for reached in (one for one in seen if not one.rows):
            # A first stage says how far it has come, which is no sign of life of the stream.
            clock = streams[reached.stream]
            clock.newest_us = max(clock.newest_us, reached.newest_us)
        # Of streams whose rows have the moments of their arrival nothing comes before the time of the batch any more:
        # what later batches bring arrives after it, and what this one brings is pushed before the clock moves.
        self.go_on(now_us, today_us=now_us)

    def metrics(self, now_us: int) -> dict[str, Any]:
        """For people: where the watermark is, what holds it back, and for how long it has not moved. What holds it back
        is waited for if this batch brought nothing of it, and nothing of it is left for the next."""
        slowest = self.slowest
        return {
            "watermark_us": self.watermark_us,
            "held_back_by": self.held_back_by,
            "still_for_s": self.still_for_s(now_us),
            "waits_for_rows": slowest is not None and slowest.active_us < now_us,
            "idle": sorted({clock.stream.name for clock in self.clocks.values() if clock.idle}),
        }


def rows_by_stream(streams: Sequence[Stream], seen: Iterable[Seen]) -> dict[str, int]:
    """How many rows came of which streams, skipped ones among them."""
    return _by_stream(streams, ((one.stream, one.rows + one.skipped) for one in seen))


def newest_by_stream(streams: Sequence[Stream], seen: Iterable[Seen]) -> dict[str, int]:
    """The newest time of which streams that may move the watermark."""
    found: dict[str, int] = {}
    for one in seen:
        name = streams[one.stream].name
        if one.newest_us > BEGINNING_US:
            found[name] = max(found.get(name, BEGINNING_US), one.newest_us)
    return found


def ahead_by_stream(streams: Sequence[Stream], seen: Iterable[Seen]) -> dict[str, int]:
    """How many rows of which streams lie too far in the future."""
    return _by_stream(streams, ((one.stream, one.ahead) for one in seen))


def skipped_by_stream(streams: Sequence[Stream], seen: Iterable[Seen]) -> dict[str, int]:
    """How many rows of which streams have no event time."""
    return _by_stream(streams, ((one.stream, one.skipped) for one in seen))


def _by_stream(streams: Sequence[Stream], counts: Iterable[tuple[int, int]]) -> dict[str, int]:
    """Numbers of rows by stream. A row that is there under two aliases is one."""
    by_number: dict[int, int] = {}
    for number, rows in counts:
        by_number[number] = by_number.get(number, 0) + rows
    found: dict[str, int] = {}
    for number, rows in by_number.items():
        name = streams[number].name
        if rows:
            found[name] = max(found.get(name, 0), rows)
    return found
