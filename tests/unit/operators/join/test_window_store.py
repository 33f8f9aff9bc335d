"""A window store against a list of rows: whatever is appended, expired or killed, it holds the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.effort import random_cases
from watersmeet.model.time import FOREVER_US
from watersmeet.operators.join.sorted_index import SortedIndex
from watersmeet.operators.join.window_store import MIN_CAPACITY, WindowStore
from watersmeet.operators.kernels.hashing import combine
from watersmeet.operators.payload import payload_column

PAYLOAD = {"word": pa.string(), "price": pa.decimal128(20, 2), "flag": pa.bool_()}


@dataclass(frozen=True)
class Row:
    time: int
    codes: tuple[int, int]
    serial: int
    death: int = FOREVER_US

    @property
    def word(self) -> str | None:
        return None if self.serial % 7 == 0 else f"w{self.serial}"

    @property
    def price(self) -> Decimal | None:
        return None if self.serial % 11 == 3 else Decimal(self.serial) / 100

    @property
    def flag(self) -> bool | None:
        return None if self.serial % 5 == 1 else self.serial % 3 == 0


class StoreMachine(RuleBasedStateMachine):
    """Rows in batches from one to some thousands, so that arrays grow, move and shrink."""

    @initialize(counted=st.booleans(), disordered=st.booleans(), seed=st.integers(0, 2**32))
    def start(self, counted: bool, disordered: bool, seed: int) -> None:
        self.store = WindowStore(2, [(0,), (1, 0)], [1], PAYLOAD, counted=counted)
        self.counted, self.disordered = counted, disordered and not counted
        self.rng = np.random.default_rng(seed)
        self.rows: list[Row] = []
        self.clock = self.serial = 0

    @rule(count=st.sampled_from([0, 1, 2, 40, 700, 3000]), pace=st.integers(0, 3))
    def append(self, count: int, pace: int) -> None:
        times = self.clock + np.sort(self.rng.integers(0, pace * count + 1, count))
        self.clock = int(times.max(initial=self.clock))
        if self.disordered:
            times = times - self.rng.integers(0, 20, count)
        codes = self.rng.integers(0, 50, (2, count))
        deaths = np.where(self.rng.random(count) < 0.2, times + 1, FOREVER_US) if self.counted else None
        serials = np.arange(self.serial, self.serial + count)
        self.serial += count
        new = [
            Row(int(t), (int(a), int(b)), int(s)) for t, a, b, s in zip(times, codes[0], codes[1], serials, strict=True)
        ]
        if deaths is not None:
            new = [replace(row, death=int(death)) for row, death in zip(new, deaths, strict=True)]
        payload = {name: pa.array([getattr(row, name) for row in new], kind) for name, kind in PAYLOAD.items()}
        self.store.append(times, list(codes), payload, serials if self.counted else None, deaths)
        self.rows += new

    @rule(back=st.sampled_from([-5, 0, 10, 100, 2000]))
    def expire(self, back: int) -> None:
        cutoff, gone = self.clock - back, 0
        while gone < len(self.rows) and self.rows[gone].time < cutoff:
            gone += 1
        assert self.store.expire(cutoff) == gone
        self.rows = self.rows[gone:]

    @rule(share=st.sampled_from([0.1, 0.9, 1.0]))
    def kill(self, share: float) -> None:
        if not self.counted:
            return
        chosen = self.rng.random(len(self.rows)) < share
        serials = np.array([row.serial for row, dies in zip(self.rows, chosen, strict=True) if dies], np.int64)
        gone = np.array([-1, self.serial + 5])  # never stored
        self.store.kill(np.sort(np.concatenate([serials, gone])), np.full(serials.size + 2, self.clock + 1))
        self.rows = [
            replace(row, death=self.clock + 1) if dies else row for row, dies in zip(self.rows, chosen, strict=True)
        ]

    @rule()
    def expire_dead(self) -> None:
        """Dead rows between live ones may stay, but never a dead one at the front."""
        if not self.counted:
            return
        before = len(self.rows)
        gone = self.store.expire_dead()
        alive = [row for row in self.rows if row.death == FOREVER_US]
        squeezed = len(self.store) == len(alive)
        while self.rows and self.rows[0].death != FOREVER_US:
            self.rows.pop(0)
        self.rows = alive if squeezed else self.rows
        assert gone == before - len(self.rows)
        assert len(self.rows) - len(alive) <= max(len(alive), MIN_CAPACITY)

    @invariant()
    def holds_the_same_rows(self) -> None:
        if not hasattr(self, "store"):
            return
        store, rows = self.store, self.rows
        assert len(store) == len(rows)
        assert store.live_times.tolist() == [row.time for row in rows]
        assert store.codes[:, store.tail : store.head].T.tolist() == [list(row.codes) for row in rows]
        if self.counted:
            assert store.live_deaths.tolist() == [row.death for row in rows]
        positions = np.arange(store.tail, store.head)[::-1].copy()
        for name in PAYLOAD:
            assert store.payload[name].gather(positions).to_pylist() == [getattr(row, name) for row in rows[::-1]]
        assert store.capacity <= max(MIN_CAPACITY, 6 * max(len(rows), self.serial))

    @invariant()
    def finds_them_by_key(self) -> None:
        if not hasattr(self, "store") or not self.rows:
            return
        wanted = self.rows[len(self.rows) // 2].codes
        for key, index in self.store.hash_indexes.items():
            h = np.uint64(0)
            with np.errstate(over="ignore"):
                for column in key:
                    h = combine.py_func(h, wanted[column])
            p, found = int(index.heads[int(h) >> index.shift]), []
            while p >= self.store.tail:
                if all(self.store.codes[c, p] == wanted[c] for c in key):
                    found.append(p - self.store.tail)
                p = int(index.following[p])
            assert found == [i for i, row in enumerate(self.rows) if all(row.codes[c] == wanted[c] for c in key)][::-1]

    @invariant()
    def finds_them_in_order(self) -> None:
        if not hasattr(self, "store"):
            return
        found = []
        for run in self.store.sorted_indexes[1].runs:
            assert np.all(np.diff(run.values) >= 0)
            found += [(int(r), int(v)) for r, v in zip(run.rows, run.values, strict=True) if r >= self.store.tail]
        assert sorted(found) == [(self.store.tail + i, row.codes[1]) for i, row in enumerate(self.rows)]

    @invariant()
    def knows_how_disordered_its_rows_are(self) -> None:
        if hasattr(self, "store") and self.rows:
            times = np.array([row.time for row in self.rows])
            assert self.store.disorder_us >= int((np.maximum.accumulate(times) - times).max())


StoreMachine.TestCase.settings = random_cases(12, stateful_step_count=25)
TestWindowStoreHoldsWhatAListOfRowsHolds = StoreMachine.TestCase


def test_a_store_shrinks_again_after_a_burst() -> None:
    store = WindowStore(1, [(0,)], [], {"v": pa.int64()})

    def append(start: int, count: int) -> None:
        times = np.arange(start, start + count)
        store.append(times, [times], {"v": pa.array(times)})

    append(0, 200_000)
    largest = store.nbytes
    store.expire(200_000)
    for start in range(200_000, 600_000, 500):
        append(start, 500)
        store.expire(start)
    assert len(store) == 500
    assert store.nbytes < largest / 20
    assert store.payload["v"].gather(np.arange(store.tail, store.head)).to_pylist() == list(range(599_500, 600_000))


# -- payload columns -------------------------------------------------------------------------------------------------

VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [1, -2, None], pa.uint16(): [1, 2, None],
    pa.int64(): [2**62, None, -1], pa.uint64(): [2**64 - 1, 0, None],
    pa.float16(): [np.float16(1.5), None], pa.float32(): [1.5, None, -0.0], pa.float64(): [1.5, None, float("inf")],
    pa.bool_(): [True, False, None], pa.null(): [None], pa.string(): ["", "ä", None, "x" * 50],
    pa.large_string(): ["a", None], pa.large_binary(): [b"a", b"", None],
    pa.binary(): [b"", b"\x00\xff", None], pa.binary(3): [b"abc", None],
    pa.decimal32(5, 2): [Decimal("1.23"), None], pa.decimal64(15, 2): [Decimal("-1.23"), None],
    pa.decimal128(38, 2): [Decimal("1.23"), None], pa.decimal256(60, 2): [Decimal("1.23"), None, Decimal("-5.00")],
    pa.date32(): [date(1969, 12, 31), None], pa.date64(): [date(2020, 1, 1), None], pa.time32("ms"): [5, None],
    pa.time64("ns"): [5, None], pa.timestamp("ns", "Europe/Berlin"): [5, None, -5], pa.duration("s"): [5, None],
    pa.month_day_nano_interval(): [(1, 2, 3), None], pa.list_(pa.int32()): [[1, 2], [], None],
    pa.struct([("x", pa.int8()), ("y", pa.string())]): [{"x": 1, "y": None}, None],
    pa.map_(pa.string(), pa.int8()): [[("a", 1)], None], pa.list_(pa.int8(), 2): [[1, 2], None],
    pa.dictionary(pa.int8(), pa.string()): ["a", "b", None],
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES, ids=str)
@pytest.mark.parametrize("nulls", [True, False], ids=["with NULL", "without NULL"])
def test_a_payload_column_gives_back_what_was_put_in(kind: pa.DataType, nulls: bool) -> None:
    rng = np.random.default_rng(3)
    pool = [v for v in VALUES[kind] if v is not None or nulls] or [None]
    column, capacity, tail, head = payload_column(kind, 64), 64, 0, 0
    model: list[Any] = []
    for size in [3, 1, 1, 20, 0, 9, 25, 60, 4]:
        if head + size > capacity:
            column.relocate(tail, head - tail, 2 * capacity)
            tail, head, capacity = 0, head - tail, 2 * capacity
        new = pa.array([pool[0], *(pool[int(i)] for i in rng.integers(0, len(pool), size))], kind).slice(1)
        column.append(new, head)
        model += new.to_pylist()
        head += size
        expired = min(5, head - tail)
        tail, model = tail + expired, model[expired:]
        positions = rng.integers(tail, head, 30) if head > tail else np.empty(0, np.int64)
        found = column.gather(positions)
        found.validate(full=True)
        assert found.type == kind
        assert found.to_pylist() == [model[p - tail] for p in positions]
    kept = np.arange(tail, head, 2)
    column.keep(kept, 64)
    assert column.gather(np.arange(kept.size)).to_pylist() == model[::2]
    assert column.nbytes > 0 or pa.types.is_null(kind)


def test_sorted_runs_stay_few() -> None:
    codes = np.random.default_rng(1).integers(0, 1000, (1, 64_000))
    index = SortedIndex(0)
    for first in range(0, 64_000, 100):
        index.add(codes, first, first + 100, max(0, first - 20_000))
        index.expire(max(0, first - 20_000))
        assert len(index.runs) <= 10
    assert sum(run.values.size for run in index.runs) <= 60_000
