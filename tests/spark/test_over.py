"""OVER in buckets: cut into batches, killed at any point, ended and gone on with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.deduplicate_strategies import deduplicated_cases
from tests.properties.over_strategies import (
    OverCase,
    changing_cases,
    complete_cases,
    gap_cases,
    over_cases,
    over_many_cases,
)
from tests.runners import bag, by_reference
from tests.spark.harness import by_spark_batch, never_late
from tests.spark.pieces import splits
from tests.spark.simulation import Simulation
from tests.spark.test_continuous import UNSHRUNK
from tests.spark.test_ending import let_in, simulated
from tests.spark.test_processor import disordered
from watersmeet.hosts.spark.bucket import warm_state

few = random_cases(10, phases=UNSHRUNK)


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    warm_state._at_hand.clear()
    yield
    warm_state._at_hand.clear()


@few
@given(over_cases(late=True, ahead=False), st.data())
def test_rows_are_given_once_whatever_crashes_and_whenever_it_ends(case: OverCase, data) -> None:
    run = simulated(case.sql, case.sources, data.draw(splits(case)), data)
    assert run.answer() == by_reference(case.sql, let_in(run, case.sources))


@few
@given(st.one_of(over_many_cases(late=True, ahead=False), gap_cases(late=True)), st.data())
def test_rows_of_joins_and_queries_are_given_once_whatever_crashes(case: OverCase, data) -> None:
    run = simulated(case.sql, case.sources, data.draw(splits(case)), data)
    assume(len({one.relation.name for one in run.job.streams}) == len(run.job.streams))
    assert run.answer() == by_reference(case.sql, let_in(run, case.sources))


@few
@given(st.one_of(changing_cases(late=True), changing_cases(late=True), complete_cases(late=True)), st.data())
def test_changes_are_given_once_whatever_crashes_and_whenever_it_ends(case: OverCase, data) -> None:
    run = simulated(case.sql, case.sources, data.draw(splits(case)), data)
    assert run.answer() == by_reference(case.sql, let_in(run, case.sources))


@few
@given(deduplicated_cases(late=True), st.data())
def test_first_rows_are_taken_once_whatever_crashes_and_whenever_it_ends(case: OverCase, data) -> None:
    run = simulated(case.sql, case.sources, data.draw(splits(case)), data)
    assert run.answer() == by_reference(case.sql, let_in(run, case.sources))


KEPT = pytest.mark.parametrize(
    "rows", ["a", "(SELECT id, ts FROM a) AS q"], ids=["kept whole", "rebuilt from its rows"]
)


@KEPT
def test_lead_is_null_at_the_end_and_stays_so_if_more_comes_after_all(rows: str) -> None:
    (source,) = never_late(disordered(0)[:1])
    sql = f"SELECT id, LEAD(id) OVER (ORDER BY ts) AS following FROM {rows}"
    table = source.table.sort_by("ts")
    run = Simulation(sql, [source], 2, crash_everywhere=True)
    run.batch({"a": table.slice(0, 4)}, ended=["a"], run="the first")
    run.batch({"a": table.slice(4)}, ended=["a"], run="the second")
    ids = table["id"].to_pylist()
    following = {**dict(pairwise(ids)), ids[3]: None, ids[-1]: None}
    assert run.answer() == bag(list(following.items()))


@KEPT
def test_frames_end_with_the_last_row_and_go_on_behind_it_if_more_comes_after_all(rows: str) -> None:
    (source,) = never_late(disordered(0)[:1])
    sql = f"SELECT id, COUNT(*) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS n FROM {rows}"
    table = source.table.sort_by("ts")
    run = Simulation(sql, [source], 2, crash_everywhere=True)
    run.batch({"a": table.slice(0, 4)}, ended=["a"], run="the first")
    run.batch({"a": table.slice(4)}, ended=["a"], run="the second")
    counts = [min(place, 2) + 1 + (place not in (3, len(table) - 1)) for place in range(len(table))]
    assert run.answer() == bag(list(zip(table["id"].to_pylist(), counts, strict=True)))


@KEPT
@pytest.mark.parametrize(
    "ends",
    [
        "3 SECONDS PRECEDING AND 2 SECONDS FOLLOWING",
        "1 SECOND FOLLOWING AND 3 SECONDS FOLLOWING",
        "4 SECONDS PRECEDING AND 2 SECONDS PRECEDING",
    ],
)
def test_frames_of_time_are_whole_whatever_crashes(rows: str, ends: str) -> None:
    (source,) = never_late(disordered(0)[:1])
    sql = f"SELECT id, SUM(id) OVER (ORDER BY ts RANGE BETWEEN {ends}) AS n FROM {rows}"
    table = source.table.sort_by("ts")
    run = Simulation(sql, [source], 2, crash_everywhere=True)
    for start in range(0, len(table), 3):
        run.batch({"a": table.slice(start, 3)}, ended=["a"] if start + 3 >= len(table) else [])
    assert run.answer() == by_reference(sql, [source])


QUERIES = {
    "a running sum and the row before": "SELECT id, SUM(id) OVER w AS total, LAG(id) OVER w AS before FROM a "
    "WINDOW w AS (PARTITION BY x ORDER BY ts)",
    "rows around a row": "SELECT id, SUM(id) OVER (w ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS "
    "beside, COUNT(*) OVER (w RANGE BETWEEN INTERVAL 3 SECONDS PRECEDING AND INTERVAL 1 SECOND FOLLOWING) AS n, "
    "NTH_VALUE(id, 2) OVER w AS second, LAG(y) IGNORE NULLS OVER w AS known FROM a "
    "WINDOW w AS (PARTITION BY x ORDER BY ts)",
    "the first of each": "SELECT x, id FROM a [RANGE 2 SECONDS] QUALIFY ROW_NUMBER() OVER (PARTITION BY x ORDER BY id) "
    "<= 2",
    "the first pairs, joined by one column, ranked by another": "SELECT a.id, b.id AS other FROM a [RANGE 2 SECONDS], "
    "b [RANGE 2 SECONDS] WHERE a.x = b.x QUALIFY RANK() OVER (PARTITION BY b.y ORDER BY a.id) <= 2",
    "the first to arrive": "SELECT x, y, ts FROM DEDUPLICATE(a, 2 SECONDS PARTITION BY x, y)",
}


@pytest.mark.parametrize("name", QUERIES)
def test_on_spark_itself(spark, name: str) -> None:
    sources = never_late(s for s in disordered(0) if f" {s.name} [" in QUERIES[name] or s.name == "a")
    found = by_spark_batch(spark, QUERIES[name], sources, 2)
    assert found == by_reference(QUERIES[name], sources)
    assert found
