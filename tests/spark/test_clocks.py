"""The clocks of streams on Spark: the rules of a query in-process, batch by batch, and the same again when repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from tests.effort import random_cases
from tests.runners import Source
from tests.spark.simulation import LOSSES, Simulation, reports_in
from tests.unit.hand_clock import HandClock
from watersmeet.errors import DataError
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.bucket.clocks import BucketClock
from watersmeet.hosts.spark.bucket.output import OBSERVED
from watersmeet.hosts.spark.exchange.messages import Seen, decode, encode
from watersmeet.hosts.spark.progress.messages import QueryWarnings
from watersmeet.hosts.spark.progress.tally import Tally
from watersmeet.model.arrival import Arrival
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.saving import Saved, load_state, state_of
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.clock import QueryClock
from watersmeet.warning import WatersmeetWarning

SECOND = 1_000_000
SCHEMA = pa.schema([("ts", pa.timestamp("us"))])


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    warm_state._at_hand.clear()
    yield
    warm_state._at_hand.clear()


# ---- against the clock in-process -----------------------------------------------------------------------------------


def as_batch(times: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(times, pa.timestamp("us"))], schema=SCHEMA)


def bucket_clock(streams: list[Stream], now_us: int = 0) -> BucketClock:
    return BucketClock({one.name: one for one in streams}, now_us)


def kept(clock: BucketClock, streams: list[Stream]) -> BucketClock:
    """As a manifest keeps it."""
    again = bucket_clock(streams)
    load_state(again, Saved(json.loads(json.dumps(state_of(clock).values))))
    return again


class BothClocks:
    """The same rows and the same time for a QueryClock, row by row, and for the clock of a bucket, batch by batch."""

    def __init__(self, streams: list[Stream]) -> None:
        self.streams = streams
        self.wall = HandClock()
        self.in_process = QueryClock(streams, self.wall)
        self.here = bucket_clock(streams, self.wall.now_us())

    def batch(self, arrived: dict[int, list[int]]) -> tuple[int, int]:
        """How many rows were late for each."""
        late_there = late_here = 0
        seen = []
        for number, times in arrived.items():
            stream = self.streams[number]
            let_in = self.in_process.admit(stream.name, as_batch(times))
            late_there += len(times) - len(let_in)
            late_here += sum(time < self.here.watermark_us for time in times)
            future_us = stream.arrival.max_future_us
            array = np.array(times, np.int64)
            ahead = None if future_us is None else array > self.wall.today_us() + future_us
            seen.append(decode(Seen, encode(Seen.of(number, array, ahead))))
        self.in_process.tick()
        self.here = kept(self.here, self.streams)
        self.here.after(seen, [], self.wall.now_us())
        return late_there, late_here


intervals = st.sampled_from([0, 1, 2_500_000, 7 * SECOND])
maybe = st.one_of(st.none(), st.sampled_from([SECOND, 5 * SECOND, 20 * SECOND]))


@st.composite
def declared(draw: st.DrawFn) -> list[Stream]:
    arrivals = [Arrival(idle_us=draw(maybe), max_future_us=draw(maybe)) for _ in range(draw(st.integers(1, 3)))]
    return [Stream(f"s{i}", SCHEMA, "ts", draw(intervals), arrival=a) for i, a in enumerate(arrivals)]


# Seconds that pass, and event times in microseconds beside the wall clock's.
steps = st.tuples(st.sampled_from([0, 1, 3, 6, 30]), st.integers(-40 * SECOND, 30 * SECOND))


@random_cases(300)
@given(declared(), st.lists(st.tuples(st.integers(0, 3), steps), max_size=25))
def test_one_row_at_a_time_is_late_here_exactly_if_it_is_in_process(streams, rows):
    both = BothClocks(streams)
    for number, (passed_s, beside_us) in rows:
        both.wall.move(passed_s)
        time = both.wall.today_us() + beside_us
        there, here = both.batch({number: [time]} if number < len(streams) else {})
        assert there == here
        assert both.here.watermark_us == both.in_process.watermark_us
        assert both.here.held_back_by == both.in_process.held_back_by


@random_cases(300)
@given(declared(), st.data())
def test_whole_batches_let_in_what_in_process_does_and_never_less(streams, data):
    both = BothClocks(streams)
    for passed_s in data.draw(st.lists(st.sampled_from([0, 1, 3, 6, 30]), max_size=12)):
        both.wall.move(passed_s)
        now_us = both.wall.today_us()
        numbers = data.draw(st.lists(st.integers(0, len(streams) - 1), unique=True))
        times = {
            n: data.draw(st.lists(st.integers(-40 * SECOND, 30 * SECOND), min_size=1, max_size=5)) for n in numbers
        }
        there, here = both.batch({n: [now_us + one for one in beside] for n, beside in times.items()})
        assert here <= there
        assert both.here.watermark_us <= both.in_process.watermark_us


def test_what_several_tasks_saw_of_a_stream_adds_up_in_any_order():
    streams = [Stream("a", SCHEMA, "ts", SECOND), Stream("b", SCHEMA, "ts")]
    seen = [Seen(0, 3, 0, 9 * SECOND), Seen(1, 1, 0, 20 * SECOND), Seen(0, 2, 0, 5 * SECOND)]
    clocks = [bucket_clock(streams) for _ in range(2)]
    for clock, order in zip(clocks, (seen, seen[::-1]), strict=True):
        clock.after(order, [], 7)
    assert {clock.watermark_us for clock in clocks} == {8 * SECOND}
    assert state_of(clocks[0]).values == state_of(clocks[1]).values


def test_rows_of_a_first_stage_move_no_clock_but_what_it_tells_does():
    streams = [Stream("join_1", SCHEMA, "ts")]
    clock = bucket_clock(streams)
    clock.after([Seen(0, 5, 0, BEGINNING_US, 9 * SECOND)], [], 1)
    assert clock.watermark_us == BEGINNING_US
    clock.after([Seen(0, 0, 0, 4 * SECOND)], [], 2)
    assert clock.watermark_us == 4 * SECOND


# ---- in the buckets -------------------------------------------------------------------------------------------------

COUNTS = "SELECT a.k, COUNT(*) AS n FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k GROUP BY a.k"


def rows(*seconds: float) -> pa.Table:
    times = pa.array([int(second * SECOND) for second in seconds], pa.timestamp("us"))
    return pa.table({"k": pa.array([0] * len(seconds), pa.int64()), "ts": times})


def simulated(
    sql: str = COUNTS, idle_s: tuple[float | None, float | None] = (None, 10), **settings: object
) -> Simulation:
    said = [None if s is None else int(s * SECOND) for s in idle_s]
    sources = [Source(n, rows(), "ts", "1 second", Arrival(idle_us=us)) for n, us in zip("ab", said, strict=True)]
    return Simulation(sql, sources, 2, **settings)  # type: ignore[arg-type]


def clock_told(run: Simulation) -> dict[str, object]:
    """What the last batch told of the clock; one bucket tells, once a batch."""
    told = [json.loads(text) for text in reports_in(run.frames)]
    return [one["clock"] for one in told if "clock" in one][-1]


def quiet_stream(run: Simulation) -> list[tuple[int, object]]:
    """Stream b falls silent after its first row, while a goes on; then a is silent too, and neither says more."""
    found = []
    run.batch({"a": rows(1), "b": rows(1)})
    for second in (5, 8, 14):
        run.now_ms += 4_000
        run.batch({"a": rows(second)})
        found.append((run.table().num_rows, clock_told(run)["held_back_by"]))
    return found


def test_a_stream_that_has_been_silent_for_so_long_holds_nothing_back():
    run = simulated()
    assert quiet_stream(run) == [(0, "b"), (0, "b"), (2, "a")]  # together at 1 s, apart beyond 3 s
    assert clock_told(run) == {
        "watermark_us": 13 * SECOND,
        "held_back_by": "a",
        "still_for_s": 0.0,
        "waits_for_rows": False,
        "idle": ["b"],
    }


def test_rows_of_a_stream_that_wakes_up_again_are_late_below_the_watermark_and_then_it_counts():
    run = simulated()
    quiet_stream(run)
    run.batch({"b": rows(12, 14)})
    assert run.counted("late_rows") == 1
    assert clock_told(run)["idle"] == []
    run.batch({"a": rows(30)})
    assert clock_told(run) == {
        "watermark_us": 13 * SECOND,
        "held_back_by": "b",
        "still_for_s": 0.0,
        "waits_for_rows": False,
        "idle": [],
    }


def said_of_late_rows(run: Simulation) -> list[str]:
    """What is said at the end of a query whose buckets told this, as `progress` brings it to the driver."""
    told = reports_in(run.frames)
    found: list[Warning] = []
    report = SimpleNamespace(
        batchId=0, timestamp="", durationMs={"addBatch": 1}, numInputRows=1, sources=(),
        observedMetrics={OBSERVED: Row(reports=told)},
    )  # fmt: skip
    tally = Tally()
    tally.add(report)
    QueryWarnings(streams_below(run.job.plan.root), found.append).look("q", tally.total, at_end=True)
    return [one.message for one in found if isinstance(one, WatersmeetWarning)]


def test_late_rows_are_told_in_the_sentences_of_a_run_in_process():
    run = simulated()
    run.batch({"a": rows(1, 40), "b": rows(40)})
    run.batch({"a": rows(3, 41, 20)})
    assert run.counted("late_rows") == 2
    late = "q: 2 rows of stream 'a' came too late and are left out of the answer"
    how = "up to 37 s behind its newest row, of 1970-01-01 00:00:40.000000; set lateness='37 s' or more"
    assert said_of_late_rows(run) == [f"{late}: {how}"]


def test_rows_that_are_late_after_a_silence_are_told_as_such():
    run = simulated()
    quiet_stream(run)
    run.batch({"b": rows(12, 14)})
    late = "q: 1 row of stream 'b' came too late and is left out of the answer"
    how = (
        "after a silence, up to 1 s behind the other streams; set a longer idle, or none, to wait for a stream that is"
    )
    assert said_of_late_rows(run) == [f"{late}: {how} silent"]


def test_a_late_row_ends_a_query_in_the_same_words_if_its_stream_says_so():
    stream = Source("a", rows(), "ts", "1 second", Arrival(on_late="error"))
    run = Simulation("SELECT COUNT(*) AS n FROM a [RANGE 2 SECONDS]", [stream], 2)
    run.batch({"a": rows(40)})
    with pytest.raises(DataError, match=r"1 row of stream 'a' came too late .*: up to 37 s behind .*\n?.*") as ended:
        run.batch({"a": rows(3)})
    assert ended.value.hint == "set lateness='37 s' or more"


def test_if_all_streams_are_silent_time_goes_on_with_the_clock_and_the_last_windows_come_out():
    run = simulated(idle_s=(5, 10))
    run.batch({"a": rows(1), "b": rows(1)})
    run.pulse(9)
    assert (run.table().num_rows, clock_told(run)["watermark_us"]) == (0, 0)
    run.pulse(1)  # ten seconds after the last row, at which the watermark was 0 s
    assert (run.table().num_rows, clock_told(run)["watermark_us"]) == (2, 10 * SECOND)
    run.pulse(2.5)
    assert clock_told(run) == {
        "watermark_us": 12_500_000,
        "held_back_by": None,
        "still_for_s": 0.0,
        "waits_for_rows": False,
        "idle": ["a", "b"],
    }


def test_without_idle_a_silent_stream_holds_the_watermark_back_and_is_named():
    run = simulated(idle_s=(None, None))
    assert quiet_stream(run) == [(0, "b")] * 3
    assert clock_told(run) == {
        "watermark_us": 0,
        "held_back_by": "b",
        "still_for_s": 12.0,
        "waits_for_rows": True,
        "idle": [],
    }


@pytest.mark.parametrize("lost", LOSSES)
def test_a_crash_at_any_state_call_decides_the_same_again(lost):
    crashing = simulated(crash_everywhere=True, after_crash=LOSSES[lost])
    assert quiet_stream(crashing) == quiet_stream(simulated())
    assert crashing.crashes > 20


def test_all_buckets_judge_a_row_that_is_in_several_of_them_alike():
    """Of a join without an equality each row is in several buckets; one of them may have had no rows for long."""
    sql = "SELECT a.ts AS at, b.ts AS bt FROM a, b WHERE a.k <= b.k WINDOW = 2 SECONDS"
    run = simulated(sql)
    quiet_stream(run)
    manifests = [json.loads(held[2]) for key, held in run.state.variables["meta"].items() if key[0] >= 0]
    assert len(manifests) == 2
    assert manifests[0]["clock"] == manifests[1]["clock"]
    run.batch({"b": rows(12, 14, 15)})
    assert run.table().num_rows == 3  # one of the first rows, and of three one was late in both buckets


def test_a_pulse_alone_does_not_touch_the_state_of_another_query():
    run = simulated()
    run.batch({"a": rows(1), "b": rows(1)})
    other = simulated(COUNTS.replace("COUNT(*)", "COUNT(*) + 1"))
    other.state = run.state
    with pytest.raises(DataError, match="this checkpoint belongs to another query"):
        other.pulse(1)
