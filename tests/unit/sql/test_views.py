"""Subqueries in FROM: which are streams, which are views, and what kind of answer stands around them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.plans import golden_catalog
from watersmeet.errors import BindError, WindowError
from watersmeet.model.catalog import Catalog, Stream, Table
from watersmeet.plan.nodes import Derived, GroupBy, Join, Node, Project, View
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import relations_below
from watersmeet.sql import bind

CATALOG = golden_catalog()


def plan(sql: str) -> Plan:
    return bind(sql, CATALOG)


def join_of(node: Node) -> Join:
    while not isinstance(node, Join):
        assert isinstance(node, Project | GroupBy)
        node = node.child
    return node


def join(sql: str) -> Join:
    return join_of(plan(sql).root)


CHANGING = [
    "SELECT k FROM a [RANGE 5 SECONDS] EXCEPT SELECT k FROM b [RANGE 3 SECONDS]",
    "SELECT DISTINCT k FROM a [ROWS 5]",
    "SELECT k, COUNT(*) AS n FROM a [UNBOUNDED] GROUP BY k",
    "SELECT SUM(x) AS k FROM a [NOW]",
    "SELECT k, x FROM a [RANGE 1 HOUR] ORDER BY x LIMIT 3",
    "SELECT k FROM a [RANGE 1 HOUR]",
    "SELECT a.k FROM a [RANGE 1 HOUR], b [ROWS 3], dim WHERE a.k = b.k AND b.k = dim.k",
    "SELECT k FROM (SELECT DISTINCT k FROM a [NOW]) AS inner_one",
]
STREAMS = [
    "SELECT k FROM a",
    "SELECT a.k FROM a, b WINDOW = 5 SECONDS",
    "SELECT a.k FROM a [RANGE 5 SECONDS], b WINDOW (a, b) = 3 SECONDS",
    "SELECT ISTREAM k FROM a [RANGE 1 HOUR]",
    "SELECT ISTREAM DISTINCT k FROM a [RANGE 1 HOUR]",
    "SELECT DSTREAM k FROM a [RANGE 1 HOUR]",
    "SELECT RSTREAM k FROM a [RANGE 1 HOUR] EVERY 5 SECONDS",
    "SELECT ISTREAM k FROM (SELECT DISTINCT k FROM a [NOW]) AS inner_one",
]


@pytest.mark.parametrize("inner", CHANGING)
def test_an_answer_that_changes_is_a_view(inner: str) -> None:
    one = join(f"SELECT * FROM ({inner}) AS v").inputs[0]
    assert isinstance(one.relation, View)
    assert one.is_view
    assert one.time is None
    assert one.window is None
    assert one.schema == plan(inner).schema


@pytest.mark.parametrize("inner", STREAMS)
def test_rows_that_appear_once_are_a_stream(inner: str) -> None:
    one = join(f"SELECT * FROM ({inner}) AS v").inputs[0]
    assert isinstance(one.relation, Derived)
    assert not one.is_view


def test_a_window_makes_a_plain_join_a_stream_again() -> None:
    made = join("SELECT * FROM (SELECT a.k FROM a [NOW], b [NOW]) [RANGE 1 HOUR] AS v")
    assert isinstance(made.inputs[0].relation, Derived)


@pytest.mark.parametrize("inner", CHANGING[:5])
def test_a_view_has_no_window(inner: str) -> None:
    with pytest.raises(WindowError) as caught:
        plan(f"SELECT * FROM ({inner}) [RANGE 1 HOUR] AS v")
    assert "ISTREAM" in str(caught.value.hint)


def test_the_answer_around_a_view_changes() -> None:
    text = "SELECT v.k, c.x FROM (SELECT DISTINCT k FROM a [NOW]) AS v, c [RANGE 1 HOUR] WHERE v.k = c.k"
    assert plan(text).kind == "changes"
    assert plan(text.replace("SELECT", "SELECT ISTREAM", 1)).kind == "inserts"
    made = join(text)
    assert [one.alias for one in made.streams] == ["c"]
    assert [one.alias for one in made.views] == ["v"]
    assert made.windows.streams == ("c",)


def test_two_views_may_be_joined_without_any_stream_beside_them() -> None:
    made = join(
        "SELECT v.k FROM (SELECT DISTINCT k FROM a [NOW]) v, (SELECT DISTINCT k FROM b [NOW]) w WHERE v.k = w.k"
    )
    assert made.streams == ()
    assert len(made.views) == 2


def test_window_equals_bounds_streams_and_leaves_views_out() -> None:
    text = "SELECT v.k FROM (SELECT DISTINCT k FROM a [NOW]) v, b [NOW], c [NOW] WINDOW = 5 SECONDS"
    assert {bound.earlier for bound in join(text).bounds} == {"b", "c"}


def test_a_time_column_of_a_view_is_a_column_like_any_other() -> None:
    text = """SELECT v.newest FROM (SELECT k, MAX(ts) AS newest FROM a [RANGE 1 HOUR] GROUP BY k) v, b [RANGE 1 HOUR]
              WHERE v.k = b.k AND b.ts >= v.newest"""
    made = join(text)
    assert made.bounds == ()
    assert len(made.predicates) == 2


def test_event_time_beside_a_view_is_that_of_the_streams() -> None:
    text = "SELECT v.k, event_time() AS at FROM (SELECT DISTINCT k FROM a [NOW]) v, b [NOW]"
    assert plan(text).schema.field("at").type == pa.timestamp("us")


@pytest.mark.parametrize(
    ("sql", "kind", "before"),
    [
        ("SELECT k FROM a", "rows", []),
        ("SELECT ISTREAM k FROM a [NOW]", "rows", []),
        ("SELECT DISTINCT k FROM a [NOW]", "changes", ["_op", "_ts"]),
        ("SELECT k FROM a [NOW] UNION ALL SELECT k FROM b [NOW]", "changes", ["_op", "_ts"]),
        ("SELECT a.k FROM a [UNBOUNDED] LEFT JOIN b [UNBOUNDED] ON a.k = b.k", "changes", ["_op", "_ts"]),
        ("SELECT a.k FROM a [ROWS 3] SEMI JOIN b [RANGE 1 s] ON a.k = b.k", "changes", ["_op", "_ts"]),
        ("SELECT k FROM a [UNBOUNDED] WHERE k NOT IN (SELECT k FROM b [NOW])", "changes", ["_op", "_ts"]),
        ("SELECT a.k FROM a [LANDMARK '2026-01-01'] FULL JOIN b [NOW] ON a.k = b.k", "changes", ["_op", "_ts"]),
        ("SELECT a.k FROM a [NOW] LEFT JOIN b [UNBOUNDED] ON a.k = b.k", "rows", []),
        ("SELECT a.k FROM a [UNBOUNDED] LEFT JOIN b [UNBOUNDED] ON a.k = b.k AND b.ts <= a.ts", "rows", []),
        ("SELECT ISTREAM a.k FROM a [UNBOUNDED] LEFT JOIN b [UNBOUNDED] ON a.k = b.k", "inserts", ["_ts"]),
        ("SELECT ISTREAM DISTINCT k FROM a [NOW]", "inserts", ["_ts"]),
        ("SELECT DSTREAM k FROM a [NOW]", "deletes", ["_ts"]),
        ("SELECT RSTREAM k FROM a [NOW] EVERY 1 SECOND", "snapshots", ["_ts"]),
    ],
)
def test_the_kind_of_an_answer_says_which_columns_come_out(sql: str, kind: str, before: list[str]) -> None:
    made = plan(sql)
    assert made.kind == kind
    assert made.output_schema.names == [*before, "k"]
    assert made.schema.names == ["k"]
    types = {"_op": pa.string(), "_ts": pa.timestamp("us")}
    assert [made.output_schema.field(name).type for name in before] == [types[name] for name in before]


@pytest.mark.parametrize("name", ["_op", "_ts", "_TS"])
def test_the_names_of_a_logs_own_columns_are_taken(name: str) -> None:
    with pytest.raises(BindError):
        plan(f"SELECT DISTINCT k AS {name} FROM a [NOW]")
    assert plan(f"SELECT k AS {name} FROM a").kind == "rows"


def test_an_istream_has_room_for_a_column_called_op() -> None:
    assert plan("SELECT ISTREAM DISTINCT k AS _op FROM a [NOW]").output_schema.names == ["_ts", "_op"]


def test_what_a_query_reads_is_found_inside_its_subqueries() -> None:
    text = """SELECT v.k FROM (SELECT k FROM a [NOW] EXCEPT SELECT k FROM b [NOW]) v,
              (SELECT ISTREAM c.k FROM c [NOW], dim WHERE c.k = dim.k) [RANGE 1 HOUR] w WHERE v.k = w.k"""
    found = list(relations_below(plan(text).root))
    assert [one.name for one in found if isinstance(one, Stream)] == ["a", "b", "c"]
    assert [one.name for one in found if isinstance(one, Table)] == ["dim"]


NESTED = Catalog()
NESTED.add(Stream("n", pa.schema([("k", pa.int64()), ("l", pa.list_(pa.int64())), ("ts", pa.timestamp("us"))]), "ts"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT l FROM n [NOW] UNION ALL SELECT l FROM n [NOW]",
        "SELECT DSTREAM l FROM n [NOW]",
        "SELECT v.k FROM (SELECT k, l FROM n [NOW]) AS v",
    ],
)
def test_rows_with_nested_values_may_come_and_go(sql: str) -> None:
    bind(sql, NESTED)


def test_a_plain_join_passes_nested_values_through() -> None:
    assert bind("SELECT l FROM n [NOW]", NESTED).kind == "rows"
