"""Random queries and data under every algorithm: the answer is the reference's, however rows arrive."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.methods import methods, streams_and_tables, with_options
from tests.conformance.refusals import refusal
from tests.effort import random_cases
from tests.properties.strategies import Case, cases
from tests.properties.test_joins import refuse_contradictions
from tests.runners import answered, bound_plan, by_reference, local_query
from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.runtime.build import build

many = random_cases(40)


def answers(case: Case, options: str) -> bool:
    """Whether the algorithm answers the query; if `refusals.py` says that it must not, it must say why."""
    plan = bound_plan(with_options(case, options).sql, case.sources)
    why = refusal(plan, options)
    if why is None:
        return True
    with pytest.raises((OptionError, UnsupportedError), match=re.escape(why)):
        build(plan)
    return False


def instead_of(options: str) -> str:
    """Options for the same query that nothing refuses."""
    return options.replace("'hash'", "'hybrid'") if "'hash'" in options else "join = 'w_join'"


@many
@given(
    cases(most_streams=4, least_streams=2),
    st.data(),
    st.lists(st.sampled_from([1, 2, 3, 5, None]), min_size=6, max_size=6),
)
def test_every_algorithm_gives_the_answer_of_the_reference(case, data, sizes):
    refuse_contradictions(case)
    streams, tables = streams_and_tables(case)
    asked = data.draw(methods(streams, tables))
    rows_per_batch = dict(zip((source.name for source in case.sources), sizes, strict=False))
    asked = asked if answers(case, asked) else instead_of(asked)
    given = answered(local_query(with_options(case, asked).sql, case.sources, rows_per_batch))
    assert given.bag == by_reference(case.sql, given.in_time(case.sources))
