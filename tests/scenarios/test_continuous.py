"""The worked examples of H04 (Hammad, Ghanem, Aref, Elmagarmid, Mokbel: Efficient Pipelined Execution of Sliding
Window Queries) as timelines: what enters and leaves the answer, and when.

The paper's ticks are seconds here. Its windows are half-open: a row of age w is out.
"""

from __future__ import annotations

import pytest

from tests.runners import answered, local_query
from tests.scenarios.timeline import EPOCH, answer_at, changes, combinations, static_table, timeline

HALF_OPEN = "OPTIONS (boundary = 'half_open')"

# ---- Figures 1(a) and 2: SUM over a selection -----------------------------------------------------------------------

FIGURE_1A = "s: 6@-4 9@-3 1@-2 3@-1 5@0 8@1 2@2 3@3 1@4 7@5 2@6"
SUM = "SELECT SUM(v) AS total FROM s [RANGE 5 SECONDS] WHERE v > 4"


def test_h04_figure_1a_a_sum_falls_when_rows_expire_though_nothing_new_passes_the_selection(run):
    """A row of age 5 counts and one of age 6 does not: the change comes just after age 5."""
    log = run(SUM, timeline(FIGURE_1A))
    assert [answer_at(log, tick) for tick in range(1, 7)] == [["28"], ["22"], ["13"], ["13"], ["20"], ["15"]]
    after_28 = changes(log)[changes(log).index("1 +28") + 1 :]
    assert after_28[:4] == ["1.000001 -28", "1.000001 +22", "2.000001 -22", "2.000001 +13"]


def test_h04_figure_1a_half_open_windows_of_six_ticks_change_on_the_tick(run):
    sql = f"SELECT SUM(v) AS total FROM s [RANGE 6 SECONDS] WHERE v > 4 {HALF_OPEN}"
    log = changes(run(sql, timeline(FIGURE_1A)))
    assert log[log.index("1 +28") :] == [
        "1 +28", "2 -28", "2 +22", "3 -22", "3 +13", "5 -13", "5 +20", "6 -20", "6 +15", "7 -15", "7 +7", "11 -7",
        "11 +None",
    ]  # fmt: skip


def test_h04_figure_2_an_answer_that_never_was_is_never_given(run):
    """Rows that expire while a later one is still on its way would give 8; at that instant the sum is 15."""
    log = changes(run(SUM, timeline(FIGURE_1A)))
    assert not [words for words in log if words.endswith((" -8", "+8"))]
    assert "5 +20" in log


# ---- Figures 1(b) and 7: MINUS --------------------------------------------------------------------------------------

A, B, C, E = 1, 2, 3, 5
MINUS = f"SELECT v FROM s [RANGE 10 SECONDS] EXCEPT ALL SELECT v FROM r [RANGE 10 SECONDS] {HALF_OPEN}"


def test_h04_figures_1b_and_7_minus_takes_back_what_it_gave_and_gives_what_it_held_back(run):
    sources = timeline(f"""
        s: {B}@-1 {A}@0 {C}@1 {E}@3
        r: {E}@-6 {A}@2
    """)
    log = run(MINUS, sources)
    assert changes(log) == [
        f"-1 +{B}", f"0 +{A}", f"1 +{C}", f"2 -{A}", f"4 +{E}", f"9 -{B}", f"11 -{C}", f"13 -{E}",
    ]  # fmt: skip
    assert answer_at(log, 3) == [f"{B}", f"{C}"]
    assert answer_at(log, 4) == [f"{B}", f"{C}", f"{E}"]


def test_h04_minus_line_5_a_reported_row_leaves_when_an_unreported_equal_one_expires(run):
    """f_s = f_r after the update: the printed test `>` would leave a row behind."""
    log = run(MINUS, timeline("s: 1@1 1@3\nr: 1@2"))
    assert changes(log) == ["1 +1", "2 -1", "3 +1", "11 -1", "12 +1", "13 -1"]
    assert answer_at(log, 11) == []


def test_h04_minus_line_31_a_new_row_of_the_second_stream_takes_one_of_the_answer(run):
    assert changes(run(MINUS, timeline("s: 1@0\nr: 1@2"))) == ["0 +1", "2 -1"]


def test_h04_minus_line_16_an_expiry_of_the_second_stream_gives_a_row_that_is_not_there_yet(run):
    log = run(MINUS, timeline("s: 1@1 1@2\nr: 1@0"))
    assert changes(log) == ["2 +1", "10 +1", "11 -1", "12 -1"]


# ---- Figure 4: a join under unequal windows ------------------------------------------------------------------------


def test_h04_figure_4_each_input_expires_by_its_own_window(run):
    sources = timeline("a: 1@1 1@2 1@3 1@4 1@5 1@6 1@7\nb: 1@1 1@2 1@3 1@4 1@5 1@6 1@7")
    sql = f"SELECT COUNT(*) AS n FROM a [RANGE 5 SECONDS], b [RANGE 4 SECONDS] {HALF_OPEN}"
    log = run(sql, sources)
    assert answer_at(log, 7) == ["20"]
    assert answer_at(log, 8) == ["12"]  # of 20, four with a3 and four more with b4 are gone


def test_h04_figure_4_closed_windows_hold_thirty(run):
    sources = timeline("a: 1@1 1@2 1@3 1@4 1@5 1@6 1@7\nb: 1@1 1@2 1@3 1@4 1@5 1@6 1@7")
    log = run("SELECT COUNT(*) AS n FROM a [RANGE 5 SECONDS], b [RANGE 4 SECONDS]", sources)
    assert answer_at(log, 7) == ["30"]
    assert answer_at(log, 8) == ["20"]


def test_the_rows_of_a_join_leave_with_their_first_member(run):
    sources = timeline("a: 1@0\nb: 1@1")
    sql = "SELECT DSTREAM a.id AS a, b.id AS b FROM a [RANGE 2 SECONDS], b [RANGE 9 SECONDS]"
    ((at, *row),) = run(sql, sources)
    assert ((at - EPOCH).total_seconds(), *row) == (2.000001, "a1", "b1")


# ---- Figure 6: DISTINCT ---------------------------------------------------------------------------------------------


def test_h04_figure_6_an_expiring_row_is_replaced_by_an_equal_one(run):
    a, d, e = 1, 4, 5
    log = run(
        f"SELECT DISTINCT v FROM s [RANGE 6 SECONDS] {HALF_OPEN}", timeline(f"s: {a}@-3 {d}@-1 {e}@0 {a}@1 {d}@2")
    )
    assert changes(log) == ["-3 +1", "-1 +4", "0 +5", "6 -5", "7 -1", "8 -4"]
    assert answer_at(log, 3) == answer_at(log, 5) == ["1", "4", "5"]


def test_h04_distinct_under_negative_tuples_nets_to_one_row(run):
    log = run(f"SELECT DISTINCT v FROM s [RANGE 5 SECONDS] {HALF_OPEN}", timeline("s: 1@1 1@3"))
    assert changes(log) == ["1 +1", "8 -1"]
    assert answer_at(log, 6) == ["1"]


# ---- the rest of the language ---------------------------------------------------------------------------------------


def test_a_group_that_becomes_empty_disappears(run):
    log = run("SELECT v, COUNT(*) AS n FROM s [RANGE 2 SECONDS] GROUP BY v", timeline("s: 1@0 2@1 1@1"))
    assert changes(log) == ["0 +1 1", "1 -1 1", "1 +1 2", "1 +2 1", "2.000001 -1 2", "2.000001 +1 1", "3.000001 -1 1",
                            "3.000001 -2 1"]  # fmt: skip


def test_nothing_is_said_where_what_leaves_and_what_enters_are_equal(run):
    log = run("SELECT v FROM s [ROWS 1] UNION ALL SELECT v FROM s [ROWS 1]", timeline("s: 1@0 1@3 2@5"))
    assert changes(log) == ["0 +1", "0 +1", "5 -1", "5 -1", "5 +2", "5 +2"]


def test_nothing_is_said_where_one_group_takes_the_place_of_an_equal_row_of_another(run):
    query = "SELECT COUNT(*) AS n FROM s [ROWS 1] GROUP BY v"
    assert changes(run(query, timeline("s: 1@0 2@3 3@5"))) == ["0 +1"]
    assert [row[1:] for row in run(query.replace("SELECT", "SELECT ISTREAM"), timeline("s: 1@0 2@3 3@5"))] == [(1,)]


def test_rows_of_one_instant_beyond_the_count_are_never_in(run):
    log = run("SELECT DISTINCT id FROM s [ROWS 2]", timeline("s: 1@0 1@0 1@0"))
    assert changes(log) == ["0 +s2", "0 +s3"]


def test_a_late_row_is_in_no_window():
    sources = timeline("s: 1@5 1@2 1@4", s="1 second")
    given = answered(local_query("SELECT COUNT(*) AS n FROM s [RANGE 9 SECONDS]", sources))
    assert given.late["s"].tolist() == [1]
    assert answer_at(given.bag, 5) == ["2"]


def test_a_row_in_time_counts_from_its_own_time_on(run):
    log = run("SELECT COUNT(*) AS n FROM s [UNBOUNDED]", timeline("s: 1@5 1@2", s="3 seconds"))
    assert changes(log) == ["2 +1", "5 -1", "5 +2"]


def test_a_view_holds_a_row_exactly_while_it_is_in_its_answer(run):
    sources = timeline("a: 1@0 1@4\nb: 1@2")
    sql = """SELECT x.v, COUNT(*) AS n
             FROM (SELECT v FROM a [RANGE 5 SECONDS] EXCEPT SELECT v FROM b [RANGE 3 SECONDS]) x GROUP BY v"""
    assert changes(run(sql, sources)) == ["0 +1 1", "2 -1 1", "5.000001 +1 1", "9.000001 -1 1"]


def test_a_view_joins_a_stream_and_a_table(run):
    sources = [*timeline("a: 1@0 2@1 1@2\nb: 1@3"), static_table("names", v=[1, 2], name=["one", "two"])]
    sql = """SELECT names.name, busy.n, b.id
             FROM (SELECT v, COUNT(*) AS n FROM a [RANGE 9 SECONDS] GROUP BY v HAVING COUNT(*) > 1) busy,
                  b [RANGE 1 SECOND], names
             WHERE busy.v = b.v AND b.v = names.v"""
    assert changes(run(sql, sources)) == ["3 +one 2 b1", "4.000001 -one 2 b1"]


def test_event_time_beside_a_view_is_that_of_the_stream_even_if_the_views_row_came_later(run):
    sql = """SELECT b.v, EPOCH_US(event_time()) AS at
             FROM (SELECT DISTINCT v FROM a [UNBOUNDED]) x, b [UNBOUNDED]"""
    assert changes(run(sql, timeline("a: 1@5\nb: 7@1"))) == ["5 +7 1000000"]


def test_the_rows_that_enter_an_answer_are_a_stream_with_windows_of_its_own(run):
    sql = """SELECT COUNT(*) AS n
             FROM (SELECT ISTREAM v, COUNT(*) AS n FROM a [RANGE 1 SECOND] GROUP BY v) [RANGE 3 SECONDS] AS risen"""
    assert changes(run(sql, timeline("a: 1@0 1@1 1@5"))) == [
        "0 +1", "1 -1", "1 +2", "1.000001 -2", "1.000001 +3", "3.000001 -3", "3.000001 +2", "4.000001 -2",
        "4.000001 +1", "4.000002 -1", "4.000002 +0", "5 -0", "5 +1", "8.000001 -1", "8.000001 +0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("(VALUES (1), (2), (2), (NULL)) AS t (k)", ["1 1", "2 2"]),
        ("(SELECT k + 1 AS k FROM (VALUES (0), (9)) AS w (k) WHERE k < 5) AS t", ["1 1"]),
        ("generate_series(1, 2) AS k", ["1 1", "2 1"]),
        ("generate_series(3, -1, -1) AS k", ["1 1", "2 1"]),
        ("range(0, 2) AS k", ["1 1"]),
        ("range(5, 1) AS k", []),
        ("generate_series(1, NULL) AS k", []),
        (
            "generate_series(TIMESTAMP '1970-01-01', TIMESTAMP '1970-01-02', INTERVAL 1 SECOND) AS h (ts)",
            ["1 1", "2 1"],
        ),
    ],
)
def test_rows_that_a_query_says_itself_are_there_at_every_instant(run, table, expected):
    on = "h.ts = a.ts" if "AS h" in table else "k = a.v"
    sql = f"SELECT a.v, COUNT(*) AS n FROM a [RANGE 9 SECONDS] JOIN {table} ON {on} GROUP BY a.v"
    assert answer_at(run(sql, timeline("a: 1@0 2@1")), 5) == expected


def test_a_view_of_constants_is_a_static_table(run):
    sql = """WITH names (k, name) AS (VALUES (1, 'one')), all_of_them AS (SELECT * FROM names UNION ALL SELECT 2, 'two')
             SELECT w.name, COUNT(*) AS n FROM (SELECT DISTINCT v FROM a [RANGE 1 SECOND]) AS d
             LEFT JOIN all_of_them AS w ON w.k = d.v GROUP BY w.name"""
    assert answer_at(run(sql, timeline("a: 1@0 1@0.5 3@1")), 1) == ["None 1", "one 1"]


TOGETHER = "(SELECT v, id, ts FROM a UNION ALL SELECT v + 10, id, ts FROM b WHERE v < 4)"


def test_streams_put_together_are_a_stream(run):
    sources = timeline("a: 1@0 2@1\nb: 1@0 2@1 9@1")
    assert combinations(run("SELECT v, id FROM a UNION ALL SELECT v, id FROM b", sources)) == [
        "1 a1", "1 b1", "2 a2", "2 b2", "9 b3"
    ]  # fmt: skip
    sql = f"SELECT COUNT(*) AS n, MAX(v) AS most FROM {TOGETHER} [RANGE 1 SECOND] AS u"
    log = run(sql, sources)
    assert [answer_at(log, second) for second in (0, 1, 1.000001, 3)] == [["2 11"], ["4 12"], ["2 12"], ["0 None"]]


def test_streams_put_together_come_by_time_then_from_the_first_to_the_last_then_as_they_arrive(run):
    """Whatever their values are, in windows that count rows, to LAST and to OVER."""
    sources = timeline("a: 5@0 3@1 9@1\nb: 2@0 1@0 3@1", b="1 second")
    log = run(f"SELECT LAST(id) AS id, COUNT(*) AS n FROM {TOGETHER} [ROWS 3] AS u", sources)
    assert [answer_at(log, second) for second in (0, 1)] == [["b2 3"], ["b3 3"]]
    numbered = f"SELECT id, ROW_NUMBER() OVER (ORDER BY ts) AS r FROM (SELECT * FROM {TOGETHER} AS u) AS w"
    rows = sorted(run(numbered, sources).elements(), key=lambda row: row[1])
    assert [name for name, _ in rows] == ["a1", "b1", "b2", "a2", "a3", "b3"]


def test_streams_put_together_join_others_and_each_other(run):
    sources = timeline("a: 1@0 2@5\nb: 1@1\nc: 1@1 11@3")
    sql = f"SELECT u.id, c.id AS other FROM {TOGETHER} AS u JOIN c ON c.v = u.v AND ABS(c.ts - u.ts) <= 2 SECONDS"
    assert combinations(run(sql, sources)) == ["a1 c1", "b1 c2"]
    three = (
        "SELECT v FROM a UNION ALL (SELECT a.v FROM a, b WHERE a.v = b.v WINDOW = 1 SECOND) UNION ALL SELECT v FROM c"
    )
    assert combinations(run(three, sources)) == ["1", "1", "1", "11", "2"]


COUNTED = "CHANGES((SELECT v, COUNT(*) AS n FROM a [RANGE 1 SECOND] GROUP BY v))"


def test_the_log_of_an_answer_is_a_stream(run):
    log = run(f"SELECT * FROM {COUNTED}", timeline("a: 1@0 1@1 2@1"))
    assert changes(log) == ["0 +1 1", "1 -1 1", "1 +1 2", "1 +2 1", "1.000001 -1 2", "1.000001 +1 1",
                            "2.000001 -1 1", "2.000001 -2 1"]  # fmt: skip


def test_the_log_of_an_answer_has_windows_of_its_own(run):
    log = run(f"SELECT _op AS op, COUNT(*) AS n FROM {COUNTED} [RANGE 3 SECONDS] GROUP BY _op", timeline("a: 1@0 1@1"))
    assert [answer_at(log, second) for second in (0, 1, 1.000001, 3, 3.000001, 6)] == [
        ["+ 1"], ["+ 2", "- 1"], ["+ 3", "- 2"], ["+ 3", "- 3"], ["+ 2", "- 3"], []
    ]  # fmt: skip


def test_in_the_log_of_an_answer_what_leaves_is_before_what_enters(run):
    """Also in what is selected from it, and in windows that count rows."""
    last = f"SELECT LAST(_op) AS op, LAST(n) AS n FROM (SELECT _op, n, _ts FROM {COUNTED}) [ROWS 1] AS c"
    assert answer_at(run(last, timeline("a: 1@0 1@1")), 1) == ["+ 2"]
    numbered = f"SELECT _op AS op, n, ROW_NUMBER() OVER (ORDER BY _ts) AS r FROM {COUNTED}"
    rows = sorted(run(numbered, timeline("a: 1@0 1@1")).elements(), key=lambda row: row[2])
    assert [(op, n) for op, n, _ in rows] == [("+", 1), ("-", 1), ("+", 2), ("-", 2), ("+", 1), ("-", 1)]


def test_the_log_of_an_answer_joins_streams_and_answers(run):
    sql = f"SELECT c._op, c.n, b.id FROM {COUNTED} AS c JOIN b ON b.v = c.v AND b.ts BETWEEN c._ts AND c._ts + 1 SECOND"
    assert combinations(run(sql, timeline("a: 1@0 1@1\nb: 1@1 1@4"))) == ["+ 1 b1", "+ 2 b1", "- 1 b1"]
    there = "(SELECT DISTINCT v FROM b [RANGE 1 SECOND]) AS w"
    sql = f"SELECT c._op AS op, w.v FROM {COUNTED} [NOW] AS c, {there} WHERE w.v = c.v"
    assert changes(run(sql, timeline("a: 1@0 1@5\nb: 1@0"))) == ["0 ++ 1", "1e-06 -+ 1"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT v FROM a WHERE v > 1", ["1 +2"]),
        ("SELECT SUM(v) AS n FROM TUMBLE(a, 1 SECOND) GROUP BY window_start, window_end", ["1 +1", "2 +2"]),
        ("SELECT ISTREAM v FROM a [RANGE 1 SECOND]", ["0 +1", "1 +2"]),
        ("SELECT v FROM a [RANGE 1 SECOND]", ["0 +1", "1 +2", "1.000001 -1", "2.000001 -2"]),
    ],
)
def test_the_log_of_rows_that_never_leave_has_no_others(run, query, expected):
    assert changes(run(f"SELECT * FROM CHANGES(({query}))", timeline("a: 1@0 2@1"))) == expected


def test_the_whole_answer_comes_at_every_multiple_between_the_first_and_the_last_event(run):
    log = run("SELECT RSTREAM v FROM s [RANGE 3 SECONDS] EVERY 2 SECONDS", timeline("s: 1@1 2@3 3@8.5"))
    assert sorted(((at - EPOCH).total_seconds(), v) for at, v in log.elements()) == [(2, 1), (4, 1), (4, 2), (6, 2)]


def test_the_whole_answers_of_a_subquery_end_with_its_own_streams_though_others_go_on(run):
    sql = """SELECT COUNT(*) AS n
             FROM (SELECT RSTREAM v FROM b [UNBOUNDED] EVERY 3 SECONDS) [UNBOUNDED] AS sent, a [UNBOUNDED]"""
    log = run(sql, timeline("a: 1@0 2@10\nb: 7@0 8@2"))
    assert changes(log) == ["0 +1", "10 -1", "10 +2"]


def test_the_first_rows_tie_by_the_whole_row_and_nulls_come_last(run):
    sources = timeline("s: -@0 2@1 2@2 1@3")
    log = run("SELECT v, id FROM s [UNBOUNDED] ORDER BY v DESC LIMIT 2", sources)
    assert [answer_at(log, t) for t in range(4)] == [
        ["None s1"],
        ["2 s2", "None s1"],
        ["2 s2", "2 s3"],
        ["2 s2", "2 s3"],
    ]
    log = run("SELECT v, id FROM s [UNBOUNDED] ORDER BY v LIMIT 2", sources)
    assert [answer_at(log, t) for t in range(4)] == [
        ["None s1"],
        ["2 s2", "None s1"],
        ["2 s2", "2 s3"],
        ["1 s4", "2 s2"],
    ]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("UNION ALL", ["1", "1", "1", "2", "3"]),
        ("UNION", ["1", "2", "3"]),
        ("EXCEPT ALL", ["1", "2"]),
        ("EXCEPT", ["2"]),
        ("INTERSECT ALL", ["1"]),
        ("INTERSECT", ["1"]),
    ],
)
def test_the_six_set_operations(run, operation, expected):
    sources = timeline("a: 1@0 1@0 2@0\nb: 1@0 3@0")
    log = run(f"SELECT v FROM a [NOW] {operation} SELECT v FROM b [NOW]", sources)
    assert answer_at(log, 0) == expected
    assert answer_at(log, 1) == []


def test_null_equals_null_in_sets_and_groups(run):
    sources = timeline("a: -@0 -@0\nb: -@0")
    both = "SELECT v FROM a [NOW] {} SELECT v FROM b [NOW]"
    assert answer_at(run(both.format("INTERSECT"), sources), 0) == ["None"]
    assert answer_at(run(both.format("EXCEPT ALL"), sources), 0) == ["None"]
    assert answer_at(run("SELECT v, COUNT(v) AS n FROM a [NOW] GROUP BY v", sources), 0) == ["None 0"]


def test_first_and_last_go_by_event_time_then_arrival(run):
    sources = timeline("s: 1@2 2@1 3@2 -@3", s="5 seconds")
    log = run("SELECT FIRST(v) AS f, LAST(v) AS l FROM s [UNBOUNDED]", sources)
    assert [answer_at(log, t) for t in (1, 2, 3)] == [["2 2"], ["2 3"], ["2 3"]]


def test_what_no_new_row_can_meet_is_still_withdrawn_when_its_partner_leaves(run):
    """A row of b meets only rows of a that are not later, so none to come; it stays in the answer all the same."""
    sql = """SELECT a.v AS x, b.v AS y FROM a [RANGE 1 SECOND], b [RANGE 3 SECONDS] WHERE a.ts <= b.ts
             EXCEPT SELECT v AS x, v AS y FROM c [RANGE 1 SECOND]"""
    log = run(sql, timeline("a: 1@0 9@8\nb: 2@0.5 8@8\nc: 7@8"))
    assert changes(log)[:2] == ["0.5 +1 2", "1.000001 -1 2"]


def test_a_join_whose_rows_without_a_partner_are_left_out_changes_as_it_was_asked_for(run):
    windows = "a [RANGE 3 SECONDS] LEFT JOIN b [RANGE 3 SECONDS] ON a.v = b.v"
    sql = f"SELECT x, y FROM (SELECT a.v AS x, b.v AS y FROM {windows}) AS j WHERE y > 0"
    log = run(sql, timeline("a: 1@0 1@2\nb: 1@1"))
    assert changes(log) == ["1 +1 1", "2 +1 1", "3.000001 -1 1", "4.000001 -1 1"]
