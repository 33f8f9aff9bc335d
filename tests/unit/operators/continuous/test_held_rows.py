"""Rows by value that are there at one instant and another, beside a count of them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.operators.continuous.delta import Delta
from watersmeet.operators.continuous.held_rows import HeldRows
from watersmeet.operators.continuous.multiset import Multiset
from watersmeet.operators.kernels.changes import UNION_ALL

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])
Row = tuple[int | None, str | None]


def changes(rng: np.random.Generator, instants: int) -> tuple[list[list[tuple[Row, int]]], list[list[Row]]]:
    """Changes of some instants, what leaves first; and the rows that are there after each."""
    live: Counter[Row] = Counter()
    made: list[list[tuple[Row, int]]] = []
    there: list[list[Row]] = []
    for _ in range(instants):
        kept = [row for row in live.elements() if rng.random() < 0.6]
        leaving = [(row, -1) for row in (live - Counter(kept)).elements()]
        texts = [None, "a", "some words that are longer"]
        entering = [((int(rng.integers(40)), texts[rng.integers(3)]), 1) for _ in range(int(rng.integers(30)))]
        live = Counter(kept) + Counter(row for row, _ in entering)
        made.append([*leaving, *entering])
        there.append(sorted(live, key=str))
    return made, there


def delta_of(made: list[list[tuple[Row, int]]], first: int) -> Delta:
    rows = [(row, diff, first + i) for i, one in enumerate(made) for row, diff in one]
    data = pa.RecordBatch.from_arrays(
        [pa.array([row[place] for row, _, _ in rows], field.type) for place, field in enumerate(SCHEMA)], schema=SCHEMA
    )
    instants = np.array([at for _, _, at in rows], np.int64)
    return Delta(data, instants, np.array([diff for _, diff, _ in rows], np.int64), np.arange(len(rows)))


def shown(held: Multiset, made: list[list[tuple[Row, int]]], together: int) -> list[list[Row]]:
    """The rows of each instant, of which so many come together."""
    found: list[list[Row]] = []
    for first in range(0, len(made), together):
        part = made[first : first + together]
        rows = HeldRows(held, delta_of(part, first))
        places = [rows.at(first + i) for i in range(len(part))]
        columns = rows.made(np.concatenate(places)).values()
        every = list(zip(*(column.to_pylist() for column in columns), strict=True))
        ends = np.cumsum([0, *(one.size for one in places)])
        found += [every[start:end] for start, end in pairwise(ends)]
    return found


@pytest.mark.parametrize("together", [1, 7, 200])
def test_rows_are_those_of_each_instant_and_in_one_order(together: int) -> None:
    """However many instants come together."""
    made, there = changes(np.random.default_rng(5), 200)
    held = Multiset(SCHEMA, UNION_ALL)
    found = shown(held, made, together)
    assert [sorted(one, key=str) for one in found] == there
    assert found == shown(Multiset(SCHEMA, UNION_ALL), made, 3)
    assert held.ids.live == len(there[-1])
    assert held.rows.holds(np.flatnonzero(held.left > 0)).all()
    assert int(np.count_nonzero(held.rows.where >= 0)) == len(there[-1])


def test_places_are_given_up_as_rows_leave() -> None:
    made, _ = changes(np.random.default_rng(6), 3_000)
    held = Multiset(SCHEMA, UNION_ALL)
    shown(held, made, 10)
    assert held.rows.end < 10_000 < sum(map(len, made))
