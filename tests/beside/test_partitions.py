"""Partitions of a stream: each has a time of its own, and a fast one does not make the rows of a slow one late."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.beside.rack import COLUMNS, RACK, line, put
from tests.beside.test_exactly_once import DiskFullError, life
from watersmeet.io.connectors import registry
from watersmeet.io.connectors.files.sink import FilesSink
from watersmeet.model.arrival import Arrival
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.saving import load_state, state_of
from watersmeet.runtime.clock import QueryClock
from watersmeet.testing.trial import HandClock

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US


@pytest.fixture(autouse=True)
def rack() -> object:
    registry.register(RACK)
    yield
    registry.forget("rack")


def clock_of(idle_s: int | None = None, lateness_s: int = 0) -> tuple[QueryClock, HandClock]:
    wall = HandClock(0)
    arrival = Arrival(idle_us=None if idle_s is None else idle_s * SECOND_US)
    stream = Stream("a", COLUMNS, "ts", lateness_s * SECOND_US, arrival=arrival)
    return QueryClock([stream], wall), wall


def came(clock: QueryClock, partition: str, *seconds: int) -> list[int]:
    """The times of the rows that are in time."""
    times = pa.array([one * SECOND_US for one in seconds], pa.timestamp("us"))
    rows = pa.RecordBatch.from_arrays([pa.array(seconds), pa.array(seconds), times], schema=COLUMNS)
    return [int(one) // SECOND_US for one in clock.admit("a", rows, partition).times]


def test_the_slowest_partition_holds_the_watermark_and_is_named() -> None:
    clock, _ = clock_of()
    clock.clocks["a"].know_partitions(["0", "1"], 0)
    assert came(clock, "0", 100, 200, 300) == [100, 200, 300]
    assert clock.watermark_us == BEGINNING_US  # nothing has come of the other
    assert came(clock, "1", 5, 10) == [5, 10]
    assert clock.watermark_us == 10 * SECOND_US
    assert clock.held_back_by == "a (partition 1)"
    assert came(clock, "1", 400) == [400]
    assert clock.watermark_us == 300 * SECOND_US
    assert came(clock, "1", 299, 350) == [350]  # below what both have reached
    assert clock.clocks["a"].late_rows == 1
    assert came(clock, "0", 301) == [301]


def test_rows_are_late_by_their_own_partition_row_by_row_whatever_the_pieces() -> None:
    rng = random.Random(3)
    for _ in range(40):
        lateness = rng.choice([0, 3])
        rows = [(rng.choice("01"), rng.randint(0, 40)) for _ in range(60)]
        newest: dict[str, int] = {}
        level, expected = -100, []
        for partition, at in rows:
            if at >= level - lateness or level == -100:
                expected.append(at)
            newest[partition] = max(newest.get(partition, at), at)
            if len(newest) == 2:
                level = max(level, min(newest.values()))
        clock, _ = clock_of(lateness_s=lateness)
        clock.clocks["a"].know_partitions(["0", "1"], 0)
        found: list[int] = []
        while rows:
            partition, many = rows[0][0], 0
            while many < len(rows) and rows[many][0] == partition and many < rng.randint(1, 5):
                many += 1
            many = max(many, 1)
            found += came(clock, partition, *(at for _, at in rows[:many]))
            rows = rows[many:]
        assert found == expected


def test_a_silent_partition_no_longer_counts_until_its_next_row() -> None:
    clock, wall = clock_of(idle_s=10)
    clock.clocks["a"].know_partitions(["0", "1", "2"], 0)
    came(clock, "0", 100)
    came(clock, "1", 50)
    wall.move(6 * SECOND_US)
    came(clock, "0", 110)
    wall.move(6 * SECOND_US)  # of 2 nothing has come, and 1 has been silent for 12 s
    assert clock.tick()
    assert clock.watermark_us == 110 * SECOND_US
    assert came(clock, "1", 60) == []  # what it has missed is late,
    assert came(clock, "1", 120) == [120]  # and it counts again
    came(clock, "0", 500)
    assert clock.watermark_us == 120 * SECOND_US


def test_partitions_are_kept_in_the_state() -> None:
    clock, _ = clock_of()
    clock.clocks["a"].know_partitions(["0", "1"], 0)
    came(clock, "0", 100)
    came(clock, "1", 50)
    saved = state_of(clock)
    again, _ = clock_of()
    load_state(again, saved)
    assert again.held_back_by == "a (partition 1)"
    assert came(again, "1", 49, 70) == [70]


@pytest.mark.parametrize("seed", range(2))
def test_no_row_of_a_slow_partition_is_late_over_faults_and_restarts(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    expected: Counter[int] = Counter()
    # One partition is an hour behind, one has few rows, and all are in order.
    for partition, (start_min, count) in enumerate([(60, 120), (0, 120), (30, 8), (60, 50)]):
        us, lines = start_min * MINUTE_US, []
        for number in range(count):
            us += rng.randint(0, 70) * SECOND_US
            expected[us // MINUTE_US] += 1
            lines.append(line(1000 * partition + number, number, us))
        put(tmp_path / "a", str(partition), lines)
    commit, left = FilesSink.commit, [rng.randint(0, 5)]

    def failing(self: FilesSink, number: int, rows: object) -> None:
        if left[0] == 0:
            raise DiskFullError("the disk is full")
        left[0] -= 1
        commit(self, number, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(FilesSink, "commit", failing)
    text = f"""
        CREATE STREAM a (id BIGINT, k BIGINT, ts TIMESTAMP)
        WITH (source = 'rack', folder = '{tmp_path}/a', time = 'ts', on_late = 'error');
        CREATE SINK out WITH (sink = 'parquet', path = '{tmp_path}/out') AS
        SELECT window_start, COUNT(*) AS n FROM TUMBLE(a, 1 MINUTE) GROUP BY window_start, window_end;
    """
    for _ in range(40):
        try:
            life(text, tmp_path, flush=True)
            break
        except DiskFullError:
            left[0] = rng.randint(1, 5)
    found = pq.read_table(tmp_path / "out").to_pydict()
    minutes = [int(one.timestamp()) // 60 for one in found["window_start"]]
    assert Counter(dict(zip(minutes, found["n"], strict=True))) == expected
    assert len(minutes) == len(set(minutes))
