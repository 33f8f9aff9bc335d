"""What each window form means at its edges: ties, duplicates, directions, counts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.runners import Source
from tests.scenarios.timeline import EPOCH, combinations, timeline

AB = "SELECT a.id AS a, b.id AS b FROM a, b "


def test_equal_times_join_in_every_form(run):
    sources = timeline("""
        a: 1@7
        b: 1@7
    """)
    forms = [
        AB + "WINDOW = 5 SECONDS",
        AB + "WINDOW = 0 SECONDS",
        AB + "WINDOW (a, b) = 5 SECONDS",
        AB + "DWINDOW (a, b) = 5 SECONDS",
        AB + "DWINDOW (b, a) = 5 SECONDS",
        AB + "WINDOW PATH (a, b) = (5 SECONDS)",
        AB + "WHERE b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND",
        "SELECT a.id AS a, b.id AS b FROM a [NOW], b [NOW]",
        "SELECT a.id AS a, b.id AS b FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS]",
        "SELECT a.id AS a, b.id AS b FROM a [ROWS 1], b [ROWS 1]",
        "SELECT a.id AS a, b.id AS b FROM a [UNBOUNDED], b [NOW]",
    ]
    assert [combinations(run(sql, sources)) for sql in forms] == [["a1 b1"]] * len(forms)


def test_duplicates_are_kept_because_the_answer_is_a_bag(run):
    sources = timeline("""
        a: 1@0 1@0
        b: 1@0 1@0 1@1
    """)
    assert sorted(run("SELECT a.v AS a, b.v AS b FROM a, b WINDOW = 1 SECOND", sources).elements()) == [(1, 1)] * 6


def test_a_directed_window_includes_ties_and_excludes_the_other_order(run):
    sources = timeline("""
        a: 1@10
        b: 1@9 1@10 1@15 1@16
    """)
    assert combinations(run(AB + "DWINDOW (a, b) = 5 SECONDS", sources)) == ["a1 b2", "a1 b3"]


PATH = "SELECT a.id AS a, b.id AS b, c.id AS c FROM a, b, c WINDOW PATH (a, b, c) = (5 SECONDS, 3 SECONDS)"


@pytest.mark.parametrize(
    ("drawing", "expected"),
    [
        ("a: 1@0\nb: 1@5\nc: 1@8", ["a1 b1 c1"]),
        ("a: 1@8\nb: 1@3\nc: 1@0", ["a1 b1 c1"]),
        ("a: 1@4\nb: 1@4\nc: 1@4", ["a1 b1 c1"]),
        ("a: 1@0\nb: 1@5\nc: 1@4", []),
        ("a: 1@0\nb: 1@3\nc: 1@7", []),
        ("a: 1@0\nb: 1@6\nc: 1@7", []),
    ],
    ids=["forward", "backward", "all equal, once", "zigzag", "second step too long", "first step too long"],
)
def test_a_path_may_be_walked_forward_or_backward(run, drawing, expected):
    assert combinations(run(PATH, timeline(drawing))) == expected


def test_a_path_with_only_some_equal_times_has_one_direction(run):
    sources = timeline("""
        a: 1@0
        b: 1@0
        c: 1@3
    """)
    assert combinations(run(PATH, sources)) == ["a1 b1 c1"]


def test_rows_counts_the_stream_before_any_filter_shrinks_it(run):
    sources = timeline("""
        a: 1@1 2@2 2@3
        b: 1@5
    """)
    sql = "SELECT a.id AS a, b.id AS b FROM a [ROWS 2], b [NOW] WHERE a.v = 1"
    assert combinations(run(sql, sources)) == []


def test_rows_ties_are_broken_by_arrival(run):
    sources = timeline("""
        a: 1@1 1@1 1@1
        b: 1@5
    """)
    assert combinations(run("SELECT a.id AS a, b.id AS b FROM a [ROWS 2], b [NOW]", sources)) == ["a2 b1", "a3 b1"]


def test_rows_order_is_event_time_even_when_rows_arrive_disordered(run):
    sources = timeline("a: 1@1 1@3 1@2\nb: 1@5", a="2 seconds")
    assert combinations(run("SELECT a.id AS a, b.id AS b FROM a [ROWS 2], b [NOW]", sources)) == ["a2 b1", "a3 b1"]


def test_rows_of_the_newest_members_own_instant_are_counted(run):
    sources = timeline("""
        a: 1@5 1@5 1@5
        b: 1@5
    """)
    assert combinations(run("SELECT a.id AS a, b.id AS b FROM a [ROWS 2], b [NOW]", sources)) == ["a2 b1", "a3 b1"]


def test_partitioned_rows_count_per_value_and_null_is_one_group(run):
    sources = timeline("""
        a: 1@1 -@2 2@3 1@4 -@5 1@6
        b: 1@9
    """)
    sql = "SELECT a.id AS a, b.id AS b FROM a [PARTITION BY v ROWS 1], b [NOW]"
    assert combinations(run(sql, sources)) == ["a3 b1", "a5 b1", "a6 b1"]


def test_time_and_count_windows_mix_in_one_join(run):
    sources = timeline("""
        a: 1@0 1@8 1@9
        b: 1@5 1@10
        c: 1@10
    """)
    sql = "SELECT a.id AS a, b.id AS b, c.id AS c FROM a [ROWS 2], b [RANGE 3 SECONDS], c [NOW]"
    assert combinations(run(sql, sources)) == ["a2 b2 c1", "a3 b2 c1"]


def test_absolute_difference_is_a_window(run):
    sources = timeline("""
        a: 1@10
        b: 1@7 1@8 1@12 1@13
    """)
    pair = run(AB + "WINDOW (a, b) = 2 SECONDS", sources)
    assert combinations(pair) == ["a1 b2", "a1 b3"]
    assert run(AB + "WHERE ABS(a.ts - b.ts) <= INTERVAL 2 SECONDS", sources) == pair


def test_a_window_may_lie_wholly_in_the_past(run):
    sources = timeline("""
        a: 1@10
        b: 1@3 1@5 1@7 1@9
    """)
    sql = AB + "WHERE b.ts BETWEEN a.ts - INTERVAL 5 SECONDS AND a.ts - INTERVAL 3 SECONDS"
    assert combinations(run(sql, sources)) == ["a1 b2", "a1 b3"]


def test_an_empty_stream_joins_with_nothing(run):
    empty = timeline("a: 1@1\nb: 1@1")
    sources = [empty[0], Source("b", empty[1].table.slice(0, 0))]
    assert not run(AB + "WINDOW = 5 SECONDS", sources)


def test_rows_of_a_single_stream_leave_out_ties_beyond_the_count(run):
    sql = "SELECT a.id AS a FROM a [ROWS 1]"
    assert combinations(run(sql, timeline("a: 1@0 1@0 1@3"))) == ["a2", "a3"]


def test_positive_and_negative_zero_are_one_partition(run):
    zeros = pa.table({"id": ["x1", "x2"], "f": [0.0, -0.0], "ts": [EPOCH, EPOCH]})
    sources = [Source("x", zeros), *timeline("y: 1@1")]
    assert combinations(run("SELECT x.id AS x FROM x [PARTITION BY f ROWS 1], y [NOW]", sources)) == ["x2"]


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        ("NTILE(2) OVER (PARTITION BY window_start ORDER BY ts)", "s1 1, s2 1, s3 2, s4 1"),
        ("PERCENT_RANK() OVER (PARTITION BY window_end ORDER BY ts)", "s1 0.0, s2 0.5, s3 1.0, s4 0.0"),
        ("SUM(v) OVER (PARTITION BY window_start ORDER BY ts ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)",
         "s1 3, s2 2, s3 None, s4 None"),
        ("LAG(v, v) OVER (PARTITION BY window_start ORDER BY ts)", "s1 None, s2 4, s3 4, s4 None"),
    ],
)  # fmt: skip
def test_what_needs_all_rows_of_a_window_goes_by_event_time_too(run, call, rows):
    sql = f"SELECT id, {call} AS x FROM TUMBLE(s, 5 SECONDS)"
    assert combinations(run(sql, timeline("s: 4@0 1@1 2@3 9@6"))) == rows.split(", ")


def test_the_time_of_a_row_stays_its_event_time_through_an_as_of_join(run):
    sources = timeline("""
        a: 1@2 2@6
        b: 7@1 8@5
        c: 1@3 1@8
    """)
    found = "(SELECT a.id AS a, b.id AS b, a.ts FROM a ASOF JOIN b ON b.ts <= a.ts) AS v"
    sql = f"SELECT v.a, v.b, c.id FROM {found}, c WHERE c.ts BETWEEN v.ts AND v.ts + INTERVAL 2 SECONDS"
    assert combinations(run(sql, sources)) == ["a1 b1 c1", "a2 b2 c2"]
    twice = f"(SELECT v.a, v.b, c.id AS c, v.ts FROM {found} ASOF LEFT JOIN c ON c.ts <= v.ts) AS w"
    sql = f"SELECT w.a, w.b, w.c, c.id FROM {twice}, c WHERE c.ts BETWEEN w.ts AND w.ts + INTERVAL 2 SECONDS"
    assert combinations(run(sql, sources)) == ["a1 b1 None c1", "a2 b2 c1 c2"]


@pytest.mark.parametrize("sizes", ["1 DAY, 1 WEEK", "1 WEEK, 1 WEEK", "1 WEEK, 2 WEEKS"])
def test_weeks_that_cumulate_begin_on_mondays(run, sizes):
    """Weeks are counted from Monday 1970-01-05, so of two weeks the second begins a week before it."""
    sql = f"SELECT window_start, MIN(window_end) AS first FROM CUMULATE(s, {sizes}) GROUP BY window_start, window_end"
    found = combinations(run(sql, timeline("s: 1@0")))
    begins = "1969-12-22" if "2 WEEKS" in sizes else "1969-12-29"
    assert {row.split()[0] for row in found} == {begins}
