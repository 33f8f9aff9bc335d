"""Groups of TUMBLE and HOP over joins of every kind: what plain SQL gives over rows that carry their windows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.outer_strategies import OuterCase
from tests.properties.strategies import one_in, streams
from tests.properties.test_continuous import assert_same, sent
from tests.runners import bag_of, bound_plan, by_local_engine, by_reference, local_query, tables_of
from watersmeet import check
from watersmeet.checking.recompute import rows_of
from watersmeet.reference.join import answer

many = random_cases(30)
SAME = "a.window_start = b.window_start AND a.window_end = b.window_end"


@st.composite
def window_cases(draw: st.DrawFn) -> OuterCase:
    slide, copies = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2]))
    size = slide * copies
    kind = draw(st.sampled_from(["LEFT", "LEFT", "SEMI", "ANTI", "INNER"]))
    windows = f"TUMBLE({{}}, {size} SECONDS)" if copies == 1 else f"HOP({{}}, {slide} SECONDS, {size} SECONDS)"
    numbers = ", ".join(f"({n})" for n in range(copies))
    placed = f"(epoch_us(ts) // {slide}000000 - n) * {slide}000000 AS since"
    theirs = (
        f"(SELECT *, make_timestamp(since) AS window_start, make_timestamp(since + {size}000000) AS window_end FROM "
        f"(SELECT *, {placed} FROM {{}}, (VALUES {numbers}) AS v(n)))"
    )
    key = draw(st.sampled_from(["k", "j", "s"]))
    beside = draw(one_in(3, " AND b.j > 0", ""))
    asks = kind in ("SEMI", "ANTI")
    test = draw(one_in(3, "a.j > 0 OR a.k IS NULL" if asks else "b.id IS NULL OR b.id > 1", ""))
    where = f" WHERE {test}" if test else ""
    counted = "" if asks else ", COUNT(b.id) AS m, SUM(b.j) AS total"
    # A group by what only partners have changes its place when they come.
    by, shown = ("", "") if asks else draw(one_in(3, (", b.k", ", b.k AS theirs"), ("", "")))
    exists = asks and draw(st.booleans())
    made = []
    for source, is_ours in ((windows, True), (theirs, False)):
        left, right = source.format("s0"), source.format("s1")
        on = f"a.{key} = b.{key}{beside} AND {SAME}"
        joined = f"{left} AS a {kind} JOIN {right} AS b ON {on}{where}"
        if exists and is_ours:
            asked = f"{'NOT ' if kind == 'ANTI' else ''}EXISTS (SELECT 1 FROM {right} AS b WHERE {on})"
            joined = f"{left} AS a WHERE {asked}{f' AND ({test})' if test else ''}"
        listed = f"a.k AS k, a.window_start AS since, COUNT(*) AS n{counted}{shown}"
        made.append(f"SELECT {listed} FROM {joined} GROUP BY a.k, a.window_start, a.window_end{by}")
    return OuterCase(made[0], made[1], (draw(streams("s0", 7, False)), draw(streams("s1", 7, False))))


@st.composite
def cases_over_groups(draw: st.DrawFn) -> OuterCase:
    """Sets of groups, and the first of each window."""
    size = draw(st.integers(1, 3))
    since = f"make_timestamp(epoch_us(ts) // {size}000000 * {size}000000 + {size}000000)"
    listed = "k, COUNT(*) AS n, window_end"
    ours, theirs = [], []
    for name in ("s0", "s1"):
        ours.append(f"SELECT {listed} FROM TUMBLE({name}, {size} SECONDS) GROUP BY k, window_start, window_end")
        theirs.append(f"SELECT {listed} FROM (SELECT *, {since} AS window_end FROM {name}) GROUP BY k, window_end")
    word = draw(st.sampled_from(["UNION ALL", "UNION", "EXCEPT", "INTERSECT", "ORDER"]))
    sql, plain = f"{ours[0]} {word} {ours[1]}", f"{theirs[0]} {word} {theirs[1]}"
    if word == "ORDER":
        most = draw(st.integers(1, 2))
        sql = f"{ours[0]} ORDER BY n DESC, k LIMIT {most}"
        rank = "row_number() OVER (PARTITION BY window_end ORDER BY n DESC, k NULLS LAST)"
        plain = f"SELECT * FROM ({theirs[0]}) QUALIFY {rank} <= {most}"
    return OuterCase(sql, plain, (draw(streams("s0", 7, False)), draw(streams("s1", 7, False))))


@many
@given(cases_over_groups(), st.sampled_from([1, 2, None]))
def test_sets_and_the_first_rows_go_over_the_groups_of_each_window(case: OuterCase, rows_per_batch: int | None) -> None:
    sources = [source for source in case.sources if f"({source.name}," in case.sql]
    expected = case.by_duckdb()
    assert by_local_engine(case.sql, sources, rows_per_batch) == expected
    assert by_reference(case.sql, sources) == expected
    assert check(local_query(case.sql, sources)).equal


@many
@given(window_cases(), st.sampled_from([1, 2, None]))
def test_they_are_what_plain_sql_gives(case: OuterCase, rows_per_batch: int | None) -> None:
    assert by_local_engine(case.sql, case.sources, rows_per_batch) == case.by_duckdb()


@random_cases(10)
@given(window_cases())
def test_the_reference_and_the_check_give_the_same(case: OuterCase) -> None:
    assert by_reference(case.sql, case.sources) == case.by_duckdb()
    assert check(local_query(case.sql, case.sources)).equal


@many
@given(window_cases(), st.sampled_from([1, 2, None]))
def test_their_changes_come_and_go_with_rows_and_their_partners(case: OuterCase, rows_per_batch: int | None) -> None:
    sql = f"{case.sql} OPTIONS (emit = 'changes')"
    given = local_query(sql, case.sources, rows_per_batch)
    plan = bound_plan(sql, case.sources)
    assert_same(sent(plan, rows_of(given.to_arrow())), sent(plan, answer(plan, tables_of(case.sources))))
    assert bag_of(given.final()) == case.by_duckdb()
    assert check(local_query(sql, case.sources)).equal


@many
@given(window_cases(), st.sampled_from([1, 2, None]))
def test_rows_that_are_not_grouped_are_those_of_plain_sql(case: OuterCase, rows_per_batch: int | None) -> None:
    ours, theirs = (text[: text.index(" GROUP BY")] for text in (case.sql, case.plain_sql))
    ours, theirs = (f"SELECT a.id, a.window_end {text[text.index('FROM') :]}" for text in (ours, theirs))
    plain = OuterCase(ours, theirs, case.sources)
    assert by_local_engine(plain.sql, plain.sources, rows_per_batch) == plain.by_duckdb()
    assert by_reference(plain.sql, plain.sources) == plain.by_duckdb()
