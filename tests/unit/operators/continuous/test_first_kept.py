"""The first rows of groups where none ever leaves, beside lists that are sorted anew at every instant."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.operators.continuous.test_first_rows import (
    GROUPS,
    ORDERS,
    SCHEMA,
    Row,
    _changes,
    in_order,
    keys,
    some_rows,
)
from watersmeet.operators.continuous import first_kept, first_rows
from watersmeet.operators.continuous.delta import Delta
from watersmeet.operators.continuous.first_kept import FirstKept
from watersmeet.operators.kernels import first_kept as kernel
from watersmeet.plan.nodes import SortKey


class Followed:
    """Rows by number, in groups, as they come. Those that are equal are told by their values."""

    def __init__(self, by: list[SortKey], rows: list[Row], stop: int) -> None:
        self.by, self.rows, self.stop = by, rows, stop
        self.first = FirstKept(by, stop)
        self.seen: list[list[int]] = [[] for _ in range(GROUPS)]
        self.held: set[int] = set()
        self.next = 0

    def data(self, numbers: np.ndarray) -> pa.RecordBatch:
        assert self.held.issuperset(numbers.tolist()), "the values of a row that is gone"
        return self._data(numbers.tolist())

    def _data(self, numbers: list[int]) -> pa.RecordBatch:
        columns = zip(*(self.rows[i] for i in numbers), strict=True) if numbers else ((), (), ())
        return pa.RecordBatch.from_arrays(
            [pa.array(list(one), f.type) for one, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
        )

    def batch(self, rng: np.random.Generator, count: int, *, by_place: bool) -> None:
        count = min(count, len(self.rows) - self.next)
        new = np.arange(self.next, self.next + count)
        self.next += count
        groups, instants = rng.integers(0, GROUPS, count), np.sort(rng.integers(0, max(count // 2, 1), count))
        expected: Counter[tuple[int, ...]] = Counter()
        for instant in np.unique(instants):
            before = [*self.seen]
            for row, group in zip(new[instants == instant], groups[instants == instant], strict=True):
                every = sorted([*self.seen[group], int(row)], key=lambda one: in_order(self.rows[one], self.by))
                self.seen[group] = every[: self.stop]
            for old, now in zip(before, self.seen, strict=True):
                expected += _changes(old, now, int(instant), 0, by_place=by_place)
        delta = Delta(self._data(new.tolist()), instants, np.ones(count, np.int64), new)
        kept = self.first.enter(new, groups, delta, self.data, by_place=by_place)
        changed = kept.changed
        told = zip(
            changed.instants, changed.rows, changed.places if by_place else changed.rows, changed.diffs, strict=True
        )
        assert Counter(tuple(map(int, one)) for one in told) == expected
        assert changed.instants.tolist() == sorted(changed.instants.tolist())
        for instant in np.unique(instants):
            assert sorted(signs := changed.diffs[changed.instants == instant].tolist()) == signs
        assert set(changed.rows[changed.diffs > 0].tolist()) <= self.held | set(new[kept.has_come].tolist())
        self.held |= set(new[kept.has_come].tolist())
        assert self.held.issuperset(kept.gone.tolist())
        assert np.unique(kept.gone).size == kept.gone.size
        self.held -= set(kept.gone.tolist())
        assert self.held == {row for one in self.seen for row in one}


@pytest.mark.parametrize("by_place", [False, True])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("stop", [0, 1, 3, 11])
def test_what_is_told_is_what_sorted_lists_differ_by(order: str, stop: int, by_place: bool) -> None:
    """Also of equal rows: those stay that came first."""
    rng = np.random.default_rng(stop)
    rows = some_rows(rng, 150) + some_rows(rng, 150) * 2
    rng.shuffle(rows)
    followed = Followed(keys(*ORDERS[order]), [(s, x, int(i)) for s, x, i in rows], stop)
    for count in (1, 40, 0, 100, 3, 200, 200):
        followed.batch(rng, count, by_place=by_place)


@pytest.mark.parametrize("by_place", [False, True])
def test_columns_beyond_those_that_are_codes_tell_rows_apart(by_place: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_rows, "MOST_CODES", 1)
    monkeypatch.setattr(first_kept, "PORTION", 2)
    rng = np.random.default_rng(1)
    followed = Followed(keys("x"), some_rows(rng, 300), 3)
    for _ in range(6):
        followed.batch(rng, 50, by_place=by_place)


def test_nulls_that_come_later_stand_among_rows_from_before() -> None:
    rng = np.random.default_rng(2)
    plain: list[Row] = [(None, float(n % 7), n) for n in range(60)]
    followed = Followed(keys("x!", "-i"), plain + some_rows(rng, 100), 4)
    for count in (60, 50, 50):
        followed.batch(rng, count, by_place=True)


def test_values_are_asked_for_only_where_codes_do_not_tell_rows_apart() -> None:
    first = FirstKept(keys("i", "s"), 2)
    asked: list[list[int]] = []

    def values(rows: np.ndarray) -> pa.RecordBatch:
        asked.append(rows.tolist())
        return pa.RecordBatch.from_pylist([{"s": "the same beginning", "x": 0.5, "i": 4}] * rows.size, schema=SCHEMA)

    for number, (word, i) in enumerate([("the same beginning", 4), ("the same end", 5), ("the same ending", 4)]):
        data = pa.RecordBatch.from_pylist([{"s": word, "x": 0.5, "i": i}], schema=SCHEMA)
        one = np.array([number])
        kept = first.enter(one, 0 * one, Delta(data, one, 0 * one + 1, one), values)
    assert asked == [[0]]
    assert [*zip(kept.changed.rows.tolist(), kept.changed.diffs.tolist(), strict=True)] == [(1, -1), (2, 1)]


def test_many_groups_have_room() -> None:
    """Blocks grow, and are moved where there is no room behind them."""
    n = 5_000
    first = FirstKept(keys("-i"), 20)
    rows = np.arange(n)
    data = pa.RecordBatch.from_arrays(
        [pa.nulls(n, pa.string()), pa.nulls(n, pa.float64()), pa.array(rows)], schema=SCHEMA
    )
    groups = rows % 61
    for part in np.array_split(rows, 7):
        delta = Delta(data.take(pa.array(part)), part, 0 * part + 1, part)
        first.enter(part, groups[part], delta, lambda wanted: data.take(pa.array(wanted)))
    sizes = first._groups[:61, kernel.SIZE]
    assert sizes.tolist() == [20] * 61
    found = np.empty(61 * 20, np.int64)
    kernel.rows_of_groups(np.arange(61), first._groups, first._heads, found)
    assert found.reshape(61, 20)[:, 0].tolist() == [int(rows[groups == g][-1]) for g in range(61)]
    assert found.reshape(61, 20)[:, 19].tolist() == [int(rows[groups == g][-20]) for g in range(61)]
