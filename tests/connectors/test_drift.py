"""While streams and partitions catch up, none is read further ahead of the others than it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.connectors.shelf import put, written
from tests.connectors.test_driving import _shelf, created  # noqa: F401
from watersmeet.hosts.local.turns import PATIENCE_S, in_turn, worth_waiting_until_s
from watersmeet.io.connectors.contract import Connector, PartitionedSource, SourceBatch, Split
from watersmeet.io.connectors.readers import reader_of
from watersmeet.runtime.clock import StreamClock

MINUTE = 60_000_000
COLUMNS = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us"))])


@dataclass(frozen=True)
class Minutes(PartitionedSource):
    """Partitions of rows of a minute each; what is new is told partition after partition, so many rows at most."""

    partitions: Mapping[str, int]
    schema: pa.Schema = COLUMNS
    description: str = "minutes"

    def begin(self) -> dict[str, Any]:
        return dict.fromkeys(self.partitions, 0)

    def newest(self, after: Mapping[str, Any], most_rows: int | None = None) -> dict[str, Any]:
        found, left = dict(after), most_rows
        for partition, end in self.partitions.items():
            taken = end - after[partition] if left is None else min(left, end - after[partition])
            found[partition] = after[partition] + taken
            left = None if left is None else left - taken
        return found

    def splits(self, after: Mapping[str, Any], upto: Mapping[str, Any]) -> list[Split]:
        return [Split(partition, after[partition], end) for partition, end in upto.items() if end > after[partition]]

    def read(self, split: Split) -> Iterator[SourceBatch]:
        for number in range(split.after, split.upto):
            ts = pa.array([number * MINUTE], pa.timestamp("us"))
            yield SourceBatch(pa.record_batch([pa.array([number]), ts], schema=COLUMNS))


def order_of_partitions(
    max_drift: str | None, partitions: Mapping[str, int], most_rows: int = 5
) -> list[tuple[str, int]]:
    wm.register_connector(Connector("minutes", source=lambda _: Minutes(partitions)))
    session = wm.Session()
    session.stream("s", source="minutes", time="ts", max_drift=max_drift)
    reader = reader_of(session.catalog.find("s"))  # type: ignore[arg-type]
    found: list[tuple[str, int]] = []
    while (piece := reader.poll(most_rows)) is not None:
        found += [(piece.partition, number) for number in piece.rows["id"].to_pylist()]
    return found


def drift(order: list[tuple[str, int]], partitions: Mapping[str, int]) -> int:
    """How many minutes a partition was ahead of one that still had rows, at most."""
    at = dict.fromkeys(partitions, -1)
    most = 0
    for partition, number in order:
        at[partition] = number
        behind = [at[one] for one, end in partitions.items() if at[one] < end - 1]
        most = max(most, number - min(behind, default=number))
    return most


def test_partitions_are_read_side_by_side() -> None:
    partitions = {"a": 60, "b": 60, "c": 3}
    free, held = order_of_partitions(None, partitions), order_of_partitions("4 minutes", partitions)
    assert (
        sorted(free)
        == sorted(held)
        == sorted((partition, n) for partition, end in partitions.items() for n in range(end))
    )
    assert drift(free, partitions) > 50
    assert drift(held, partitions) <= 5  # what is read at a time


def test_a_partition_that_has_ended_holds_nobody() -> None:
    order = order_of_partitions("1 minute", {"a": 2, "b": 500}, most_rows=50)
    assert len(order) == 502


@dataclass
class Read:
    """A stream being read, as whoever chooses the next one sees it."""

    clock: StreamClock
    is_ready: bool
    has_more: bool = True
    empty_since_s: float = 0.0


def read_stream(newest_us: int, *, is_ready: bool, has_more: bool = True, idle: bool = False) -> Read:
    arrival = SimpleNamespace(max_drift_us=10 * MINUTE)
    clock = SimpleNamespace(stream=SimpleNamespace(arrival=arrival), newest_us=newest_us, idle=idle)
    return Read(cast(StreamClock, clock), is_ready, has_more)


@pytest.mark.parametrize(
    ("b_has_more", "b_idle", "held"),
    [(True, False, True), (True, True, False), (False, False, False)],
    ids=["waits", "idle", "exhausted"],
)
def test_a_stream_waits_for_one_that_is_behind_and_has_rows(b_has_more: bool, b_idle: bool, held: bool) -> None:
    behind = read_stream(5 * MINUTE, is_ready=False, has_more=b_has_more, idle=b_idle)
    ahead, near = read_stream(30 * MINUTE, is_ready=True), read_stream(15 * MINUTE, is_ready=True)
    assert in_turn([ahead, behind]) == ([] if held else [ahead])
    assert in_turn([near, behind]) == [near]


def test_the_stream_furthest_behind_comes_first_and_is_waited_for_a_moment() -> None:
    first, second = read_stream(5 * MINUTE, is_ready=True), read_stream(9 * MINUTE, is_ready=True)
    assert in_turn([second, first]) == [first, second]
    assert worth_waiting_until_s([second, first]) == 0.0
    first.is_ready, first.empty_since_s = False, 100.0
    assert worth_waiting_until_s([second, first]) == 100.0 + PATIENCE_S
    first.has_more = False
    assert worth_waiting_until_s([second, first]) == 0.0


def test_of_streams_that_are_equally_far_the_first_comes_first_however_quick_the_others_are() -> None:
    first, second = read_stream(0, is_ready=False), read_stream(0, is_ready=True)
    first.empty_since_s = second.empty_since_s = 100.0
    assert worth_waiting_until_s([first, second]) == 100.0 + PATIENCE_S
    assert worth_waiting_until_s([second, first]) == 0.0


def test_streams_that_catch_up_answer_as_they_should(tmp_path: Path) -> None:
    for name, count in (("a", 400), ("b", 40)):
        times = np.linspace(0, 60 * MINUTE, count).astype(np.int64)
        rows = pa.table(
            {"id": range(count), "k": [1] * count, "v": [0.0] * count, "ts": pa.array(times, pa.timestamp("us"))}
        )
        for start in range(0, count, 40):
            put(tmp_path / name, f"partition{start // 40 % 2}", rows.slice(start, 40))
    session = wm.Session()
    session.sql(created(tmp_path, "a", "b", more=", lateness = '1 hour', max_drift = '5 minutes'"))
    sql = "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.k = b.k WINDOW = 30 SECONDS"
    sink = {"sink": "shelf", "folder": str(tmp_path / "out")}
    run = session.sql(sql).start(checkpoint=tmp_path / "ck", sink=sink, batch_rows=20, available_now=True, flush=True)
    run.wait()
    whole = session.sql(sql).to_arrow()
    key = [("a", "ascending"), ("b", "ascending")]
    assert written(tmp_path / "out").sort_by(key).equals(whole.sort_by(key))
    assert whole.num_rows > 20


def test_where_it_means_nothing_it_is_refused() -> None:
    with pytest.raises(wm.CatalogError, match="says max_drift, which is for streams that are read"):
        wm.Session().stream("s", schema={"ts": "TIMESTAMP"}, time="ts", max_drift="1 minute")
    with pytest.raises(wm.OptionError, match="says max_drift, which is for streams that are read"):
        wm.Session().sql("CREATE STREAM s (ts TIMESTAMP) WITH (time = 'ts', max_drift = '1 minute')")
    with pytest.raises(wm.OptionError, match="is no length of time"):
        wm.Session().sql("CREATE STREAM s (ts TIMESTAMP) WITH (path = 'x.csv', time = 'ts', max_drift = '0 minutes')")


def test_partitions_that_are_told_one_after_the_other_do_not_make_each_other_late(tmp_path: Path) -> None:
    partitions = {"a": 50, "b": 50, "c": 50}
    wm.register_connector(Connector("minutes", source=lambda _: Minutes(partitions)))
    session = wm.Session()
    session.stream("s", source="minutes", time="ts")
    sink = {"sink": "shelf", "folder": str(tmp_path / "out")}
    run = session.sql("SELECT id FROM s").start(
        checkpoint=tmp_path / "ck", sink=sink, batch_rows=10, available_now=True, flush=True
    )
    run.wait()
    assert run.metrics()["late_rows"] == 0
    assert written(tmp_path / "out").num_rows == 150
