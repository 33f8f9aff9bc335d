"""Rows that groups show, over several batches and a restart in between."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.continuous.shown_rows import ShownRows
from watersmeet.operators.saving import Saved, load_state, state_of

GROUPS = 3_000  # more than there is room for at first


def rows_of(kind: pa.DataType) -> ShownRows:
    return ShownRows(pa.schema([("k", pa.int64()), ("x", kind)]), [0, None], 1_024)


def shown_by(rows: ShownRows, groups: list[int], values: pa.Array, instant: int) -> list[tuple[str, int, object, int]]:
    """The changes as (sign, key, value, number) of one cell for each group at an instant."""
    ids = np.array(groups, np.int64)
    keys: Callable[[Int64s], list[pa.Array]] = lambda of: [pa.array(10 * of)]  # noqa: E731
    delta = rows.replace(
        ids, np.full(ids.size, instant), [values], np.ones(ids.size, np.bool_), np.empty(0, np.bool_), None, keys
    )
    assert delta.instants.tolist() == [instant] * len(delta)
    columns = (delta.data.column(0).to_pylist(), delta.data.column(1).to_pylist(), delta.order.tolist())
    return list(zip(["+" if one > 0 else "-" for one in delta.diffs], *columns, strict=True))


def restarted(rows: ShownRows, kind: pa.DataType) -> ShownRows:
    fresh = rows_of(kind)
    load_state(fresh, Saved.from_bytes(state_of(rows).to_bytes()))
    return fresh


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("kind", [pa.int64(), pa.int16(), pa.float64(), pa.string()])
def test_a_row_leaves_as_it_entered_batches_ago(kind: pa.DataType, restarts: bool) -> None:
    rows = rows_of(kind)
    rows.grow(4_096)
    value = {one: pa.array([one], pa.int64()).cast(kind)[0].as_py() for one in range(3)}

    def values(given: list[int | None]) -> pa.Array:
        return pa.array(given, pa.int64()).cast(kind)

    last = GROUPS - 1
    assert shown_by(rows, [0, last], values([None, 1]), 1) == [("+", 0, None, 0), ("+", 10 * last, value[1], 1)]
    # Nothing is NULL among the new values, and one that leaves is.
    rows = restarted(rows, kind) if restarts else rows
    assert shown_by(rows, [0, last], values([2, 1]), 2) == [("-", 0, None, 0), ("+", 0, value[2], 2)]
    rows = restarted(rows, kind) if restarts else rows
    assert shown_by(rows, [0, 1, last], values([2, None, None]), 3) == [
        ("-", 10 * last, value[1], 1), ("+", 10, None, 3), ("+", 10 * last, None, 4),
    ]  # fmt: skip
    assert shown_by(rows, [1], values([0]), 4) == [("-", 10, None, 3), ("+", 10, value[0], 5)]
