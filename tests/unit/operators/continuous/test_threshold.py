"""Rows compared with one value that changes: what changes is what lies between, and nothing else is touched."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.effort import thinned
from tests.plans import golden_catalog
from watersmeet.operators.continuous.threshold import Threshold
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.physical.nodes import ThresholdNode
from watersmeet.sql import bind

ABOVE = """SELECT x.id, x.v FROM a [RANGE 1 HOUR] AS x
           WHERE x.v > (SELECT AVG(y.v) FROM a [RANGE 1 HOUR] AS y WHERE y.k = x.k)"""


def numbers(rows: int, keys: int, values: Any = None, seconds: float = 0.5) -> wm.Session:
    random = np.random.default_rng(7)
    columns = {
        "id": np.arange(rows),
        "k": random.integers(0, keys, rows),
        "v": random.normal(size=rows) if values is None else values,
        "ts": pa.array((np.arange(rows) * seconds * 1e6).astype(np.int64), pa.timestamp("us")),
    }
    made = wm.Session()
    made.stream("a", pa.table(columns), time="ts")
    return made


# ---- what it costs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [1, 5])
def test_no_more_changes_are_made_than_the_answer_has(keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joined, each of the 5,000 changes of the average would take all rows above it out and bring them in again."""
    made = 0
    take = Threshold.take

    def counted(self: Threshold, until: int) -> Any:
        nonlocal made
        delta = take(self, until)
        made += len(delta)
        return delta

    monkeypatch.setattr(Threshold, "take", counted)
    answer = numbers(5000, keys).sql(ABOVE).to_arrow()
    assert made == answer.num_rows < 3 * 5000


# ---- what is right --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "value"),
    thinned(["<", "<=", ">", ">="], [("AVG(y.v)", 9), ("AVG(y.v)", 10_000), ("MAX(y.v) - 1", 10_000)]),
)
def test_many_rows_come_and_go_as_plain_sql_has_it(order: str, value: tuple[str, int]) -> None:
    """Few different values make long lists of equal ones, many a tree of several levels."""
    aggregate, different = value
    values = np.random.default_rng(3).integers(0, different, 600)
    query = numbers(600, 2, values).sql(
        f"""SELECT x.id FROM a [RANGE 100 SECONDS] AS x
            WHERE x.v {order} (SELECT {aggregate} FROM a [RANGE 9 SECONDS] AS y WHERE y.k = x.k)"""
    )
    assert wm.check(query).equal


def compared(own: pa.Array, other: pa.Array, order: str) -> list[int]:
    """The places of the first values that compare so with the largest of the others."""
    made = wm.Session()
    for name, values in (("a", own), ("b", other)):
        times = pa.array([0] * len(values), pa.timestamp("us"))
        made.stream(name, pa.table({"id": range(len(values)), "v": values, "ts": times}), time="ts")
    query = made.sql(f"SELECT a.id FROM a [RANGE 1 SECOND] WHERE a.v {order} (SELECT MAX(b.v) FROM b [RANGE 1 SECOND])")
    assert any(isinstance(node, ThresholdNode) for node in plan_query(query.plan).nodes)
    return sorted(query.final()["id"].to_pylist())


def test_nan_is_above_all_numbers_and_equal_to_itself() -> None:
    own = pa.array([float("nan"), 1.0, float("inf"), None, -0.0])
    assert compared(own, pa.array([float("nan"), 1.0]), ">=") == [0]
    assert compared(own, pa.array([float("nan"), 1.0]), "<") == [1, 2, 4]
    assert compared(own, pa.array([float("inf")]), ">") == [0]
    assert compared(own, pa.array([0.0]), "<=") == [4]


def test_nothing_compares_with_null_and_with_a_value_that_is_not_there() -> None:
    own = pa.array([1, None, 2**63 - 1, -(2**63)])
    for order in ("<", "<=", ">", ">="):
        assert compared(own, pa.array([None, None], pa.int64()), order) == []
    assert compared(own, pa.array([2**63 - 1]), ">") == []
    assert compared(own, pa.array([2**63 - 1]), "<=") == [0, 2, 3]
    assert compared(own, pa.array([-(2**63)]), "<") == []
    assert compared(own, pa.array([-(2**63)]), ">=") == [0, 2, 3]


def test_decimals_and_doubles_are_compared_as_doubles() -> None:
    own = pa.array([Decimal("0.10"), Decimal("0.30"), None], pa.decimal128(6, 2))
    assert compared(own, pa.array([0.1]), ">=") == [0, 1]
    assert compared(own, pa.array([0.1 + 0.2]), ">=") == []


def test_what_is_selected_is_worked_out_only_of_rows_that_pass() -> None:
    made = numbers(9, 1, np.arange(9))
    query = made.sql("SELECT 100 / x.v AS w FROM a [ROWS 9] AS x WHERE x.v > (SELECT AVG(y.v) FROM a [ROWS 9] AS y)")
    assert sorted(query.final()["w"].to_pylist()) == [100 / v for v in (8, 7, 6, 5)]


# ---- when it is taken -----------------------------------------------------------------------------------------------

VIEW = "(SELECT k, AVG(x) AS m, MAX(s) AS s FROM b [RANGE 1 HOUR] GROUP BY k) AS g"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.x FROM a [RANGE 1 HOUR] WHERE a.x > (SELECT AVG(b.x) FROM b [RANGE 1 HOUR])",
        "SELECT a.x FROM a [RANGE 1 HOUR] WHERE a.x > (SELECT AVG(b.x) FROM b [ROWS 9] WHERE b.s = a.s AND b.k = a.k)",
        "SELECT a.x FROM a [ROWS 9] WHERE a.x + 1 <= (SELECT MIN(b.x) + 2 FROM b [ROWS 9] HAVING COUNT(*) > 2)",
        f"SELECT DISTINCT a.x FROM a [ROWS 9], {VIEW} WHERE a.k = g.k AND a.x > g.m AND a.s = 'x'",
        f"SELECT a.x FROM a [ROWS 9], {VIEW} WHERE a.x = g.k AND a.d > g.m AND a.k = g.k",
        f"SELECT a.s, COUNT(*) AS n FROM {VIEW}, a [ROWS 9] WHERE a.k = g.k AND g.m <= a.x GROUP BY a.s",
    ],
)
def test_a_comparison_with_one_value_of_a_key_is_one(sql: str) -> None:
    plan = plan_query(bind(sql, golden_catalog()))
    assert any(isinstance(node, ThresholdNode) for node in plan.nodes)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (f"SELECT a.x, g.m FROM a [ROWS 9], {VIEW} WHERE a.k = g.k AND a.x > g.m", "the value is shown"),
        (f"SELECT a.x FROM a [ROWS 9], {VIEW} WHERE a.k = g.k AND a.x > g.m AND a.s < g.s", "it is not the only one"),
        (f"SELECT a.x FROM a [ROWS 9], {VIEW} WHERE a.k = g.k AND a.x > g.m AND g.m > 1", "the value is chosen"),
        (f"SELECT a.x FROM a [ROWS 9], {VIEW} WHERE a.x > g.m", "there are many"),
        (f"SELECT a.x FROM a [ROWS 9], {VIEW} WHERE a.s = g.s AND a.x > g.m", "that is no key"),
        (f"SELECT a.x FROM a [ROWS 9], {VIEW} WHERE a.k = g.k AND a.s > g.s", "words have no codes"),
        (f"SELECT a.x FROM a [ROWS 9], {VIEW} WHERE a.k = g.k AND a.x <> g.m", "all but one pass"),
        ("SELECT a.x FROM a [ROWS 9] WHERE a.x > (SELECT COUNT(*) FROM b [ROWS 9])", "there always is a count"),
    ],
)
def test_everything_else_is_joined(sql: str, why: str) -> None:
    plan = plan_query(bind(sql, golden_catalog()))
    assert not any(isinstance(node, ThresholdNode) for node in plan.nodes), why


def test_as_it_was_asked_for_it_notices_at_the_next_input() -> None:
    asked = bind("SELECT a.x FROM a [ROWS 9] WHERE a.x > (SELECT AVG(b.x) FROM b [ROWS 9]) OPTIONS (pipeline = 'ita')",
                 golden_catalog())  # fmt: skip
    assert not any(isinstance(node, ThresholdNode) for node in plan_query(asked).nodes)


def test_of_two_sides_that_have_one_row_of_a_key_nothing_is_kept_in_order() -> None:
    other = VIEW.replace("AS g", "AS h")
    plan = plan_query(bind(f"SELECT h.m FROM {other}, {VIEW} WHERE h.k = g.k AND h.m > g.m", golden_catalog()))
    assert not any(isinstance(node, ThresholdNode) for node in plan.nodes)
