"""Answers are made in parts; how large those are changes nothing, not even the order of what is given."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases
from tests.properties import test_hops
from tests.properties.continuous_strategies import Case, cases
from tests.properties.test_continuous import by_engine
from watersmeet.operators.continuous import parts
from watersmeet.reference.order import Row, same

SMALL = {"PART_ROWS": 2, "FIRST_STEPS": 1, "MOST_STEPS": 2, "FIRST_ROWS": 1, "MOST_ROWS": 2, "MOST_COPIES": 2}
OF_HOPS = {
    "rows": "SELECT v, window_end FROM HOP(s, 1 SECOND, 5 SECONDS)",
    "some rows": "SELECT v, window_end FROM HOP(s, 1 SECOND, 5 SECONDS) WHERE v <> 2",
    "changes": "SELECT window_end, COUNT(*) AS n FROM HOP(s, 1 SECOND, 5 SECONDS) GROUP BY window_start, window_end",
    "changes of groups": "SELECT v, window_end, SUM(v) AS n FROM HOP(s, 2 SECONDS, 5 SECONDS) "
    "GROUP BY v, window_start, window_end",
    "changes that cancel": "SELECT COUNT(*) AS n FROM HOP(s, 1 SECOND, 5 SECONDS) GROUP BY v, window_start, window_end",
    "in order": "SELECT STRING_AGG(CAST(id AS TEXT), '') AS w, window_end FROM HOP(s, 1 SECOND, 5 SECONDS) "
    "GROUP BY window_start, window_end HAVING COUNT(*) > 1",
    "the first": "SELECT window_end, COUNT(*) AS n FROM HOP(s, 1 SECOND, 5 SECONDS) GROUP BY window_start, window_end "
    "ORDER BY n DESC, window_end LIMIT 2",
}


@pytest.fixture(scope="module")
def small_parts() -> Iterator[pytest.MonkeyPatch]:
    """For a whole module, as examples are many; `undo` is for the time in between."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def smallest(patch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL.items():
        patch.setattr(parts, name, value)


def rows_of(table: pa.Table) -> list[Row]:
    """The rows as they can be compared: NaN is the same as NaN."""
    return [same(list(row.values())) for row in table.to_pylist()]


@random_cases(60)
@given(case=cases(), rows_per_batch=st.sampled_from([2, None]))
def test_the_size_of_parts_does_not_change_the_answer(
    small_parts: pytest.MonkeyPatch, case: Case, rows_per_batch: int | None
) -> None:
    small_parts.undo()
    whole = by_engine(case, rows_per_batch)
    smallest(small_parts)
    try:
        assert rows_of(by_engine(case, rows_per_batch).table) == rows_of(whole.table)
    finally:
        small_parts.undo()


@pytest.mark.parametrize("way", test_hops.BY_WAY)
def test_hops_in_small_parts_are_right(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    smallest(monkeypatch)
    test_hops.test_a_row_is_in_the_windows_that_hold_its_time(way)


@pytest.mark.parametrize("name", OF_HOPS)
@random_cases(25)
@given(times=st.lists(st.integers(0, 6), max_size=12), rows_per_batch=st.sampled_from([3, None]))
def test_copies_of_rows_that_are_made_in_parts_are_those_that_are_made_at_once(
    small_parts: pytest.MonkeyPatch, name: str, times: list[int], rows_per_batch: int | None
) -> None:
    small_parts.undo()
    sql = OF_HOPS[name] + (" OPTIONS (emit = 'changes')" if "GROUP" in OF_HOPS[name] else "")
    rows = pa.table(
        {
            "id": pa.array(range(len(times)), pa.int64()),
            "v": pa.array([at % 3 for at in range(len(times))], pa.int64()),
            "ts": pa.array([1_000_000 * at for at in sorted(times)], pa.timestamp("us")),
        }
    )

    def answer() -> list[tuple[object, ...]]:
        session = wm.Session()
        batches = [batch for batch in rows.to_batches(rows_per_batch) if batch.num_rows]
        session.stream("s", pa.Table.from_batches(batches, rows.schema), time="ts")
        given = [tuple(row.items()) for row in session.sql(sql).to_arrow().to_pylist()]
        # What stays, and what changes at one instant, is given in any order but that rows leave first.
        return sorted(
            given, key=lambda row: (row[1][1], row[0][1] == "+", repr(row)) if row[0][0] == "_op" else repr(row)
        )

    whole = answer()
    for most in (1, 2, 7):
        small_parts.setattr(parts, "MOST_COPIES", most)
        try:
            assert answer() == whole
        finally:
            small_parts.undo()
