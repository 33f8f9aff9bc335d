"""The clocks of streams: their event times, the watermark of a query over them, and which rows come too late."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.io.event_times import TimedBatch, arrived_rows, is_sorted, judged, timed_rows
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, FOREVER_US, Times
from watersmeet.operators.contract import Rows
from watersmeet.runtime.bad_records import BadRecords
from watersmeet.runtime.lanes import Lanes
from watersmeet.runtime.late_rows import LateRows
from watersmeet.runtime.left_out import late_error
from watersmeet.runtime.side_output import SideOutput
from watersmeet.runtime.wall_clock import SystemClock, WallClock

SECOND_US = 1_000_000
# Takes the name of a stream and which of its rows came too late, numbered in the order they came, from 0.
OnLateRows = Callable[[str, npt.NDArray[np.int64]], None]


class StreamClock:
    """Follows one stream. Its watermark is the largest event time seen minus the declared lateness; rows too far in the
    future do not move it. A row is late if it is below the watermark that the rows before it set, which does not depend
    on how rows are cut into batches; where there are other streams, theirs count too (see QueryClock). Where its rows
    come in lanes, the time that all of them have reached stands for the largest seen."""

    STATE = (
        "newest_us", "promised_us", "oldest_us", "last_us", "rows_in", "late", "future_rows", "skipped_rows", "ended",
        "idle", "active_at_s", "lanes", "bad", "left_out",
    )  # fmt: skip

    def __init__(self, stream: Stream, wall: WallClock | None = None, side: SideOutput | None = None) -> None:
        self.stream = stream
        self.wall = wall or SystemClock()
        self._side = side
        self.lanes = Lanes()
        self.bad = BadRecords(stream)
        # The largest time that moved the watermark, and the smallest and largest of all rows in time.
        self.newest_us = BEGINNING_US
        # Before this time nothing comes, whoever feeds the stream said.
        self.promised_us = BEGINNING_US
        self.oldest_us = FOREVER_US
        self.last_us = BEGINNING_US
        self.rows_in = 0
        self.late = LateRows(stream)
        self.future_rows = 0
        self.skipped_rows = 0
        self.left_out = 0  # at the handover from its history to what comes live
        self.ended = False
        self.idle = False
        self.active_at_s = self.wall.now_s()
        self.on_late_rows: OnLateRows | None = None

    @property
    def came(self) -> int:
        """Of all that came: rows, and what is none."""
        return self.rows_in + self.skipped_rows + self.bad.count

    @property
    def late_rows(self) -> int:
        return self.late.count

    @property
    def watermark_us(self) -> int:
        if self.ended:
            return FOREVER_US
        if self.newest_us == BEGINNING_US:
            return self.promised_us
        own_us = self.newest_us - self.stream.lateness_us
        return own_us if own_us > self.promised_us else self.promised_us

    @property
    def counts(self) -> bool:
        """Whether it has a say in the watermark of a query."""
        return not self.ended and not self.idle

    def end(self) -> None:
        self.ended = True

    @property
    def follows_the_wall_clock(self) -> bool:
        """Whether its time goes on without rows: they have the time at which they come, and none is kept already."""
        return self.stream.by_arrival and not self.ended and not getattr(self.stream.source, "at_hand", False)

    def skip(self, rows: int) -> None:
        """Rows without an event time, which are no part of the stream."""
        self.skipped_rows += rows

    def hand_over(self, rows: int) -> None:
        """Rows on the other side of the handover from a history to what comes live, where they come once."""
        self.left_out += rows

    def leave_out(self, records: pa.RecordBatch) -> None:
        """Records that could not be read, which are no part of the stream."""
        self.bad.add(records)
        if self._side is not None:
            self._side.bad(self.stream, records)

    @property
    def left_out_rows(self) -> dict[str, int]:
        """How many rows there is something to say of, by the codes of warnings."""
        return {
            "late_rows": self.late.count,
            "skipped_rows": self.skipped_rows,
            "future_rows": self.future_rows,
            "bad_rows": self.bad.count,
            "handed_over_rows": self.left_out,
        }

    @property
    def silent_at_s(self) -> float | None:
        """When it, or one of its lanes, will have been silent for so long that it does not count any more; None if that
        will not be."""
        idle_us = self.stream.arrival.idle_us
        if idle_us is None or not self.counts:
            return None
        since_s = self.lanes.next_silent_since_s if self.lanes else self.active_at_s
        return None if since_s is None else since_s + idle_us / SECOND_US

    def fall_silent(self) -> None:
        """What has been silent for longest does not count any more."""
        since_s = self.lanes.next_silent_since_s
        if since_s is None:
            self.idle = True
            return
        self.idle = self.lanes.fall_silent(since_s)
        self.newest_us = max(self.newest_us, self.lanes.level_us)

    def mark_active(self, now_s: float) -> None:
        """Rows that wait to be read are no silence."""
        self.active_at_s = now_s
        self.lanes.mark_active(now_s)

    def know_lanes(self, names: Collection[str]) -> None:
        """The lanes that have rows which are not read yet."""
        if not self.stream.by_arrival and self.lanes.know(names, self.wall.now_s()):
            self.idle = False

    def promise(self, until_us: int) -> None:
        """Nothing before this time will come. It is a sign of life, as a row is."""
        self.promised_us = max(self.promised_us, until_us)
        self.idle, self.active_at_s = False, self.wall.now_s()

    def timed(self, batch: pa.RecordBatch) -> Rows:
        """The rows of a batch with their event times, which are checked; nothing has changed if they are refused."""
        if self.stream.by_arrival:
            return arrived_rows(self.stream, batch, self.rows_in, self._now_us())
        return timed_rows(self.stream, batch, self.rows_in)

    def timed_batch(
        self, rows: pa.RecordBatch, bad: pa.RecordBatch | None = None, *, place: str | None = None, before: int = 0
    ) -> TimedBatch:
        """Rows that came, with their event times, apart from those that cannot be read and those that are skipped;
        nothing has changed, also if some are refused. A reader has said which it cannot read, of others they are found
        here: `place` says where those came from, and so many came there before them that were not let in yet."""
        found = judged(self.stream, rows, place, self.came + before)
        return TimedBatch(self.timed(found.rows), bad if place is None else found.bad, found.skipped)

    def in_turn(self, rows: Rows) -> Rows:
        """Rows that arrived before others were let in, or before time went on, arrive with them: they had to wait."""
        if not self.stream.by_arrival or not len(rows) or rows.times.item(0) >= self.watermark_us:
            return rows
        return arrived_rows(self.stream, rows.data.drop_columns([self.stream.time]), self.rows_in, self._now_us())

    def _now_us(self) -> int:
        """The clock on the wall, which may be set back; time is not."""
        return max(self.wall.today_us(), self.newest_us, self.promised_us)

    def admit(self, batch: pa.RecordBatch, floor_us: int = BEGINNING_US) -> Rows:
        """The rows of a batch that are in time; see `let_in`."""
        return self.let_in(self.timed(batch), floor_us)

    def let_in(
        self,
        rows: Rows,
        floor_us: int = BEGINNING_US,
        others: Callable[[], int] = lambda: FOREVER_US,
        lane: str = "",
    ) -> Rows:
        """Those of some rows that are in time. `floor_us` is what the watermark of the query is at least, `others`
        tells that of the other streams. `lane`: that of the rows, if they have one."""
        before, count = self.rows_in, len(rows)
        self.rows_in += count
        if count == 0:
            return rows
        # Rows that are late end a silence, too.
        self.idle, self.active_at_s = False, self.wall.now_s()
        first_us, last_us = rows.times.item(0), rows.times.item(-1)
        in_lanes = bool(lane or self.lanes) and not self.stream.by_arrival
        if self._goes_on(rows.times, first_us, floor_us):
            self._saw(first_us, last_us)
            self._reach(last_us, lane, in_lanes)
            return rows
        start_us = self.lanes.newest_us.get(lane, BEGINNING_US) if in_lanes else self.newest_us
        newest = np.maximum(np.maximum.accumulate(self._moving(rows.times)), start_us)
        newest_before = np.concatenate([[start_us], newest[:-1]])
        if in_lanes:
            newest_before = np.maximum(np.minimum(newest_before, self.lanes.others_us(lane)), self.newest_us)
        self._reach(int(newest[-1]), lane, in_lanes)
        own = np.maximum(newest_before - self.stream.lateness_us, self.promised_us)
        watermarks = np.maximum(np.minimum(own, others()), floor_us)
        in_time = rows.times >= watermarks
        if not bool(in_time.all()):
            self._leave_out(rows, np.flatnonzero(~in_time), newest_before, watermarks, before)
            rows = rows.take(np.flatnonzero(in_time))
        if len(rows):
            self._saw(int(rows.times.min()), int(rows.times.max()))
        return rows

    def _reach(self, newest_us: int, lane: str, in_lanes: bool) -> None:
        """Rows came whose newest time is this, of all those of their lane."""
        if in_lanes:
            self.lanes.came(lane, newest_us, self.active_at_s)
            newest_us = max(self.newest_us, self.lanes.level_us)
        self.newest_us = newest_us

    def _goes_on(self, times: Times, first_us: int, floor_us: int) -> bool:
        """Whether rows come in order and after all before them, as they mostly do: then none is late."""
        if first_us < self.newest_us or first_us < floor_us or first_us < self.promised_us:
            return False
        return self.stream.arrival.max_future_us is None and is_sorted(times)

    def _saw(self, oldest_us: int, last_us: int) -> None:
        if oldest_us < self.oldest_us:
            self.oldest_us = oldest_us
        if last_us > self.last_us:
            self.last_us = last_us

    def _moving(self, times: Times) -> Times:
        """The times that may move the watermark; those too far in the future are put at the beginning."""
        max_future_us = self.stream.arrival.max_future_us
        if max_future_us is None:
            return times
        ahead = times > self.wall.today_us() + max_future_us
        self.future_rows += int(ahead.sum())
        return np.where(ahead, BEGINNING_US, times)

    def _leave_out(
        self, rows: Rows, late: npt.NDArray[np.int64], newest: Times, watermarks: Times, before: int
    ) -> None:
        self.late.add(rows.times[late], newest[late], watermarks[late], self.promised_us)
        if self._side is not None and self.stream.late_to is not None:
            self._side.late(self.stream, rows.data.take(pa.array(late)), watermarks[late])
        if self.on_late_rows is not None:
            self.on_late_rows(self.stream.name, before + late)
        if self.stream.arrival.on_late == "error":
            raise late_error(self.stream, self.late.count, self.late.lateness, self.wall.today_us())


class QueryClock:
    """The watermark of a query: the smallest of its streams' watermarks. A stream without rows yet holds it at the
    beginning; one that ended, or has been silent for as long as it says, does not count. It never goes back.

    If all streams are silent, event time goes on with the clock on the wall.
    """

    STATE = ("clocks", "watermark_us", "moved_at_s", "_silent_since")

    def __init__(self, streams: Iterable[Stream], wall: WallClock | None = None) -> None:
        self.wall = wall or SystemClock()
        named = list(streams)
        self.side = SideOutput(named)
        self.clocks = {stream.name: StreamClock(stream, self.wall, self.side) for stream in named}
        self.watermark_us = BEGINNING_US
        self.moved_at_s = self.wall.now_s()
        # Where the watermark was when the last stream fell silent, and when the last row came.
        self._silent_since: tuple[int, float] | None = None
        self.watches_silence = any(one.stream.arrival.idle_us is not None for one in self.clocks.values())
        self.watches_the_wall = self.watches_silence or any(one.follows_the_wall_clock for one in self.clocks.values())

    def admit(self, name: str, batch: pa.RecordBatch, lane: str = "") -> Rows:
        """The rows of a batch that are not below the watermark, which they move row by row."""
        return self.let_in(name, self.clocks[name].timed(batch), lane)

    def let_in(self, name: str, rows: Rows, lane: str = "") -> Rows:
        """The same for rows whose times were checked."""
        if len(rows):
            self._silent_since = None
        rows = self.clocks[name].let_in(rows, self.watermark_us, lambda: self._others_us(name), lane)
        self._move()
        return rows

    def _others_us(self, name: str) -> int:
        """The watermark of the other streams."""
        others = [clock.watermark_us for other, clock in self.clocks.items() if other != name and clock.counts]
        return min(others, default=FOREVER_US)

    def promise(self, name: str, until_us: int) -> None:
        """Of this stream nothing before this time will come."""
        self.clocks[name].promise(until_us)
        self._silent_since = None
        self._move()

    def end(self, name: str) -> None:
        self.clocks[name].end()
        self._move()

    def answered(self, until_us: int) -> None:
        """All was answered up to this instant, so what comes up to it is late."""
        self._rise_to(until_us + 1)

    @property
    def running(self) -> list[StreamClock]:
        return [clock for clock in self.clocks.values() if not clock.ended]

    def tick(self) -> bool:
        """Look at the clock on the wall; whether that moved the watermark."""
        if not self.watches_the_wall:
            return False
        before = self.watermark_us
        for clock in self.clocks.values():
            if clock.follows_the_wall_clock:
                clock.promise(self.wall.today_us())
        self._move()
        now_s = self.wall.now_s()
        # One after the other as they fell silent, so that a look that comes late moves time as one in time would have.
        while (at_s := self._next_silent_at_s) is not None and at_s <= now_s:
            for clock in [clock for clock in self.clocks.values() if clock.silent_at_s == at_s]:
                clock.fall_silent()
            self._move()
        self._go_on_with_the_wall_clock(now_s)
        return self.watermark_us > before

    @property
    def all_silent(self) -> bool:
        running = self.running
        return bool(running) and all(clock.idle for clock in running)

    @property
    def goes_on_by_itself(self) -> bool:
        """Whether time goes on while no row comes."""
        return self.all_silent or any(clock.follows_the_wall_clock for clock in self.running)

    def _go_on_with_the_wall_clock(self, now_s: float) -> None:
        # Before the first row there is no event time to go on from.
        if not self.all_silent or self.watermark_us == BEGINNING_US:
            return
        if self._silent_since is None:
            self._silent_since = self.watermark_us, max(clock.active_at_s for clock in self.running)
        from_us, at_s = self._silent_since
        self._rise_to(from_us + int((now_s - at_s) * SECOND_US))

    @property
    def silent_in_s(self) -> float | None:
        """In how many seconds the next stream will count as silent if no row comes; None if none will."""
        at_s = self._next_silent_at_s
        return None if at_s is None else max(at_s - self.wall.now_s(), 0.0)

    @property
    def _next_silent_at_s(self) -> float | None:
        due = (clock.silent_at_s for clock in self.clocks.values())
        return min((at_s for at_s in due if at_s is not None), default=None)

    def reached_in_s(self, instant_us: int) -> float | None:
        """In how many seconds the watermark will pass an instant if all streams stay silent; None if it will not."""
        counting = [clock for clock in self.clocks.values() if clock.counts]
        holding = [clock for clock in counting if clock.watermark_us <= instant_us]
        if holding and all(clock.follows_the_wall_clock for clock in holding):
            return max((instant_us + 1 - self.wall.today_us()) / SECOND_US, 0.0)
        if self._silent_since is None:
            return None
        from_us, at_s = self._silent_since
        # An instant is passed when the watermark is above it: hence + 1.
        return max(at_s + (instant_us + 1 - from_us) / SECOND_US - self.wall.now_s(), 0.0)

    @property
    def held_back_by(self) -> str | None:
        """The stream whose watermark is the smallest, and the partition of it that the others wait for."""
        counting = [clock for clock in self.clocks.values() if clock.counts]
        if not counting:
            return None
        clock = min(counting, key=lambda clock: clock.watermark_us)
        lane = clock.lanes.slowest
        return clock.stream.name if lane is None else f"{clock.stream.name} (partition {lane})"

    @property
    def still_for_s(self) -> float:
        """For how many seconds the watermark has not moved."""
        return self.wall.now_s() - self.moved_at_s

    def _move(self) -> None:
        counting = [clock.watermark_us for clock in self.clocks.values() if not (clock.ended or clock.idle)]
        if counting:
            self._rise_to(min(counting))
            return
        running = self.running
        if not running:
            self._rise_to(FOREVER_US)
        elif self.watermark_us == BEGINNING_US:  # all fell silent at once
            marks = [clock.watermark_us for clock in running if clock.watermark_us > BEGINNING_US]
            self._rise_to(min(marks, default=BEGINNING_US))

    def _rise_to(self, watermark_us: int) -> None:
        if watermark_us > self.watermark_us:
            self.watermark_us, self.moved_at_s = watermark_us, self.wall.now_s()
