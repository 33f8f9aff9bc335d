"""UNNEST over random lists: the reference, plain SQL over whole tables, the engine, and buckets that crash."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import EFFORT, PATIENT
from tests.properties.outer_strategies import OuterCase
from tests.properties.strategies import streams
from tests.properties.test_versions import at_instants, grouped_by_duckdb
from tests.runners import by_local_engine, by_reference, local_query
from watersmeet import check

some = settings(max_examples=20 * EFFORT, deadline=None, suppress_health_check=PATIENT)
LISTS = st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=3))
APART = "s0 AS a CROSS JOIN UNNEST(a.l) WITH ORDINALITY AS t (x, n)"
ENTRIES = "(SELECT *, unnest(l) AS x, generate_subscripts(l, 1) AS n FROM s0) AS a"
NEAR = "ABS(epoch_us(b.ts) - epoch_us(a.ts)) <= 1000000"
QUERIES = {
    f"SELECT a.id, t.x, n FROM {APART} WHERE x > 0 OR n = 1": f"SELECT id, x, n FROM {ENTRIES} WHERE x > 0 OR n = 1",
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
