"""How queries run, before they do: which operators stand where, what they read, and that EXPLAIN tells of all of it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.plans import golden_catalog
from tests.plans.test_explain import QUERIES
from watersmeet.model.time import FOREVER_US
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.physical import nodes
from watersmeet.physical.nodes import (
    FromManyNode,
    GroupByNode,
    NegativeJoinNode,
    PhysicalNode,
    SelectNode,
    WindowJoinNode,
)
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.runtime.build import build_plan
from watersmeet.session import Query
from watersmeet.sql import bind

JOIN = "FROM a [RANGE 10 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"


def planned(sql: str, **how: Any) -> PhysicalPlan:
    return plan_query(bind(sql, golden_catalog()), **how)


def the(kind: type[PhysicalNode], plan: PhysicalPlan) -> Any:
    (found,) = [node for node in plan.nodes if isinstance(node, kind)]
    return found


# ---- plans are values ----


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_the_same_query_has_the_same_plan_and_its_joins_become_operators_in_that_order(path) -> None:
    plan = bind(path.read_text(), golden_catalog())
    physical = plan_query(plan)
    assert physical == plan_query(plan)
    assert repr(physical) == repr(plan_query(plan))
    built = build_plan(physical)
    assert built.streams == physical.streams
    planned_joins = [node.strategy for node in physical.joins if isinstance(node, WindowJoinNode)]
    assert [join.strategy for join in built.joins] == planned_joins


def test_every_kind_of_node_has_a_word_of_its_own_in_explain() -> None:
    words = [
        kind.word
        for kind in vars(nodes).values()
        if isinstance(kind, type) and issubclass(kind, PhysicalNode) and kind is not PhysicalNode
    ]
    assert len(words) > 20
    assert len(set(words)) == len(words), "programs tell kinds of operators apart by these words"


# ---- what is chosen ----


@pytest.mark.parametrize(
    ("select", "kind"),
    [
        (f"SELECT a.k, COUNT(*) AS n {JOIN} GROUP BY a.k", NegativeJoinNode),
        (f"SELECT DISTINCT a.k {JOIN}", NegativeJoinNode),
        # FIRST goes by the order of rows, which a row that is found again does not have.
        (f"SELECT a.k, FIRST(b.x) AS x {JOIN} GROUP BY a.k", FromManyNode),
        # A row that others push out is not there any more to find what it met.
        ("SELECT DISTINCT a.k FROM a [ROWS 5], b [RANGE 5 SECONDS] WHERE a.k = b.k", FromManyNode),
        # Rows of a view must say which of them leaves.
        (f"SELECT COUNT(*) AS n FROM (SELECT a.k {JOIN}) AS v", FromManyNode),
    ],
)
def test_negative_tuples_find_combinations_again_where_they_can(select: str, kind: type[PhysicalNode]) -> None:
    (held,) = [node for node in planned(f"{select} OPTIONS (pipeline = 'nta')").nodes if isinstance(node, FromManyNode)]
    assert type(held) is kind
    (probing,) = [
        node for node in planned(f"{select} OPTIONS (pipeline = 'tpa')").nodes if isinstance(node, FromManyNode)
    ]
    assert type(probing) is FromManyNode


def test_first_in_first_out_is_known_of_one_window_that_rows_leave_in_turn() -> None:
    assert the(GroupByNode, planned("SELECT COUNT(*) AS n FROM a [ROWS 5]")).fifo
    assert not the(GroupByNode, planned("SELECT COUNT(*) AS n FROM a [PARTITION BY k ROWS 5]")).fifo
    assert not the(GroupByNode, planned(f"SELECT COUNT(*) AS n {JOIN}")).fifo


def test_a_rows_window_below_a_changing_answer_is_costed_by_its_count() -> None:
    sql = "SELECT a.k, COUNT(*) AS n FROM a [ROWS 7], b [RANGE 5 SECONDS] WHERE a.k = b.k GROUP BY a.k"
    assert the(WindowJoinNode, planned(sql)).strategy.rows_kept["a"] == 7


def test_an_order_that_was_asked_for_is_followed_over_a_query_in_from() -> None:
    inside = "(SELECT ISTREAM k, x FROM a) [RANGE 1 HOUR] AS d"
    sql = f"SELECT d.k FROM {inside}, b [RANGE 1 HOUR], c [RANGE 1 HOUR] WHERE d.k = b.k AND b.k = c.k"
    for order in ("d: d,b,c; b: b,d,c; c: c,d,b", "d: d,c,b; b: b,c,d; c: c,b,d"):
        (joining,) = [
            node for node in planned(f"{sql} OPTIONS (order = '{order}')").joins if isinstance(node, WindowJoinNode)
        ]
        assert {f"{one.origin}: {','.join(one.visits)}" for one in joining.strategy.routes} == set(order.split("; "))
        assert not joining.replans


# ---- what is read ----


def test_leaves_tell_names_columns_and_for_how_long_rows_matter() -> None:
    inner = "(SELECT ISTREAM a.k FROM a, b WHERE a.k = b.k WINDOW = 3 SECONDS) [RANGE 10 SECONDS] AS d"
    plan = planned(f"SELECT d.k, COUNT(*) AS n FROM {inner}, a [ROWS 4] WHERE d.k = a.k GROUP BY d.k")
    told = {leaf.name: (leaf.stream.name, sorted(leaf.columns), leaf.reach_us) for leaf in plan.leaves}
    beyond = 10_000_001  # a result lives so long, and its members matter while it does
    assert told == {
        "a": ("a", ["k", "ts"], 3_000_000 + beyond),
        "b": ("b", ["k", "ts"], 3_000_000 + beyond),
        "a#2": ("a", ["k", "ts"], 0),
    }
    assert plan.leaf("a#2").window is not None
    assert planned("SELECT COUNT(*) AS n FROM a [UNBOUNDED]").leaf("a").reach_us == FOREVER_US


def test_a_stream_read_alone_is_a_selection() -> None:
    assert isinstance(planned("SELECT k FROM a WHERE x > 0").root, SelectNode)


# ---- EXPLAIN ----


def operators(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [told, *(one for below in told.get("below", ()) for one in operators(below))]


def test_explain_as_json_has_the_operators_with_routes_and_costs_of_every_join() -> None:
    sql = (
        f"SELECT a.k {JOIN} UNION SELECT d.k FROM (SELECT ISTREAM a.k FROM a, c WHERE a.k = c.k AND a.x < c.x "
        "WINDOW = 5 SECONDS) [RANGE 1 HOUR] AS d OPTIONS (pipeline = 'nta')"
    )
    told = json.loads(Query(bind(sql, golden_catalog())).explain(format="json"))
    found = operators(told["operators"])
    assert [one["operator"] for one in found[:4]] == [
        "changing_answer", "net_changes", "set_operation", "join_by_negative_tuples",
    ]  # fmt: skip
    joins = [one for one in found if one["operator"] == "window_join"]
    assert [sorted(one["join"]["inputs"]) for one in joins] == [["a", "b"], ["a", "c"]]
    assert [one["replans"] for one in joins] == [False, True]
    assert all(one["estimate"]["busy_ns_per_second"] > 0 for one in joins)
    assert {name: one["stream"] for name, one in told["streams"].items()} == {"a": "a", "b": "b", "a#2": "a", "c": "c"}
    assert "join" not in told


def test_explain_as_json_says_a_plain_join_once() -> None:
    told = json.loads(
        Query(bind("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND", golden_catalog())).explain(format="json")
    )
    assert told["operators"] == {"operator": "window_join", "replans": False}
    assert told["join"]["routes"]


def moving(seconds: int = 8) -> wm.Session:
    """Three streams; half way the fast one and the slow one change places."""
    rng = np.random.default_rng(5)
    rates = {"a": (3000, 30), "b": (300, 300), "c": (30, 3000)}
    session = wm.Session()
    for name, (before, after) in rates.items():
        counts = [before] * (seconds // 2) + [after] * (seconds // 2)
        times = np.concatenate([np.sort(rng.integers(0, 1_000_000, n)) + s * 1_000_000 for s, n in enumerate(counts)])
        columns = {column: rng.integers(0, 60, times.size) for column in "kxy"}
        session.stream(name, pa.table({**columns, "ts": pa.array(times, pa.timestamp("us"))}), time="ts")
    return session


def test_explain_analyze_measures_the_inputs_of_joins_inside_a_query() -> None:
    session = moving()
    for condition in ("a.k = b.k", "a.k = b.k AND a.x < b.x"):
        sql = f"SELECT DISTINCT a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE {condition}"
        told = json.loads(session.sql(sql).explain(analyze=True, format="json"))
        (joined,) = [one for one in operators(told["operators"]) if one["operator"] == "window_join"]
        assert {one["known"] for one in joined["estimate"]["inputs"].values()} == {"measured"}
        assert joined["estimate"]["distinct"] == pytest.approx({"a.k": 60, "b.k": 60}, rel=0.2)
        assert joined["estimate"]["inputs"]["b"]["rate"] == pytest.approx(300, rel=0.2)


# ---- while it runs ----

WIDE = """
    SELECT a.k, COUNT(*) AS n, MAX(c.y) AS most
    FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], c [RANGE {window}]
    WHERE a.k = b.k AND b.x = c.x AND c.y = a.y GROUP BY a.k
"""


@pytest.mark.parametrize("window", ["1 SECOND", "300 MILLISECONDS"])
def test_a_join_below_group_by_follows_the_rates_in_every_pipeline(window: str) -> None:
    session, logs = moving(), []
    for pipeline in ("ita", "tpa", "nta"):
        query = session.sql(f"{WIDE.format(window=window)} OPTIONS (pipeline = '{pipeline}')")
        log = query.to_arrow(batch_rows=1024)
        logs.append(log.sort_by([(name, "ascending") for name in ("_ts", "_op", "k")]))
        told = query.metrics()
        assert told["plan_switches"] == len(told["switches"]) >= 1
    assert logs[0].num_rows > 500
    assert logs[0].equals(logs[1])
    assert logs[1].equals(logs[2])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], c [ROWS 300] "
        "WHERE a.k = b.k AND b.x = c.x AND c.y = a.y EXCEPT SELECT x FROM b [RANGE 1 SECOND]",
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT k, y FROM a [RANGE 1 SECOND]) AS v, b [RANGE 1 SECOND], "
        "c [RANGE 1 SECOND] WHERE v.k = b.k AND b.x = c.x AND c.y = v.y",
        "SELECT COUNT(*) AS n FROM (SELECT ISTREAM a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], c [RANGE 1 SECOND] "
        "WHERE a.k = b.k AND b.x = c.x AND c.y = a.y) [RANGE 1 SECOND] AS d",
    ],
    ids=["a set operation over a ROWS window", "a view", "a join as a stream"],
)
def test_joins_elsewhere_follow_them_too(sql: str) -> None:
    query = moving().sql(sql)
    query.to_arrow(batch_rows=1024)
    assert query.metrics()["plan_switches"] >= 1


def test_rows_that_leave_are_not_counted_into_the_rates() -> None:
    """Negative tuples join every row twice; it arrives once."""
    built = build_plan(plan_query(moving().sql(f"{WIDE.format(window='1 SECOND')} OPTIONS (pipeline = 'nta')").plan))
    (join,) = built.joins
    assert isinstance(join, WindowJoin)
    assert join.measures is not None
    for stream in built.streams.values():
        for batch in stream.source.batches(1 << 20):
            list(built.operator.push(stream.name, Rows(batch, batch.column("ts").view(pa.int64()).to_numpy())))
    list(built.operator.advance(dict.fromkeys(built.streams, FOREVER_US)))
    assert join.measures.rows_seen == built.operator.counters.stored_rows
