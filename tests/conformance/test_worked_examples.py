"""The examples that K05 and GO03 work out, the slips that they warn of, and those they make themselves."""

from __future__ import annotations

import pytest

from tests.conformance.drive import SECOND, Drive, seconds
from tests.conformance.methods import INVALIDATIONS
from tests.plans import golden_catalog
from tests.runners import Source, by_local_engine, by_reference
from tests.scenarios.timeline import combinations, timeline
from watersmeet.optimizer.stages import optimize
from watersmeet.papers.joins.loops import Slips
from watersmeet.plan.nodes import Join, Project
from watersmeet.sql import bind

ALGORITHMS = ["join = 'nested_loop'", "join = 'hash', buckets = 4", "join = 'hybrid', refresh = '2 seconds'"]


def answer(sql: str, sources: list[Source]) -> list[str]:
    found = by_local_engine(sql, sources, 1)
    assert found == by_reference(sql, sources)
    return combinations(found)


# -- K05 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ALGORITHMS)
def test_a_window_of_k05_ends_just_before_its_length(options: str) -> None:
    sql = "SELECT a.id, b.id FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.v = b.v "
    half_open = f"OPTIONS ({options}, boundary = 'half_open')"
    assert answer(sql + half_open, timeline("a: 1@0\nb: 1@5")) == []
    assert answer(sql + half_open, timeline("a: 1@0\nb: 1@4.999")) == ["a1 b1"]
    assert answer(f"{sql} OPTIONS ({options})", timeline("a: 1@0\nb: 1@5")) == ["a1 b1"]


@pytest.mark.parametrize("options", ALGORITHMS)
def test_the_older_rows_window_counts(options: str) -> None:
    sql = f"SELECT a.id, b.id FROM a [RANGE 2 SECONDS], b [RANGE 10 SECONDS] WHERE a.v = b.v OPTIONS ({options})"
    assert answer(sql, timeline("a: 1@0\nb: 1@3")) == []
    assert answer(sql, timeline("a: 1@3\nb: 1@0")) == ["a1 b1"]


def test_loops_that_clean_only_where_they_insert_join_outside_the_window() -> None:
    sql = "SELECT a.ts AS a, b.ts AS b FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.v = b.v"
    slip = Drive(sql + " OPTIONS (join = 'nested_loop')", "ab", Slips(insert_only=True))
    right = Drive(sql + " OPTIONS (join = 'nested_loop')", "ab")
    rows = {"a": seconds("1@0"), "b": seconds("1@10")}
    assert len(slip.push(rows)) == 1
    assert right.push(rows) == []


# -- GO03 --------------------------------------------------------------------------------------------------------------

TABLE_2 = {"s1": seconds("1@90 1@100"), "s2": seconds("1@150 1@180"), "s3": seconds("1@195 1@205")}
LAZY = (
    "SELECT s1.ts AS a, s2.ts AS b, s3.ts AS c FROM s1 [RANGE 100 SECONDS], s2 [RANGE 100 SECONDS], "
    "s3 [RANGE 100 SECONDS] WHERE s1.v = s2.v AND s2.v = s3.v OPTIONS (refresh = '30 seconds', {})"
)


def table_3(options: str, slips: Slips | None = None) -> list[tuple[float, ...]]:
    """At NOW = 210, with the rows of Table 2: the seconds of the members."""
    drive = Drive(LAZY.format(options), ["s1", "s2", "s3"], slips)
    found = drive.push(TABLE_2) + drive.finish()
    return sorted(
        tuple(t.timestamp() - t.replace(hour=0, minute=0, second=0).timestamp() for t in row) for row in found
    )


@pytest.mark.parametrize(
    "options",
    [
        "join = 'naive'",
        "join = 'nested_loop'",
        "join = 'hash', buckets = 2",
        "join = 'nested_loop', order = 's1: s2,s1,s3; s2: s3,s1,s2; s3: s1,s2,s3'",
    ],
)
def test_lazy_joins_give_the_two_right_rows_of_table_3(options: str) -> None:
    assert table_3(options) == [(100, 150, 195), (100, 180, 195)]


def test_the_naive_lazy_join_without_time_tests_gives_the_eight_rows_of_table_3() -> None:
    assert len(table_3("join = 'naive'", Slips(no_time_tests=True))) == 8


@pytest.mark.parametrize("algorithm", ["naive", "nested_loop", "hash"])
def test_forgetting_what_is_dead_now_before_a_lazy_join_loses_its_results(algorithm: str) -> None:
    assert table_3(f"join = '{algorithm}'", Slips(purge_to_now=True)) == []


def test_a_global_order_moves_the_new_row_to_the_front() -> None:
    """GO03 Table 4."""
    sql = (
        "SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW = 1 MINUTE OPTIONS (order = 'a,b,c', join = '{}')"
    )
    for algorithm in ("auto", "nested_loop", "hash"):
        plan = bind(sql.format(algorithm), golden_catalog())
        assert isinstance(plan.root, Project)
        assert isinstance(plan.root.child, Join)
        routes = optimize(plan.root.child, plan.method).routes
        assert [route.visits for route in routes] == [("a", "b", "c"), ("b", "a", "c"), ("c", "a", "b")]


COUNTED = "SELECT a.v AS row FROM a [ROWS 3], b [NOW] OPTIONS ({})"


@pytest.mark.parametrize("options", ["join = 'nested_loop'", "join = 'nested_loop', refresh = '1 minute'"])
def test_the_last_three_rows_as_of_the_new_row_are_its_partners(options: str) -> None:
    """Rows 5 to 12 of a; the newest that is not after the row of b is number 10."""
    rows = " ".join(f"{number}@{number}" for number in range(5, 13))
    drive = Drive(COUNTED.format(options), "ab")
    found = drive.push({"a": seconds(rows), "b": seconds("0@10.5")}) + drive.finish()
    assert sorted(found) == [(8,), (9,), (10,)]


def test_the_windows_oldest_row_is_overwritten_wherever_it_hashes() -> None:
    """AMB-08: ROWS 2 in two buckets, arrivals 1, 3, 2: number 1 goes, though 2 enters the other bucket."""
    sql = "SELECT a.v AS row FROM a [ROWS 2], b [UNBOUNDED] WHERE a.v = b.v OPTIONS (join = 'hash', buckets = 2)"
    drive = Drive(sql, "ab")
    drive.push({"a": seconds("1@1 3@2")})
    assert drive.work["invalidated"] == 0
    drive.push({"a": seconds("2@3"), "b": seconds("7@3")})
    assert drive.work["invalidated"] == 1
    assert drive.push({"b": seconds("1@4 3@4 2@4")}) == [(3,), (2,)]


@pytest.mark.parametrize("algorithm", ["nested_loop", "hash", "naive"])
def test_a_row_on_the_edge_of_two_refreshes_is_joined_once(algorithm: str) -> None:
    """AMB-05: with an interval of 5 s, a@4 and b@5 meet at 5 and not again at 10."""
    windows = "a [RANGE 9 SECONDS], b [RANGE 9 SECONDS]"
    sql = f"SELECT a.v, b.v FROM {windows} WHERE a.v = b.v OPTIONS (refresh = '5 s', join = '{algorithm}')"
    drive = Drive(sql, "ab")
    drive.push({"a": seconds("1@4"), "b": seconds("1@5")})
    assert drive.push({"a": seconds("2@6")}) == [(1, 1)]
    assert drive.push({"a": seconds("2@11")}) + drive.finish() == []


@pytest.mark.parametrize("algorithm", ["nested_loop", "hash", "naive"])
@pytest.mark.parametrize("first", ["a, b", "b, a"])
def test_rows_of_equal_time_are_joined_once(algorithm: str, first: str) -> None:
    """AMB-06."""
    sources = ", ".join(f"{name} [RANGE 9 SECONDS]" for name in first.split(", "))
    for refresh in ("eager", "5 seconds"):
        sql = f"SELECT a.v, b.v FROM {sources} WHERE a.v = b.v OPTIONS (refresh = '{refresh}', join = '{algorithm}')"
        drive = Drive(sql, "ab")
        assert drive.push({"a": seconds("1@3"), "b": seconds("1@3")}) + drive.finish() == [(1, 1)]


@pytest.mark.parametrize("origin", ["a", "b"])
def test_a_comparison_keeps_its_sides_whichever_stream_is_new(origin: str) -> None:
    """AMB-11: a.v < b.v, with the new row on either side."""
    sql = "SELECT a.v, b.v FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] WHERE a.v < b.v OPTIONS (join = 'nested_loop')"
    late, early = seconds("2@5"), seconds("1@1 2@2 3@3")
    other = {"a": "b", "b": "a"}[origin]
    assert Drive(sql, "ab").push({origin: late, other: early}) == [(2, 3) if origin == "a" else (1, 2)]


@pytest.mark.parametrize("strategy", INVALIDATIONS)
def test_a_refresh_waits_for_time_and_not_for_rows(strategy: str) -> None:
    """A lazy join also runs when only the watermark passes its moment; an eager one has nothing to wait for."""
    sql = "SELECT a.v, b.v FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] WHERE a.v = b.v OPTIONS ({})"
    lazy = Drive(sql.format("refresh = '5 seconds'"), "ab")
    assert lazy.push({"a": seconds("1@1"), "b": seconds("1@2")}) == []
    assert list(lazy.join.advance({"a": 5 * SECOND, "b": 5 * SECOND})) == []
    assert [batch.num_rows for batch in lazy.join.advance({"a": 5 * SECOND + 1, "b": 6 * SECOND})] == [1]
    eager = Drive(sql.format(f"invalidate = '{strategy}'"), "ab")
    assert eager.push({"a": seconds("1@1"), "b": seconds("1@2")}) == [(1, 1)]
