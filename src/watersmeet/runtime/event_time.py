"""How far event time has come: of a stream and its partitions, and of a query over several streams.

The rules are the same for both hosts. In-process rows move time one by one (clock.py); on Spark whole batches do, in
every bucket alike (hosts/spark/bucket/clocks.py). `now_us` is processing time, which only ever is compared with itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Generic, TypeVar

from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, FOREVER_US

SECOND_US = 1_000_000


class Partitions:
    """The partitions of a stream, such as those of a topic: each has a time of its own, and the slowest holds them all.

    Their level is the time that every one has reached. One that has been silent for as long as the stream says no
    longer counts, until its next row. One that is known and has brought no row yet holds the level where it is.
    """

    STATE = ("newest_us", "active_us", "idle")

    def __init__(self) -> None:
        # By name: its newest time that may move the watermark, when something last came, and whether it is silent.
        self.newest_us: dict[str, int] = {}
        self.active_us: dict[str, int] = {}
        self.idle: dict[str, bool] = {}

    def __bool__(self) -> bool:
        return bool(self.newest_us)

    def take_over(self, other: Partitions) -> None:
        self.newest_us, self.active_us, self.idle = dict(other.newest_us), dict(other.active_us), dict(other.idle)

    def know(self, names: Collection[str], now_us: int) -> bool:
        """Those that have rows which are not read yet; whether some are new. One that nothing has come of, and that is
        not among them any more, had none: it is forgotten."""
        for name in [one for one, us in self.newest_us.items() if us == BEGINNING_US and one not in names]:
            del self.newest_us[name], self.active_us[name], self.idle[name]
        new = [name for name in names if name not in self.newest_us]
        for name in new:
            self.see(name, BEGINNING_US, now_us)
        return bool(new)

    def see(self, name: str, newest_us: int, now_us: int) -> None:
        """Rows of one, late ones too, end its silence."""
        self.newest_us[name] = max(self.newest_us.get(name, BEGINNING_US), newest_us)
        self.active_us[name], self.idle[name] = now_us, False

    def others_us(self, name: str) -> int:
        """The time that all others have reached."""
        others = (us for one, us in self.newest_us.items() if one != name and not self.idle[one])
        return min(others, default=FOREVER_US)

    @property
    def level_us(self) -> int:
        """The time that all have reached; the beginning if none counts."""
        return min((us for one, us in self.newest_us.items() if not self.idle[one]), default=BEGINNING_US)

    @property
    def slowest(self) -> str | None:
        """The one that the others wait for; None if there is but one, or none counts."""
        counting = [one for one in self.newest_us if not self.idle[one]]
        return min(counting, key=self.newest_us.__getitem__) if counting and len(self.newest_us) > 1 else None

    @property
    def silent_since_us(self) -> int | None:
        """When the one that has been silent for longest last brought something."""
        return min((us for one, us in self.active_us.items() if not self.idle[one]), default=None)

    def fall_silent(self, since_us: int) -> bool:
        """Those that brought nothing since do not count any more; whether none counts."""
        for one, us in self.active_us.items():
            self.idle[one] = self.idle[one] or us <= since_us
        return all(self.idle.values())

    def mark_active(self, now_us: int) -> None:
        for one in self.active_us:
            if not self.idle[one]:
                self.active_us[one] = now_us


class StreamTime:
    """Of one stream. Its watermark is the largest event time seen minus the declared lateness; where its rows come in
    partitions, the time that all of them have reached stands for the largest seen."""

    STATE: tuple[str, ...] = ("newest_us", "promised_us", "ended", "idle", "active_us", "partitions")

    def __init__(self, stream: Stream, now_us: int) -> None:
        self.stream, self.by_arrival = stream, stream.by_arrival
        self.newest_us = BEGINNING_US  # the largest time that moved the watermark
        self.promised_us = BEGINNING_US  # before this time nothing comes, whoever feeds the stream said
        self.ended = False
        self.idle = False
        self.active_us = now_us
        self.partitions = Partitions()

    def take_over(self, other: StreamTime) -> None:
        """Be where another of the same stream is."""
        self.newest_us, self.promised_us = other.newest_us, other.promised_us
        self.ended, self.idle, self.active_us = other.ended, other.idle, other.active_us
        self.partitions.take_over(other.partitions)

    @property
    def watermark_us(self) -> int:
        if self.ended:
            return FOREVER_US
        own_us = self.newest_us - self.stream.lateness_us  # before the first row less than any promise
        return own_us if own_us > self.promised_us else self.promised_us

    @property
    def counts(self) -> bool:
        """Whether it has a say in the watermark of a query."""
        return not self.ended and not self.idle

    @property
    def follows_the_wall_clock(self) -> bool:
        """Whether its time goes on without rows: they have the time at which they come, and none is kept already."""
        return self.by_arrival and not self.ended and not getattr(self.stream.source, "at_hand", False)

    def end(self) -> None:
        self.ended = True

    def see(self, newest_us: Iterable[tuple[str, int]], now_us: int) -> None:
        """Rows that came together: the newest time of each partition that they are of, "" for none."""
        for partition, us in newest_us:
            if partition:
                self.partitions.see(partition, us, now_us)
            else:
                self.newest_us = max(self.newest_us, us)
        self.newest_us = max(self.newest_us, self.partitions.level_us)
        self.idle, self.active_us = False, now_us

    def promise(self, until_us: int, now_us: int) -> None:
        """Nothing before this time will come. It is a sign of life, as a row is."""
        self.promised_us = max(self.promised_us, until_us)
        self.idle, self.active_us = False, now_us

    def know_partitions(self, names: Collection[str], now_us: int) -> None:
        """The partitions that have rows which are not read yet."""
        if (names or self.partitions) and not self.by_arrival and self.partitions.know(names, now_us):
            self.idle = False

    def mark_active(self, now_us: int) -> None:
        """Rows that wait to be read are no silence."""
        self.active_us = now_us
        self.partitions.mark_active(now_us)

    @property
    def silent_at_us(self) -> int | None:
        """When it, or one of its partitions, will have been silent for so long that it does not count any more; None if
        that will not be."""
        idle_us = self.stream.arrival.idle_us
        if idle_us is None or not self.counts:
            return None
        since_us = self.partitions.silent_since_us if self.partitions else self.active_us
        return None if since_us is None else since_us + idle_us

    def fall_silent(self) -> None:
        """What has been silent for longest does not count any more."""
        since_us = self.partitions.silent_since_us
        if since_us is None:
            self.idle = True
            return
        self.idle = self.partitions.fall_silent(since_us)
        self.newest_us = max(self.newest_us, self.partitions.level_us)


S = TypeVar("S", bound=StreamTime)


class QueryTime(Generic[S]):
    """The watermark of a query: the smallest of its streams' watermarks. A stream without rows yet holds it at the
    beginning; one that ended, or has been silent for as long as it says, does not count. It never goes back.

    If all streams are silent, event time goes on with processing time.
    """

    STATE = ("clocks", "watermark_us", "moved_us", "_silent_since")

    def __init__(self, clocks: Mapping[str, S], now_us: int) -> None:
        self.clocks = dict(clocks)
        self.watermark_us = BEGINNING_US
        self.moved_us = now_us
        # Where the watermark was when the last stream fell silent, and when the last row came.
        self._silent_since: tuple[int, int] | None = None

    @property
    def running(self) -> list[S]:
        return [clock for clock in self.clocks.values() if not clock.ended]

    @property
    def all_silent(self) -> bool:
        running = self.running
        return bool(running) and all(clock.idle for clock in running)

    @property
    def slowest(self) -> S | None:
        """The stream whose watermark is the smallest."""
        counting = [clock for clock in self.clocks.values() if clock.counts]
        return min(counting, key=lambda clock: clock.watermark_us, default=None)

    @property
    def held_back_by(self) -> str | None:
        """The stream whose watermark is the smallest, and the partition of it that the others wait for."""
        clock = self.slowest
        if clock is None:
            return None
        partition = clock.partitions.slowest
        return clock.stream.name if partition is None else f"{clock.stream.name} (partition {partition})"

    def still_for_s(self, now_us: int) -> float:
        """For how many seconds the watermark has not moved."""
        return max(now_us - self.moved_us, 0) / SECOND_US

    def go_on(self, now_us: int, today_us: int) -> None:
        """Processing time has come this far; `today_us` is the same since 1970."""
        for clock in self.clocks.values():
            if clock.follows_the_wall_clock:
                clock.promise(today_us, now_us)
        self.move(now_us)
        # One after the other as they fell silent, so that a look that comes late moves time as one in time would have.
        while (at_us := self.next_silent_at_us) is not None and at_us <= now_us:
            for clock in [clock for clock in self.clocks.values() if clock.silent_at_us == at_us]:
                clock.fall_silent()
            self.move(now_us)
        # Before the first row there is no event time to go on from.
        if self.all_silent and self.watermark_us != BEGINNING_US:
            if self._silent_since is None:
                self._silent_since = self.watermark_us, max(clock.active_us for clock in self.running)
            # Measured from a fixed pair, not step by step: how often anybody looked makes no difference.
            from_us, at_us = self._silent_since
            self.rise_to(from_us + now_us - at_us, now_us)

    @property
    def next_silent_at_us(self) -> int | None:
        due = (clock.silent_at_us for clock in self.clocks.values())
        return min((at_us for at_us in due if at_us is not None), default=None)

    def move(self, now_us: int) -> None:
        """To where the streams are."""
        least_us: int | None = None
        for clock in self.clocks.values():
            if not clock.ended and not clock.idle:
                own_us = clock.newest_us - clock.stream.lateness_us  # `watermark_us`, at the cost of a push
                if own_us < clock.promised_us:
                    own_us = clock.promised_us
                if least_us is None or own_us < least_us:
                    least_us = own_us
        if least_us is not None:
            if least_us > self.watermark_us:
                self.watermark_us, self.moved_us = least_us, now_us
            return
        running = self.running
        if not running:
            self.rise_to(FOREVER_US, now_us)
        elif self.watermark_us == BEGINNING_US:  # all fell silent at once
            marks = [clock.watermark_us for clock in running if clock.watermark_us > BEGINNING_US]
            self.rise_to(min(marks, default=BEGINNING_US), now_us)

    def rise_to(self, watermark_us: int, now_us: int) -> None:
        if watermark_us > self.watermark_us:
            self.watermark_us, self.moved_us = watermark_us, now_us

    def wake(self) -> None:
        """Something came, so that not all streams are silent."""
        self._silent_since = None
