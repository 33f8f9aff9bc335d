"""While streams and lanes catch up, none is read further ahead of the others than it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.connectors.shelf import put, written
from tests.connectors.test_driving import _shelf, created  # noqa: F401
from watersmeet.hosts.local.durable.intake import Intake
from watersmeet.io.connectors.contract import Connector, Lot, Slice
from watersmeet.io.connectors.readers import reader_of

MINUTE = 60_000_000
COLUMNS = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us"))])


@dataclass(frozen=True)
class Minutes:
    """Lanes of rows of a minute each; what is new is told lane after lane, so many rows at most."""

    lanes: Mapping[str, int]
    schema: pa.Schema = COLUMNS
    description: str = "minutes"

    def begin(self) -> dict[str, Any]:
        return dict.fromkeys(self.lanes, 0)

    def newest(self, after: Mapping[str, Any], most_rows: int | None = None) -> dict[str, Any]:
        found, left = dict(after), most_rows
        for lane, end in self.lanes.items():
            taken = end - after[lane] if left is None else min(left, end - after[lane])
            found[lane] = after[lane] + taken
            left = None if left is None else left - taken
        return found

    def slices(self, after: Mapping[str, Any], upto: Mapping[str, Any]) -> list[Slice]:
        return [Slice(lane, after[lane], end) for lane, end in upto.items() if end > after[lane]]

    def read(self, part: Slice) -> Iterator[Lot]:
        for number in range(part.after, part.upto):
            ts = pa.array([number * MINUTE], pa.timestamp("us"))
            yield Lot(pa.record_batch([pa.array([number]), ts], schema=COLUMNS))

    def close(self) -> None:
        pass


def order_of_lanes(max_drift: str | None, lanes: Mapping[str, int], most_rows: int = 5) -> list[tuple[str, int]]:
    wm.register_connector(Connector("minutes", source=lambda _: Minutes(lanes)))
    session = wm.Session()
    session.stream("s", source="minutes", time="ts", max_drift=max_drift)
    reader = reader_of(session.catalog.find("s"))  # type: ignore[arg-type]
    found: list[tuple[str, int]] = []
    while (piece := reader.poll(most_rows)) is not None:
        found += [(piece.lane, number) for number in piece.rows["id"].to_pylist()]
    return found


def drift(order: list[tuple[str, int]], lanes: Mapping[str, int]) -> int:
    """How many minutes a lane was ahead of one that still had rows, at most."""
    at = dict.fromkeys(lanes, -1)
    most = 0
    for lane, number in order:
        at[lane] = number
        behind = [at[one] for one, end in lanes.items() if at[one] < end - 1]
        most = max(most, number - min(behind, default=number))
    return most


def test_lanes_are_read_side_by_side() -> None:
    lanes = {"a": 60, "b": 60, "c": 3}
    free, held = order_of_lanes(None, lanes), order_of_lanes("4 minutes", lanes)
    assert sorted(free) == sorted(held) == sorted((lane, n) for lane, end in lanes.items() for n in range(end))
    assert drift(free, lanes) > 50
    assert drift(held, lanes) <= 5  # what is read at a time


def test_a_lane_that_has_ended_holds_nobody() -> None:
    order = order_of_lanes("1 minute", {"a": 2, "b": 500}, most_rows=50)
    assert len(order) == 502


def intake(has_more: Mapping[str, bool], drifts_us: Mapping[str, int], idle: frozenset[str] = frozenset()) -> Intake:
    made = Intake(dict.fromkeys(has_more), drifts_us=drifts_us, is_idle=idle.__contains__)  # type: ignore[arg-type]
    for name, more in has_more.items():
        made._lines[name].has_more = more
    return made


@pytest.mark.parametrize(
    ("b_has_more", "idle", "held"),
    [(True, (), {"a"}), (True, ("b",), set()), (False, (), set())],
    ids=["waits", "idle", "exhausted"],
)
def test_a_stream_waits_for_one_that_is_behind_and_has_rows(
    b_has_more: bool, idle: tuple[str, ...], held: set[str]
) -> None:
    one = intake({"a": True, "b": b_has_more}, {"a": 10 * MINUTE}, frozenset(idle))
    newest = {"a": 30 * MINUTE, "b": 5 * MINUTE}
    assert one._too_far(newest.__getitem__) == held
    assert one._too_far({"a": 15 * MINUTE, "b": 5 * MINUTE}.__getitem__) == set()


def test_streams_that_catch_up_answer_as_they_should(tmp_path: Path) -> None:
    for name, count in (("a", 400), ("b", 40)):
        times = np.linspace(0, 60 * MINUTE, count).astype(np.int64)
        rows = pa.table(
            {"id": range(count), "k": [1] * count, "v": [0.0] * count, "ts": pa.array(times, pa.timestamp("us"))}
        )
        for start in range(0, count, 40):
            put(tmp_path / name, f"lane{start // 40 % 2}", rows.slice(start, 40))
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


def test_lanes_that_are_told_one_after_the_other_do_not_make_each_other_late(tmp_path: Path) -> None:
    lanes = {"a": 50, "b": 50, "c": 50}
    wm.register_connector(Connector("minutes", source=lambda _: Minutes(lanes)))
    session = wm.Session()
    session.stream("s", source="minutes", time="ts")
    sink = {"sink": "shelf", "folder": str(tmp_path / "out")}
    run = session.sql("SELECT id FROM s").start(
        checkpoint=tmp_path / "ck", sink=sink, batch_rows=10, available_now=True, flush=True
    )
    run.wait()
    assert run.metrics()["late_rows"] == 0
    assert written(tmp_path / "out").num_rows == 150
