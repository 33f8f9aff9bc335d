"""The partitions of a stream on Spark, by the rules in-process: a fast one makes no row of a slow one late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.runners import Source
from tests.spark.simulation import LOSSES, Simulation
from tests.spark.test_clocks import as_batch, bucket_clock, clock_told, declared, kept, rows
from tests.unit.hand_clock import HandClock
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.bucket.clocks import BucketClock
from watersmeet.hosts.spark.exchange.messages import Seen, Waiting, decode, encode
from watersmeet.model.arrival import Arrival
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US
from watersmeet.runtime.clock import QueryClock

SECOND = 1_000_000
NAMES = ("0", "1", "2")
# Times by stream and partition; and by stream the partitions that wait.
Arrived = Mapping[tuple[int, str], Sequence[int]]
WaitingPartitions = Mapping[int, Sequence[str]]


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    warm_state._at_hand.clear()
    yield
    warm_state._at_hand.clear()


class BothClocks:
    """The same rows in the same partitions for a QueryClock and for the clock of a bucket."""

    def __init__(self, streams: list[Stream]) -> None:
        self.streams = streams
        self.wall = HandClock()
        self.in_process = QueryClock(streams, self.wall)
        self.here = bucket_clock(streams, self.wall.now_us())

    def batch(self, arrived: Arrived, waiting: WaitingPartitions) -> tuple[int, int]:
        """How many rows were late for each."""
        late_there = late_here = 0
        seen = []
        for number, partitions in waiting.items():
            self.in_process.clocks[self.streams[number].name].know_partitions(partitions, self.wall.now_us())
        for (number, partition), times in arrived.items():
            stream = self.streams[number]
            late_there += len(times) - len(self.in_process.admit(stream.name, as_batch(list(times)), partition))
            late_here += sum(time < self.here.watermark_us for time in times)
            future_us = stream.arrival.max_future_us
            array = np.array(times, np.int64)
            ahead = None if future_us is None else array > self.wall.today_us() + future_us
            seen.append(decode(Seen, encode(replace(Seen.of(number, array, ahead), partition=partition))))
        for number in (number for number, partitions in waiting.items() if partitions):
            self.in_process.clocks[self.streams[number].name].mark_active(self.wall.now_us())
        self.in_process.tick()
        told = [decode(Waiting, encode(Waiting(number, tuple(partitions)))) for number, partitions in waiting.items()]
        self.here = kept(self.here, self.streams)
        self.here.after(seen, told, self.wall.now_us())
        return late_there, late_here


def held_back_by(told: str | None, clock: BucketClock) -> str | None:
    """Without the partition where several are equally far behind."""
    partitions = [one.partitions for one in clock.clocks.values()]
    counting = [[us for name, us in one.newest_us.items() if not one.idle[name]] for one in partitions]
    tied = any(times.count(min(times)) > 1 for times in counting if times)
    return told.split(" (")[0] if told and tied else told


a_name = st.sampled_from(NAMES)
lists_of_names = st.lists(st.sampled_from(NAMES), unique=True).map(sorted)
passing = st.sampled_from([0, 1, 3, 6, 30])
beside = st.integers(-40 * SECOND, 30 * SECOND)


@random_cases(500)
@given(declared(), st.lists(st.tuples(st.integers(0, 3), a_name, passing, beside, lists_of_names), max_size=25))
def test_one_row_at_a_time_is_late_here_exactly_if_it_is_in_process(streams, steps):
    both = BothClocks(streams)
    for number, name, passed_s, beside_us, waiting in steps:
        both.wall.move(passed_s)
        time = both.wall.today_us() + beside_us
        comes, in_partitions = number < len(streams), number != 1
        arrived = {(number, name if in_partitions else ""): [time]} if comes else {}
        there, here = both.batch(arrived, {number: waiting} if comes and in_partitions else {})
        assert there == here
        assert both.here.watermark_us == both.in_process.watermark_us
        assert held_back_by(both.here.held_back_by, both.here) == held_back_by(both.in_process.held_back_by, both.here)


@random_cases(300)
@given(declared(), st.data())
def test_whole_batches_let_in_what_in_process_does_and_never_less(streams, data):
    """In-process partitions are read one after the other, and know of those that are still to be read."""
    both = BothClocks(streams)
    some = st.lists(beside, min_size=1, max_size=5)
    for passed_s in data.draw(st.lists(passing, max_size=12)):
        both.wall.move(passed_s)
        now_us = both.wall.today_us()
        keys = data.draw(st.lists(st.tuples(st.integers(0, len(streams) - 1), st.sampled_from(NAMES)), unique=True))
        times = {key: [now_us + one for one in data.draw(some)] for key in keys}
        numbers = {number for number, _ in keys}
        waiting = {number: [partition for of, partition in keys if of == number] for number in numbers}
        there, here = both.batch(times, waiting)
        assert here <= there
        assert both.here.watermark_us <= both.in_process.watermark_us


def test_what_several_tasks_saw_of_partitions_adds_up_in_any_order():
    streams = [Stream("a", pa.schema([("ts", pa.timestamp("us"))]), "ts", SECOND)]
    seen = [Seen(0, 1, 0, at * SECOND, partition=name) for name, at in (("0", 90), ("1", 20), ("0", 70), ("2", 50))]
    for order in (seen, seen[::-1], sorted(seen, key=str)):
        clock = bucket_clock(streams)
        clock.after(order, [], 7)
        assert clock.watermark_us == 19 * SECOND


# ---- in the buckets -------------------------------------------------------------------------------------------------

SQL = "SELECT a.k, COUNT(*) AS n FROM a [RANGE 2 SECONDS] GROUP BY a.k"


def simulated(idle_s: float | None = None, **given_settings: object) -> Simulation:
    idle_us = None if idle_s is None else int(idle_s * SECOND)
    source = Source("a", rows(), "ts", "1 second", Arrival(idle_us=idle_us))
    return Simulation(SQL, [source], 2, **given_settings)  # type: ignore[arg-type]


def unequal_partitions(run: Simulation) -> list[tuple[int, object, int]]:
    """Partition 1 is far behind partition 0, and a third waits to be read; then it is."""
    found = []
    for partitions, waiting in (
        ({"0": rows(100, 101), "1": rows(10)}, ["2"]),
        ({"0": rows(150), "1": rows(12, 11)}, ["2"]),
        ({"2": rows(3, 40)}, []),
        ({"1": rows(60), "2": rows(45)}, []),
    ):
        run.now_ms += 1_000
        run.partitions("a", partitions, waiting)
        told = clock_told(run)
        found.append((told["watermark_us"], told["held_back_by"], run.counted("late_rows")))
    return found


def test_time_waits_for_the_slowest_partition_and_for_one_that_is_still_to_be_read():
    assert unequal_partitions(simulated()) == [
        (BEGINNING_US, "a (partition 2)", 0),
        (BEGINNING_US, "a (partition 2)", 0),
        (11 * SECOND, "a (partition 1)", 0),
        (44 * SECOND, "a (partition 2)", 0),
    ]


def test_a_silent_partition_is_released_as_idle_says_and_its_next_rows_are_judged_by_what_was_left():
    run = simulated(idle_s=10)
    run.partitions("a", {"0": rows(100), "1": rows(10)}, [])
    assert clock_told(run)["held_back_by"] == "a (partition 1)"
    for second in (104, 108, 112):
        run.now_ms += 4_000
        run.partitions("a", {"0": rows(second)}, [])
    assert clock_told(run)["watermark_us"] == 111 * SECOND
    run.partitions("a", {"1": rows(20, 111)}, [])
    assert run.counted("late_rows") == 1
    assert clock_told(run)["held_back_by"] == "a (partition 1)"


@pytest.mark.parametrize("lost", LOSSES)
def test_a_crash_at_any_state_call_decides_the_same_again(lost):
    crashing = simulated(crash_everywhere=True, after_crash=LOSSES[lost])
    assert unequal_partitions(crashing) == unequal_partitions(simulated())
    assert crashing.crashes > 10
