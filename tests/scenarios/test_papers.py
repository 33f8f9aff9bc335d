"""The worked examples of the papers, as timelines."""

from __future__ import annotations

from tests.scenarios.timeline import combinations, timeline

# ---- GO03: Golab & Özsu, Processing Sliding Window Multi-Joins ------------------------------------------------------

TABLE_2 = """
    s1: 1@90 1@100
    s2: 1@150 1@180
    s3: 1@195 1@205
"""


def test_go03_tables_2_and_3_measure_every_window_from_the_newest_row(run):
    sql = """SELECT s1.t AS t1, s2.t AS t2, s3.t AS t3
             FROM s1 [RANGE 100 SECONDS], s2 [RANGE 100 SECONDS], s3 [RANGE 100 SECONDS]
             WHERE s1.v = s2.v AND s2.v = s3.v"""
    assert set(run(sql, timeline(TABLE_2)).elements()) == {(100, 150, 195), (100, 180, 195)}


def test_h02_single_window_equals_go03_with_equal_windows(run):
    sql = """SELECT s1.t AS t1, s2.t AS t2, s3.t AS t3 FROM s1, s2, s3
             WHERE s1.v = s2.v AND s2.v = s3.v WINDOW = 100 SECONDS"""
    assert set(run(sql, timeline(TABLE_2)).elements()) == {(100, 150, 195), (100, 180, 195)}


def test_go03_count_window_holds_the_last_three_rows_not_newer_than_the_arriving_one(run):
    sources = timeline("""
        s: 5@5 6@6 7@7 8@8 9@9 10@10 11@11 12@12
        k: 0@10.5
    """)
    sql = "SELECT s.v AS v FROM s [ROWS 3], k [NOW]"
    assert set(run(sql, sources)) == {(8,), (9,), (10,)}


# ---- H02: Hammad, Aref, Elmagarmid, Joining Multiple Data Streams with Window Constraints ---------------------------

FIVE = """SELECT a.id AS a, b.id AS b, c.id AS c, d.id AS d, e.id AS e FROM a, b, c, d, e
          WHERE a.v = b.v AND b.v = c.v AND c.v = d.v AND d.v = e.v WINDOW = 10 SECONDS"""


def test_h02_figure_2_joins_a2_with_everything_of_its_colour_within_the_window(run):
    sources = timeline("""
        a: 0@0 1@20
        b: 0@13 1@16 1@19 1@22 1@35
        c: 1@15 0@18 1@23
        d: 1@3 1@21
        e: 1@8 1@24
    """)
    assert combinations(run(FIVE, sources)) == [
        "a2 b2 c1 d2 e2", "a2 b2 c3 d2 e2", "a2 b3 c1 d2 e2", "a2 b3 c3 d2 e2", "a2 b4 c1 d2 e2", "a2 b4 c3 d2 e2",
    ]  # fmt: skip


def test_h02_figure_3_keeps_a_row_that_only_one_other_stream_has_left_behind(run):
    sources = timeline("""
        a: 1@12
        b: 1@11 1@20
        c: 1@14
        d: 1@13
        e: 1@8
    """)
    assert combinations(run(FIVE, sources)) == ["a1 b1 c1 d1 e1"]


def test_h02_figure_6_gives_two_combinations_before_the_next_start(run):
    sources = timeline("""
        a: 1@10 1@23 1@30
        b: 1@11 1@21 1@25 1@30
        c: 1@16 1@31
        d: 1@2 1@22 1@30
        e: 1@9 1@20 1@29
    """)
    with_c1 = [words for words in combinations(run(FIVE, sources)) if " c1 " in words]
    assert with_c1 == ["a2 b2 c1 d2 e2", "a2 b3 c1 d2 e2"]


PAIR = "SELECT a.t AS a, b.t AS b FROM a, b WHERE a.v = b.v WINDOW = 5 SECONDS"


def test_h02_merge_start_loses_no_pair_of_the_later_members(run):
    sources = timeline("""
        a: 1@0 1@4 1@5
        b: 1@0 1@6
    """)
    assert set(run(PAIR, sources).elements()) == {(0, 0), (4, 0), (5, 0), (4, 6), (5, 6)}


def test_h02_removal_is_signed_so_an_early_partner_deletes_nothing(run):
    sources = timeline("""
        a: 1@100
        b: 1@10 1@98
    """)
    assert list(run(PAIR, sources).elements()) == [(100, 98)]


def test_h02_figure_11_bounds_the_pairs_without_a_window_by_the_others(run):
    sources = timeline("""
        a: 1@0
        b: 1@5 1@6
        c: 1@7 1@8
        d: 1@8 1@9
    """)
    sql = """SELECT a.id AS a, b.id AS b, c.id AS c, d.id AS d FROM a, b, c, d
             WINDOW (a, b) = 5 SECONDS AND WINDOW (b, c) = 2 SECONDS
             AND WINDOW (c, d) = 4 SECONDS AND WINDOW (b, d) = 3 SECONDS"""
    assert combinations(run(sql, sources)) == ["a1 b1 c1 d1"]


# ---- K05: Kostowski & Claypool, Analytical and Experimental Evaluation of Stream-Based Join -------------------------

HALF_OPEN = """SELECT a.id AS a, b.id AS b FROM a [RANGE {a} SECONDS], b [RANGE {b} SECONDS] WHERE a.v = b.v
               OPTIONS (boundary = 'half_open')"""


def test_k05_t1_a_half_open_window_ends_just_before_its_length(run):
    sources = timeline("""
        a: 1@0
        b: 1@4.999 1@5
    """)
    assert combinations(run(HALF_OPEN.format(a=5, b=5), sources)) == ["a1 b1"]


def test_the_same_window_closed_includes_its_length(run):
    sources = timeline("""
        a: 1@0
        b: 1@4.999 1@5 1@5.000001
    """)
    sql = "SELECT a.id AS a, b.id AS b FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.v = b.v"
    assert combinations(run(sql, sources)) == ["a1 b1", "a1 b2"]


def test_k05_t2_the_older_rows_window_decides_a_first(run):
    sources = timeline("""
        a: 1@0
        b: 1@3
    """)
    assert combinations(run(HALF_OPEN.format(a=2, b=10), sources)) == []


def test_k05_t2_the_older_rows_window_decides_b_first(run):
    sources = timeline("""
        a: 1@3
        b: 1@0
    """)
    assert combinations(run(HALF_OPEN.format(a=2, b=10), sources)) == ["a1 b1"]
