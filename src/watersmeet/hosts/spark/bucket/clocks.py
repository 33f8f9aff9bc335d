"""The clocks of a query's streams on Spark: how far each has come, which are silent, and what is late.

Spark has one watermark per query, which every stream holds back, silent or not. Ours is kept by every bucket with its
state. Whoever packs rows tells all buckets what it saw, in whole batches only, so all of them decide the same; and the
time of a batch is the one that Spark logs before it runs, so a batch that is repeated decides the same again. The rules
are those of runtime.clock.QueryClock, batch by batch instead of row by row: a row is late if it is below the watermark
that the batches before left, so more rows may be in time here, never fewer. Where the rows of a stream come in lanes,
each has a time of its own (see partition_clocks.py), and what all of them have reached is the time of the stream.

A stream that has ended still counts, until all have and everything is answered: an end is of a run, and the next may
bring more of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from watersmeet.hosts.spark.bucket.partition_clocks import (
    MS_US,
    PartitionClock,
    PartitionClocks,
    brought,
    fallen_silent,
    knowing,
    level_us,
    silent_at_us,
    slowest,
)
from watersmeet.hosts.spark.exchange.messages import Seen, Waiting
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US

SECOND_MS = 1_000


@dataclass(frozen=True)
class ToldClock:
    """The largest event time that moved the clock of a stream, the time of the batch in which it last brought rows, and
    whether it has been silent for so long since that it does not count; and its lanes, if it has any."""

    newest_us: int = BEGINNING_US
    active_ms: int = 0
    idle: bool = False
    lanes: PartitionClocks = ()

    @staticmethod
    def from_json(read: Mapping[str, Any]) -> ToldClock:
        lanes = tuple(PartitionClock(**one) for one in read.get("lanes", ()))
        return ToldClock(read["newest_us"], read["active_ms"], read["idle"], lanes)

    def watermark_us(self, stream: Stream) -> int:
        return BEGINNING_US if self.newest_us == BEGINNING_US else self.newest_us - stream.lateness_us

    def silent_us(self, stream: Stream) -> Iterable[int]:
        """When it, or lanes of it, will have been silent for so long that they do not count any more."""
        idle_us = stream.arrival.idle_us
        if idle_us is None or self.idle:
            return []
        return silent_at_us(self.lanes, idle_us) if self.lanes else [self.active_ms * MS_US + idle_us]

    def knowing(self, waiting: Collection[str], now_ms: int) -> ToldClock:
        """With the lanes that have rows which are not read yet."""
        lanes = knowing(self.lanes, waiting, now_ms)
        some_are_new = bool({one.name for one in lanes} - {one.name for one in self.lanes})
        active_ms = now_ms if waiting else self.active_ms
        return replace(self, lanes=lanes, active_ms=active_ms, idle=self.idle and not some_are_new)

    def after(self, seen: Sequence[Seen], now_ms: int) -> ToldClock:
        """After all that a batch brought of it. Without rows it is a first stage that tells how far it has come, which
        is no sign of life of the stream."""
        straight = [one.newest_us for one in seen if not one.partition]
        by_lane: dict[str, int] = {}
        for one in seen:
            if one.partition and one.rows:
                by_lane[one.partition] = max(by_lane.get(one.partition, BEGINNING_US), one.newest_us)
        lanes = brought(self.lanes, by_lane, now_ms)
        told = replace(self, newest_us=max(self.newest_us, level_us(lanes), *straight), lanes=lanes)
        return replace(told, active_ms=now_ms, idle=False) if any(one.rows for one in seen) else told

    def fallen_silent(self, stream: Stream, at_us: int) -> ToldClock:
        """After what has been silent for so long by then does not count any more."""
        idle_us = stream.arrival.idle_us
        if idle_us is None:
            return self
        if not self.lanes:
            return replace(self, idle=self.idle or self.active_ms * MS_US + idle_us <= at_us)
        lanes = fallen_silent(self.lanes, at_us, idle_us)
        newest_us = max(self.newest_us, level_us(lanes))
        return replace(self, newest_us=newest_us, lanes=lanes, idle=all(one.idle for one in lanes))


@dataclass(frozen=True)
class Clock:
    """The watermark of a query after some batches, when it last moved, and the clocks of its streams. `silent` is where
    the watermark was when the last stream fell silent, and when the last row came."""

    streams: tuple[ToldClock, ...]
    watermark_us: int = BEGINNING_US
    moved_ms: int = 0
    silent: tuple[int, int] | None = None

    @staticmethod
    def begun(streams: int, now_ms: int) -> Clock:
        return Clock((ToldClock(active_ms=now_ms),) * streams, moved_ms=now_ms)

    @staticmethod
    def from_json(read: Mapping[str, Any]) -> Clock:
        silent = read["silent"]
        streams = tuple(ToldClock.from_json(one) for one in read["streams"])
        return Clock(streams, read["watermark_us"], read["moved_ms"], None if silent is None else tuple(silent))

    def after(
        self, streams: Sequence[Stream], seen: Iterable[Seen], now_ms: int, waiting: Iterable[Waiting] = ()
    ) -> Clock:
        """The clock after a batch of that time, which every bucket is told of."""
        clock = self._arriving(streams, now_ms)._knowing(waiting, now_ms)._saw(list(seen), now_ms)
        clock = clock._moved(streams, now_ms)
        due = {at_us for one, stream in clock._with(streams) for at_us in one.silent_us(stream)}
        # One after the other, as a run in-process would notice: each may let the watermark rise a little.
        for at_us in sorted(at for at in due if at <= now_ms * MS_US):
            clock = clock._fallen_silent(streams, at_us)._moved(streams, now_ms)
        return clock._gone_on_with_the_wall_clock(now_ms)

    def risen_to(self, watermark_us: int, now_ms: int) -> Clock:
        if watermark_us <= self.watermark_us:
            return self
        return replace(self, watermark_us=watermark_us, moved_ms=now_ms)

    def held_back_by(self, streams: Sequence[Stream]) -> str | None:
        """The stream whose watermark is the smallest of those that count, and its partition that others wait for."""
        counting = [(one, stream) for one, stream in self._with(streams) if not one.idle]
        if not counting:
            return None
        one, stream = min(counting, key=lambda pair: pair[0].watermark_us(pair[1]))
        lane = slowest(one.lanes)
        return stream.name if lane is None else f"{stream.name} (partition {lane})"

    def told(self, streams: Sequence[Stream], now_ms: int) -> dict[str, Any]:
        """For people: where the watermark is, what holds it back, and for how long it has not moved."""
        return {
            "watermark_us": self.watermark_us,
            "held_back_by": self.held_back_by(streams),
            "still_for_s": max(now_ms - self.moved_ms, 0) / SECOND_MS,
            "idle": sorted({stream.name for one, stream in self._with(streams) if one.idle}),
        }

    def _arriving(self, streams: Sequence[Stream], now_ms: int) -> Clock:
        """Of streams whose rows have the moments of their arrival nothing comes before the time of the batch any more:
        what later batches bring arrives after it, and what this one brings is pushed before the clock moves."""
        told = tuple(
            replace(one, newest_us=max(one.newest_us, now_ms * MS_US)) if stream.by_arrival else one
            for one, stream in self._with(streams)
        )
        return replace(self, streams=told)

    def _with(self, streams: Sequence[Stream]) -> Iterable[tuple[ToldClock, Stream]]:
        return zip(self.streams, streams, strict=True)

    def _knowing(self, waiting: Iterable[Waiting], now_ms: int) -> Clock:
        told = list(self.streams)
        for one in waiting:
            told[one.stream] = told[one.stream].knowing(one.partitions, now_ms)
        return replace(self, streams=tuple(told))

    def _saw(self, seen: Sequence[Seen], now_ms: int) -> Clock:
        """All of a batch at once: what tasks saw adds up in any order."""
        told = tuple(
            one.after([part for part in seen if part.stream == number], now_ms)
            for number, one in enumerate(self.streams)
        )
        return replace(self, streams=told, silent=None if any(one.rows for one in seen) else self.silent)

    def _moved(self, streams: Sequence[Stream], now_ms: int) -> Clock:
        marks = [one.watermark_us(stream) for one, stream in self._with(streams) if not one.idle]
        if not marks and self.watermark_us == BEGINNING_US:  # all fell silent at once
            every = [one.watermark_us(stream) for one, stream in self._with(streams)]
            marks = [mark for mark in every if mark > BEGINNING_US]
        return self.risen_to(min(marks), now_ms) if marks else self

    def _fallen_silent(self, streams: Sequence[Stream], at_us: int) -> Clock:
        return replace(self, streams=tuple(one.fallen_silent(stream, at_us) for one, stream in self._with(streams)))

    def _gone_on_with_the_wall_clock(self, now_ms: int) -> Clock:
        """If all streams are silent, event time goes on with the time of batches."""
        if self.watermark_us == BEGINNING_US or not all(one.idle for one in self.streams):
            return self
        # Measured from a fixed pair, not step by step: how many batches ran meanwhile makes no difference.
        since = self.silent or (self.watermark_us, max(one.active_ms for one in self.streams))
        from_us, at_ms = since
        return replace(self, silent=since).risen_to(from_us + (now_ms - at_ms) * MS_US, now_ms)


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
