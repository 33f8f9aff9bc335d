"""Scripts whose joins share one memory: each gives a part of what DuckDB says, and counts what it lost."""

from __future__ import annotations

import random
from collections import Counter

from tests.outsiders.comparing import plain_rows
from tests.outsiders.data import draw_streams
from tests.outsiders.expectations import Oracle
from tests.outsiders.running_scripts import quiet, session_over
from tests.outsiders.scripts import Script, draw_joins


def judge_bounded(number: int) -> None:
    draw = random.Random(f"memory {number}")
    streams = draw_streams(draw, 60)
    script = Script(number, draw_joins(draw, streams, draw.randint(2, 6)), streams)
    most = sum(one.case.ours.count(" AS ") for one in script.queries) + draw.choice((0, 5, 40, 500))
    with quiet():
        outcomes = session_over(streams).run(f"SET memory = '{most} rows';\n{script.text()}")
    for query, outcome in zip(script.queries, outcomes, strict=True):
        exact = Counter(plain_rows(Oracle(query.case, streams).rows(query.case.theirs)))
        assert outcome.answer is not None
        given = Counter(plain_rows(row.values() for row in outcome.answer.to_pylist()))
        assert not given - exact, f"{query.case.ours}\nis not in the answer: {given - exact}"
        assert outcome.metrics["results"] == given.total()
        if outcome.metrics["exact_results"] is not None:  # else its losses are not known, as of joins without keys
            assert outcome.metrics["exact_results"] == exact.total(), query.case.ours
            assert outcome.metrics["lost_results"] == exact.total() - given.total(), query.case.ours
