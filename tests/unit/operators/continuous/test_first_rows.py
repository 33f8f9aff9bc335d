"""The first rows of groups, beside lists that are sorted anew at every instant."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.operators.continuous import first_rows
from watersmeet.operators.continuous.delta import Delta, empty_batch
from watersmeet.operators.continuous.first_rows import FirstRows
from watersmeet.plan.expressions import Column
from watersmeet.plan.nodes import SortKey

GROUPS = 5
SCHEMA = pa.schema([("s", pa.string()), ("x", pa.float64()), ("i", pa.int64())])
Row = tuple[str | None, float | None, int]


def keys(*names: str) -> list[SortKey]:
    """Names of columns, with - where they descend and ! where NULLs are first."""
    fields = {field.name: field.type for field in SCHEMA}
    plain = [(name.strip("-!"), "-" in name, "!" in name) for name in names]
    return [SortKey(Column("", name, fields[name]), down, nulls) for name, down, nulls in plain]


def in_order(row: Row, by: list[SortKey]) -> tuple[Any, ...]:
    """What rows are sorted by: the keys, then all columns."""
    values = dict(zip(SCHEMA.names, row, strict=True))
    made: list[Any] = []
    for key in by:
        value = values[key.expression.name]  # type: ignore[attr-defined]
        made += [
            (value is None) != key.nulls_first,
            None if value is None else _Down(value) if key.descending else value,
        ]
    for value in row:
        made += [value is None, value]
    return tuple(made)


class _Down:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Down) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Down) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


def some_rows(rng: np.random.Generator, count: int) -> list[Row]:
    """Different ones, of which many begin alike."""
    found: dict[Row, None] = {}
    while len(found) < count:
        word = None if rng.random() < 0.1 else "the same beginning "[: int(rng.integers(0, 20))] + "ab"[rng.integers(2)]
        number = None if rng.random() < 0.1 else float(rng.integers(0, 4)) - 1.5
        found[(word, number, int(rng.integers(0, 5)))] = None
    return list(found)


class Followed:
    """Rows by number, in groups, as they come and go."""

    def __init__(self, by: list[SortKey], rows: list[Row], stop: int, start: int) -> None:
        self.by, self.rows, self.stop, self.start = by, rows, stop, start
        self.first = FirstRows(by, stop, start=start)
        self.group = [i % GROUPS for i in range(len(rows))]
        self.live: Counter[int] = Counter()
        self.known: set[int] = set()

    def data(self, numbers: Any) -> pa.RecordBatch:
        columns = zip(*(self.rows[i] for i in numbers), strict=True) if len(numbers) else ((), (), ())
        return pa.RecordBatch.from_arrays(
            [pa.array(list(one), f.type) for one, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
        )

    def seen(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in range(GROUPS)]
        for row, copies in self.live.items():
            found[self.group[row]] += [row] * copies
        return [sorted(one, key=lambda row: in_order(self.rows[row], self.by))[self.start : self.stop] for one in found]

    def batch(self, rng: np.random.Generator, leaving: float, *, copies: bool, by_place: bool) -> None:
        rows: list[int] = []
        diffs, instants = [], []
        expected: Counter[tuple[int, int, int, int]] = Counter()
        entered: set[int] = set()
        for instant in range(8):
            before = self.seen()
            for _ in range(int(rng.integers(1, 9))):
                free = [i for i in range(len(self.rows)) if copies or (not self.live[i] and i not in entered)]
                live = [*self.live.elements()]
                if live and rng.random() < leaving:
                    row, diff = live[int(rng.integers(len(live)))], -1
                elif free:
                    row, diff = free[int(rng.integers(len(free)))], 1
                    entered.add(row)
                else:
                    continue
                self.live[row] += diff
                rows.append(row)
                diffs.append(diff)
                instants.append(instant)
            for old, new in zip(before, self.seen(), strict=True):
                expected += _changes(old, new, instant, self.start, by_place=by_place)
        fresh = [i for i in dict.fromkeys(rows) if i not in self.known]
        groups = np.array([self.group[i] for i in rows], np.int64)
        self.first.know(np.array(fresh, np.int64), np.array([self.group[i] for i in fresh], np.int64),
                        self.data(fresh), self.data)  # fmt: skip
        self.known |= set(fresh)
        turn = np.array(rows, np.int64)
        delta = Delta(empty_batch(SCHEMA), np.array(instants), np.array(diffs), turn)
        changed = self.first.apply(turn, groups, delta, by_place=by_place)
        told = zip(
            changed.instants, changed.rows, changed.places if by_place else changed.rows, changed.diffs, strict=True
        )
        assert Counter(tuple(map(int, one)) for one in told) == expected
        assert changed.instants.tolist() == sorted(changed.instants.tolist())
        for instant in range(8):
            assert sorted(signs := changed.diffs[changed.instants == instant].tolist()) == signs
        left = [i for i in self.known if not self.live[i]]
        self.first.forget(np.array(left, np.int64))
        self.known -= set(left)


def _changes(
    old: list[int], new: list[int], instant: int, start: int, *, by_place: bool
) -> Counter[tuple[int, int, int, int]]:
    if not by_place:
        gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
        return Counter(
            {(instant, row, row, diff): n for one, diff in ((gone, -1), (come, 1)) for row, n in one.items()}
        )
    places = [p for p in range(max(len(old), len(new))) if old[p : p + 1] != new[p : p + 1]]
    left = [(instant, old[p], start + p, -1) for p in places if p < len(old)]
    return Counter([*left, *((instant, new[p], start + p, 1) for p in places if p < len(new))])


ORDERS = {
    "numbers": ["x", "i"], "numbers, down": ["-x!", "i"], "words": ["s"], "words, down": ["-s"],
    "words, NULL first": ["s!", "-i"], "one column": ["i"],
}  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (0, 3), (2, 5), (0, 40), (3, 3)])
@pytest.mark.parametrize("copies", [False, True])
def test_what_is_told_is_what_sorted_lists_differ_by(order: str, start: int, stop: int, copies: bool) -> None:
    rng = np.random.default_rng(stop + 7 * copies)
    followed = Followed(keys(*ORDERS[order]), some_rows(rng, 90), stop, start)
    for batch in range(9):
        followed.batch(rng, (0.2, 0.5, 0.8)[batch // 3], copies=copies, by_place=False)


@pytest.mark.parametrize("order", ["numbers, down", "words"])
@pytest.mark.parametrize("stop", [1, 4])
def test_a_row_at_another_place_leaves_and_enters(order: str, stop: int) -> None:
    rng = np.random.default_rng(stop)
    followed = Followed(keys(*ORDERS[order]), some_rows(rng, 90), stop, 0)
    for batch in range(9):
        followed.batch(rng, (0.2, 0.5, 0.8)[batch // 3], copies=False, by_place=True)


def test_columns_beyond_those_that_are_codes_tell_rows_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_rows, "MOST_CODES", 1)
    monkeypatch.setattr(first_rows, "PORTION", 2)
    rng = np.random.default_rng(1)
    followed = Followed(keys("x"), some_rows(rng, 90), 3, 0)
    for batch in range(9):
        followed.batch(rng, (0.2, 0.5, 0.8)[batch // 3], copies=True, by_place=False)


def test_equal_rows_stand_beside_each_other_in_any_order() -> None:
    """As rows of a window do that differ in nothing that is read: each leaves as itself."""
    rng = np.random.default_rng(1)
    first = FirstRows(keys("i"), 3)
    columns = [pa.array(["a"] * 40), pa.array([0.5] * 40), pa.array([n % 2 for n in range(40)])]
    data = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    rows, group, ones = np.arange(40), np.zeros(40, np.int64), np.ones(40, np.int64)
    first.know(rows, group, data, lambda wanted: data.take(pa.array(wanted)))
    shown: Counter[int] = Counter()
    for turn, diffs in ((rows, ones), (rng.permutation(40), -ones)):
        changed = first.apply(turn, group, Delta(empty_batch(SCHEMA), np.arange(40), diffs, turn))
        for instant in range(40):
            mine = changed.instants == instant
            shown.update(dict(zip(changed.rows[mine].tolist(), changed.diffs[mine].tolist(), strict=True)))
            there = set(turn[: instant + 1].tolist()) if diffs[0] > 0 else set(turn[instant + 1 :].tolist())
            now = {row for row, n in shown.items() if n}
            assert set(shown.values()) <= {0, 1}
            assert now <= there
            assert sorted(row % 2 for row in now) == sorted(row % 2 for row in there)[:3]
