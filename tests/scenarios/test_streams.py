"""What streams promise: order, lateness, NULLs, aliases, static tables, the newest member's time."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest

from tests.runners import (
    Source,
    answered,
    behind_their_stream,
    bound_plan,
    local_query,
    tables_of,
)
from tests.scenarios.timeline import combinations, static_table, timeline
from watersmeet.errors import DataError
from watersmeet.reference.join import answer

AB = "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.v = b.v WINDOW = 5 SECONDS"
LATE = """
    a: 1@0 1@10 1@7 1@8 1@9
    b: 1@7 1@8
"""


def test_rows_out_of_order_within_lateness_join_as_if_in_order(run):
    sql = "SELECT a.t AS a, b.t AS b FROM a, b WHERE a.v = b.v WINDOW = 1 SECOND"
    in_order = timeline("a: 1@0 1@2 1@4\nb: 1@1 1@3")
    disordered = timeline("a: 1@0 1@2 1@4\nb: 1@3 1@1", b="2 seconds")
    assert run(sql, disordered) == run(sql, in_order)
    assert len(run(sql, in_order)) == 4


def test_a_row_older_than_the_watermark_is_dropped_and_counted():
    """Row by row, with nothing to come of b any more, a3 is below the watermark of 8 that a2 sets."""
    given = answered(local_query(AB, timeline(LATE, a="2 seconds"), rows_per_batch=1))
    assert combinations(given.bag) == ["a2 b1", "a2 b2", "a4 b1", "a4 b2", "a5 b1", "a5 b2"]
    assert {name: rows.tolist() for name, rows in given.late.items()} == {"a": [2]}
    assert given.metrics["late_rows"] == 1
    assert given.metrics["late_by_stream"] == {"a": 1, "b": 0}


def test_a_row_behind_its_own_stream_is_in_time_while_another_stream_is_further_behind():
    """a3 comes before the first row of b: the watermark of the query is where b is."""
    given = answered(local_query(AB, timeline(LATE, a="2 seconds")))
    assert not given.late
    assert "a3 b1" in combinations(given.bag)


def test_of_a_single_stream_a_row_is_late_by_that_stream_alone():
    sources = timeline("a: 1@0 2@10 3@7 4@8 5@9", a="2 seconds")
    for rows_per_batch in (None, 1, 3):
        given = answered(local_query("SELECT a.id AS id FROM a", sources, rows_per_batch))
        assert combinations(given.bag) == ["a1", "a2", "a4", "a5"]
        assert given.late["a"].tolist() == behind_their_stream(sources[0]).tolist() == [2]


def test_null_keys_match_nothing_not_even_each_other(run):
    sources = timeline("""
        a: -@1 2@1
        b: -@1 2@1
    """)
    assert combinations(run(AB, sources)) == ["a2 b2"]


def test_a_null_event_time_is_an_error_that_names_the_stream_and_counts_the_rows_in_the_reference():
    sources = timeline("a: 1@1 1@- 1@-\nb: 1@1")
    with pytest.raises(DataError, match=r"'a'.*2 rows"):
        answer(bound_plan(AB, sources), tables_of(sources))


def test_a_null_event_time_is_an_error_that_names_the_stream_and_counts_the_rows_in_the_engine():
    with pytest.raises(DataError, match=r"(?s)a\b.*2"):
        local_query(AB, timeline("a: 1@1 1@- 1@-\nb: 1@1")).to_arrow()


def test_a_self_join_sees_one_stream_under_two_names(run):
    sql = "SELECT x.id AS x, y.id AS y FROM a AS x, a AS y WHERE x.v = y.v DWINDOW (x, y) = 5 SECONDS"
    assert combinations(run(sql, timeline("a: 1@0 1@3 2@4 1@9"))) == ["a1 a1", "a1 a2", "a2 a2", "a3 a3", "a4 a4"]


def test_a_static_table_joins_without_a_window(run):
    sources = [
        *timeline("a: 1@0 2@50 -@60"),
        static_table("names", k=[1, 2, 2, None], name=["one", "two", "zwei", "?"]),
    ]
    sql = "SELECT a.id AS a, n.name AS name FROM a, names AS n WHERE a.v = n.k"
    assert combinations(run(sql, sources)) == ["a1 one", "a2 two", "a2 zwei"]


def test_rows_that_a_query_says_itself_join_as_a_static_table_does(run):
    said = """(VALUES (1, 'one'), (2, NULL), (2, 'zwei'), (NULL, '?')) AS t (k, name), generate_series(1, 3, 2) AS n,
              (SELECT CAST(1 AS BIGINT) AS k, -0.5 AS w UNION ALL SELECT 2 + 1, 2.0) AS u"""
    sql = f"SELECT a.id, t.name, n, u.w FROM a, {said} WHERE a.v = t.k AND n >= a.v AND u.k = n"
    rows = ["a1 None 3 2.0", "a1 zwei 3 2.0", "a2 one 1 -0.5", "a2 one 3 2.0"]
    assert combinations(run(sql, timeline("a: 2@0 1@5 -@6 4@7"))) == rows


def test_a_static_table_between_two_streams_leaves_their_window_alone(run):
    sources = [*timeline("a: 1@0 1@3\nb: 2@5 2@9"), static_table("pairs", x=[1], y=[2])]
    sql = "SELECT a.id AS a, b.id AS b FROM a, pairs, b WHERE a.v = pairs.x AND pairs.y = b.v WINDOW (a, b) = 4 SECONDS"
    assert combinations(run(sql, sources)) == ["a2 b1"]


def test_event_time_is_the_newest_members(run):
    sources = timeline("""
        a: 1@4
        b: 1@2 1@6
    """)
    sql = "SELECT b.id AS b, event_time() AS newest FROM a, b WINDOW = 5 SECONDS"
    assert run(sql, sources) == {("b1", datetime(1970, 1, 1, 0, 0, 4)): 1, ("b2", datetime(1970, 1, 1, 0, 0, 6)): 1}


def test_one_stream_alone_is_filtered(run):
    assert combinations(run("SELECT id FROM a WHERE v > 1 OR v IS NULL", timeline("a: 1@0 2@1 -@2"))) == ["a2", "a3"]


def test_a_false_and_a_null_predicate_both_reject(run):
    sources = timeline("""
        a: 1@0 -@1
        b: 1@1
    """)
    accepted = "SELECT a.id AS a FROM a, b WHERE a.v <> b.v WINDOW = 5 SECONDS"
    negated = "SELECT a.id AS a FROM a, b WHERE NOT (a.v <> b.v) WINDOW = 5 SECONDS"
    assert (combinations(run(accepted, sources)), combinations(run(negated, sources))) == ([], ["a1"])


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_event_times_of_any_unit_and_zone_meet_in_microseconds(run, unit):
    times = [datetime(2024, 5, 1, 12, 0, second) for second in (0, 4, 9)]
    left = pa.table({"ts": pa.array(times, pa.timestamp(unit)), "id": ["a1", "a2", "a3"]})
    right = pa.table({"ts": pa.array(times[1:2], pa.timestamp("us", tz="UTC")), "id": ["b1"]})
    sources = [Source("a", left), Source("b", right)]
    assert combinations(run("SELECT a.id AS a, b.id AS b FROM a, b WINDOW = 4 SECONDS", sources)) == ["a1 b1", "a2 b1"]


def test_a_predicate_may_follow_one_that_rejected_everything(run):
    sources = timeline("""
        a: 1@0
        b: 1@0
        c: 1@0
    """)
    rejects, follows = "a.id || b.id LIKE '%x'", "(a.v = c.v OR a.id LIKE 'b%')"
    sql = f"SELECT a.id AS a FROM a [NOW], b [NOW], c [NOW] WHERE {rejects} AND {follows}"
    assert combinations(run(sql, sources)) == []
