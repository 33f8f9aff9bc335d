"""Outer, semi and anti joins in buckets: cut into batches, killed at any point, ended and gone on with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.outer_strategies import OuterCase, asof_cases, asof_groups, outer_cases
from tests.properties.test_outer_joins import planned
from tests.properties.test_queries_as_values import value_cases
from tests.properties.test_unnest import GROUPED, PLAIN
from tests.properties.test_unnest import cases as entry_cases
from tests.properties.test_window_groups_of_joins import cases_over_groups, window_cases
from tests.properties.version_strategies import grouped_version_cases, version_cases
from tests.runners import by_reference
from tests.spark.harness import by_spark_batch, never_late
from tests.spark.pieces import splits
from tests.spark.test_continuous import UNSHRUNK
from tests.spark.test_ending import let_in, simulated
from tests.spark.test_processor import disordered
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.model.versions import Versions

few = random_cases(15, phases=UNSHRUNK)


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    warm_state._at_hand.clear()
    yield
    warm_state._at_hand.clear()


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


@few
@given(version_cases(late=True), st.data())
def test_versions_are_the_same_whatever_crashes_and_whenever_it_ends(case: OuterCase, data) -> None:
    run = simulated(case.sql, case.sources, data.draw(splits(case)), data)
    assert run.answer() == by_reference(case.sql, let_in(run, case.sources))


@few
@given(grouped_version_cases(), st.data())
def test_groups_of_versions_are_the_same_whatever_crashes_and_whenever_it_ends(case: OuterCase, data) -> None:
    run = simulated(case.sql, case.sources, data.draw(splits(case)), data)
    assert run.answer() == by_reference(case.sql, let_in(run, case.sources))


@few
@given(
    st.one_of(window_cases(), value_cases(), cases_over_groups(), entry_cases(GROUPED, PLAIN), asof_groups()), st.data()
)
def test_groups_and_values_are_the_same_whatever_crashes_and_whenever_it_ends(case: OuterCase, data) -> None:
    case = replace(case, sources=tuple(one for one in case.sources if one.name in case.sql))
    run = simulated(case.sql, case.sources, data.draw(splits(case)), data)
    assume(len({one.relation.name for one in run.job.streams}) == len(run.job.streams))
    assert run.answer() == by_reference(case.sql, let_in(run, case.sources))


QUERIES = {
    "a left join of a left join": "SELECT a.id, b.id AS y, c.id AS z FROM a LEFT JOIN b ON a.x = b.x AND "
    "ABS(b.ts - a.ts) <= 2 SECONDS LEFT JOIN c ON c.x = a.x AND ABS(c.ts - a.ts) <= 1 SECONDS",
    "the version of a time": "SELECT a.id, b.id AS y FROM a LEFT JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.x = b.x",
    "the versions of a time": "SELECT a.id, b.id AS y FROM a LEFT JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.x + 2 < b.x",
    "the latest partner": "SELECT a.id, b.id AS y FROM a ASOF LEFT JOIN b ON a.x = b.x AND b.ts <= a.ts",
    "the first partner from a time on": "SELECT a.id, b.id AS y FROM a ASOF JOIN b ON a.x = b.x AND b.ts > a.ts",
    "what sees the row before it": "SELECT a.id, l.z, q.y FROM a, LATERAL (SELECT UNNEST([a.id, a.x]) AS z) AS l JOIN "
    "LATERAL (SELECT b.id AS y FROM b WHERE a.x = b.x AND ABS(b.ts - a.ts) <= 2 SECONDS) AS q ON TRUE",
    "no row without another": "SELECT a.x, COUNT(*) AS n FROM a [RANGE 9 SECONDS] WHERE NOT EXISTS (SELECT 1 FROM b "
    "[RANGE 9 SECONDS] WHERE b.x = a.x AND NOT EXISTS (SELECT 1 FROM c [RANGE 9 SECONDS] WHERE c.x < a.x)) "
    "GROUP BY a.x",
    "no partner in a window": "SELECT a.x, COUNT(*) AS n FROM a [RANGE 2 SECONDS] WHERE NOT EXISTS (SELECT 1 FROM b "
    "[RANGE 1 SECONDS] WHERE b.x = a.x) GROUP BY a.x",
}


@pytest.mark.parametrize("name", QUERIES)
def test_on_spark_itself(spark, name: str) -> None:
    sql = QUERIES[name]
    sources = never_late(s for s in disordered(0) if f" {s.name} " in sql or f" {s.name}." in sql)
    sources = [replace(s, versions=Versions(("x",))) if f"{s.name} FOR" in sql else s for s in sources]
    found = by_spark_batch(spark, sql, sources, 2)
    assert found == by_reference(sql, sources)
    assert found
    assert any(None in row for row in found) or "LEFT" not in sql
