from __future__ import annotations

import random

import pytest

from tests.effort import EFFORT
from tests.outsiders.families import FAMILIES, draw_case, shrunk, told

CASES = 18


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_answer_is_what_duckdb_says_to_sql_written_by_hand(family: str) -> None:
    first = 0 if EFFORT == 1 else random.SystemRandom().randrange(10**12)
    for number in range(first, first + CASES * EFFORT):
        drawn = draw_case(family, number)
        try:
            drawn.judge()
        except Exception as error:
            pytest.fail(told(shrunk(drawn), str(error)), pytrace=False)
