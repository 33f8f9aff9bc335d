"""Queries in the place of values and conditions that depend on the row: at every instant what plain SQL gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.outer_strategies import KEYS, OuterCase
from tests.properties.strategies import one_in, streams
from tests.properties.test_versions import at_instants, grouped_by_duckdb
from tests.relays import Relay, goes_on_as_if_nothing_had_happened
from tests.runners import Source, bound_plan, by_duckdb, by_local_engine, by_reference, local_query
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.physical.nodes import ThresholdNode

many = random_cases(30)


AGGREGATES = [
    "MAX(b.id)",
    "AVG(b.j)",
    "MIN(b.j) + 1",
    "SUM(b.j)",
    "COUNT(*)",
    "COUNT(b.j) + 1",
    "COALESCE(SUM(b.j), -1)",
]


COMPARED = ("a.id >= {0}", "a.id >= {0}", "a.id > 0.5 * {0}", "CAST({0} AS DOUBLE) < a.id + 1", "NOT (a.id > {0})",
            "{0} IS NULL", "(a.id > {0} OR a.j > 1)", "a.id >= {0} AND a.j > 0 AND {0} > 0",
            "a.id <= COALESCE({0}, 2)")  # fmt: skip


OTHERWISE = ("b.k < a.k", "b.j <> a.j", "a.j > 0", "b.k + a.k = 1", "(b.j = a.j OR a.k IS NULL)")
NESTED = (
    "EXISTS (SELECT 1 FROM s1{window} AS c WHERE {there} AND c.k = b.k AND c.j >= a.j)",
    "NOT EXISTS (SELECT 1 FROM s0{window} AS c WHERE {there} AND c.j = b.j AND c.k = a.k)",
    "b.j IN (SELECT c.j FROM s0{window} AS c WHERE {there})",
    "b.j NOT IN (SELECT c.j FROM s0{window} AS c WHERE {there} AND c.k < a.k)",
    "b.j <= (SELECT MAX(c.j) FROM s1{window} AS c WHERE {there} AND c.k = a.k AND c.id <> b.id)",
    "(b.j > 1 OR 0 = (SELECT COUNT(*) FROM s1{window} AS c WHERE {there} AND c.j > a.j))",
)


@st.composite
def inner_queries(draw: st.DrawFn, selected: str) -> tuple[str, str]:
    """A query over s1 that looks at row a, in our words and in DuckDB's."""
    size = draw(st.integers(0, 4))
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=2, unique=True))
    tests = [draw(st.sampled_from([f"b.{key} = a.{key}", f"a.{key} = b.{key}"])) for key in keys]
    tests += draw(one_in(3, ["b.j > 0"], []))
    # Such are not told by keys: the rows around are put into the query.
    tests[:1] = draw(one_in(3, [draw(st.sampled_from(OTHERWISE))], tests[:1]))
    nested = draw(one_in(4, [draw(st.sampled_from(NESTED))], []))
    there = f"b.ts <= moment AND moment <= b.ts + INTERVAL {size} SECONDS"
    both = [
        [*tests, *(text.format(window=f" [RANGE {size} SECONDS]", there="TRUE") for text in nested)],
        [*tests, *(text.format(window="", there=there.replace("b.", "c.")) for text in nested), there],
    ]
    ours, theirs = (" AND ".join(one) for one in both)
    return (
        f"SELECT {selected} FROM s1 [RANGE {size} SECONDS] AS b WHERE {ours}",
        f"SELECT {selected} FROM s1 AS b WHERE {theirs}",
    )


@st.composite
def value_cases(draw: st.DrawFn) -> OuterCase:
    size = draw(st.integers(0, 4))
    kind = draw(st.sampled_from(["value", "compared", "exists", "not exists", "in", "each", "none"]))
    aggregate = draw(st.sampled_from(AGGREGATES))
    inner = draw(inner_queries(aggregate if kind in ("value", "compared") else "1" if "exists" in kind else "b.j"))
    if kind in ("value", "compared"):
        having = draw(st.sampled_from(["", "", " HAVING COUNT(*) < 2", " HAVING MIN(b.j) > 0"]))
        inner = (inner[0] + having, inner[1] + having)
    # Some are never true where there is no value, and then no row without one is looked for; others may be.
    compared = draw(st.sampled_from(COMPARED))
    made = []
    changing = "0 <= (SELECT COUNT(*) FROM s1 [UNBOUNDED] AS z)"  # a plain semi join would only grow
    for query in inner:
        condition = {
            "value": "TRUE",
            "compared": compared.format(f"({query})"),
            "exists": f"(a.j > 1 OR EXISTS ({query}))",
            "not exists": f"(a.j > 1 OR NOT EXISTS ({query}))",
            "in": f"(a.id > 3 OR a.j IN ({query}))",
            "each": f"a.j IN ({query}) AND {changing}",
            "none": f"a.j NOT IN ({query}) AND {changing}",
        }[kind]
        made.append(("a.id AS id" + (f", ({query}) AS v" if kind == "value" else ""), condition))
    ours = f"SELECT {made[0][0]} FROM s0 [RANGE {size} SECONDS] AS a WHERE {made[0][1]}"
    held = f"a.ts <= moment AND moment <= a.ts + INTERVAL {size} SECONDS"
    theirs = f"SELECT moment, {made[1][0]} FROM instants, s0 AS a WHERE {held} AND {made[1][1]}"
    theirs = theirs.replace(" [UNBOUNDED]", "")
    return OuterCase(ours, theirs, (draw(streams("s0", 6, False)), draw(streams("s1", 6, False))))


@st.composite
def values_beside_aggregates(draw: st.DrawFn) -> OuterCase:
    """Aggregates without GROUP BY, and values that do not depend on whether there are rows to aggregate."""
    size, other = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    aggregate = draw(st.sampled_from(AGGREGATES))
    having = draw(st.sampled_from(["TRUE", "{n} >= {v}", "{n} = 0 OR {v} IS NULL"]))
    where = draw(st.sampled_from(["TRUE", "a.j > 0", "a.j > 99"]))
    held = "{0}.ts <= moment AND moment <= {0}.ts + INTERVAL {1} SECONDS"
    ours = f"(SELECT {aggregate} FROM s1 [RANGE {other} SECONDS] AS b)"
    theirs = f"(SELECT {aggregate} FROM s1 AS b WHERE {held.format('b', other)})"
    sql = f"""SELECT COUNT(*) AS n, SUM(a.j) AS t, COUNT(*) + {ours} AS v FROM s0 [RANGE {size} SECONDS] AS a
              WHERE {where} HAVING {having.format(n="COUNT(*)", v=ours)}"""
    rows = f"FROM s0 AS a WHERE {held.format('a', size)} AND {where}"
    each = f"SELECT moment, (SELECT COUNT(*) {rows}) AS n, (SELECT SUM(a.j) {rows}) AS t, {theirs} AS v FROM instants"
    plain = f"SELECT moment, n, t, n + v FROM ({each} WHERE moment >= (SELECT MIN(ts) FROM s0)) WHERE "
    plain += having.format(n="n", v="v")
    return OuterCase(sql, plain, (draw(streams("s0", 6, False)), draw(streams("s1", 6, False))))


NUMBERS = ("a.j", "a.k", "a.d", "a.f", "a.k + 1", "a.f * 2", "-a.d")
VALUES = ("AVG(b.j)", "AVG(b.d)", "MAX(b.f)", "MIN(b.d)", "SUM(b.k)", "MEDIAN(b.f)", "MAX(b.j) - 1")
# Numbers with more digits than codes have are not compared by them.
COMPARABLE = [(one, value) for one in NUMBERS for value in VALUES if (one[-1], value) not in {
    ("j", "MIN(b.d)"), ("k", "MIN(b.d)"), ("1", "MIN(b.d)"), ("d", "SUM(b.k)"), ("d", "MAX(b.j) - 1")}]  # fmt: skip
WINDOWS = ("[RANGE 0 SECONDS]", "[RANGE 2 SECONDS]", "[RANGE 4 SECONDS]", "[ROWS 3]", "[PARTITION BY k ROWS 2]",
           "[RANGE 3 SECONDS SLIDE 2 SECONDS]", "[UNBOUNDED]")  # fmt: skip


class ThresholdCase(NamedTuple):
    sql: str
    sources: tuple[Source, ...]


@st.composite
def threshold_cases(draw: st.DrawFn) -> ThresholdCase:
    """Rows compared with nothing but one value for each of some keys, in all that can stand around them."""
    compared, value = draw(st.sampled_from([*COMPARABLE, ("a.w", "MAX(b.w)")]))
    keys = draw(st.lists(st.sampled_from(["k", "s", "f", "d"]), max_size=2, unique=True))
    order = draw(st.sampled_from(["<", "<=", ">", ">="]))
    inner = f"{draw(st.sampled_from(('s0', 's1')))} {draw(st.sampled_from(WINDOWS))} AS b"
    own = f"s0 {draw(st.sampled_from(WINDOWS))} AS a"
    if draw(one_in(4, True, False)):
        own = f"(SELECT DISTINCT {', '.join(('k', 's', 'f', 'd', 'j', 'w'))}, k AS id FROM {own}) AS a"
    having = draw(st.sampled_from(["", "", " HAVING COUNT(*) > 1"]))
    rows = ["a.id, a.f", "a.id / a.id AS one", "DISTINCT a.s"]
    as_value = draw(st.booleans())
    if as_value:
        where = [f"b.{key} = a.{key}" for key in keys]
        asked = f" WHERE {' AND '.join(where)}" if where else ""
        condition, other = f"{compared} {order} (SELECT {value} FROM {inner}{asked}{having})", ""
    else:
        by = f" GROUP BY {', '.join(f'b.{key}' for key in keys)}" if keys else ""
        listed = ", ".join([f"{value} AS v", *(f"b.{key} AS {key}" for key in keys)])
        other = f", (SELECT {listed} FROM {inner}{by}{having}) AS g"
        condition = " AND ".join([*(f"a.{key} = g.{key}" for key in keys), f"g.v {order} {compared}"])
    rest = draw(st.sampled_from(["", " AND a.j > 0", " AND a.s <> 'b'"]))
    body = f"FROM {own}{other} WHERE {condition}{rest}"
    aggregates = ["COUNT(*) AS n, MAX(a.f) AS most", "grouped"]
    shown = draw(st.sampled_from(rows if as_value and keys else rows + aggregates))
    sql = f"SELECT a.s, COUNT(*) AS n {body} GROUP BY a.s" if shown == "grouped" else f"SELECT {shown} {body}"
    known = draw(streams("s0", 8, False)), draw(streams("s1", 6, False))
    return ThresholdCase(sql, tuple(source for source in known if f"{source.name} " in sql))


def runs_by_threshold(sql: str, sources: Sequence[Source]) -> bool:
    return any(isinstance(node, ThresholdNode) for node in plan_query(bound_plan(sql, sources)).nodes)


@random_cases(60)
@given(threshold_cases(), st.sampled_from([1, 2, None]))
def test_rows_against_one_value_are_at_every_instant_what_is_defined(
    case: ThresholdCase, rows_per_batch: int | None
) -> None:
    assert runs_by_threshold(*case)
    assert by_local_engine(*case, rows_per_batch) == by_reference(*case)


@random_cases(10)
@given(threshold_cases())
def test_rows_against_one_value_are_what_duckdb_gives(case: ThresholdCase) -> None:
    assume(not any(rough in case[0] for rough in ("AVG(b.d)", "MEDIAN(b.f)")))  # which DuckDB rounds otherwise
    assert by_local_engine(*case) == by_duckdb(*case)


@random_cases(20)
@given(threshold_cases(), st.integers(1, 7))
def test_rows_against_one_value_go_on_from_a_state(case: ThresholdCase, batches: int) -> None:
    assume(any(len(source.table) for source in case.sources))
    goes_on_as_if_nothing_had_happened(Relay(bound_plan(*case), case.sources), batches)


@many
@given(values_beside_aggregates(), st.sampled_from([1, 2, None]))
def test_beside_aggregates_they_are_there_where_no_rows_are(case: OuterCase, rows_per_batch: int | None) -> None:
    log = local_query(case.sql, case.sources, rows_per_batch).to_arrow()
    assert at_instants(log) == grouped_by_duckdb(case)


@many
@given(value_cases(), st.sampled_from([1, 2, None]))
def test_they_are_at_every_instant_what_plain_sql_gives(case: OuterCase, rows_per_batch: int | None) -> None:
    log = local_query(case.sql, case.sources, rows_per_batch).to_arrow()
    assert at_instants(log) == grouped_by_duckdb(case)


@random_cases(10)
@given(value_cases())
def test_the_reference_and_the_check_give_the_same(case: OuterCase) -> None:
    found = by_reference(case.sql, case.sources)
    assert by_local_engine(case.sql, case.sources) == found
    assert by_duckdb(case.sql, case.sources) == found
