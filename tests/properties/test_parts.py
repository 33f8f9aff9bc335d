"""Answers are made in parts; how large those are changes nothing, not even the order of what is given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import EFFORT, PATIENT
from tests.properties import test_hops
from tests.properties.continuous_strategies import Case, cases
from tests.properties.test_continuous import by_engine
from watersmeet.operators.continuous import parts

SMALL = {"PART_ROWS": 2, "FIRST_STEPS": 1, "MOST_STEPS": 2, "FIRST_ROWS": 1, "MOST_ROWS": 2}


@pytest.fixture(scope="module")
def small_parts() -> Iterator[pytest.MonkeyPatch]:
    """For a whole module, as examples are many; `undo` is for the time in between."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def smallest(patch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL.items():
        patch.setattr(parts, name, value)


@settings(max_examples=60 * EFFORT, deadline=None, suppress_health_check=PATIENT)
@given(case=cases(), rows_per_batch=st.sampled_from([2, None]))
def test_the_size_of_parts_does_not_change_the_answer(
    small_parts: pytest.MonkeyPatch, case: Case, rows_per_batch: int | None
) -> None:
    small_parts.undo()
    whole = by_engine(case, rows_per_batch)
    smallest(small_parts)
    try:
        assert by_engine(case, rows_per_batch).table.to_pylist() == whole.table.to_pylist()
    finally:
        small_parts.undo()


@pytest.mark.parametrize("way", test_hops.BY_WAY)
def test_hops_in_small_parts_are_right(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    smallest(monkeypatch)
    test_hops.test_a_row_is_in_the_windows_that_hold_its_time(way)
