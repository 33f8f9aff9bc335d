"""Outer, semi and anti joins in buckets: cut into batches, killed at any point, ended and gone on with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.effort import EFFORT
from tests.properties.outer_strategies import OuterCase, asof_cases, outer_cases
from tests.properties.test_outer_joins import planned
from tests.runners import by_reference
from tests.spark.pieces import splits
from tests.spark.test_continuous import few as more
from tests.spark.test_ending import let_in, simulated
from watersmeet.hosts.spark import hot

few = settings(more, max_examples=15 * EFFORT)


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    hot._at_hand.clear()
    yield
    hot._at_hand.clear()


@few
@given(outer_cases(late=True), st.data())
def test_rows_without_a_partner_are_given_once_whatever_crashes_and_whenever_it_ends(case: OuterCase, data) -> None:
    assume(planned(case).plain_join is None)  # their rows travel as codes, which the reference does not read
    run = simulated(case.sql, case.sources, data.draw(splits(case)), data)
    assume(len({one.relation.name for one in run.job.streams}) == len(run.job.streams))
    assert run.answer() == by_reference(case.sql, let_in(run, case.sources))


@few
@given(asof_cases(late=True), st.data())
def test_the_latest_partner_is_the_same_whatever_crashes_and_whenever_it_ends(case: OuterCase, data) -> None:
    run = simulated(case.sql, case.sources, data.draw(splits(case)), data)
    assume(len({one.relation.name for one in run.job.streams}) == len(run.job.streams))
    assert run.answer() == by_reference(case.sql, let_in(run, case.sources))
