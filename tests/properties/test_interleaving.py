"""Streams that take turns at random: the answer is that of the rows that were in time, however they came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import continuous_strategies, strategies
from tests.properties.interleaving import arrivals, in_turns
from tests.properties.test_continuous import assert_same, sent
from tests.properties.test_continuous import many as many_changing
from tests.properties.test_joins import few, refuse_contradictions
from tests.runners import bag_of, bound_plan, by_reference, tables_of
from watersmeet.checking.recompute import rows_of
from watersmeet.reference.join import answer


@few
@given(strategies.cases(least_streams=2), st.data())
def test_joins_of_streams_in_any_turns_give_the_answer_of_the_rows_in_time(case, data):
    refuse_contradictions(case)
    found, kept = in_turns(case.sql, case.sources, data.draw(arrivals(case.sources)))
    assert bag_of(found) == by_reference(case.sql, kept)


@many_changing
@given(continuous_strategies.cases(), st.data())
def test_answers_that_change_over_streams_in_any_turns_are_those_of_the_rows_in_time(case, data):
    found, kept = in_turns(case.sql(), case.sources, data.draw(arrivals(case.sources)))
    plan = bound_plan(case.sql(), kept)
    assert_same(sent(plan, rows_of(found)), sent(plan, answer(plan, tables_of(kept))))
