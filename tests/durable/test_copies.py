"""A copy of a state is the state as it was, whatever memory it lies in."""

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.hosts.local.durable.saver import LARGE, Copies
from watersmeet.operators.saving import Saved

ROWS = LARGE // 8 + 1


def state(rows: int, first: int) -> Saved:
    numbers = np.arange(first, first + rows)
    values = {
        "large": numbers,
        "wide": numbers.reshape(-1, 1).astype(np.float64),
        "small": np.arange(first, first + 3),
        "column": pa.array([first]),
        "plain": first,
    }
    return Saved(values)


def same(left: Saved, right: Saved) -> bool:
    return left.values.keys() == right.values.keys() and all(
        np.array_equal(value, right.values[name]) if isinstance(value, np.ndarray) else value == right.values[name]
        for name, value in left.values.items()
    )


def test_a_copy_does_not_change_with_the_state() -> None:
    copies, now = Copies(), state(ROWS, 0)
    copies.fetch(copies.lacks(now))
    copy = copies.of(now)
    for name in ("large", "wide", "small"):
        now.values[name][:] = -1
    assert same(copy, state(ROWS, 0))


@pytest.mark.parametrize("rows", [ROWS, ROWS + 1000, 2 * ROWS, 10 * ROWS])
def test_a_state_that_has_grown_or_shrunk_is_copied_whole(rows: int) -> None:
    copies = Copies()
    for size in (ROWS, rows, ROWS):
        copies.fetch(copies.lacks(state(size, 0)))
        assert copies.lacks(state(size, 1)) == {}
        assert same(copies.of(state(size, 1)), state(size, 1))


def test_memory_is_used_again_and_given_back() -> None:
    copies = Copies()
    assert copies.lacks(state(ROWS, 0)) == {"large": 8 * ROWS, "wide": 8 * ROWS}
    copies.fetch(copies.lacks(state(ROWS, 0)))
    first, second = (copies.of(state(ROWS, at)).values["large"] for at in (1, 2))
    assert np.shares_memory(first, second)
    # What nobody needs is not held: an array that is gone, or one that has become small.
    assert copies.lacks(Saved({"large": np.zeros(ROWS)})) == {}
    assert copies.lacks(state(ROWS, 0)) == {"wide": 8 * ROWS}
    assert copies.lacks(Saved({"large": np.zeros(3)})) == {}
    assert "large" in copies.lacks(state(ROWS, 0))


def test_what_has_outgrown_its_memory_is_copied_all_the_same() -> None:
    copies = Copies()
    copies.fetch(copies.lacks(state(ROWS, 0)))
    assert same(copies.of(state(3 * ROWS, 5)), state(3 * ROWS, 5))
