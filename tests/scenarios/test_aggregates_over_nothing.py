"""An aggregate without GROUP BY is one row at every instant from the first event of its streams on: over nothing its
counts are 0 and the rest is NULL. Groups are there while they have rows."""

from __future__ import annotations

import pytest

from tests.runners import by_local_engine, by_reference, local_query
from tests.scenarios.timeline import EPOCH, changes, static_table, timeline

BURSTS = "s: 1@0 2@1 3@10"


def test_an_empty_window_counts_zero_and_everything_else_is_null(run):
    values = "COUNT(*) AS n, COUNT(v) AS k, COUNT(DISTINCT v) AS d, SUM(v) AS s, MIN(id) AS m"
    sql = f"SELECT {values} FROM s [RANGE 3 SECONDS]"
    assert changes(run(sql, timeline(BURSTS))) == [
        "0 +1 1 1 1 s1", "1 -1 1 1 1 s1", "1 +2 2 2 3 s1", "3.000001 -2 2 2 3 s1", "3.000001 +1 1 1 2 s2",
        "4.000001 -1 1 1 2 s2", "4.000001 +0 0 0 None None", "10 -0 0 0 None None", "10 +1 1 1 3 s3",
        "13.000001 -1 1 1 3 s3", "13.000001 +0 0 0 None None",
    ]  # fmt: skip


def test_a_group_that_becomes_empty_disappears(run):
    log = run("SELECT v, COUNT(*) AS n FROM s [RANGE 3 SECONDS] GROUP BY v", timeline("s: 1@0 1@10"))
    assert changes(log) == ["0 +1 1", "3.000001 -1 1", "10 +1 1", "13.000001 -1 1"]


def test_rows_that_where_leaves_out_begin_it(run):
    log = run("SELECT COUNT(*) AS n FROM s [RANGE 3 SECONDS] WHERE v > 2", timeline(BURSTS))
    assert changes(log) == ["0 +0", "10 -0", "10 +1", "13.000001 -1", "13.000001 +0"]


def test_where_no_row_is_left_at_all_it_is_one_row_that_stays(run):
    log = run("SELECT COUNT(*) AS n, MAX(v) AS m FROM s [RANGE 3 SECONDS] WHERE v > 99", timeline(BURSTS))
    assert changes(log) == ["0 +0 None"]


def test_without_any_row_there_is_no_instant(run):
    assert changes(run("SELECT COUNT(*) AS n FROM s [RANGE 3 SECONDS]", timeline("s:"))) == []


def test_having_may_leave_it_out(run):
    log = run("SELECT COUNT(*) AS n FROM s [RANGE 3 SECONDS] HAVING COUNT(*) > 0", timeline("s: 1@0 3@10"))
    assert changes(log) == ["0 +1", "3.000001 -1", "10 +1", "13.000001 -1"]


def test_having_may_let_only_nothing_in(run):
    log = run("SELECT SUM(v) AS s FROM s [RANGE 3 SECONDS] HAVING COUNT(*) = 0", timeline("s: 1@0 3@10"))
    assert changes(log) == ["3.000001 +None", "10 -None", "13.000001 +None"]


@pytest.mark.parametrize("first", ["a", "b"])
def test_the_first_row_of_either_stream_of_a_join_begins_it(run, first):
    other = "b" if first == "a" else "a"
    sql = "SELECT COUNT(*) AS n FROM a [RANGE 3 SECONDS], b [RANGE 3 SECONDS] WHERE a.v = b.v"
    log = run(sql, timeline(f"{first}: 7@1 1@5\n{other}: 1@6"))
    assert changes(log) == ["1 +0", "6 -0", "6 +1", "8.000001 -1", "8.000001 +0"]


@pytest.mark.parametrize(
    ("window", "log"),
    [
        ("[NOW]", ["0 +1", "1e-06 -1", "1e-06 +0", "7 -0", "7 +1", "7.000001 -1", "7.000001 +0"]),
        ("[ROWS 1]", ["0 +1"]),
        ("[UNBOUNDED]", ["0 +1", "7 -1", "7 +2"]),
        # In (T' - 2, T'], T' the last multiple of 2 seconds at or before T.
        ("[RANGE 2 SECONDS SLIDE 2 SECONDS]", ["0 +1", "2 -1", "2 +0", "8 -0", "8 +1", "10 -1", "10 +0"]),
        ("[ROWS 2 SLIDE 2]", ["0 +0", "7 -0", "7 +2"]),
        ("[LANDMARK '1970-01-01 00:00:05']", ["0 +0", "7 -0", "7 +1"]),
        ("[LATCH 5 SECONDS]", ["0 +1", "10 -1", "10 +2"]),
        ("[LANDMARK '1970-01-01' EVERY 5 SECONDS]", ["0 +1", "5 -1", "5 +0", "7 -0", "7 +1", "10 -1", "10 +0"]),
    ],
)
def test_in_every_kind_of_window(run, window, log):
    assert changes(run(f"SELECT COUNT(*) AS n FROM s {window}", timeline("s: 1@0 1@7"))) == log


@pytest.mark.parametrize(
    ("kind", "log"),
    [
        ("LEFT JOIN", ["0 +0", "2 -0", "2 +1", "4.000001 -1", "4.000001 +0"]),
        ("SEMI JOIN", ["0 +0", "2 -0", "2 +1", "2.000001 -1", "2.000001 +0"]),
        ("ANTI JOIN", ["0 +0", "2.000001 -0", "2.000001 +1", "4.000001 -1", "4.000001 +0"]),
    ],
)
def test_over_joins_of_other_kinds(run, kind, log):
    """The stream on the right begins it, though none of its rows is ever given alone."""
    sql = f"SELECT COUNT(*) AS n FROM a [RANGE 2 SECONDS] {kind} b [RANGE 2 SECONDS] ON a.v = b.v"
    assert changes(run(sql, timeline("a: 1@2\nb: 1@0"))) == log


def test_with_a_static_table_beside_the_stream(run):
    sources = [*timeline("s: 1@0 2@5"), static_table("t", v=[2, 2])]
    log = run("SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND], t WHERE s.v = t.v", sources)
    assert changes(log) == ["0 +0", "5 -0", "5 +2", "6.000001 -2", "6.000001 +0"]


def test_a_query_over_it_has_a_row_too(run):
    sql = "SELECT n + 1 AS m FROM (SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND]) AS v WHERE n < 2"
    assert changes(run(sql, timeline("s: 1@0 2@5"))) == [
        "0 +2", "1.000001 -2", "1.000001 +1", "5 -1", "5 +2", "6.000001 -2", "6.000001 +1",
    ]  # fmt: skip


def test_an_aggregate_over_an_aggregate_counts_the_row_of_nothing(run):
    sql = "SELECT COUNT(*) AS n, SUM(k) AS t FROM (SELECT COUNT(*) AS k FROM s [RANGE 1 SECOND] WHERE v > 9) AS v"
    assert changes(run(sql, timeline("s: 1@0 2@5"))) == ["0 +1 0"]


def test_over_a_stream_that_a_query_makes_it_begins_with_the_rows_that_one_is_made_of(run):
    sql = "SELECT COUNT(*) AS n FROM (SELECT DSTREAM v FROM s [RANGE 2 SECONDS]) [RANGE 1 SECOND] AS gone"
    assert changes(run(sql, timeline("s: 1@0"))) == ["0 +0", "2.000001 -0", "2.000001 +1", "3.000002 -1", "3.000002 +0"]


def test_each_side_of_a_set_begins_with_its_own_streams(run):
    sql = "SELECT COUNT(*) AS n FROM a [RANGE 1 SECOND] {} SELECT COUNT(*) FROM b [RANGE 1 SECOND]"
    sources = timeline("a: 1@0\nb: 1@4")
    assert changes(run(sql.format("UNION ALL"), sources)) == [
        "0 +1", "1.000001 -1", "1.000001 +0", "4 +1", "5.000001 -1", "5.000001 +0",
    ]  # fmt: skip
    assert changes(run(sql.format("EXCEPT"), sources)) == ["0 +1", "1.000001 -1", "1.000001 +0", "5.000001 -0"]
    assert changes(run(sql.format("INTERSECT"), sources)) == ["5.000001 +0"]


def test_the_total_of_a_rollup_stays_while_its_groups_go(run):
    log = run("SELECT v, COUNT(*) AS n FROM s [RANGE 1 SECOND] GROUP BY ROLLUP (v)", timeline("s: 1@0"))
    assert changes(log) == ["0 +1 1", "0 +None 1", "1.000001 -1 1", "1.000001 -None 1", "1.000001 +None 0"]


@pytest.mark.parametrize("grouped", ["GROUP BY ()", "GROUP BY GROUPING SETS (())"])
def test_all_rows_as_one_group_are_a_row_with_aggregates_or_without(run, grouped):
    sources = timeline("s: 1@0 1@0")
    assert changes(run(f"SELECT COUNT(*) AS n FROM s [NOW] {grouped}", sources)) == ["0 +2", "1e-06 -2", "1e-06 +0"]
    assert changes(run(f"SELECT 7 AS seven FROM s [NOW] {grouped}", sources)) == ["0 +7"]


def test_what_enters_and_what_leaves_are_the_rows_of_nothing_too(run):
    for word, expected in (("ISTREAM", [(0, 1), (1.000001, 0), (5, 1), (6.000001, 0)]),
                           ("DSTREAM", [(1.000001, 1), (5, 0), (6.000001, 1)])):  # fmt: skip
        log = run(f"SELECT {word} COUNT(*) AS n FROM s [RANGE 1 SECOND]", timeline("s: 1@0 2@5"))
        assert sorted(((at - EPOCH).total_seconds(), n) for at, n in log.elements()) == expected


def test_whole_answers_have_it_between_bursts(run):
    log = run("SELECT RSTREAM COUNT(*) AS n FROM s [RANGE 3 SECONDS] EVERY 2 SECONDS", timeline(BURSTS))
    found = sorted(((at - EPOCH).total_seconds(), n) for at, n in log.elements())
    assert found == [(0, 1), (2, 2), (4, 1), (6, 0), (8, 0), (10, 1)]


def test_groups_of_windows_that_are_given_once_are_only_those_with_rows():
    sql = "SELECT COUNT(*) AS n FROM HOP(s, 2 SECONDS, 2 SECONDS) GROUP BY window_start, window_end"
    for run in (by_reference, by_local_engine):
        assert run(sql, timeline("s: 1@0 2@9")) == {(1,): 2}


@pytest.mark.parametrize("pipeline", ["ita", "tpa", "nta", "ita_scan", "tpa_scan", "nta_scan"])
@pytest.mark.parametrize("where", ["TRUE", "v > 1", "v > 99"])
def test_every_pipeline_gives_the_same(pipeline, where):
    sql = f"SELECT COUNT(*) AS n, SUM(v) AS s FROM s [RANGE 3 SECONDS] WHERE {where}"
    expected = local_query(sql, timeline(BURSTS)).to_arrow()
    for rows in (1, None):
        assert local_query(f"{sql} OPTIONS (pipeline = '{pipeline}')", timeline(BURSTS), rows).to_arrow() == expected


def test_values_of_queries_are_what_aggregates_give_over_nothing(run):
    """Also of a group that has no rows, and before the stream of the query has begun."""
    sql = """SELECT v, (SELECT COUNT(*) + 1 FROM b [RANGE 1 SECOND] WHERE b.v = a.v) AS more,
                    (SELECT COALESCE(SUM(v), -1) FROM b [RANGE 1 SECOND]) AS total,
                    (SELECT COUNT(*) FROM b [RANGE 1 SECOND] WHERE b.v = a.v HAVING COUNT(*) < 1) AS none
             FROM a [RANGE 9 SECONDS]"""
    assert changes(run(sql, timeline("a: 1@0\nb: 1@3"))) == [
        "0 +1 1 -1 0", "3 -1 1 -1 0", "3 +1 2 1 None", "4.000001 -1 2 1 None", "4.000001 +1 1 -1 0",
        "9.000001 -1 1 -1 0",
    ]  # fmt: skip


def test_values_of_queries_beside_an_aggregate_are_there_where_its_rows_are_not(run):
    sql = """SELECT COUNT(*) AS n, (SELECT MAX(v) FROM b [RANGE 9 SECONDS]) AS most FROM a [RANGE 1 SECOND]
             HAVING COUNT(*) < (SELECT COUNT(*) FROM b [RANGE 9 SECONDS]) OR COUNT(*) = 1"""
    assert changes(run(sql, timeline("a: 1@0\nb: 7@2 8@3"))) == [
        "0 +1 None", "1.000001 -1 None", "2 +0 7", "3 -0 7", "3 +0 8", "12.000001 -0 8",
    ]  # fmt: skip
