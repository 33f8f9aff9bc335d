"""The clocks of streams in-process: event times, row by row, which rows come too late, and what was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.io.bad_rows import without_bad_rows
from watersmeet.io.event_times import TimedBatch, arrived_rows, timed_rows, without_nulls
from watersmeet.io.read_times import LATEST_US
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, FOREVER_US, Times
from watersmeet.operators.contract import Rows
from watersmeet.operators.few_columns import FewColumns
from watersmeet.operators.few_rows import FEW
from watersmeet.runtime.bad_records import BadRecords
from watersmeet.runtime.event_time import SECOND_US, QueryTime, StreamTime
from watersmeet.runtime.left_out import late_error
from watersmeet.runtime.side_output import SideOutput
from watersmeet.runtime.wall_clock import SystemClock, WallClock

# Takes the name of a stream and which of its rows came too late, numbered in the order they came, from 0.
OnLateRows = Callable[[str, npt.NDArray[np.int64]], None]


class LateRows:
    """The late rows of one stream."""

    STATE = ("count", "behind_us", "newest_us", "after_silence_us", "promised_us")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.count = 0
        # How far at most they were behind the newest row of their stream, and which row that was; how far below the
        # watermark those were that came after a silence.
        self.behind_us = 0
        self.newest_us = BEGINNING_US
        self.after_silence_us = 0
        # Up to which time no row was to come, if rows came all the same.
        self.promised_us = BEGINNING_US

    def add(self, times: Times, newest: Times, watermarks: Times, promised_us: int = BEGINNING_US) -> None:
        """Rows that came too late, with the newest of their stream and the watermark before each."""
        self.count += int(times.size)
        behind = newest - times
        # The others are not late by their own stream: time had gone on without it.
        own = behind > self.stream.lateness_us
        promised = ~own & (times < promised_us)
        if bool(promised.any()):
            self.promised_us = promised_us
        if bool(own.any()):
            self.behind_us = max(self.behind_us, int(behind[own].max()))
            self.newest_us = max(self.newest_us, int(newest[own].max()))
        other = ~own & ~promised
        if bool(other.any()):
            self.after_silence_us = max(self.after_silence_us, int((watermarks - times)[other].max()))

    @property
    def lateness(self) -> dict[str, int]:
        """How late they were, by the names of the metrics."""
        found = {"late_after_silence_us": self.after_silence_us} if self.after_silence_us else {}
        if self.behind_us:
            found |= {"late_behind_us": self.behind_us, "late_newest_us": self.newest_us}
        return found | ({"late_promised_us": self.promised_us} if self.promised_us != BEGINNING_US else {})


class StreamClock(StreamTime):
    """Follows one stream, row by row; rows too far in the future do not move it. A row is late if it is below the
    watermark that the rows before it set, which does not depend on how rows are cut into batches; where there are other
    streams, theirs count too (see QueryClock)."""

    STATE = (
        *StreamTime.STATE, "oldest_us", "last_us", "rows_in", "late", "future_rows", "skipped_rows", "bad", "left_out",
    )  # fmt: skip

    def __init__(self, stream: Stream, wall: WallClock | None = None, side: SideOutput | None = None) -> None:
        self.wall = wall or SystemClock()
        super().__init__(stream, self.wall.now_us())
        self._side = side
        # Whether rows may be told apart from the others because of what they are.
        self._max_future_us = stream.arrival.max_future_us
        self.leaves_out = stream.arrival.keeps_going or stream.arrival.skips_nulls
        self.bad = BadRecords(stream)
        # The smallest and largest time of all rows in time.
        self.oldest_us = FOREVER_US
        self.last_us = BEGINNING_US
        self.rows_in = 0
        self.late = LateRows(stream)
        self.future_rows = 0
        self.skipped_rows = 0
        self.left_out = 0  # at the handover from its history to what comes live
        self.on_late_rows: OnLateRows | None = None
        self._few = FewColumns(stream.schema, stream.time, LATEST_US) if _is_normalized(stream) else None

    def take_over(self, other: StreamTime) -> None:
        super().take_over(other)
        if isinstance(other, StreamClock):
            self.oldest_us, self.last_us, self.rows_in = other.oldest_us, other.last_us, other.came

    @property
    def came(self) -> int:
        """Of all that came: rows, and what is none."""
        return self.rows_in + self.skipped_rows + self.bad.count

    @property
    def late_rows(self) -> int:
        return self.late.count

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

    def timed(self, batch: pa.RecordBatch) -> Rows:
        """The rows of a batch with their event times, which are checked; nothing has changed if they are refused."""
        if self.by_arrival:
            return arrived_rows(self.stream, batch, self.rows_in, self._arrival_us())
        few = self._few.timed(batch) if self._few is not None and batch.num_rows <= FEW else None
        return timed_rows(self.stream, batch, self.rows_in) if few is None else few

    def timed_batch(
        self, rows: pa.RecordBatch, bad: pa.RecordBatch | None = None, *, place: str | None = None, before: int = 0
    ) -> TimedBatch:
        """Rows that came, with their event times, apart from those that cannot be read and those that are skipped;
        nothing has changed, also if some are refused. A reader has said which it cannot read, of others they are found
        here: `place` says where those came from, and so many came there before them that were not let in yet."""
        if place is not None:
            rows, bad = without_bad_rows(self.stream, rows, self.came + before, place)
        left = without_nulls(self.stream, rows)
        return TimedBatch(self.timed(left), bad, rows.num_rows - left.num_rows)

    def in_turn(self, rows: Rows) -> Rows:
        """Rows that arrived before others were let in, or before time went on, arrive with them: they had to wait."""
        if not self.by_arrival or not len(rows) or rows.times.item(0) >= self.watermark_us:
            return rows
        return arrived_rows(self.stream, rows.data.drop_columns([self.stream.time]), self.rows_in, self._arrival_us())

    def _arrival_us(self) -> int:
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
        partition: str = "",
    ) -> Rows:
        """Those of some rows that are in time. `floor_us` is what the watermark of the query is at least, `others`
        tells that of the other streams. `partition`: that of the rows, if they have one."""
        times, before = rows.times, self.rows_in
        count = times.size
        self.rows_in = before + count
        if count == 0:
            return rows
        partition = "" if self.by_arrival else partition
        first_us = times.item(0)
        # In order and after all before them, as they mostly come: then none is late.
        if (
            first_us >= self.newest_us
            and first_us >= floor_us
            and first_us >= self.promised_us
            and self._max_future_us is None
            and rows.in_order
        ):
            last_us = times.item(-1)
            self._saw(first_us, last_us)
            self._reach(last_us, partition)
            return rows
        start_us = self.partitions.newest_us.get(partition, BEGINNING_US) if partition else self.newest_us
        newest = np.maximum(np.maximum.accumulate(self._moving(rows.times)), start_us)
        newest_before = np.concatenate([[start_us], newest[:-1]])
        if partition:
            newest_before = np.maximum(np.minimum(newest_before, self.partitions.others_us(partition)), self.newest_us)
        self._reach(int(newest[-1]), partition)
        own = np.maximum(newest_before - self.stream.lateness_us, self.promised_us)
        watermarks = np.maximum(np.minimum(own, others()), floor_us)
        in_time = rows.times >= watermarks
        if not bool(in_time.all()):
            self._leave_out(rows, np.flatnonzero(~in_time), newest_before, watermarks, before)
            rows = rows.take(np.flatnonzero(in_time))
        if len(rows):
            self._saw(int(rows.times.min()), int(rows.times.max()))
        return rows

    def _reach(self, newest_us: int, partition: str) -> None:
        """Rows came whose newest time is this, of all those of their partition. Late ones end a silence, too."""
        if partition:
            self.see([(partition, newest_us)], self.wall.now_us())
        else:  # what `see` does, at the cost of a push
            self.newest_us, self.idle, self.active_us = newest_us, False, self.wall.now_us()

    def _saw(self, oldest_us: int, last_us: int) -> None:
        if oldest_us < self.oldest_us:
            self.oldest_us = oldest_us
        if last_us > self.last_us:
            self.last_us = last_us

    def _moving(self, times: Times) -> Times:
        """The times that may move the watermark; those too far in the future are put at the beginning."""
        if self._max_future_us is None:
            return times
        ahead = times > self.wall.today_us() + self._max_future_us
        self.future_rows += int(ahead.sum())
        return np.where(ahead, BEGINNING_US, times)

    def _leave_out(
        self, rows: Rows, late: npt.NDArray[np.int64], newest: Times, watermarks: Times, before: int
    ) -> None:
        self.late.add(rows.times[late], newest[late], watermarks[late], self.promised_us)
        if self._side is not None and self.stream.late_to is not None:
            self._side.late(self.stream, rows.data.take(pa.array(late)), watermarks[late], before + late, before)
        if self.on_late_rows is not None:
            self.on_late_rows(self.stream.name, before + late)
        if self.stream.arrival.on_late == "error":
            raise late_error(self.stream, self.late.count, self.late.lateness, self.wall.today_us())


def _is_normalized(stream: Stream) -> bool:
    """Whether the event times of rows that have the columns of a stream are as they are inside the system."""
    kind = stream.schema.field(stream.time).type
    return bool(pa.types.is_timestamp(kind) and kind.unit == "us")


class QueryClock(QueryTime[StreamClock]):
    """Of a query in this process: lets in the rows of its streams, which move it row by row."""

    def __init__(
        self, streams: Iterable[Stream], wall: WallClock | None = None, side: SideOutput | None = None
    ) -> None:
        """side: what takes that is left out, if queries that are fed together have one."""
        self.wall = wall or SystemClock()
        named = list(streams)
        self.side = SideOutput(named) if side is None else side
        super().__init__({one.name: StreamClock(one, self.wall, self.side) for one in named}, self.wall.now_us())
        self.watches_silence = any(one.stream.arrival.idle_us is not None for one in self.clocks.values())
        self.watches_the_wall = self.watches_silence or any(one.follows_the_wall_clock for one in self.clocks.values())

    def admit(self, name: str, batch: pa.RecordBatch, partition: str = "") -> Rows:
        """The rows of a batch that are not below the watermark, which they move row by row."""
        return self.let_in(name, self.clocks[name].timed(batch), partition)

    def let_in(self, name: str, rows: Rows, partition: str = "") -> Rows:
        """The same for rows whose times were checked."""
        if self._silent_since is not None and rows.times.size:
            self.wake()
        clock = self.clocks[name]
        rows = clock.let_in(rows, self.watermark_us, lambda: self._others_us(name), partition)
        self.move(clock.active_us)
        return rows

    def _others_us(self, name: str) -> int:
        """The watermark of the other streams."""
        others = [clock.watermark_us for other, clock in self.clocks.items() if other != name and clock.counts]
        return min(others, default=FOREVER_US)

    def promise(self, name: str, until_us: int) -> None:
        """Of this stream nothing before this time will come."""
        self.clocks[name].promise(until_us, self.wall.now_us())
        self.wake()
        self.move(self.wall.now_us())

    def end(self, name: str) -> None:
        self.clocks[name].end()
        self.move(self.wall.now_us())

    def answered(self, until_us: int) -> None:
        """All was answered up to this instant, so what comes up to it is late; nothing is if there was nothing."""
        if until_us > BEGINNING_US:
            self.rise_to(until_us + 1, self.wall.now_us())

    def tick(self) -> bool:
        """Look at the clock on the wall; whether that moved the watermark."""
        if not self.watches_the_wall:
            return False
        before = self.watermark_us
        self.go_on(self.wall.now_us(), self.wall.today_us())
        return self.watermark_us > before

    @property
    def goes_on_by_itself(self) -> bool:
        """Whether time goes on while no row comes."""
        return self.all_silent or any(clock.follows_the_wall_clock for clock in self.running)

    @property
    def silent_in_s(self) -> float | None:
        """In how many seconds the next stream will count as silent if no row comes; None if none will."""
        at_us = self.next_silent_at_us
        return None if at_us is None else max(at_us - self.wall.now_us(), 0) / SECOND_US

    def reached_in_s(self, instant_us: int) -> float | None:
        """In how many seconds the watermark will pass an instant if all streams stay silent; None if it will not."""
        counting = [clock for clock in self.clocks.values() if clock.counts]
        holding = [clock for clock in counting if clock.watermark_us <= instant_us]
        # An instant is passed when the watermark is above it: hence + 1.
        if holding and all(clock.follows_the_wall_clock for clock in holding):
            return max((instant_us + 1 - self.wall.today_us()) / SECOND_US, 0.0)
        if self._silent_since is None:
            return None
        from_us, at_us = self._silent_since
        return max((at_us + instant_us + 1 - from_us - self.wall.now_us()) / SECOND_US, 0.0)
