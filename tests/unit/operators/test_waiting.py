"""Rows that wait come out in time order, those of equal times as they came, however they are cut into parts."""

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.model.catalog import Catalog, Stream
from watersmeet.operators import waiting as module
from watersmeet.operators.contract import Rows, WaitingRows
from watersmeet.operators.saving import Saved, load_state, state_of
from watersmeet.operators.waiting import Waiting
from watersmeet.runtime.build import build
from watersmeet.sql import bind


def rows(times: np.ndarray, first: int) -> Rows:
    ids = np.arange(first, first + times.size)
    return Rows(pa.RecordBatch.from_arrays([pa.array(ids)], ["id"]), times)


def ids(some: Rows | None) -> list[int]:
    return [] if some is None else some.data.column(0).to_pylist()


def expected(times: np.ndarray, given: set[int], until: int) -> list[int]:
    """Straight from the definition."""
    ready = [i for i in range(times.size) if times[i] < until and i not in given]
    return sorted(ready, key=lambda i: (times[i], i))


@pytest.mark.parametrize("disorder", [0, 3, 50])
@pytest.mark.parametrize("most_merged", [1, 20, 1 << 12])
def test_every_row_comes_once_in_its_turn(disorder: int, most_merged: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MERGED", most_merged)
    rng = np.random.default_rng(disorder)
    times = np.maximum(np.arange(400) // 2 - rng.integers(0, disorder + 1, 400), 0)
    waiting, at, given = Waiting(), 0, set[int]()
    while at < times.size:
        size = int(rng.integers(0, 12))
        waiting.add(rows(times[at : at + size], at))
        at = min(at + size, times.size)
        until = int(times[:at].max(initial=0)) - int(rng.integers(0, 60))
        found = ids(waiting.release(until))
        assert found == expected(times[:at], given, until)
        given.update(found)
        assert len(waiting) == at - len(given)
        left = [int(times[i]) for i in range(at) if i not in given]
        assert (waiting.oldest_us, waiting.newest_us) == ((min(left), max(left)) if left else (None, None))
        again = Waiting()
        load_state(again, Saved.from_bytes(state_of(waiting).to_bytes()))
        waiting = again
    assert ids(waiting.release(1 << 40)) == expected(times, given, 1 << 40)
    assert waiting.release(1 << 40) is None


def test_the_first_rows_to_have_come_are_those_whatever_their_times() -> None:
    waiting = Waiting()
    waiting.add(rows(np.array([5, 1]), 0))
    waiting.add(rows(np.array([3, 0, 9]), 2))
    assert ids(waiting.first(3)) == [0, 1, 2]
    assert ids(waiting.release(10)) == [3, 4]


def test_many_small_pushes_are_held_in_few_parts() -> None:
    waiting = Waiting()
    for at in range(3000):
        waiting.add(rows(np.array([at]), at))
    assert len(waiting._parts) < 40
    assert ids(waiting.release(10)) == list(range(10))


def test_rows_that_wait_for_their_latest_partner_are_told() -> None:
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us"))])
    catalog = Catalog()
    for name in "ab":
        catalog.add(Stream(name, schema, "ts"))
    sql = "SELECT a.id FROM a ASOF LEFT JOIN b ON a.id = b.id AND b.ts <= a.ts AND b.ts >= a.ts - INTERVAL 9 SECONDS"
    operator = build(bind(sql, catalog))
    times = np.array([3, 5])
    given = pa.record_batch([pa.array([1, 2]), pa.array(times, pa.timestamp("us"))], schema=schema)
    assert list(operator.push("a", Rows(given, times))) == []
    assert operator.waiting_rows() == {"a": WaitingRows(2, 3, 5)}
