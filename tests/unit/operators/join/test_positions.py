"""More rows than 32 bits can number are refused with a way out, before anything is lost; without making so many."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.errors import DataError
from watersmeet.operators.join import positions, window_store
from watersmeet.operators.join.hash_index import HashIndex
from watersmeet.operators.join.positions import MOST_ROWS
from watersmeet.operators.join.sorted_index import SortedIndex
from watersmeet.operators.join.window_store import WindowStore
from watersmeet.operators.keeping.store import SheddingStore

TOO_MANY = (
    r"hold .* rows at once, and .* is the most that one store can number\nhint: make the window shorter, .*memory"
)
CODES = np.zeros((1, 4), np.int64)


def append(store: WindowStore, first: int, count: int) -> None:
    store.append(np.arange(first, first + count), [np.arange(first, first + count)], {})


def found(store: WindowStore, code: int) -> list[int]:
    """The positions of a code, through the hash index as a walk would go, and through the sorted one."""
    (index,) = store.hash_indexes.values()
    chained = [p for head in index.heads for p in _chain(index, int(head), store.tail) if store.codes[0, p] == code]
    (ordered,) = store.sorted_indexes.values()
    assert sorted(int(p) for run in ordered.runs for p in run.rows[run.values == code] if p >= store.tail) == chained
    return chained


def _chain(index: HashIndex, at: int, tail: int) -> list[int]:
    chain = []
    while at >= tail:
        chain.append(at)
        at = int(index.following[at])
    return chain


def test_the_bound_is_that_of_the_indexes() -> None:
    index, ordered = HashIndex([0], 8), SortedIndex(0)
    ordered.add(CODES, 0, 4, 0)
    for array in (index.heads, index.following, ordered.runs[0].rows):
        assert np.iinfo(array.dtype).max == MOST_ROWS


@pytest.mark.parametrize("rows", [MOST_ROWS + 1, 2**32, 2**33 + 5])
def test_indexes_refuse_positions_that_they_cannot_hold(rows: int) -> None:
    with pytest.raises(DataError, match=TOO_MANY):
        HashIndex([0], rows)
    index = HashIndex([0], 4)
    with pytest.raises(DataError, match=TOO_MANY):
        index.rebuild(CODES, 0, 4, rows)
    with pytest.raises(DataError, match=TOO_MANY):
        index.relocate(CODES, 0, 4, rows)
    with pytest.raises(DataError, match=TOO_MANY):
        SortedIndex(0).add(CODES, rows - 1, rows, 0)


@pytest.mark.parametrize("kind", [WindowStore, SheddingStore])
def test_a_store_takes_as_many_rows_as_can_be_numbered_and_not_one_more(
    kind: type[WindowStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "MOST_ROWS", 5_000)
    monkeypatch.setattr(window_store, "MOST_ROWS", 5_000)
    store = kind(1, [(0,)], [0])
    append(store, 0, 4_000)
    append(store, 4_000, 1_000)
    assert store.capacity == 5_000
    with pytest.raises(DataError, match=TOO_MANY):
        append(store, 5_000, 1)
    assert (len(store), store.tail) == (5_000, 0)
    assert found(store, 4_999) == [4_999]
    store.expire(1_000)
    append(store, 5_000, 1_000)  # positions are used again
    assert (len(store), store.capacity) == (5_000, 5_000)
    assert [len(found(store, code)) for code in (999, 1_000, 5_999)] == [0, 1, 1]
