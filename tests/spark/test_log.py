"""The log of a bucket: whatever is appended and trimmed, a restore from it misses nothing that still matters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.effort import random_cases
from watersmeet.hosts.spark.bucket import log as log_module
from watersmeet.hosts.spark.bucket.log import FANOUT, BucketLog, Manifest
from watersmeet.hosts.spark.jobs.layout import PacketLayout
from watersmeet.operators.contract import Rows

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us"))])


class Shelf:
    """Segments in a dictionary; reading or removing what is not there is a bug of the log."""

    def __init__(self) -> None:
        self.packets: dict[tuple[int, int], bytes] = {}

    def read(self, stream: int, number: int) -> bytes:
        return self.packets[stream, number]

    def write(self, stream: int, number: int, packet: bytes) -> None:
        assert (stream, number) not in self.packets, "a segment is written once"
        self.packets[stream, number] = packet

    def remove(self, stream: int, number: int) -> None:
        del self.packets[stream, number]


class Keeps:
    """Stands for an operator: needs the rows younger than `retention_us`, or the last `count` rows of all."""

    def __init__(self, retention_us: int = 0, count: int | None = None) -> None:
        self.retention_us = retention_us
        self.count = count

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> np.ndarray:
        if self.count is None:
            return rows.times + self.retention_us >= complete_until
        needed = np.zeros(len(rows), bool)
        order = np.argsort(rows.times, kind="stable")
        needed[order[len(order) - self.count :] if self.count < len(order) else order] = True
        return needed


def rows_of(first_id: int, times: list[int]) -> Rows:
    columns = [pa.array(range(first_id, first_id + len(times)), pa.int64()), pa.array(times, pa.timestamp("us"))]
    return Rows(pa.RecordBatch.from_arrays(columns, schema=SCHEMA), np.array(times, np.int64))


def ids(rows: Rows) -> list[int]:
    return rows.data.column("id").to_pylist()


def open_log(manifest: Manifest, shelf: Shelf, streams: int = 1) -> BucketLog:
    return BucketLog(manifest, shelf, [PacketLayout(SCHEMA, "ts")] * streams)


def test_a_manifest_survives_its_bytes():
    shelf = Shelf()
    log = open_log(Manifest(complete_until=7, ended={1: "a run"}, clock={"watermark_us": 7}), shelf)
    log.append(0, rows_of(0, [1, 2]))
    again = Manifest.from_bytes(log.manifest.to_bytes())
    assert again == log.manifest
    assert ids(open_log(again, shelf).rows(0)) == [0, 1]


def test_nothing_is_written_for_no_rows():
    shelf = Shelf()
    open_log(Manifest(), shelf).append(0, rows_of(0, []))
    assert shelf.packets == {}


def test_streams_do_not_mix():
    shelf = Shelf()
    log = open_log(Manifest(), shelf, streams=2)
    log.append(0, rows_of(0, [1]))
    log.append(1, rows_of(10, [1]))
    assert (ids(log.rows(0)), ids(log.rows(1))) == ([0], [10])


def test_many_small_segments_become_few_in_the_same_order():
    shelf = Shelf()
    log = open_log(Manifest(), shelf)
    for i in range(FANOUT**2 + 3):
        log.append(0, rows_of(i, [i]))
        log.trim(0, "a", Keeps(10**9), 0, counted=False)
    assert ids(log.rows(0)) == list(range(FANOUT**2 + 3))
    assert len(shelf.packets) <= 2 * FANOUT


def test_large_segments_are_left_alone(monkeypatch):
    monkeypatch.setattr(log_module, "MERGED_BYTES", 1)
    shelf = Shelf()
    log = open_log(Manifest(), shelf)
    for i in range(3 * FANOUT):
        log.append(0, rows_of(i, [i]))
        log.trim(0, "a", Keeps(10**9), 0, counted=False)
    assert len(shelf.packets) == 3 * FANOUT


def test_expired_segments_leave_the_store():
    shelf = Shelf()
    log = open_log(Manifest(), shelf)
    for i in range(5):
        log.append(0, rows_of(i, [10 * i]))
    log.trim(0, "a", Keeps(5), 26, counted=False)
    assert ids(log.rows(0)) == [3, 4]
    assert len(shelf.packets) == 2


def test_the_bytes_held_are_those_in_the_store():
    shelf = Shelf()
    log = open_log(Manifest(), shelf)
    for i in range(11):
        log.append(0, rows_of(i, [10 * i]))
        log.trim(0, "a", Keeps(45), 10 * i, counted=False)
        assert log.manifest.bytes_held == sum(map(len, shelf.packets.values()))


@pytest.mark.parametrize("count", [1, 3, 50])
def test_counted_logs_stay_within_a_multiple_of_what_is_needed(count, monkeypatch):
    monkeypatch.setattr(log_module, "MIN_ROWS_TO_REWRITE", 8)
    shelf = Shelf()
    log = open_log(Manifest(), shelf)
    for i in range(300):
        log.append(0, rows_of(i, [i]))
        log.trim(0, "a", Keeps(count=count), i, counted=True)
        assert ids(log.rows(0))[-min(count, i + 1) :] == list(range(max(0, i + 1 - count), i + 1))
        assert len(log.rows(0)) <= 2 * count + 8


class LogMachine(RuleBasedStateMachine):
    """Batches come and go; after each the log is reopened from its bytes, as a new worker would."""

    counted = False

    @initialize(fanout=st.integers(2, 4), merged=st.sampled_from([1, 2000, 1 << 20]), rewrite=st.integers(0, 6))
    def start(self, fanout: int, merged: int, rewrite: int) -> None:
        self.saved: Mapping[str, int] = {
            name: getattr(log_module, name) for name in ("FANOUT", "MERGED_BYTES", "MIN_ROWS_TO_REWRITE")
        }
        log_module.FANOUT, log_module.MERGED_BYTES, log_module.MIN_ROWS_TO_REWRITE = fanout, merged, rewrite
        self.shelf = Shelf()
        self.manifest = Manifest()
        self.operator = Keeps(count=4) if self.counted else Keeps(retention_us=20)
        self.pushed: list[tuple[int, int]] = []
        self.clock = 0

    @rule(offsets=st.lists(st.integers(0, 15), max_size=6), step=st.integers(0, 25))
    def batch(self, offsets: list[int], step: int) -> None:
        log = open_log(self.manifest, self.shelf)
        times = [self.clock + offset for offset in offsets]
        log.append(0, rows_of(len(self.pushed), times))
        self.pushed += [(len(self.pushed) + i, t) for i, t in enumerate(times)]
        self.clock += step
        log.trim(0, "a", self.operator, self.clock, counted=self.counted)
        self.manifest = Manifest.from_bytes(self.manifest.to_bytes())

    @invariant()
    def all_that_matters_is_there_in_order(self) -> None:
        held = ids(open_log(self.manifest, self.shelf).rows(0))
        assert held == sorted(held)
        everything = rows_of(0, [t for _, t in self.pushed])
        needed = self.operator.still_needed("a", everything, self.clock)
        assert set(np.flatnonzero(needed).tolist()) <= set(held)

    @invariant()
    def the_store_holds_what_the_manifest_names(self) -> None:
        named = {(stream, s.number) for stream, log in self.manifest.segments.items() for s in log}
        assert named == set(self.shelf.packets)

    def teardown(self) -> None:
        for name, value in getattr(self, "saved", {}).items():
            setattr(log_module, name, value)


class CountedLogMachine(LogMachine):
    counted = True


TestLogByTime = LogMachine.TestCase
TestLogByCount = CountedLogMachine.TestCase
TestLogByTime.settings = TestLogByCount.settings = random_cases(40, stateful_step_count=25)
