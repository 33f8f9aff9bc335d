"""UNNEST over random lists: the reference, plain SQL over whole tables, the engine, and buckets that crash."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.outer_strategies import OuterCase
from tests.properties.strategies import streams
from tests.properties.test_versions import at_instants, grouped_by_duckdb
from tests.relays import Relay, goes_on_as_if_nothing_had_happened
from tests.runners import bag_of, bound_plan, by_local_engine, by_reference, local_query
from watersmeet import check

some = random_cases(20)
LISTS = st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=3))
APART = "s0 AS a CROSS JOIN UNNEST(a.l) WITH ORDINALITY AS t (x, n)"
ENTRIES = "(SELECT *, unnest(l) AS x, generate_subscripts(l, 1) AS n FROM s0) AS a"
NEAR = "ABS(epoch_us(b.ts) - epoch_us(a.ts)) <= 1000000"
QUERIES = {
    f"SELECT a.id, t.x, n FROM {APART} WHERE x > 0 OR n = 1": f"SELECT id, x, n FROM {ENTRIES} WHERE x > 0 OR n = 1",
    "SELECT a.id, x FROM s0 AS a LEFT JOIN UNNEST(a.l) AS t (x) ON TRUE WHERE a.j > 0":
    "SELECT a.id, x FROM s0 AS a LEFT JOIN LATERAL (SELECT unnest(a.l) AS x) AS t ON TRUE WHERE a.j > 0",
    "SELECT b.id, x, a.id AS y FROM s1 AS b LEFT JOIN s0 AS a ON b.k = a.k AND ABS(b.ts - a.ts) <= 1 SECONDS "
    "LEFT JOIN UNNEST(a.l) AS t (x) ON TRUE":
    f"SELECT b.id, x, a.id AS y FROM s1 AS b LEFT JOIN s0 AS a ON b.k = a.k AND {NEAR} "
    "LEFT JOIN LATERAL (SELECT unnest(a.l) AS x) AS t ON TRUE",
    "SELECT id, UNNEST(l) + 1 AS x, k FROM s0 WHERE j > 0": "SELECT id, unnest(l) + 1 AS x, k FROM s0 WHERE j > 0",
    "SELECT t.u AS id, UNNEST([v, j, NULL]) AS x FROM s0 AS t (u, time, v) WHERE v > 0":
    "SELECT t.u AS id, unnest([v, j, NULL]) AS x FROM s0 AS t (u, time, v) WHERE v > 0",
    f"SELECT a.id, x, b.id AS y FROM {APART} LEFT JOIN s1 AS b ON b.k = x AND ABS(b.ts - a.ts) <= 1 SECONDS":
    f"SELECT a.id, x, b.id AS y FROM {ENTRIES} LEFT JOIN s1 AS b ON b.k = x AND {NEAR}",
}  # fmt: skip


@st.composite
def cases(draw: st.DrawFn, sql: str, plain: str) -> OuterCase:
    source = draw(streams("s0", 6, False))
    lists = draw(st.lists(LISTS, min_size=len(source.table), max_size=len(source.table)))
    source = replace(source, table=source.table.append_column("l", pa.array(lists, pa.list_(pa.int64()))))
    others = [draw(streams("s1", 5, False))] if "s1" in sql else []
    return OuterCase(sql, plain, (source, *others))


@some
@given(st.one_of([cases(*each) for each in QUERIES.items()]), st.sampled_from([1, 2, None]))
def test_the_engine_gives_what_plain_sql_gives(case: OuterCase, rows_per_batch: int | None) -> None:
    expected = case.by_duckdb()
    assert by_local_engine(case.sql, case.sources, rows_per_batch) == expected
    assert by_reference(case.sql, case.sources) == expected
    assert check(local_query(case.sql, case.sources)).equal


GROUPED = "SELECT x, COUNT(*) AS m FROM s0 [RANGE 2 SECONDS] AS a CROSS JOIN UNNEST(l) AS t (x) GROUP BY x"
PLAIN = (
    "SELECT moment, x, COUNT(*) AS m FROM instants, (SELECT *, unnest(l) AS x FROM s0) AS a WHERE a.ts <= moment AND "
    "moment <= a.ts + INTERVAL 2 SECONDS GROUP BY moment, x"
)


@some
@given(cases(GROUPED, PLAIN), st.sampled_from([1, 2, None]))
def test_entries_are_in_the_window_of_their_row(case: OuterCase, rows_per_batch: int | None) -> None:
    assert at_instants(local_query(case.sql, case.sources, rows_per_batch).to_arrow()) == grouped_by_duckdb(case)


# Windows that count rows, by their definition: of each row the time at which it enters, and that at which it is pushed
# out, both from all rows of the stream; lists are taken apart after that. Nothing of our plans is in these texts.
NUMBERED = "(SELECT *, row_number() OVER () AS came FROM s0)"
OF_ROWS = "SELECT *, ts AS since, lead(ts, {n}) OVER ({by} ORDER BY ts, came) AS gone FROM {rows}"
BLOCKS = (
    "SELECT * EXCLUDE (place), lead(since, {n}) OVER ({by} ORDER BY place) AS gone FROM ("
    "SELECT *, last_value(ts) OVER block AS since, count(*) OVER block AS whole FROM ("
    "SELECT *, row_number() OVER ({by} ORDER BY ts, came) - 1 AS place FROM {rows}) "
    "WINDOW block AS (PARTITION BY {keys} place // {m} ORDER BY place "
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)) WHERE whole = {m}"
)
THERE = "since <= moment AND (gone IS NULL OR moment < gone)"
ASKED = (
    ("SELECT k, COUNT(*) AS m, SUM(x) AS y FROM {a}{where} GROUP BY k", "k, COUNT(*), SUM(x)", ", k"),
    ("SELECT x, COUNT(*) AS m FROM {a}{where} GROUP BY x", "x, COUNT(*)", ", x"),
    ("SELECT k, n, COUNT(*) AS m FROM {a}{where} GROUP BY k, n", "k, n, COUNT(*)", ", k, n"),
    ("SELECT a.id, x, n FROM {a}{where} ORDER BY a.id, n LIMIT 50", "id, x, n", None),
)  # fmt: skip


@st.composite
def counted_cases(draw: st.DrawFn) -> OuterCase:
    """Entries of rows in a window of so many rows, asked for as SQL has it and as plain SQL at every instant."""
    n, m, by_k = draw(st.integers(1, 4)), draw(st.sampled_from([None, None, 1, 2])), draw(st.booleans())
    m = m if m is None or m <= n else n
    slide = "" if m is None else f" SLIDE {m}"
    window = f"[{'PARTITION BY k ' * by_k}ROWS {n}{slide}]"
    lists = draw(st.sampled_from(["l", "a.l", "CASE WHEN a.j > 0 THEN a.l END"]))
    ours, selected, grouped = draw(st.sampled_from(ASKED))
    where = draw(st.sampled_from(["", "", " WHERE j > 0", " WHERE x > 0 OR n = 1"]))
    taken_apart = f"s0 {window} AS a CROSS JOIN UNNEST({lists}) WITH ORDINALITY AS t (x, n)"
    counted = (OF_ROWS if m is None else BLOCKS).format(
        n=n, m=m, by="PARTITION BY k" * by_k, keys="k, " * by_k, rows=NUMBERED
    )
    entries = f"SELECT *, unnest({lists}) AS x, generate_subscripts({lists}, 1) AS n FROM ({counted}) AS a"
    kept = f"{where or ' WHERE true'} AND {THERE}".replace("x > 0 OR n = 1", "(x > 0 OR n = 1)")
    plain = f"SELECT moment, {selected} FROM instants, ({entries}){kept}"
    plain += "" if grouped is None else f" GROUP BY moment{grouped}"
    return draw(cases(ours.format(a=taken_apart, where=where), plain))


@some
@given(counted_cases(), st.sampled_from([1, 2, None]))
def test_windows_of_rows_count_rows_and_not_their_entries(case: OuterCase, rows_per_batch: int | None) -> None:
    query = local_query(case.sql, case.sources, rows_per_batch)
    log = query.to_arrow()
    assert at_instants(log) == grouped_by_duckdb(case)
    assert bag_of(log) == by_reference(case.sql, case.sources)
    assert check(local_query(case.sql, case.sources)).equal


@some
@given(counted_cases(), st.integers(1, 6))
def test_states_of_windows_that_count_rows_are_handed_on(case: OuterCase, batches: int) -> None:
    assume(any(len(source.table) for source in case.sources))
    goes_on_as_if_nothing_had_happened(Relay(bound_plan(case.sql, case.sources), case.sources), batches)


def counted(name: str, n: int) -> str:
    rows = NUMBERED.replace("s0", name)
    return f"({OF_ROWS.format(n=n, by='', rows=rows)})"


def together(n: int, m: int) -> tuple[str, str]:
    """Entries and rows of another stream that are in their windows together at the time of the later one."""
    newest = "greatest(a.ts, b.ts)"
    there = [f"(coalesce({one}.gone > {newest}, true))" for one in "ab"]
    entries = f"(SELECT *, unnest(l) AS x FROM {counted('s0', n)}) AS a"
    return (
        f"SELECT a.id, x, b.id AS y FROM s0 [ROWS {n}] AS a, UNNEST(a.l) AS t (x), s1 [ROWS {m}] AS b WHERE b.k = x",
        f"SELECT a.id, x, b.id AS y FROM {entries}, {counted('s1', m)} AS b WHERE b.k = x AND {' AND '.join(there)}",
    )


AFTER = "CROSS JOIN UNNEST(a.l) AS t (x)"
NEAR_A = "ON b.k = a.k AND ABS(b.ts - a.ts) <= 1 SECONDS"
# What is taken apart after an outer join: a row without a partner has no list of it, and so no entry.
OUTER = {
    f"SELECT b.id, a.id AS y, x FROM {join} {NEAR_A} {AFTER}": "SELECT b.id, a.id AS y, unnest(a.l) AS x FROM "
    f"{join} ON b.k = a.k AND {NEAR}"
    for join in ("s1 AS b LEFT JOIN s0 AS a", "s0 AS a RIGHT JOIN s1 AS b", "s0 AS a LEFT JOIN s1 AS b",
                 "s1 AS b FULL JOIN s0 AS a", "s0 AS a FULL JOIN s1 AS b")
}  # fmt: skip


@some
@given(
    st.one_of(
        st.tuples(st.integers(1, 3), st.integers(1, 3)).flatmap(lambda sizes: cases(*together(*sizes))),
        *(cases(*each) for each in OUTER.items()),
    ),
    st.sampled_from([1, 2, None]),
)
def test_joins_of_entries_are_what_plain_sql_gives(case: OuterCase, rows_per_batch: int | None) -> None:
    expected = case.by_duckdb()
    assert by_local_engine(case.sql, case.sources, rows_per_batch) == expected
    assert by_reference(case.sql, case.sources) == expected
    assert check(local_query(case.sql, case.sources)).equal
