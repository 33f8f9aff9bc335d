"""Random queries and data under every algorithm: the answer is the reference's, however rows arrive."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.conformance.methods import methods, streams_and_tables, with_options
from tests.properties.strategies import Case, cases
from tests.properties.test_joins import refuse_contradictions
from tests.runners import answered, bound_plan, by_reference, local_query
from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.runtime.build import build

EFFORT = int(os.environ.get("WATERSMEET_EFFORT", "1"))
many = settings(max_examples=120 * EFFORT, deadline=None, suppress_health_check=list(HealthCheck))


def can_run(case: Case, options: str) -> bool:
    """Whether the algorithm can run the query. A hash join refuses one without an equality; of H02's, only the N-way
    join and ripple take everything."""
    try:
        build(bound_plan(with_options(case, options).sql, case.sources))
    except OptionError as error:
        if "join = 'hash' needs an equality" not in str(error):
            raise
        return False
    except UnsupportedError as error:
        if "cannot answer this query" not in str(error) or "'w_join'" in options:
            raise
        return False
    return True


@many
@given(cases(most_streams=4), st.data(), st.lists(st.sampled_from([1, 2, 3, 5, None]), min_size=6, max_size=6))
def test_every_algorithm_gives_the_answer_of_the_reference(case, data, sizes):
    refuse_contradictions(case)
    streams, tables = streams_and_tables(case)
    assume(len(streams) + len(tables) > 1)
    asked = data.draw(methods(streams, tables))
    rows_per_batch = dict(zip((source.name for source in case.sources), sizes, strict=False))
    if not can_run(case, asked):
        asked = asked.replace("'hash'", "'hybrid'") if "'hash'" in asked else "join = 'w_join'"
    given = answered(local_query(with_options(case, asked).sql, case.sources, rows_per_batch))
    assert given.bag == by_reference(case.sql, given.in_time(case.sources))
